//! Everything that two drivers, an operator, time and late requests can do, breadth first, by the
//! transitions.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::driver::{Next, key_of};
use super::sample::{by, result, workflow};
use super::world::{Scene, World};
use crate::core::workflow::header::{HeaderEvent, OperatorAct};
use crate::core::workflow::step::{OperatorStep, StepEvent, StepState};

/// How often the clock jumps within a walk.
const JUMPS: i64 = 2;

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) worlds: usize,
    pub(super) steps: usize,
    /// The way to what broke a rule.
    pub(super) broken: Option<String>,
    /// Whether every world was reached.
    pub(super) whole: bool,
}

pub(super) fn walk(scene: Scene, most: usize) -> Walked {
    let header = workflow(None, "start");
    let words = u8::from(scene.operator);
    let start = World::new(header, words, words);
    let mut from: HashMap<String, Option<(String, String)>> = HashMap::from([(start.place(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut walked = Walked::default();
    while let Some(world) = queue.pop_front() {
        let place = world.place();
        if walked.worlds >= most {
            return walked;
        }
        walked.worlds += 1;
        // All processes stop here, and completers finish the workflow.
        if let Err(broken) = settle(world.clone(), scene) {
            walked.broken = Some(format!("{broken}{}", way(&place, &from)));
            return walked;
        }
        for (step, after) in world.steps(scene) {
            walked.steps += 1;
            let after = match after.and_then(|after| after.judge(scene).map(|()| after)) {
                Ok(after) => after,
                Err(broken) => {
                    walked.broken = Some(format!("{step}: {broken}{}", way(&place, &from)));
                    return walked;
                }
            };
            let then = after.place();
            if let Entry::Vacant(entry) = from.entry(then) {
                entry.insert(Some((place.clone(), step)));
                queue.push_back(after);
            }
        }
    }
    walked.whole = true;
    walked
}

fn way(place: &str, from: &HashMap<String, Option<(String, String)>>) -> String {
    let mut way = Vec::new();
    let mut at = place;
    while let Some(Some((before, step))) = from.get(at) {
        way.push(step.clone());
        at = before;
    }
    way.reverse();
    format!("\n  {}", way.join("\n  "))
}

/// Time passes, late requests arrive, and a completer drives until nothing is due.
fn settle(mut world: World, scene: Scene) -> Result<(), String> {
    world.drivers = Default::default();
    for round in 0..40 {
        world.jumps += 4;
        if round == 1 {
            for key in std::mem::take(&mut world.provider.on_the_way) {
                world.provider.apply(&key, scene.recognises);
            }
        }
        let mut steps = 0;
        while let Some((step, after)) = world.drive(scene, 0, true).into_iter().next() {
            world = after.map_err(|broken| format!("a completer: {step}: {broken}"))?;
            steps += 1;
            if steps > 200 {
                return Err(format!("a completer goes on for ever: {step}"));
            }
        }
        if steps == 0 && round > 1 {
            return world.judge_end(scene).map_err(|broken| format!("at the end: {broken}"));
        }
    }
    Err(format!("it never ends: {:?}", world.header))
}

impl World {
    fn steps(&self, scene: Scene) -> Next {
        let mut next = self.drive(scene, 0, false);
        next.extend(self.drive(scene, 1, false));
        if self.jumps < JUMPS {
            let mut world = self.clone();
            world.jumps += 1;
            next.push(("time passes".to_owned(), Ok(world)));
        }
        if let Some(key) = self.provider.on_the_way.first() {
            let mut world = self.clone();
            world.provider.on_the_way.remove(0);
            world.provider.apply(key, scene.recognises);
            next.push((format!("the request {key} arrives"), Ok(world)));
        }
        self.cancel(&mut next);
        self.words(&mut next);
        next
    }

    fn cancel(&self, next: &mut Next) {
        if self.cancels == 0 {
            return;
        }
        let mut world = self.clone();
        world.cancels -= 1;
        let (seen, now) = (self.header.revision.clone(), self.now());
        if world.write_header(&HeaderEvent::Operator { seen, by: by(now), act: OperatorAct::Compensate }) {
            next.push(("an operator cancels".to_owned(), Ok(world)));
        }
    }

    /// An operator states whether a step in doubt happened, and may be wrong.
    fn words(&self, next: &mut Next) {
        if self.words == 0 {
            return;
        }
        let acts = [
            ("frees", OperatorStep::Free { new_key: false }),
            ("frees with a new key", OperatorStep::Free { new_key: true }),
            ("resolves", OperatorStep::Resolve(result("paid"))),
        ];
        for record in self.records.values().filter(|record| record.state == StepState::Started) {
            for (verb, act) in &acts {
                let mut world = self.clone();
                world.words -= 1;
                let (seen, now) = (record.revision.clone(), self.now());
                let event = StepEvent::Operator { seen, by: by(now), act: act.clone() };
                let stamp = world.stamp();
                let Ok(freed) = record.on(&event, stamp) else { continue };
                let header = self.header.revision.clone();
                let retry = HeaderEvent::Operator { seen: header, by: by(now), act: OperatorAct::Retry };
                if world.write_header(&retry) {
                    let put = world.put(freed).map(|()| world);
                    next.push((format!("an operator {verb} {}", key_of(record)), put));
                }
            }
        }
    }
}

const SCENES: [Scene; 6] = [
    Scene { recognises: true, fails: false, operator: false },
    Scene { recognises: true, fails: true, operator: false },
    Scene { recognises: false, fails: false, operator: false },
    Scene { recognises: false, fails: true, operator: false },
    Scene { recognises: true, fails: false, operator: true },
    Scene { recognises: false, fails: false, operator: true },
];

/// How many worlds a scene may have in a test; more with `WALK_WORLDS`.
fn most() -> usize {
    std::env::var("WALK_WORLDS").ok().and_then(|most| most.parse().ok()).unwrap_or(1500)
}

#[test]
fn nothing_that_two_drivers_an_operator_and_time_do_breaks_a_promise() {
    for scene in SCENES {
        let walked = walk(scene, most());
        println!("{scene:?}: {} worlds, {} steps, whole: {}", walked.worlds, walked.steps, walked.whole);
        if let Some(broken) = walked.broken {
            panic!("{scene:?}: {broken}");
        }
    }
}
