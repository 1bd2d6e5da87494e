//! Everything that three actors, a person, time and the scanner can do, breadth first, by the measured table.

use std::collections::{HashMap, VecDeque};

use super::table::{Action, Table, TokenState};

/// What a walk reached.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) states: usize,
    pub(super) steps: usize,
}

/// The token, who holds it, whose answer it bears, and what each actor believes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    token: TokenState,
    owner: Option<Attempt>,
    answer: Option<Author>,
    /// How often the work was done since the token was last free for good reason.
    effects: u8,
    actors: [Actor; 3],
}

type Attempt = (usize, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Author {
    Attempt(Attempt),
    Person,
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
    /// It was told that the work is done, and whose answer.
    Told(Author),
    /// It was told that it lost its token, or has let go of it.
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
        token: TokenState::Absent,
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
            panic!("nothing more happens, and nobody is told{}", way_to(&world, &came_from));
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
        self.person_steps(table, &mut next);
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
                for (action, late) in
                    [(Action::Release, Action::LateRelease), (Action::Extend, Action::LateExtend)]
                {
                    next.extend(self.end(table, number, attempt, action, late)?);
                }
            }
            Phase::Worked => {
                next.push((format!("actor {number} dies"), self.with(number, Phase::Idle)));
                for (action, late) in [
                    (Action::Complete, Action::LateComplete),
                    (Action::CompleteErr, Action::LateCompleteErr),
                    (Action::Fail, Action::LateFail),
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
                if self.answer.is_some() || self.token == TokenState::InProgress {
                    return Err(format!("{step}, though the token is not free"));
                }
                Phase::Holds
            }
            ("completed" | "failed", Some(author)) => Phase::Told(author),
            ("completed" | "failed", None) => return Err(format!("{step}, and there is no answer")),
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
            self.owner == Some(attempt) && matches!(self.token, TokenState::InProgress | TokenState::Overdue);
        let action = if holds { action } else { late };
        let Some(outcome) = table.cells.get(&(action, self.token)) else { return Ok(None) };
        let step = format!("actor {number}: {action:?} in {:?} is told {}", self.token, outcome.told);
        if !holds && (outcome.told != "lost" || outcome.then != self.token) {
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
                    TokenState::InProgress | TokenState::Overdue | TokenState::Absent
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

    /// A person acts on what should be done and is not; and lets go only of what nobody alive holds.
    fn person_steps(&self, table: &Table, next: &mut Vec<(String, Self)>) {
        if !matches!(self.token, TokenState::Overdue | TokenState::Failed) {
            return;
        }
        let resolved = &table.cells[&(Action::Resolve, self.token)];
        // What was told of the failure stands beside what the person says.
        let mut then = self.let_go_of_answers();
        (then.token, then.answer, then.owner) = (resolved.then, Some(Author::Person), None);
        next.push(("a person resolves".to_owned(), then));
        if !self.is_held() {
            let released = &table.cells[&(Action::ReleaseByHand, self.token)];
            let mut then = self.let_go_of_answers();
            (then.token, then.owner, then.effects) = (released.then, None, 0);
            next.push(("a person releases".to_owned(), then));
        }
    }

    fn time_steps(&self, table: &Table, next: &mut Vec<(String, Self)>) -> Result<(), String> {
        let unfinished =
            matches!(self.token, TokenState::InProgress | TokenState::Overdue | TokenState::Failed);
        for action in [Action::FallDue, Action::Expire, Action::Forget] {
            let outcome = &table.cells[&(action, self.token)];
            if outcome.then == self.token {
                continue;
            }
            if unfinished && outcome.then != TokenState::Overdue {
                return Err(format!("{action:?}: unfinished work is gone"));
            }
            if outcome.then == TokenState::Expired && self.is_held() {
                // No work outlives the time for which its answer would be kept.
                continue;
            }
            let mut then = self.clone();
            if outcome.then == TokenState::Expired {
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

    /// Whoever was told an answer has it; from here on there is another one, or none.
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
            // Who takes over and lets go answers for what the first owner did as well.
            TokenState::Absent | TokenState::Released | TokenState::Expired => take_over || self.effects == 0,
            TokenState::Completed | TokenState::CompletedErr => true,
            TokenState::InProgress => false,
            TokenState::Overdue => table.listed[&self.token] == "missing",
            TokenState::Failed => table.listed[&self.token] == "failed",
        }
    }
}
