//! Many plans: one fault at every exchange and call, and several random ones.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::cases::{Answer, CASES, Case};
use super::plan::{CALL_FATES, CallFate, Fault, Plan};
use super::rig::{Played, Rig};
use crate::explorer::{ALL, Fate};

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Plays.
    pub plays: usize,
    /// Exchanges with DynamoDB in them, and calls to providers.
    pub exchanges: usize,
    /// Calls to providers in them.
    pub calls: usize,
    /// The numbers of completed, failed, cancelled, and quarantined workflows.
    pub ended: [usize; 4],
    /// The errors found, each with the plan that shows it.
    pub wrong: Vec<(Plan, String)>,
}

impl Swept {
    fn count(&mut self, plan: &Plan, played: Played) {
        self.plays += 1;
        self.exchanges += played.exchanges.1;
        self.calls += played.calls.1;
        let ended = match played.answer {
            _ if played.quarantined => 3,
            Answer::Completed(_) => 0,
            Answer::Failed(_) => 1,
            _ => 2,
        };
        self.ended[ended] += 1;
        if played.quarantined && plan.is_weather() {
            self.wrong.push((
                plan.clone(),
                "it is quarantined, though the only fault was one lost reply of DynamoDB".into(),
            ));
        }
        if !played.wrong.is_empty() {
            self.wrong.push((plan.clone(), played.wrong.join("; ")));
        }
    }
}

/// All plans with one fault: at every exchange and every call that the callers of a case make
/// without faults, every fate; an operator who cancels there; and a driver that is suspended there.
///
/// `every`: only every n-th of them, starting with the first.
#[must_use]
pub fn singles(rig: &mut Rig, every: usize) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (case, _) in CASES {
        let well = Plan::new(case);
        let Played { exchanges: (exchanges, _), calls: (calls, _), .. } = rig.play(&well);
        plans.push(well.clone());
        for n in 1..=exchanges {
            for fate in ALL.iter().filter(|fate| **fate != Fate::Ok) {
                plans.push(well.clone().with(n, Fault::Exchange(*fate)));
            }
            plans.push(Plan { soon: true, ..well.clone().with(n, Fault::Exchange(Fate::Late)) });
            plans.push(Plan { cancel: Some(n), ..well.clone() });
            plans.push(well.clone().with(n, Fault::Exchange(Fate::FrozenBefore)));
            plans.push(well.clone().with(n, Fault::Exchange(Fate::FrozenAfter)));
            // Another driver compensates it while its driver is suspended, and then the driver
            // wakes.
            for fault in [Fault::Exchange(Fate::FrozenBefore), Fault::Exchange(Fate::FrozenAfter)] {
                plans.push(Plan { cancel: Some(n + 1), ..well.clone().with(n, fault) });
            }
        }
        for n in 1..=calls {
            for fate in CALL_FATES {
                let plan = well.clone().with(n, Fault::Call(fate));
                plans.push(Plan { undo: true, ..plan.clone() });
                plans.push(plan);
            }
            let late = well.clone().with(n, Fault::Call(CallFate::Late));
            plans.push(Plan { soon: true, ..late });
            let died = well.clone().with(n, Fault::Call(CallFate::DiesAfter));
            plans.push(Plan { idle: true, ..died });
            plans.push(well.clone().with(n, Fault::Call(CallFate::FrozenBefore)));
            plans.push(well.clone().with(n, Fault::Call(CallFate::FrozenAfter)));
        }
        plans.extend((0..6).map(|seed| Plan { two: Some(seed), ..well.clone() }));
    }
    plans.into_iter().step_by(every.max(1)).collect()
}

/// A random plan: up to four faults, and random options.
#[must_use]
pub fn random(seed: u64) -> Plan {
    let mut rng = fastrand::Rng::with_seed(seed);
    let case: Case = CASES[rng.usize(0..CASES.len())].0;
    let mut plan = Plan::new(case);
    for _ in 0..rng.usize(1..=4) {
        let (n, fault) = match rng.u32(0..10) {
            0..5 => (rng.usize(1..40), Fault::Exchange(ALL[rng.usize(1..ALL.len())])),
            5..9 => (rng.usize(1..12), Fault::Call(CALL_FATES[rng.usize(0..CALL_FATES.len())])),
            _ => {
                let call = rng.bool();
                let before = rng.bool();
                let fault = match (call, before) {
                    (false, true) => Fault::Exchange(Fate::FrozenBefore),
                    (false, false) => Fault::Exchange(Fate::FrozenAfter),
                    (true, true) => Fault::Call(CallFate::FrozenBefore),
                    (true, false) => Fault::Call(CallFate::FrozenAfter),
                };
                (rng.usize(1..if call { 6 } else { 20 }), fault)
            }
        };
        plan = plan.with(n, fault);
    }
    plan.two = (rng.u32(0..4) == 0).then(|| rng.u64(0..1000));
    plan.cancel = (rng.u32(0..4) == 0).then(|| rng.usize(1..30));
    plan.soon = rng.bool();
    plan.idle = rng.u32(0..6) == 0;
    plan.undo = rng.u32(0..3) == 0;
    plan
}

/// Play plans on all cores.
///
/// # Panics
///
/// If a thread did.
#[must_use]
pub fn sweep(plans: Vec<Plan>) -> Swept {
    let waiting: Mutex<VecDeque<Plan>> = Mutex::new(plans.into());
    let swept = Mutex::new(Swept::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                let mut rig = Rig::new();
                loop {
                    let Some(plan) = waiting.lock().expect("plans").pop_front() else { break };
                    let played = rig.play(&plan);
                    swept.lock().expect("the results").count(&plan, played);
                }
            });
        }
    });
    swept.into_inner().expect("the threads are done")
}
