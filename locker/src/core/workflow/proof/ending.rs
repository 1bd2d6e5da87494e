//! The end of a run: every pair of branches with every way in which the code returns.

use chrono::{DateTime, Utc};

use super::page::Table;
use super::rules::changed;
use super::sample::{SKEW, at, stamp, start, step};
use crate::core::workflow::ending::{Effect, Ending, Need, NeedKind, Outlook, Returned, ending};
use crate::core::workflow::header::{Awaited, Pause, Waits};
use crate::core::workflow::step::{Begin, NewStep, Placed, StepKind, StepRecord, StepState};

const NOW: i64 = 100;

/// How a branch of the code stands when the code returns.
const BRANCHES: [&str; 14] = [
    "its outcome is known, also a failure",
    "dropped: its driver may be at work",
    "dropped or not reached: in doubt",
    "doubt, which the code may resolve",
    "doubt, which the code cannot resolve",
    "held",
    "held by an earlier run, not reached",
    "another driver may be at it",
    "failed, tried again later",
    "DynamoDB cannot be reached",
    "waits on purpose",
    "waits for a report",
    "needs an operator",
    "the workflow is lost",
];

const RETURNS: [(&str, Returned); 6] = [
    ("completed", Returned::Completed),
    ("failed", Returned::Failed),
    ("stopped", Returned::Stopped),
    ("aborted", Returned::Aborted),
    ("compensated", Returned::Compensated),
    ("compensation stopped", Returned::Uncompensated),
];

/// The effect and the need of a branch. `due`: of its retry, its wait, or its driver.
fn branch(name: &str, step: &str, due: i64) -> (Option<Effect>, Option<Need>) {
    let item = format!("step/{step}");
    let effect =
        |outlook| Some(Effect { step: step.to_owned(), place: item.clone(), item: item.clone(), outlook });
    let need = |kind| Some(Need { place: Some(item.clone()), kind, reason: format!("{step}: {name}") });
    let retry = |counts| need(NeedKind::Retry { at: at(due), counts, retry_for: None });
    let doubt = |resolvable| need(NeedKind::InDoubt { item: item.clone(), resolvable, retry_for: None });
    let operator = || need(NeedKind::Operator { item: None });
    match name {
        "dropped: its driver may be at work" => (effect(Outlook::AtWork(at(due))), None),
        "dropped or not reached: in doubt" => (effect(Outlook::InDoubt), None),
        "doubt, which the code may resolve" => (effect(Outlook::InDoubt), doubt(true)),
        "doubt, which the code cannot resolve" => (effect(Outlook::InDoubt), doubt(false)),
        "held" => (effect(Outlook::Held), operator()),
        "held by an earlier run, not reached" => (effect(Outlook::Held), None),
        "another driver may be at it" => (effect(Outlook::AtWork(at(due))), retry(false)),
        "failed, tried again later" => (None, retry(true)),
        "DynamoDB cannot be reached" => (None, retry(false)),
        "waits on purpose" => (None, need(NeedKind::Wait { until: at(due), on: None })),
        "waits for a report" => (effect(Outlook::InDoubt), need(NeedKind::Wait { until: at(due), on: None })),
        "needs an operator" => (None, operator()),
        "the workflow is lost" => (None, need(NeedKind::Lost)),
        _ => (None, None),
    }
}

fn run(branches: &[(&str, i64)], returned: Returned) -> Ending {
    let (mut effects, mut needs) = (Vec::new(), Vec::new());
    for (number, (name, due)) in branches.iter().enumerate() {
        let (effect, need) = branch(name, ["charge", "stock"][number], *due);
        effects.extend(effect);
        needs.extend(need);
    }
    ending(&effects, &needs, returned, at(NOW))
}

fn shown(ending: &Ending) -> &'static str {
    match ending {
        Ending::Lost => "nothing is written",
        Ending::Quarantine { .. } => "**quarantine**",
        Ending::Fail => "fail",
        Ending::Complete => "complete",
        Ending::EndCompensated => "end",
        Ending::Release(release) => match release.pause {
            Pause::Failed => "retry",
            Pause::BrokenOff => "retry, aborted",
            Pause::Chosen => "wait",
            Pause::Elsewhere | Pause::NotRun => "retry, not counted",
        },
    }
}

