//! The walk over all plans of a scenario, on as many threads as there are cores.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::choices::{Choices, Plan};
use super::invariant::Violation;
use super::play::{Bounds, Rig};
use super::scenario::Scenario;

/// What a walk came to.
#[derive(Debug, Default)]
pub struct Explored {
    /// How many plans were played.
    pub plans: u64,
    /// How many exchanges took place in them.
    pub exchanges: u64,
    /// Plans that broke an invariant; the walk of a scenario stops at its first.
    pub broken: Vec<(Scenario, Plan, Violation)>,
}

/// Walk over all plans of these scenarios.
///
/// `setup` runs first on each thread, so that a test can switch a rule off there.
pub fn explore(scenarios: &[Scenario], bounds: Bounds, setup: impl Fn() + Sync) -> Explored {
    // Parts of the trees, so that threads finish at about the same time. A part that does not exist costs a plan.
    let widest = u8::try_from(bounds.fates.len()).expect("few possibilities");
    let parts = scenarios.iter().flat_map(|scenario| (0..widest).map(move |first| (*scenario, first)));
    let parts: Mutex<VecDeque<_>> = Mutex::new(parts.collect());
    let explored = Mutex::new(Explored::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                setup();
                let mut rig = Rig::new();
                loop {
                    let Some((scenario, first)) = parts.lock().expect("a part").pop_front() else { break };
                    walk(&mut rig, scenario, first, bounds, &explored);
                }
            });
        }
    });
    explored.into_inner().expect("the threads are done")
}

fn walk(rig: &mut Rig, scenario: Scenario, first: u8, bounds: Bounds, explored: &Mutex<Explored>) {
    let mut choices = Choices::from_plan(&Plan::beginning(vec![first]));
    loop {
        let (played, after) = rig.play(scenario, choices, bounds, false);
        choices = after;
        if !choices.is_possible() {
            return;
        }
        let mut explored = explored.lock().expect("the count");
        explored.plans += 1;
        explored.exchanges += played.exchanges as u64;
        if let Some(violation) = played.violations.into_iter().next() {
            explored.broken.push((scenario, choices.plan(), violation));
        }
        // Others may have found this scenario broken.
        if explored.broken.iter().any(|(broken, ..)| *broken == scenario) {
            return;
        }
        drop(explored);
        if !choices.advance() {
            return;
        }
    }
}

/// Play so many plans by chance, the first with this seed, each next one with the next.
pub fn play_random(scenario: Scenario, bounds: Bounds, seed: u64, plans: u64) -> Explored {
    let mut explored = Explored::default();
    let mut rig = Rig::new();
    for number in 0..plans {
        let (played, choices) = rig.play(scenario, Choices::random(seed.wrapping_add(number)), bounds, false);
        explored.plans += 1;
        explored.exchanges += played.exchanges as u64;
        if let Some(violation) = played.violations.into_iter().next() {
            explored.broken.push((scenario, choices.plan(), violation));
            break;
        }
    }
    explored
}
