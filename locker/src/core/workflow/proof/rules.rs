//! Rules that the pages do not show: counts, times and orders.

use std::time::Duration;

use super::header_page::header_in;
use super::sample::{SKEW, at, by, result, stamp, start, step, workflow};
use crate::core::answer::{Body, Codec, Encoded};
use crate::core::restored::Restored;
use crate::core::retry::Backoff;
use crate::core::time;
use crate::core::workflow::compensation::{self, Compensated, Owed};
use crate::core::workflow::decide::{self, Found, Patience, is_exhausted};
use crate::core::workflow::header::{
    Claim, DriverAct, Events, Header, HeaderData, HeaderEvent, HeaderRefusal, List, MostCrashes, OperatorAct,
    Pause, ReaperAct, State,
};
use crate::core::workflow::place::{Effect, Former, Place, Undo};
use crate::core::workflow::step::{
    Begin, End, HolderAct, Intent, NewStep, Placed, RecordId, StepData, StepEvent, StepKind, StepRecord,
    StepState,
};

const HOUR: i64 = 3600;

fn released(header: &Header, pause: Pause, progressed: bool, now: i64) -> Header {
    let act = DriverAct::Release {
        at: at(now + 10),
        pause,
        reason: "503".to_owned(),
        progressed,
        waits: None,
        failing_after: Duration::from_secs(3600),
    };
    let event = HeaderEvent::Driver { attempt: header.attempt.clone(), events: Events::default(), act };
    header.on(&event, stamp(at(now), "release")).expect("its driver may")
}

fn claimed(header: &Header, now: i64) -> Header {
    claimed_after(header, false, now)
}

/// `progressed`: the lost run recorded an outcome.
fn claimed_after(header: &Header, progressed: bool, now: i64) -> Header {
    claimed_by(header, Claim { progressed, ..claim(header) }, now)
}

fn claimed_by(header: &Header, claim: Claim, now: i64) -> Header {
    header.on(&HeaderEvent::Claim(claim), stamp(at(now), "claim")).expect("it is due")
}

fn claim(header: &Header) -> Claim {
    Claim {
        owner: "machine".to_owned(),
        name: header.name.clone(),
        code: 1,
        started: header.created,
        is_named: false,
        expected: None,
        may_take: Duration::ZERO,
        progressed: false,
        most_crashes: Some(MostCrashes { in_a_row: 3, in_all: 9 }),
        restored: None,
    }
}

#[test]
fn only_runs_that_do_not_come_back_are_crashes() {
    for pause in [Pause::Failed, Pause::Chosen, Pause::Elsewhere] {
        let header = released(&workflow(Some("machine"), "start"), pause, false, 5);
        assert_eq!(header.lost_without_progress, 0, "{pause:?}");
    }
    let mut header = workflow(Some("machine"), "start");
    for run in 1..3 {
        header = claimed(&released(&header, Pause::BrokenOff, false, run * 100), run * 100 + 50);
        assert_eq!(i64::from(header.lost_without_progress), run + 1);
    }
    let lost = claimed(&header, 1000);
    assert_eq!(lost.listed, Some(List::Quarantine), "three in a row");
    assert!(lost.reason.as_deref().is_some_and(|reason| reason.starts_with("3 runs in a row")));
}

#[test]
fn each_count_of_runs_ends_with_its_own_event() {
    let counts = |header: &Header| {
        [header.attempts, header.lost_in_a_row, header.lost_without_progress, header.lost_in_all]
    };
    let lost = claimed(&workflow(Some("machine"), "start"), 1000);
    assert_eq!(counts(&lost), [2, 2, 2, 1]);
    let progressed = claimed_after(&lost, true, 2000);
    assert_eq!(counts(&progressed), [2, 3, 1, 2], "progress ends neither the row nor the sum");
    for (pause, recorded, expected) in [
        (Pause::Failed, false, [2, 0, 0, 2]),
        (Pause::Failed, true, [1, 0, 0, 2]),
        (Pause::Chosen, false, [0, 0, 0, 2]),
        (Pause::Elsewhere, false, [1, 0, 0, 2]),
        (Pause::BrokenOff, false, [2, 3, 1, 3]),
        (Pause::BrokenOff, true, [1, 3, 0, 3]),
        (Pause::NotRun, false, [1, 2, 0, 2]),
    ] {
        let released = released(&progressed, pause, recorded, 2010);
        assert_eq!(counts(&released), expected, "{pause:?}, recorded an outcome: {recorded}");
    }
}