const fn ends(ending: &Ending) -> bool {
    matches!(ending, Ending::Fail | Ending::Complete | Ending::EndCompensated)
}

pub(super) fn table() -> Table {
    let rows = BRANCHES.iter().map(|name| {
        let cells =
            RETURNS.iter().map(|(_, returned)| shown(&run(&[(name, 200)], *returned)).to_owned()).collect();
        (*name, cells)
    });
    Table { states: RETURNS.map(|(name, _)| name).to_vec(), rows: rows.collect() }
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str, Returned)> {
    BRANCHES.into_iter().flat_map(|one| {
        BRANCHES.into_iter().flat_map(move |other| RETURNS.map(|(_, returned)| (one, other, returned)))
    })
}

#[test]
fn no_pair_of_branches_ends_a_workflow_with_an_unknown_effect() {
    let (known, retried) = (
        "its outcome is known, also a failure",
        ["failed, tried again later", "DynamoDB cannot be reached", "waits on purpose"],
    );
    for (one, other, returned) in pairs() {
        let ending = run(&[(one, 200), (other, 300)], returned);
        let all_known = one == known && other == known;
        // A failure does not wait for steps that have done nothing.
        let fails = |name| name == known || retried.contains(&name);
        let may_end = all_known || (returned == Returned::Failed && fails(one) && fails(other));
        let may_end =
            may_end && !matches!(returned, Returned::Stopped | Returned::Aborted | Returned::Uncompensated);
        assert_eq!(ends(&ending), may_end, "{one} and {other}, {returned:?}: {ending:?}");
    }
}

#[test]
fn order_of_branches_does_not_decide_how_a_run_ends() {
    for (one, other, returned) in pairs() {
        let forth = run(&[(one, 200), (other, 300)], returned);
        let back = run(&[(other, 300), (one, 200)], returned);
        assert_eq!(shown(&forth), shown(&back), "{one} and {other}, {returned:?}");
        let (Ending::Release(forth), Ending::Release(back)) = (forth, back) else { continue };
        assert_eq!((forth.retry, forth.wait), (back.retry, back.wait), "{one} and {other}, {returned:?}");
    }
}

#[test]
fn graver_branch_decides() {
    // From the gravest on.
    let order = [
        "nothing is written",
        "**quarantine**",
        "fail",
        "retry, aborted",
        "retry",
        "retry, not counted",
        "wait",
    ];
    // A run that stopped or was aborted is tried again for all needs of its branches.
    for (one, other, returned) in pairs().filter(|(_, _, returned)| returned.is_through()) {
        let rank =
            |ending: &Ending| order.iter().position(|known| *known == shown(ending)).unwrap_or(order.len());
        let both = run(&[(one, 200), (other, 300)], returned);
        let alone = rank(&run(&[(one, 200)], returned)).min(rank(&run(&[(other, 300)], returned)));
        // An effect at work or in doubt keeps the other branch from failing the workflow.
        let waits = returned == Returned::Failed && alone == 2 && matches!(both, Ending::Release(_));
        assert!(rank(&both) == alone || waits, "{one} and {other}, {returned:?}: {both:?}");
    }
}

#[test]
fn earliest_time_of_all_branches_wakes_the_workflow() {
    let due = |name: &str, due: i64| -> Option<DateTime<Utc>> {
        let (effect, need) = branch(name, "charge", due);
        match (need.map(|need| need.kind), effect.map(|effect| effect.outlook)) {
            (Some(NeedKind::Wait { until, .. }), _) => Some(until),
            (Some(NeedKind::Retry { at, .. }), _) | (None, Some(Outlook::AtWork(at))) => Some(at),
            (Some(NeedKind::InDoubt { .. }), _) => Some(at(NOW)),
            _ => None,
        }
    };
    for (one, other, returned) in pairs().filter(|(_, _, returned)| returned.is_through()) {
        for (first, second) in [(200, 300), (300, 200)] {
            let Ending::Release(release) = run(&[(one, first), (other, second)], returned) else { continue };
            let wakes = release.retry.into_iter().chain(release.wait).min();
            let earliest = due(one, first).into_iter().chain(due(other, second)).min();
            assert_eq!(wakes, earliest, "{one} and {other}, {returned:?}: {release:?}");
        }
    }
}

