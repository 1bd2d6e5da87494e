//! Everything that three actors, an operator, time and the scanner can do, breadth first, by the
//! measured table.

use std::collections::{HashMap, VecDeque};

use super::table::{Action, Condition, Table};

/// What a walk reached.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) states: usize,
    pub(super) steps: usize,
}

/// The token, who holds it, whose answer it bears, and what each actor believes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    token: Condition,
    owner: Option<Attempt>,
    answer: Option<Author>,
    /// How often the work was done since the token was last rightly free.
    effects: u8,
    actors: [Actor; 3],
}

type Attempt = (usize, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Author {
    Attempt(Attempt),
    Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Actor {
    asked: u8,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Holds,
    Worked,
    /// It got the outcome that the work is done, and whose answer.
    Told(Author),
    /// It lost its token, or released it.
    Gone,
}

const ASKS: u8 = 2;

/// Visit every world that can be reached, and judge each step to it.
///
/// # Panics
///
/// With the way to it, if one breaks a promise.
pub(super) fn everything(table: &Table, take_over: bool) -> Walked {
    let start = World {
        token: Condition::Absent,
        owner: None,
        answer: None,
        effects: 0,
        actors: [Actor { asked: 0, phase: Phase::Idle }; 3],
    };
    let mut came_from: HashMap<World, Option<(World, String)>> = HashMap::from([(start.clone(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut steps = 0;
    while let Some(world) = queue.pop_front() {
        let next = match world.steps(table, take_over) {
            Ok(next) => next,
            Err(broken) => panic!("{broken}{}", way_to(&world, &came_from)),
        };
        steps += next.len();
        if next.is_empty() && !world.is_settled(table, take_over) {
            panic!("nothing more happens, and no listing shows it{}", way_to(&world, &came_from));
        }
        for (step, then) in next {
            if !came_from.contains_key(&then) {
                came_from.insert(then.clone(), Some((world.clone(), step)));
                queue.push_back(then);
            }
        }
    }
    Walked { states: came_from.len(), steps }
}

fn way_to(world: &World, came_from: &HashMap<World, Option<(World, String)>>) -> String {
    let mut way = vec![format!("{world:?}")];
    let mut at = world;
    while let Some(Some((before, step))) = came_from.get(at) {
        way.push(step.clone());
        at = before;
    }
    way.reverse();
    format!("\n  {}", way.join("\n  "))
}

impl World {
    /// Every step from here, or what one of them breaks.
    fn steps(&self, table: &Table, take_over: bool) -> Result<Vec<(String, Self)>, String> {
        let mut next = Vec::new();
        for actor in 0..self.actors.len() {
            self.actor_steps(table, take_over, actor, &mut next)?;
        }
        self.operator_steps(table, &mut next);
        self.time_steps(table, &mut next)?;
        for (step, then) in &next {
            if !take_over && then.effects > 1 {
                return Err(format!("{step}: the work was done twice"));
            }
        }
        Ok(next)
    }

    fn actor_steps(
        &self,
        table: &Table,
        take_over: bool,
        number: usize,
        next: &mut Vec<(String, Self)>,
    ) -> Result<(), String> {
        let actor = self.actors[number];
        let attempt = (number, actor.asked);
        match actor.phase {
            Phase::Idle if actor.asked < ASKS => {
                let action = if take_over { Action::TakeOver } else { Action::Begin };
                next.push(self.begin(table, number, action)?);
            }
            Phase::Holds => {
                let mut then = self.with(number, Phase::Worked);
                then.effects = (then.effects + 1).min(3);
                next.push((format!("actor {number} works"), then));
                next.push((format!("actor {number} dies"), self.with(number, Phase::Idle)));
                for (action, late) in [
                    (Action::Release, Action::LateRelease),
                    (Action::Doubt, Action::LateDoubt),
                    (Action::Extend, Action::LateExtend),
                ] {
                    next.extend(self.end(table, number, attempt, action, late)?);
                }
            }
            Phase::Worked => {
                next.push((format!("actor {number} dies"), self.with(number, Phase::Idle)));
                for (action, late) in [
                    (Action::Complete, Action::LateComplete),
                    (Action::Fail, Action::LateFail),
                    (Action::Hold, Action::LateHold),
                    (Action::Doubt, Action::LateDoubt),
                ] {
                    next.extend(self.end(table, number, attempt, action, late)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&self, table: &Table, number: usize, action: Action) -> Result<(String, Self), String> {
        let outcome = &table.cells[&(action, self.token)];
        let step = format!("actor {number}: {action:?} is told {}", outcome.told);
        let mut then = self.clone();
        then.token = outcome.then;
        then.actors[number].asked += 1;
        then.actors[number].phase = match (outcome.told, self.answer) {
            ("acquired", _) => {
                then.owner = Some((number, then.actors[number].asked));
                if self.answer.is_some() || matches!(self.token, Condition::InProgress | Condition::InDoubt) {
                    return Err(format!("{step}, though the token is not free"));
                }
                Phase::Holds
            }
            ("completed" | "failed" | "held", Some(author)) => Phase::Told(author),
            ("completed" | "failed" | "held", None) => return Err(format!("{step}, and there is no answer")),
            _ => Phase::Idle,
        };
        Ok((step, then))
    }

    fn end(
        &self,
        table: &Table,
        number: usize,
        attempt: Attempt,
        action: Action,
        late: Action,
    ) -> Result<Option<(String, Self)>, String> {
        let holds =
            self.owner == Some(attempt) && matches!(self.token, Condition::InProgress | Condition::Overdue);
        let action = if holds { action } else { late };
        let Some(outcome) = table.cells.get(&(action, self.token)) else { return Ok(None) };
        let step = format!("actor {number}: {action:?} in {:?} is told {}", self.token, outcome.told);
        let told = if late == Action::LateDoubt { "" } else { "lost" };
        if !holds && (outcome.told != told || outcome.then != self.token) {
            return Err(format!("{step}: a late owner"));
        }
        let mut then = self.clone();
        then.token = outcome.then;
        then.actors[number].phase = match (outcome.told, action) {
            ("done", Action::Extend) => Phase::Holds,
            ("done", Action::Release) => {
                then.owner = None;
                Phase::Gone
            }
            ("done", _) => {
                let author = Author::Attempt(attempt);
                let told = self.actors.iter().any(|actor| matches!(actor.phase, Phase::Told(_)));
                let ended = !matches!(
                    outcome.then,
                    Condition::InProgress | Condition::Overdue | Condition::InDoubt | Condition::Absent
                );
                if told || self.answer.is_some() || !ended {
                    return Err(format!("{step}: its answer is not the one"));
                }
                then.answer = Some(author);
                Phase::Told(author)
            }
            _ => Phase::Gone,
        };
        Ok(Some((step, then)))
    }

    /// An operator acts on what is overdue, and releases only what no live actor owns.
    fn operator_steps(&self, table: &Table, next: &mut Vec<(String, Self)>) {
        let answered = self.answer == Some(Author::Operator) && self.token == Condition::Completed;
        if answered {
            // Who got the former answer keeps it.
            let corrected = &table.cells[&(Action::Resolve, self.token)];
            let mut then = self.let_go_of_answers();
            (then.token, then.answer) = (corrected.then, Some(Author::Operator));
            next.push(("an operator corrects".to_owned(), then));
        }
        if self.token == Condition::Held {
            let mut then = self.clone();
            then.token = table.cells[&(Action::Close, self.token)].then;
            next.push(("an operator closes".to_owned(), then));
        }
        if !matches!(self.token, Condition::Overdue | Condition::InDoubt | Condition::Held) {
            return;
        }
        let resolved = &table.cells[&(Action::Resolve, self.token)];
        // The reported failure stays valid next to the operator's answer.
        let mut then = self.let_go_of_answers();
        (then.token, then.answer, then.owner) = (resolved.then, Some(Author::Operator), None);
        next.push(("an operator resolves".to_owned(), then));
        if !self.is_held() {
            let released = &table.cells[&(Action::ReleaseByHand, self.token)];
            let mut then = self.let_go_of_answers();
            (then.token, then.owner, then.effects) = (released.then, None, 0);
            next.push(("an operator releases".to_owned(), then));
        }
    }

    fn time_steps(&self, table: &Table, next: &mut Vec<(String, Self)>) -> Result<(), String> {
        let unfinished = matches!(
            self.token,
            Condition::InProgress | Condition::Overdue | Condition::InDoubt | Condition::Held
        );
        for action in [Action::FallDue, Action::Expire, Action::Forget] {
            let outcome = &table.cells[&(action, self.token)];
            if outcome.then == self.token {
                continue;
            }
            if unfinished && outcome.then != Condition::Overdue {
                return Err(format!("{action:?}: unfinished work is gone"));
            }
            if outcome.then == Condition::Expired && self.is_held() {
                // No work outlives the time for which its answer would be kept.
                continue;
            }
            let mut then = self.clone();
            if outcome.then == Condition::Expired {
                then = self.let_go_of_answers();
                (then.effects, then.owner) = (0, None);
            }
            then.token = outcome.then;
            next.push((format!("{action:?}"), then));
        }
        Ok(())
    }

    /// Whether anybody alive believes to hold the token, or did.
    fn is_held(&self) -> bool {
        self.actors.iter().any(|actor| matches!(actor.phase, Phase::Holds | Phase::Worked))
    }

    /// An actor that got an answer keeps it; from here on there is another one, or none.
    fn let_go_of_answers(&self) -> Self {
        let mut then = self.clone();
        then.answer = None;
        for actor in &mut then.actors {
            if matches!(actor.phase, Phase::Told(_)) {
                actor.phase = Phase::Gone;
            }
        }
        then
    }

    fn with(&self, number: usize, phase: Phase) -> Self {
        let mut then = self.clone();
        then.actors[number].phase = phase;
        then
    }

    /// Finished, or free with nothing done, or listed.
    fn is_settled(&self, table: &Table, take_over: bool) -> bool {
        match self.token {
            // An actor that takes over and releases vouches for the first owner's work as well.
            Condition::Absent | Condition::Released | Condition::Expired => take_over || self.effects == 0,
            Condition::Completed | Condition::Failed => true,
            Condition::InProgress => false,
            Condition::Overdue | Condition::InDoubt => table.listed[&self.token] == "missing",
            Condition::Held => table.listed[&self.token] == "held",
        }
    }
}