#[test]
fn aborted_runs_count_among_the_lost_although_they_recorded_steps() {
    let patience = Patience { attempts: 3, retry_for: Duration::ZERO, crashes: 5 };
    let is_last = |header: &Header| is_exhausted(header, Pause::BrokenOff, true, patience, at(9000));
    let mut header = workflow(Some("machine"), "start");
    for run in 1..5 {
        assert!(!is_last(&header), "{run}");
        header = claimed(&released(&header, Pause::BrokenOff, true, run * 100), run * 100 + 50);
    }
    assert!(is_last(&header), "five runs");
}

#[test]
fn attempts_and_time_count_from_the_last_progress() {
    let first = workflow(Some("machine"), "start");
    let failed = released(&first, Pause::Failed, false, 10);
    assert_eq!((failed.attempts, failed.since), (1, start()));
    let elsewhere = released(&claimed(&failed, 30), Pause::Elsewhere, false, 40);
    assert_eq!((elsewhere.attempts, elsewhere.since), (1, start()), "not its own fault");
    let progressed = released(&claimed(&elsewhere, 60), Pause::Failed, true, 70);
    assert_eq!((progressed.attempts, progressed.since), (1, at(70)));
    let waits = released(&claimed(&progressed, 90), Pause::Chosen, false, 100);
    assert_eq!((waits.attempts, waits.since), (0, at(110)), "from the end of the wait");
}

#[test]
fn compensation_has_attempts_and_time_of_its_own() {
    let late = claimed(&released(&workflow(Some("machine"), "start"), Pause::BrokenOff, false, 10), 30);
    assert_eq!((late.attempts, late.lost_without_progress, late.since), (2, 2, start()));
    let result = Body::Beside { codec: Codec::Json, id: "failure".to_owned(), bytes: 1 };
    let act = DriverAct::Compensate { result, reason: "declined".to_owned() };
    let event = HeaderEvent::Driver { attempt: late.attempt.clone(), events: Events::default(), act };
    let compensating = late.on(&event, stamp(at(40), "fail")).expect("its driver may");
    assert_eq!(
        (compensating.attempts, compensating.lost_without_progress, compensating.since),
        (1, 1, at(40))
    );
}

#[test]
fn after_an_hour_without_progress_it_is_listed_as_failing() {
    let failing = |now| released(&workflow(Some("machine"), "start"), Pause::Failed, false, now).listed;
    assert_eq!(failing(HOUR - 1), Some(List::Unfinished));
    assert_eq!(failing(HOUR), Some(List::Failing));
    let progressed = released(&workflow(Some("machine"), "start"), Pause::Failed, true, 9 * HOUR);
    assert_eq!(progressed.listed, Some(List::Unfinished));
}

#[test]
fn patience_ends_after_the_time_and_the_attempts() {
    let patience = Patience { attempts: 2, retry_for: Duration::from_secs(100), crashes: 9 };
    let once = released(&workflow(Some("machine"), "start"), Pause::Failed, false, 10);
    let twice = claimed(&once, 30);
    let over = |header: &Header, pause, now| is_exhausted(header, pause, false, patience, at(now));
    assert!(!over(&once, Pause::Failed, 500), "one attempt");
    assert!(!over(&twice, Pause::Failed, 99), "too early");
    assert!(over(&twice, Pause::Failed, 100));
    assert!(!is_exhausted(&twice, Pause::Failed, true, patience, at(100)), "it has just progressed");
    for pause in [Pause::Chosen, Pause::Elsewhere, Pause::BrokenOff] {
        assert!(!over(&twice, pause, 500), "{pause:?}");
    }
    let crashed = claimed(&released(&workflow(Some("machine"), "start"), Pause::BrokenOff, false, 10), 30);
    assert!(over(&crashed, Pause::BrokenOff, 31), "at once");
}

#[test]
fn pauses_double_up_to_their_cap_and_take_half_of_their_range_at_least() {
    let backoff = Backoff::doubling(Duration::from_secs(4), Duration::from_secs(20));
    let pause = |attempts, jitter| backoff.equal(attempts, jitter).as_secs();
    assert_eq!([pause(0, 1.0), pause(1, 1.0), pause(2, 1.0), pause(9, 1.0)], [4, 4, 8, 20]);
    assert_eq!([pause(1, 0.0), pause(2, 0.0), pause(9, 0.5)], [2, 4, 15]);
}