#[test]
fn reason_of_a_quarantine_names_its_step() {
    for (name, outlook) in [("held", Outlook::Held), ("in doubt", Outlook::InDoubt)] {
        let item = "step/charge".to_owned();
        let effect = Effect { step: "charge".to_owned(), place: item.clone(), item: item.clone(), outlook };
        let ending = ending(&[effect], &[], Returned::Completed, at(NOW));
        let Ending::Quarantine { reason, item: known } = ending else { panic!("{name}: {ending:?}") };
        assert!(reason.starts_with("step charge "), "{reason}");
        assert_eq!(known, Some(item), "{name}: its outcome makes the workflow due again");
    }
}

#[test]
fn reason_of_a_held_step_is_its_own() {
    let (other, held) = (branch("needs an operator", "stock", NOW), branch("held", "charge", NOW));
    let needs: Vec<_> = other.1.into_iter().chain(held.1).collect();
    let ending = ending(&[held.0.expect("an effect")], &needs, Returned::Stopped, at(NOW));
    let Ending::Quarantine { reason, .. } = ending else { panic!("{ending:?}") };
    assert_eq!(reason, "charge: held");
}

#[test]
fn first_failure_that_counts_gives_the_reason_of_a_retry() {
    let (failed, outage) = ("failed, tried again later", "DynamoDB cannot be reached");
    for (one, other, step, reason) in [
        (failed, failed, "charge", failed),
        (outage, outage, "charge", outage),
        (failed, outage, "charge", failed),
        (outage, failed, "stock", failed),
        ("waits on purpose", failed, "stock", failed),
        (failed, "waits on purpose", "charge", failed),
        ("doubt, which the code may resolve", failed, "charge", "doubt, which the code may resolve"),
    ] {
        let ending = run(&[(one, 200), (other, 300)], Returned::Stopped);
        let Ending::Release(release) = ending else { panic!("{ending:?}") };
        assert_eq!(release.reason, format!("{step}: {reason}"), "{one} and {other}");
        assert_eq!(release.step.as_deref(), Some(step), "{one} and {other}");
    }
}

#[test]
fn first_of_the_waits_that_end_together_gives_the_reason() {
    let ending = run(&[("waits on purpose", 200), ("waits on purpose", 200)], Returned::Stopped);
    let Ending::Release(release) = ending else { panic!("{ending:?}") };
    assert_eq!((release.reason.as_str(), release.retry), ("charge: waits on purpose", None));
}

/// The code did not run, so there are no needs.
#[test]
fn exhausted_workflow_waits_only_for_a_driver_at_work() {
    let exhausted = |name| run(&[(name, 200)], Returned::Exhausted);
    for name in ["its outcome is known, also a failure", "dropped or not reached: in doubt"] {
        assert_eq!(exhausted(name), Ending::Fail, "{name}");
    }
    let held = exhausted("held by an earlier run, not reached");
    assert!(matches!(held, Ending::Quarantine { .. }), "{held:?}");
    let at_work = exhausted("dropped: its driver may be at work");
    let Ending::Release(release) = at_work else { panic!("{at_work:?}") };
    assert_eq!((release.pause, release.retry), (Pause::NotRun, Some(at(200))));
}

/// Another workflow cancelled the step in doubt, so the step is no effect of this workflow.
#[test]
fn failure_waits_for_a_doubt_about_the_step_of_another_workflow() {
    let (_, need) = branch("doubt, which the code may resolve", "pay", NOW);
    let ending = ending(&[], &need.into_iter().collect::<Vec<_>>(), Returned::Failed, at(NOW));
    assert!(matches!(ending, Ending::Release(_)), "{ending:?}");
}

