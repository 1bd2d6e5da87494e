//! The walk over all plans of a scenario; scenarios are shared out over the cores.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::been::Been;
use super::choices::{Choices, Plan};
use super::invariant::Violation;
use super::play::{Bounds, Played};

/// A scenario whose plans can be walked over.
pub trait Playable: Copy + std::fmt::Debug + Send + Sync {
    /// What one thread plays it with.
    type Rig: Default;

    /// Play the plan that the choices make, and judge it. With `been`, stop where another plan has
    /// been.
    fn play(
        self,
        rig: &mut Self::Rig,
        choices: Choices,
        bounds: Bounds,
        been: Option<&mut Been>,
        traced: bool,
    ) -> (Played, Choices);
}

/// What a walk came to.
#[derive(Debug)]
pub struct Explored<S> {
    /// The scenario.
    pub scenario: S,
    /// How many plans were played.
    pub plans: u64,
    /// How many of them came to where another one had been.
    pub merged: u64,
    /// How many exchanges took place in them.
    pub exchanges: u64,
    /// The most exchanges of one plan.
    pub longest: usize,
    /// The plan that broke an invariant. The walk stops there.
    pub broken: Option<(Plan, Violation)>,
}

/// Walk over all plans of these scenarios, and report each scenario when it is done.
///
/// `merge`: plans that come to the same place go on once.
///
/// # Panics
///
/// If a thread did.
pub fn explore<S: Playable>(
    scenarios: &[S],
    bounds: Bounds,
    merge: bool,
    tell: impl Fn(&Explored<S>) + Sync,
) -> Vec<Explored<S>> {
    on_all_cores(scenarios, tell, |rig, scenario| walk(rig, scenario, bounds, merge))
}

/// Explore each scenario on one thread of each core, and report it when it is done.
fn on_all_cores<S: Playable>(
    scenarios: &[S],
    tell: impl Fn(&Explored<S>) + Sync,
    explore: impl Fn(&mut S::Rig, S) -> Explored<S> + Sync,
) -> Vec<Explored<S>> {
    let waiting: Mutex<VecDeque<_>> = Mutex::new(scenarios.iter().copied().collect());
    let explored = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                let mut rig = S::Rig::default();
                loop {
                    let Some(scenario) = waiting.lock().expect("a scenario").pop_front() else { break };
                    let played = explore(&mut rig, scenario);
                    tell(&played);
                    explored.lock().expect("the results").push(played);
                }
            });
        }
    });
    explored.into_inner().expect("the threads are done")
}

fn walk<S: Playable>(rig: &mut S::Rig, scenario: S, bounds: Bounds, merge: bool) -> Explored<S> {
    let mut explored = Explored::new(scenario);
    let mut been = Been::default();
    let mut choices = Choices::from_plan(&Plan::default());
    loop {
        let been = merge.then_some(&mut been);
        let (played, after) = scenario.play(rig, choices, bounds, been, false);
        choices = after;
        explored.count(&played);
        if let Some(violation) = played.violations.into_iter().next() {
            explored.broken = Some((choices.plan(), violation));
            return explored;
        }
        if !choices.advance() {
            return explored;
        }
    }
}

/// Play this many random plans of each scenario, the first with this seed, each next one with the
/// next, and report each scenario when it is done.
///
/// # Panics
///
/// If a thread did.
pub fn explore_random<S: Playable>(
    scenarios: &[S],
    bounds: Bounds,
    seed: u64,
    plans: u64,
    tell: impl Fn(&Explored<S>) + Sync,
) -> Vec<Explored<S>> {
    on_all_cores(scenarios, tell, |rig, scenario| {
        let mut explored = Explored::new(scenario);
        for number in 0..plans {
            let choices = Choices::random(seed.wrapping_add(number));
            let (played, choices) = scenario.play(rig, choices, bounds, None, false);
            explored.count(&played);
            if let Some(violation) = played.violations.into_iter().next() {
                explored.broken = Some((choices.plan(), violation));
                break;
            }
        }
        explored
    })
}

impl<S> Explored<S> {
    const fn new(scenario: S) -> Self {
        Self { scenario, plans: 0, merged: 0, exchanges: 0, longest: 0, broken: None }
    }

    fn count(&mut self, played: &Played) {
        self.plans += 1;
        self.merged += u64::from(played.merged);
        self.exchanges += played.exchanges as u64;
        self.longest = self.longest.max(played.exchanges);
    }
}