pub(super) fn completed(name: &str, number: u32, change: impl Fn(&mut NewStep)) -> Placed {
    let mut new = step(name, "run-1", number);
    change(&mut new);
    let how = Begin::Start { version: None, due: time::after(start(), SKEW), expired_at: start() };
    let record = StepRecord::begin(None, &new, &how, stamp(start(), name)).expect("nothing is there");
    let act = HolderAct::End {
        end: End::Completed(result("done")),
        doubt: false,
        ttl: None,
        by: "run-1".to_owned(),
    };
    let event = StepEvent::Holder { attempt: record.attempt.clone(), act };
    Placed::own(record.on(&event, stamp(at(1), "end")).expect("the holder's own"))
}

#[test]
fn steps_are_compensated_in_reverse_back_to_the_last_pivot() {
    let names = |steps: Vec<Placed>, only_late| {
        let (steps, pivot) = compensation::to_compensate(steps, only_late);
        (steps.iter().map(|step| step.name()).collect::<Vec<_>>(), pivot.map(|pivot| pivot.name()))
    };
    let plain = |name, number| completed(name, number, |_| ());
    let pivot = completed("ship", 2, |new| new.pivot = true);
    let without = completed("mail", 4, |new| new.compensation = None);
    assert_eq!(names(vec![plain("a", 1), plain("c", 3), plain("b", 2)], false).0, ["c", "b", "a"]);
    let all = vec![plain("pay", 1), pivot, plain("pack", 3), without];
    assert_eq!(names(all, false), (vec!["pack".to_owned()], Some("ship".to_owned())));
    assert_eq!(names(vec![plain("a", 1)], true).0, Vec::<String>::new(), "not late");
}

#[test]
fn one_effect_under_two_names_is_compensated_once_where_it_began() {
    let record = completed("pay", 1, |new| new.compensation = None);
    let under = |name: &str, number| {
        let at = step(name, "run-1", number);
        Placed {
            at: at.id,
            number,
            pivot: false,
            compensation: at.compensation,
            record: record.record.clone(),
        }
    };
    let (steps, _) =
        compensation::to_compensate(vec![under("charge", 5), record.clone(), under("bill", 7)], false);
    let places: Vec<_> = steps.iter().map(|step| (step.name(), step.number)).collect();
    assert_eq!(
        places,
        [("charge".to_owned(), 1)],
        "by the first name with a compensation, in the place of the first"
    );
}

#[test]
fn effect_is_a_pivot_if_one_of_its_names_is() {
    let record = completed("pay", 1, |_| ());
    for (one, other) in [(true, false), (false, true)] {
        let named = |pivot, number| Placed { pivot, number, ..record.clone() };
        let (steps, pivot) = compensation::to_compensate(vec![named(one, 1), named(other, 2)], false);
        assert_eq!((steps.len(), pivot.map(|pivot| pivot.number)), (0, Some(1)), "{one} {other}");
    }
}

#[test]
fn first_name_that_declares_a_compensation_gives_it() {
    let record = completed("pay", 1, |_| ());
    let undo = |name: &str| record.compensation.clone().map(|undo| Intent { name: name.to_owned(), ..undo });
    for (first, second, given) in [
        (undo("refund"), undo("void"), Some("refund")),
        (None, undo("void"), Some("void")),
        (undo("refund"), None, Some("refund")),
        (None, None, None),
    ] {
        let named = |compensation, number| Placed { compensation, number, ..record.clone() };
        let (steps, _) = compensation::to_compensate(vec![named(first, 1), named(second, 2)], false);
        let found = steps.first().and_then(|step| step.compensation.as_ref()).map(|undo| undo.name.as_str());
        assert_eq!(found, given);
    }
}