#[test]
fn once_steps_and_compensations_are_effects() {
    for (kind, is_effect) in [
        (StepKind::Step, false),
        (StepKind::Atomic, false),
        (StepKind::Pointer, false),
        (StepKind::Once, true),
        (StepKind::Compensation, true),
    ] {
        let new = NewStep { kind, ..step("pay", "machine", 1) };
        let start = Begin::Start { version: None, due: at(30), expired_at: at(0) };
        let record =
            StepRecord::begin(None, &new, &start, stamp(at(1), "start")).expect("no record is there");
        let effect = Effect::of(&Placed::own(record), None, at(NOW), SKEW);
        assert_eq!(effect.map(|effect| effect.outlook), is_effect.then_some(Outlook::InDoubt), "{kind:?}");
    }
}

#[test]
fn effect_is_at_work_until_its_time_and_the_skew_pass() {
    let started = changed(StepState::Started, |_| ());
    let free = crate::core::time::after(started.record.due, SKEW);
    let outlook = |now| Effect::of(&started, None, now, SKEW).map(|effect| effect.outlook);
    let moment = chrono::TimeDelta::milliseconds(1);
    assert_eq!(outlook(free - moment), Some(Outlook::AtWork(free)));
    assert_eq!(outlook(free), Some(Outlook::InDoubt));
    assert_eq!(Effect::of(&changed(StepState::Completed, |_| ()), None, start(), SKEW), None);
}

#[test]
fn compensated_workflow_leaves_a_step_to_the_workflow_that_started_it() {
    let started = changed(StepState::Started, |data| data.started_for = Some("run-2".to_owned()));
    let is_effect = |answerer| Effect::of(&started, answerer, at(NOW), SKEW).is_some();
    assert_eq!([None, Some("run-1"), Some("run-2")].map(is_effect), [true, false, true]);
}

#[test]
fn release_names_the_wait_that_ends_first_and_counts_the_others() {
    let wait = |name: &str, until, place: Option<&str>| Need {
        place: place.map(str::to_owned),
        kind: NeedKind::Wait {
            until: at(until),
            on: Some(Awaited { name: format!("event:{name}"), since: at(0), until: at(until) }),
        },
        reason: String::new(),
    };
    let purpose =
        Need { place: None, kind: NeedKind::Wait { until: at(150), on: None }, reason: String::new() };
    // The code also returns the stop of a wait, as a need without a place.
    let needs = [
        wait("paid", 300, Some("event/paid")),
        wait("packed", 200, Some("event/packed")),
        purpose,
        wait("paid", 300, None),
    ];
    let Ending::Release(release) = ending(&[], &needs, Returned::Stopped, at(NOW)) else { panic!("a pause") };
    let waits = release.waits.expect("it waits for events");
    assert_eq!((waits.on.to_string(), waits.on.until, waits.others), ("event:packed".to_owned(), at(200), 1));
    assert_eq!(release.wait, Some(at(150)));
    assert_eq!(Waits::parse(&waits.to_string()), Some(waits));
}

#[test]
fn shortest_limit_of_a_step_counts() {
    let seconds = std::time::Duration::from_secs;
    let retry = |limit| Need {
        place: None,
        kind: NeedKind::Retry { at: at(200), counts: true, retry_for: limit },
        reason: String::new(),
    };
    let doubt = |limit| Need {
        kind: NeedKind::InDoubt { item: "step/pay".to_owned(), resolvable: true, retry_for: Some(limit) },
        ..retry(None)
    };
    let retries = [None, Some(seconds(90)), Some(seconds(60))].map(retry);
    for (last, shortest) in [(doubt(seconds(30)), 30), (doubt(seconds(99)), 60)] {
        let needs = [&retries[..], &[last]].concat();
        let ending = ending(&[], &needs, Returned::Stopped, at(NOW));
        let Ending::Release(release) = ending else { panic!("{ending:?}") };
        assert_eq!(release.retry_for, Some(seconds(shortest)));
    }
}
