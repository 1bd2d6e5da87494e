//! Everything that senders, their broker, an operator, time and late requests can do, breadth
//! first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::page::ada;
use super::relays::{Broken, Rules};
use super::world::{Scene, World};
use crate::core::message::event::LetterAct;
use crate::core::message::letter::MessageState;

/// The number of worlds of one scene. The variable `WALK_WORLDS` overrides it.
const WORLDS: usize = 5_000;

fn jumps() -> [Duration; 2] {
    // Past the half of a lease, and past all of it and the time after which a relay may send.
    [35, 70].map(Duration::from_secs)
}

impl World {
    fn steps(&self, scene: Scene) -> Vec<(String, Self)> {
        let mut next: Vec<_> =
            (0..self.actors.len()).flat_map(|number| self.steps_of(number, scene.rules)).collect();
        next.extend(self.arrivals());
        next.extend(self.decisions());
        next.extend(scene.begins_anew.then(|| self.begun_anew()).flatten());
        if self.jumps > 0 {
            next.extend(jumps().map(|by| {
                let mut after = self.clone();
                after.jumps -= 1;
                after.advance(by);
                (format!("{} s pass", by.as_secs()), after)
            }));
        }
        next
    }
}

/// How many worlds were reached, and the way to what broke a promise.
fn walk(scene: Scene, most: usize) -> (usize, Option<String>) {
    let start = World::new(scene);
    let mut from: HashMap<String, Option<(String, String)>> = HashMap::from([(start.place(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut worlds = 0;
    while let Some(world) = queue.pop_front() {
        let place = world.place();
        worlds += 1;
        if worlds > most {
            return (worlds, None);
        }
        if let Err(broken) = settle(world.clone(), scene) {
            return (worlds, Some(format!("{broken}{}", way(&place, &from))));
        }
        for (step, after) in world.steps(scene) {
            if let Err(broken) = after.judge(scene) {
                return (worlds, Some(format!("{step}: {broken}{}", way(&place, &from))));
            }
            if let Entry::Vacant(entry) = from.entry(after.place()) {
                entry.insert(Some((place.clone(), step)));
                queue.push_back(after);
            }
        }
    }
    (worlds, None)
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

/// All processes die. Late requests arrive, time passes, an operator redrives the dead messages,
/// and one relay runs until no message is left.
fn settle(mut world: World, scene: Scene) -> Result<(), String> {
    if scene.is_calm() {
        // To stop a process is a fault.
        return Ok(());
    }
    world.stop();
    (world.faults, world.jumps, world.acts) = (0, 0, 0);
    for _ in 0..30 {
        world.advance(Duration::from_secs(70));
        while let Some((_, after)) = world.arrivals().pop() {
            world = after;
            world.judge(scene)?;
        }
        for place in 0..world.table.len() {
            let Some(letter) = world.table[place].clone() else { continue };
            let by = ada(world.now);
            match letter.state {
                MessageState::Dead => drop(world.write(place, &letter.revision, LetterAct::Redrive { by })),
                MessageState::Archived => {
                    let id = world.id(place);
                    world.passed[id] = true;
                    drop(world.write(place, &letter.revision, LetterAct::Restore { by }));
                }
                MessageState::Unsent | MessageState::Waiting => {}
            }
        }
        // One relay, alone: a round has fewer steps than this.
        for _ in 0..60 {
            match world.steps_of(1, scene.rules).into_iter().next() {
                Some((_, after)) => world = after,
                None => break,
            }
            world.judge(scene)?;
            if world.is_over() && !world.is_due() {
                break;
            }
        }
        if world.table.iter().all(Option::is_none) {
            return world.judge(scene);
        }
    }
    Err(format!("it never ends: {:?}", world.table.iter().flatten().map(|it| it.state).collect::<Vec<_>>()))
}

fn scenes(rules: Rules) -> [Scene; 6] {
    let scene = Scene { messages: 2, relays: 1, faults: 1, jumps: 2, acts: 0, begins_anew: false, rules };
    [
        scene,
        Scene { relays: 2, ..scene },
        Scene { faults: 2, acts: 1, ..scene },
        Scene { messages: 3, relays: 2, jumps: 3, ..scene },
        Scene { messages: 1, relays: 2, begins_anew: true, ..scene },
        Scene { messages: 3, relays: 2, faults: 0, jumps: 0, ..scene },
    ]
}

fn most() -> usize {
    std::env::var("WALK_WORLDS").ok().and_then(|worlds| worlds.parse().ok()).unwrap_or(WORLDS)
}

#[test]
fn nothing_is_lost_and_nothing_overtakes_whatever_happens() {
    for scene in scenes(Rules::default()) {
        let (worlds, broken) = walk(scene, most());
        assert_eq!(broken, None, "{scene:?}");
        assert!(worlds > 30, "{scene:?}: {worlds} worlds");
    }
}

#[test]
fn each_rule_of_the_senders_is_needed() {
    for broken in Broken::ALL {
        let found =
            scenes(Rules { broken: Some(broken) }).into_iter().any(|scene| walk(scene, most()).1.is_some());
        assert!(found, "{broken:?} breaks no promise");
    }
}