#[test]
fn reason_for_an_operator_names_the_step_and_the_next_act() {
    for (state, known) in [(StepState::Completed, true), (StepState::Late, true), (StepState::Started, false)]
    {
        let reason = compensation::stopped_at(&in_state(state));
        assert!(reason.contains("its pivot pay"), "{reason}");
        assert_eq!(reason.contains("until an operator resolves or retries"), !known, "{state:?}: {reason}");
    }
    let late = compensation::after_close("step pay");
    assert!(late.contains("step pay is not compensated: skip each step"), "{late}");
    let undeclared = compensation::undeclared("step pay");
    assert!(undeclared.contains("step pay happened") && undeclared.contains("then skip it"), "{undeclared}");
}

#[test]
fn a_compensator_owes_only_what_is_its_own_and_of_this_version() {
    let mine = completed("pay", 1, |new| new.started_for = Some("me".to_owned()));
    let owed = |run, version| compensation::owed(&mine, run, version, false, at(9), SKEW);
    assert_eq!(owed("me", 1), Owed::Compensate);
    assert_eq!(owed("another", 1), Owed::Nothing);
    assert_eq!(owed("me", 2), Owed::Nothing);
}

#[test]
fn nothing_found_before_the_outcome_came_proves_nothing() {
    use StepState::{Cancelled, Completed, Late};
    assert!(!compensation::is_settled(Cancelled, Compensated::Nothing));
    for (state, to) in
        [(Cancelled, Compensated::Done), (Late, Compensated::Nothing), (Completed, Compensated::Nothing)]
    {
        assert!(compensation::is_settled(state, to), "{state:?}");
    }
}

#[test]
fn only_a_completed_compensation_has_a_result() {
    use StepKind::{Compensation, Once};
    use StepState::{Completed, Failed};
    let recorded = |kind, state, json: &str| {
        let result = Encoded::plain(json.to_owned());
        let placed = changed(state, |data| {
            (data.kind, data.result) = (kind, Some(result.clone().into()));
        });
        compensation::recorded(&placed.record)
    };
    assert_eq!(recorded(Compensation, Completed, "\"done\""), Some(Compensated::Done));
    assert_eq!(recorded(Compensation, Completed, "\"nothing\""), Some(Compensated::Nothing));
    assert_eq!(recorded(Compensation, Completed, "\"paid\""), None);
    assert_eq!(recorded(Compensation, Failed, "\"done\""), None);
    assert_eq!(recorded(Once, Completed, "\"done\""), None);
}

/// A step in this state. Its driver may be at work until 10 seconds after the start.
pub(super) fn changed(state: StepState, change: impl Fn(&mut StepData)) -> Placed {
    let placed = completed("pay", 1, |_| ());
    let mut data = StepData { state, ..StepData::clone(&placed.record) };
    change(&mut data);
    Placed { record: StepRecord::stored(data), ..placed }
}

pub(super) fn in_state(state: StepState) -> Placed {
    changed(state, |_| ())
}

#[test]
fn only_what_may_have_happened_is_compensated() {
    use StepState::{Cancelled, Completed, Held, Late, Started};
    let is_compensated = |state: &StepState| {
        let (steps, _) = compensation::to_compensate(vec![in_state(*state)], false);
        !steps.is_empty()
    };
    let states: Vec<_> = StepState::ALL.into_iter().filter(is_compensated).collect();
    assert_eq!(states, [Started, Completed, Held, Cancelled, Late]);
}

#[test]
fn pivot_under_either_name_ends_the_compensation() {
    let first = completed("pay", 1, |_| ());
    let other = |pivot| Placed { at: RecordId::step("order/7", "bill"), number: 2, pivot, ..first.clone() };
    let stops = |pivots: (bool, bool)| {
        let steps = vec![Placed { pivot: pivots.0, ..first.clone() }, other(pivots.1)];
        compensation::to_compensate(steps, false).1.is_some()
    };
    assert!(stops((true, false)) && stops((false, true)) && !stops((false, false)));
}

#[test]
fn steps_of_a_compensation_are_no_steps_of_the_workflow() {
    let within = Undo { effect: Effect { step: "pay", version: 1 }, late: false };
    let outcome = Former { version: 1, digest: None };
    for (place, is_step) in [
        (Place::Step("pay"), true),
        (Place::Former { of: "pay", outcome }, true),
        (Place::Nested { step: "refund", within, former: None }, false),
        (Place::Compensation { of: within, former: None }, false),
        (Place::Shared, false),
    ] {
        let id = RecordId::at("order/7", place);
        let placed = changed(StepState::Completed, |data| data.id = id.clone());
        assert_eq!(compensation::is_step(&placed.record), is_step, "{place:?}");
    }
}

#[test]
fn owed_compensation_follows_the_state_of_the_step() {
    use StepState::{Cancelled, Compensated, Completed, Failed, Freed, Held, Late, Started, Withdrawn};
    let owed = |state, first, now| compensation::owed(&in_state(state), "run-1", 1, first, at(now), SKEW);
    for state in [Compensated, Freed, Withdrawn, Failed] {
        assert_eq!(owed(state, false, 9), Owed::Nothing, "{state:?}");
    }
    assert_eq!(owed(Started, false, 9), Owed::Wait(at(10)));
    assert_eq!(owed(Started, false, 10), Owed::Cancel);
    assert_eq!(owed(Held, false, 9), Owed::Cancel);
    assert_eq!(owed(Completed, false, 9), Owed::Compensate);
    assert_eq!(owed(Cancelled, false, 9), Owed::Compensate);
    assert_eq!(owed(Late, true, 9), Owed::EndFirst);
    assert_eq!(owed(Late, false, 9), Owed::CompensateLate);
}

#[test]
fn started_step_is_in_doubt_once_its_driver_is_overdue() {
    let found = |now| decide::found(&in_state(StepState::Started).record, None, at(now), at(now), SKEW);
    assert_eq!((found(9), found(10)), (Found::Busy, Found::InDoubt));
}

#[test]
fn ended_step_is_free_in_the_second_after_its_expiry() {
    use StepState::{Cancelled, Compensated, Completed, Failed, Held, Late};
    let found = |state, now| {
        let placed = changed(state, |data| data.ttl = Some(at(100).timestamp()));
        decide::found(&placed.record, None, at(now), at(now), SKEW)
    };
    for (state, kept) in [(Completed, Found::Completed), (Failed, Found::Failed)] {
        assert_eq!((found(state, 99), found(state, 100)), (kept, kept), "{state:?}");
        assert_eq!(found(state, 101), Found::Free, "{state:?}");
    }
    assert_eq!(found(Held, 101), Found::Failed, "it may have happened");
    for state in [Cancelled, Late, Compensated] {
        assert_eq!(found(state, 101), Found::Cancelled, "{state:?}");
    }
}

#[test]
fn only_a_failure_is_free_under_a_newer_version() {
    use StepState::{Completed, Failed, Held};
    let found = |state, version| decide::found(&in_state(state).record, version, at(9), at(9), SKEW);
    assert_eq!(
        [None, Some(1), Some(2)].map(|version| found(Failed, version)),
        [Found::Failed, Found::Failed, Found::Free]
    );
    assert_eq!(found(Held, Some(2)), Found::Failed);
    assert_eq!(found(Completed, Some(2)), Found::Completed);
}

#[test]
fn compensated_step_is_free_only_with_its_own_key() {
    let found = |started_for: Option<&str>| {
        let started_for = started_for.map(str::to_owned);
        let placed = changed(StepState::Compensated, |data| data.started_for.clone_from(&started_for));
        decide::found(&placed.record, None, at(9), at(9), SKEW)
    };
    assert_eq!((found(None), found(Some("run-1"))), (Found::Cancelled, Found::Free));
}

#[test]
fn workflow_with_a_report_is_due_once_its_run_stops() {
    let before = workflow(Some("machine"), "start");
    let event = HeaderEvent::Settled { item: "step/pay".to_owned() };
    let reported = before.on(&event, stamp(at(1), "report")).expect("it runs");
    for pause in [Pause::Failed, Pause::Elsewhere] {
        assert_eq!(released(&before, pause, false, 5).next_due, at(15), "{pause:?}");
        let header = released(&reported, pause, false, 5);
        assert_eq!((header.next_due, header.listed), (at(5), Some(List::Unfinished)), "{pause:?}");
        assert_eq!(
            (header.reported, header.attempts, header.reason.as_deref()),
            (false, 0, None),
            "{pause:?}"
        );
    }
}

#[test]
fn quarantine_for_a_step_ends_with_its_report() {
    let before = workflow(Some("machine"), "start");
    let event = HeaderEvent::Settled { item: "step/pay".to_owned() };
    let reported = before.on(&event, stamp(at(1), "report")).expect("it runs");
    let listed = |header: &Header, waits_for: Option<&str>| {
        let (reason, waits_for) = ("in doubt".to_owned(), waits_for.map(str::to_owned));
        let act = DriverAct::Quarantine { reason, waits_for };
        let event = HeaderEvent::Driver { attempt: header.attempt.clone(), events: Events::default(), act };
        header.on(&event, stamp(at(5), "stop")).expect("its driver may").listed
    };
    assert_eq!(listed(&before, Some("step/pay")), Some(List::Quarantine));
    assert_eq!(listed(&reported, None), Some(List::Quarantine));
    assert_eq!(listed(&reported, Some("step/pay")), Some(List::Unfinished));
}

#[test]
fn report_to_a_lost_driver_ends_with_the_next_claim() {
    let event = HeaderEvent::Settled { item: "step/pay".to_owned() };
    let reported = workflow(Some("machine"), "start").on(&event, stamp(at(1), "report")).expect("it runs");
    let next = claimed(&reported, 1000);
    assert_eq!((reported.reported, next.reported), (true, false));
    let failed = released(&next, Pause::Failed, false, 1010);
    assert_eq!((failed.attempts, failed.next_due), (2, at(1020)), "the run read the outcome");
}

#[test]
fn only_runs_that_fail_are_kept_with_their_cause() {
    let failures = |pause| {
        let header = released(&workflow(Some("machine"), "start"), pause, false, 5);
        let added = header.failures.added().iter();
        added.map(|(_, it)| (it.by.clone(), it.runs, it.cause.clone(), it.first)).collect::<Vec<_>>()
    };
    let failed = vec![("machine".to_owned(), 1, "503".to_owned(), at(5))];
    assert_eq!((failures(Pause::Failed), failures(Pause::BrokenOff)), (failed.clone(), failed));
    assert_eq!((failures(Pause::Chosen), failures(Pause::Elsewhere)), (Vec::new(), Vec::new()));
}

#[test]
fn deletion_remembers_how_the_workflow_ended() {
    let running = workflow(Some("machine"), "start");
    let act = DriverAct::Complete { result: None, note: None };
    let event = HeaderEvent::Driver { attempt: running.attempt.clone(), events: Events::default(), act };
    let ended = running.on(&event, stamp(at(1), "end")).expect("its driver may");
    let reaped = |header: &Header, now| {
        let act = ReaperAct::Delete(at(now + 60));
        let event = HeaderEvent::Reaper { seen: header.revision.clone(), act };
        header.on(&event, stamp(at(now), &format!("reap {now}"))).expect("it has ended")
    };
    let first = reaped(&ended, 100);
    let again = reaped(&first, 200);
    for (header, due) in [(&first, 160), (&again, 260)] {
        assert_eq!((header.state, header.ending), (State::Reaping, Some(State::Completed)));
        assert_eq!(header.next_due, at(due));
    }
}

#[test]
fn ended_workflow_is_redacted_once() {
    let answer = Body::Beside { codec: Codec::Json, id: "answer".to_owned(), bytes: 1 };
    for result in [None, Some(answer)] {
        let running = workflow(Some("machine"), "start");
        let act = DriverAct::Complete { result: result.clone(), note: Some("to card 7".to_owned()) };
        let event = HeaderEvent::Driver { attempt: running.attempt.clone(), events: Events::default(), act };
        let ended = running.on(&event, stamp(at(1), "end")).expect("its driver may");
        assert!(ended.input.is_some() && ended.reason.is_some());
        let redacted = |header: &Header| {
            let (seen, by) = (header.revision.clone(), by(at(5)));
            let event = HeaderEvent::Operator { seen, by, act: OperatorAct::Redact };
            header.on(&event, stamp(at(5), "redact"))
        };
        let erased = redacted(&ended).expect("it has ended");
        let answer = result.map(|_| Body::Redacted);
        assert_eq!((erased.input.clone(), erased.result.clone()), (Some(Body::Redacted), answer));
        assert_eq!((erased.state, erased.reason.as_deref()), (State::Completed, None));
        assert_eq!(erased.intervention, Some(by(at(5))));
        assert_eq!(redacted(&erased).expect_err("it is erased"), HeaderRefusal::NotPossible);
    }
}

/// The table may have forgotten steps that ran before the restore.
#[test]
fn restored_workflow_runs_after_an_operator_opened_it() {
    let restored = Some(Restored::new(at(500), SKEW));
    for (opened, listed) in
        [(None, List::Quarantine), (Some(505), List::Quarantine), (Some(506), List::Unfinished)]
    {
        let data = HeaderData::clone(&workflow(None, "start"));
        let header = Header::stored(HeaderData { opened: opened.map(at), ..data });
        let next = claimed_by(&header, Claim { restored, ..claim(&header) }, 600);
        let is_driven = listed == List::Unfinished;
        assert_eq!((next.listed, next.locked_by.is_some()), (Some(listed), is_driven), "{opened:?}");
    }
}

/// The next version runs, so the completed steps of this version stay.
#[test]
fn operator_retries_a_continued_version_and_never_compensates_it() {
    let event = HeaderEvent::Late { item: "step/pay".to_owned() };
    let late = header_in("continued").on(&event, stamp(at(60), "late")).expect("it is kept");
    let operated = |act| {
        let event = HeaderEvent::Operator { seen: late.revision.clone(), by: by(at(61)), act };
        late.on(&event, stamp(at(61), "operate")).map(|next| next.ending)
    };
    assert_eq!(operated(OperatorAct::Retry), Ok(Some(State::Continued)));
    assert_eq!(operated(OperatorAct::Compensate), Err(HeaderRefusal::NotPossible));
}

#[test]
fn shared_step_has_its_own_record_and_a_place() {
    let pointer = completed("bill", 3, |new| new.pivot = true);
    let shared = changed(StepState::Held, |data| {
        data.id = RecordId::shared("pay/7");
        data.key_version = 2;
        data.started_for = Some("run-1".to_owned());
    });
    let placed = Placed::through(&pointer.record, shared.record);
    assert_eq!((placed.name().as_str(), placed.number, placed.pivot), ("bill", 3, true));
    assert_eq!(placed.effect(), Effect { step: "bill", version: 2 });
    assert_eq!((placed.record.id.clone(), placed.kind()), (RecordId::shared("pay/7"), StepKind::Once));
    assert!(placed.is_of("run-1") && !placed.is_of("run-2") && pointer.is_of("run-2"));
}

#[test]
fn each_state_of_a_workflow_is_read_from_its_word() {
    use State::{Cancelled, Compensating, Completed, Failed, Reaping, Running};
    for (state, word, is_final, is_answered) in [
        (Running, "running", false, false),
        (Compensating, "compensating", false, false),
        (Completed, "completed", true, true),
        (Failed, "failed", true, true),
        (Cancelled, "cancelled", true, true),
        (Reaping, "reaping", true, false),
    ] {
        assert_eq!((state.as_str(), State::named(word)), (word, Some(state)));
        assert_eq!((state.is_final(), state.is_answered()), (is_final, is_answered), "{word}");
    }
    assert_eq!(State::named("waiting"), None);
}

/// A running workflow in this list, due at 60.
fn listed(list: Option<List>, locked_by: Option<&str>) -> Header {
    let header = workflow(Some("machine"), "start");
    let locked_by = locked_by.map(str::to_owned);
    Header::stored(HeaderData { listed: list, locked_by, next_due: at(60), ..HeaderData::clone(&header) })
}

#[test]
fn workflow_without_a_driver_is_claimed_when_it_is_due() {
    let is_claimable = |list, locked_by, now| listed(list, locked_by).is_claimable(at(now), SKEW);
    for list in [Some(List::Unfinished), Some(List::Failing)] {
        assert_eq!([59, 60].map(|now| is_claimable(list, None, now)), [false, true], "{list:?}");
        assert_eq!([64, 65].map(|now| is_claimable(list, Some("machine"), now)), [false, true], "{list:?}");
    }
    for list in [Some(List::Quarantine), Some(List::Finished), None] {
        assert!(!is_claimable(list, None, 99), "{list:?}");
    }
}

#[test]
fn header_has_its_list_its_state_and_its_run() {
    let running = listed(Some(List::Unfinished), None);
    assert!(running.is_forward() && !running.is_quarantined());
    assert!(listed(Some(List::Quarantine), None).is_quarantined());
    let state = State::Compensating;
    assert!(!Header::stored(HeaderData { state, ..HeaderData::clone(&running) }).is_forward());
    assert_eq!(running.run_id(), "order/7 2026-11-18T11:06:40.000Z");
}
