//! Rules of reports that the printed page does not show: results, places, headers and times.

use super::header_page::header_in;
use super::report_page::{Decided, decide, outcome, seen};
use super::rules::{changed, in_state};
use super::sample::{at, result, stamp, step, workflow};
use crate::core::answer::Encoded;
use crate::core::workflow::header::{Header, HeaderData, List, State};
use crate::core::workflow::place::{Effect, Former, Place, Undo};
use crate::core::workflow::step::{
    Happened, Intent, NewStep, Outcome, RecordId, Report, Reported, Seen, StepKind, StepRecord, StepResult,
    StepState, Versions,
};

fn report(outcome: Outcome) -> Report {
    let id = RecordId::step("order/7", "pay");
    Report { step: id, run: "reporter".to_owned(), place: step("pay", "run-1", 1), outcome }
}

/// Decides at 20, with nothing next to the step.
fn decided(report: &Report, seen: Seen) -> Decided {
    decide(report, seen, &stamp(at(20), "report"), |_| None)
}

fn paid() -> Outcome {
    outcome(result("paid"), 1)
}

fn json(text: &str) -> StepResult {
    Encoded::plain(text.to_owned()).into()
}

/// A completed step with this result.
fn completed(result: &str) -> StepRecord {
    changed(StepState::Completed, |data| data.result = Some(json(result))).record
}

#[test]
fn outcome_waits_only_for_a_driver_in_time() {
    let reported = |waits, now| {
        let started = in_state(StepState::Started).record;
        let report = report(Outcome { waits, ..paid() });
        let seen = seen(Some(started), Some(header_in("driven")));
        decide(&report, seen, &stamp(at(now), "report"), |_| None)
    };
    assert_eq!(reported(true, 9).reported, Reported::Busy(at(10)));
    for (waits, now) in [(true, 10), (false, 9)] {
        let decided = reported(waits, now);
        let (_, record) = &decided.steps[0];
        assert_eq!(decided.reported, Reported::Recorded);
        assert_eq!((record.state, record.ended), (StepState::Completed, Some(at(30))));
    }
}

#[test]
fn outcome_of_a_later_version_or_a_pointer_is_unknown() {
    let reported = |record: Option<StepRecord>, version| {
        decided(&report(outcome(result("paid"), version)), seen(record, Some(header_in("driven")))).reported
    };
    let started = || Some(in_state(StepState::Started).record);
    assert_eq!(reported(started(), 1), Reported::Recorded);
    assert_eq!(reported(started(), 2), Reported::Unknown);
    let pointer = changed(StepState::Started, |data| data.kind = StepKind::Pointer).record;
    assert_eq!(reported(Some(pointer), 1), Reported::Unknown);
    assert_eq!(reported(None, 1), Reported::Unknown);
}

#[test]
fn version_is_named_once_a_second_was_used() {
    let reported = |is_version_named| {
        let second = changed(StepState::Started, |data| data.key_version = 2).record;
        let report = report(Outcome { is_version_named, ..paid() });
        decided(&report, seen(Some(second), Some(header_in("driven")))).reported
    };
    assert_eq!(reported(true), Reported::Compensates);
    assert_eq!(reported(false), Reported::Unknown);
}

#[test]
fn failure_of_a_former_version_changes_nothing() {
    let reported = |version| {
        let second = changed(StepState::Started, |data| data.key_version = 2).record;
        let outcome = Outcome { happened: Happened::No(result("refused")), ..outcome(result(""), version) };
        decided(&report(outcome), seen(Some(second), Some(header_in("driven"))))
    };
    assert_eq!((reported(1).reported, reported(1).steps.len()), (Reported::Known, 0));
    let second = reported(2);
    let (_, record) = &second.steps[0];
    assert_eq!((record.state, record.result.clone()), (StepState::Failed, Some(result("refused"))));
}

#[test]
fn outcome_gives_its_compensation_only_to_steps_without_one() {
    let intent = |name: &str| {
        let mut intent = step("pay", "run-1", 1).compensation.expect("it has one");
        intent.name = name.to_owned();
        intent
    };
    let reported = |own: Option<&str>, started_for: Option<&str>| {
        let placed = changed(StepState::Started, |data| {
            data.compensation = own.map(intent);
            data.started_for = started_for.map(str::to_owned);
        });
        let report = report(Outcome { compensation: Some(intent("reported")), ..paid() });
        let decided = decided(&report, seen(Some(placed.record), Some(header_in("driven"))));
        decided.steps[0].1.compensation.clone().map(|it| it.name)
    };
    assert_eq!(reported(None, None).as_deref(), Some("reported"));
    assert_eq!(reported(Some("own"), None).as_deref(), Some("own"));
    assert_eq!(reported(None, Some("run-1")), None);
}

#[test]
fn only_effects_accept_reports() {
    for state in StepState::ALL {
        for kind in [StepKind::Step, StepKind::Atomic, StepKind::Once, StepKind::Compensation] {
            let record = changed(state, |data| data.kind = kind).record;
            let failed = Outcome { happened: Happened::No(result("never")), ..paid() };
            for outcome in [paid(), outcome(result("paid again"), 1), failed] {
                let seen = seen(Some(record.clone()), Some(header_in("completed")));
                let decided = decided(&report(outcome), seen);
                let is_effect = matches!(kind, StepKind::Once | StepKind::Compensation);
                assert_eq!(decided.reported != Reported::NotAnEffect, is_effect, "{kind:?} {state:?}");
                assert!(is_effect || decided.steps.is_empty() && decided.headers.is_empty());
            }
        }
    }
}

#[test]
fn equal_json_is_known_and_leaves_an_ended_workflow() {
    let recorded = r#"{"id":"ch-1","amount":10}"#;
    for (reported, is_equal) in [
        (recorded, true),
        (r#" { "amount" : 10, "id" : "ch-1" } "#, true),
        (r#"{"amount":10,"id":"ch\u002d1"}"#, true),
        (r#"{"amount":10.0,"id":"ch-1"}"#, false),
        (r#"{"amount":11,"id":"ch-1"}"#, false),
        (r#"{"amount":10,"id":"ch-1","more":null}"#, false),
    ] {
        for state in ["completed", "failed", "cancelled", "closed", "driven"] {
            let seen = seen(Some(completed(recorded)), Some(header_in(state)));
            let decided = decided(&report(outcome(json(reported), 1)), seen);
            let answer = if is_equal { Reported::Known } else { Reported::Twice };
            assert_eq!(decided.reported, answer, "{reported} {state}");
            assert_eq!((decided.steps.len(), decided.headers.len()), if is_equal { (0, 0) } else { (1, 1) });
        }
    }
}

#[test]
fn compressed_and_plain_results_are_compared_by_their_json() {
    let text = format!(r#"{{"id":"{}","amount":10}}"#, "x".repeat(2000));
    let turned = format!(r#"{{"amount":10,"id":"{}"}}"#, "x".repeat(2000));
    let packed = crate::core::answer::encode_for_item(turned).expect("it fits");
    assert_ne!(packed.codec, crate::core::answer::Codec::Json);
    let seen = seen(Some(completed(&text)), Some(header_in("completed")));
    assert_eq!(decided(&report(outcome(packed.into(), 1)), seen).reported, Reported::Known);
}

#[test]
fn second_result_has_one_record_in_each_order_of_members() {
    let place = |text: &str| {
        let seen = seen(Some(completed("1")), Some(header_in("completed")));
        let decided = decided(&report(outcome(json(text), 1)), seen);
        assert_eq!(decided.reported, Reported::Twice);
        assert_eq!((decided.headers[0].state, decided.headers[0].listed), twice());
        decided.steps[0].1.id.item.clone()
    };
    let first = place(r#"{"id":"ch-2","amount":10}"#);
    assert_eq!(place(r#"{"amount":10,"id":"ch-2"}"#), first);
    assert_ne!(place(r#"{"amount":11,"id":"ch-2"}"#), first);
    let digest = first.strip_prefix("step/pay v1 ").expect("its place");
    assert!(digest.len() == 10 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

const fn twice() -> (State, Option<List>) {
    (State::Compensating, Some(List::Quarantine))
}

fn undo() -> Undo<'static> {
    Undo { effect: Effect { step: "pay", version: 1 }, late: false }
}

/// A report for a compensation or for a step of it.
fn report_at(place: Place<'_>, outcome: Outcome) -> Report {
    let id = RecordId::at("order/7", place);
    Report { step: id.clone(), place: NewStep { id, ..step("pay", "run-1", 1) }, ..report(outcome) }
}

#[test]
fn outcome_of_a_compensation_stands_and_is_never_compensated() {
    let nested = Place::Nested { step: "pay-back", within: undo(), former: None };
    for place in [Place::Compensation { of: undo(), former: None }, nested] {
        for (state, outcome, answer) in [
            (StepState::Started, paid(), Reported::Recorded),
            (StepState::Held, paid(), Reported::Recorded),
            (StepState::Cancelled, paid(), Reported::Recorded),
            (StepState::Failed, paid(), Reported::Twice),
            (StepState::Started, outcome(result("paid"), 0), Reported::Twice),
        ] {
            let seen = seen(Some(in_state(state).record), Some(header_in("compensating, due")));
            let decided = decided(&report_at(place, outcome), seen);
            assert_eq!(decided.reported, answer, "{place:?} {state:?}");
            let completed = decided.steps[0].1.state == StepState::Completed;
            assert_eq!(completed, answer == Reported::Recorded, "{place:?} {state:?}");
        }
    }
}

#[test]
fn ended_workflow_needs_no_outcome_and_is_not_written() {
    let failed = Outcome { happened: Happened::No(result("never")), ..paid() };
    let started = || Some(in_state(StepState::Started).record);
    let compensation = Place::Compensation { of: undo(), former: None };
    for (report, header) in [(report(failed), "closed"), (report_at(compensation, paid()), "cancelled")] {
        let decided = decided(&report, seen(started(), Some(header_in(header))));
        assert_eq!(decided.reported, Reported::Recorded);
        assert_eq!((decided.steps.len(), decided.headers.len()), (1, 0));
    }
}

#[test]
fn compensation_that_happened_after_a_close_needs_an_operator() {
    let nested = Place::Nested { step: "pay-back", within: undo(), former: None };
    let compensation = Place::Compensation { of: undo(), former: None };
    let nothing = || json("\"nothing\"");
    let refused = Outcome { happened: Happened::No(result("refused")), ..paid() };
    for (place, kind, outcome, needs_operator) in [
        (compensation, StepKind::Compensation, paid(), true),
        (compensation, StepKind::Compensation, outcome(nothing(), 1), false),
        (compensation, StepKind::Compensation, refused.clone(), false),
        (nested, StepKind::Once, paid(), true),
        (nested, StepKind::Once, outcome(nothing(), 1), true),
        (nested, StepKind::Once, refused, false),
    ] {
        // An operator may also be about to decide about another late outcome.
        let headers = ["closed", "closed, late effect", "closed, decided", "closed, retried"];
        // The operator saw the steps up to number 9.
        for (header, number) in headers.into_iter().flat_map(|header| [(header, 9), (header, 10)]) {
            let started =
                changed(StepState::Started, |data| (data.kind, data.number) = (kind, number)).record;
            let seen = seen(Some(started), Some(header_in(header)));
            let decided = decided(&report_at(place, outcome.clone()), seen);
            assert_eq!((decided.reported, decided.steps.len()), (Reported::Recorded, 1), "{place:?}");
            let is_shown = decided.headers.iter().any(|next| {
                let reason = next.reason.as_deref().unwrap_or_default();
                (next.state, next.listed) == twice() && reason.starts_with("a compensation in doubt happened")
            });
            assert_eq!(is_shown, needs_operator && number == 9, "{place:?} {header} {number}");
        }
    }
}

#[test]
fn settled_version_is_known_unless_its_record_has_another_result() {
    let settled = || {
        let versions = Versions::default().with(1);
        changed(StepState::Started, |data| {
            data.key_version = 2;
            data.settled.clone_from(&versions);
            data.started_for = Some("reporter".to_owned());
        })
        .record
    };
    let reported = |beside: Option<&str>| {
        let former = Former { version: 1, digest: None };
        let place = RecordId::step("order/7", "pay").beside(former);
        let beside = beside.map(completed);
        let find = |id: &RecordId| beside.clone().filter(|_| *id == place);
        let seen = seen(Some(settled()), Some(header_in("driven")));
        decide(&report(paid()), seen, &stamp(at(20), "report"), find).reported
    };
    assert_eq!(reported(None), Reported::Known);
    assert_eq!(reported(Some("\"paid\"")), Reported::Known);
    assert_eq!(reported(Some("\"paid again\"")), Reported::Twice);
}

#[test]
fn version_that_was_left_behind_is_settled_for_all_workflows() {
    let second = |started_for: Option<&str>| {
        changed(StepState::Started, |data| {
            data.key_version = 2;
            data.started_for = started_for.map(str::to_owned);
        })
        .record
    };
    for (started_for, records) in [(None, 1), (Some("another"), 2)] {
        let seen = seen(Some(second(started_for)), Some(header_in("driven")));
        let decided = decided(&report(paid()), seen);
        assert_eq!((decided.reported, decided.steps.len()), (Reported::Compensates, records));
        assert_eq!(decided.steps[0].1.state, StepState::Late);
        let settles = |(was_there, record): &(bool, StepRecord)| *was_there && record.settled.contains(1);
        assert!(decided.steps[1..].iter().all(settles));
    }
}

/// Later writes are conditional on the revision, and those of the holder on the attempt.
#[test]
fn reported_step_has_the_revision_and_attempt_of_the_report() {
    let started = in_state(StepState::Started).record;
    let decided = decided(&report(paid()), seen(Some(started), Some(header_in("driven"))));
    let (_, record) = &decided.steps[0];
    assert_eq!((record.revision.as_str(), record.attempt.as_str()), ("r-report", "a-report"));
}

#[test]
fn outcome_next_to_its_step_has_its_own_version_and_result() {
    let declared = || {
        let undo = step("pay", "run-1", 1).compensation.expect("it has one");
        Some(Intent { name: "reported".to_owned(), ..undo })
    };
    let written = |record: StepRecord, outcome: Outcome| {
        let outcome = Outcome { compensation: declared(), ..outcome };
        let decided = decided(&report(outcome), seen(Some(record), Some(header_in("driven"))));
        decided.steps.into_iter().next().expect("a record").1
    };
    let third = changed(StepState::Started, |data| data.key_version = 3).record;
    let left = written(third, outcome(result("paid"), 2));
    assert_eq!((left.key_version, left.state, left.ended), (2, StepState::Late, Some(at(30))));
    assert_eq!((left.result.clone(), left.compensation.clone()), (Some(result("paid")), declared()));
    // An operator decides whether the second result is a second effect.
    let second = written(completed("1"), paid());
    assert_eq!((second.key_version, second.state, second.ended), (1, StepState::Late, Some(at(30))));
    assert_eq!((second.result.clone(), second.compensation.clone()), (Some(result("paid")), None));
}

/// The reaper would delete the outcome with the workflow.
#[test]
fn workflow_that_is_being_deleted_takes_no_outcome() {
    for state in [StepState::Started, StepState::Failed, StepState::Completed] {
        let seen = seen(Some(in_state(state).record), Some(header_in("reaping")));
        let decided = decided(&report(paid()), seen);
        assert_eq!(decided.reported, Reported::Unknown, "{state:?}");
        assert!(decided.steps.is_empty() && decided.headers.is_empty(), "{state:?}");
    }
}

/// A workflow under another key, in this list, that waits for this item.
fn other(listed: List, waits_for: Option<&str>, locked_by: Option<&str>) -> Header {
    let data = HeaderData::clone(&workflow(Some("machine"), "other"));
    Header::stored(HeaderData {
        workflow: "order/8".to_owned(),
        listed: Some(listed),
        waits_for: waits_for.map(str::to_owned),
        locked_by: locked_by.map(str::to_owned),
        ..data
    })
}

#[test]
fn workflow_that_waits_for_anothers_step_is_written_with_it() {
    for (reporter, is_written, is_due) in [
        (other(List::Quarantine, Some("step/pay"), None), true, true),
        (other(List::Quarantine, Some("step/ship"), None), false, false),
        (other(List::Unfinished, None, Some("machine")), true, false),
        (other(List::Unfinished, None, None), false, false),
    ] {
        let shown = format!("{reporter:?}");
        let shared = changed(StepState::Started, |data| data.started_for = Some("order/7".to_owned()));
        let seen = Seen { reporter: Some(reporter), ..seen(Some(shared.record), Some(header_in("driven"))) };
        let decided = decided(&report(paid()), seen);
        assert_eq!(decided.reported, Reported::Recorded, "{shown}");
        let written = decided.headers.iter().find(|header| header.workflow == "order/8");
        assert_eq!(written.is_some(), is_written, "{shown}");
        if let Some(header) = written {
            assert_eq!((header.listed, header.reported), (Some(List::Unfinished), !is_due), "{shown}");
        }
    }
}

#[test]
fn known_outcome_makes_a_workflow_due_that_is_quarantined_for_it() {
    for (reporter, headers) in [
        (other(List::Quarantine, Some("step/pay"), None), 1),
        (other(List::Quarantine, Some("step/ship"), None), 0),
        (other(List::Quarantine, None, None), 0),
        (other(List::Unfinished, None, Some("machine")), 0),
    ] {
        let shown = format!("{reporter:?}");
        let decided = decided(&report(paid()), seen(Some(completed("\"paid\"")), Some(reporter)));
        assert_eq!((decided.reported, decided.steps.len()), (Reported::Known, 0), "{shown}");
        assert_eq!(decided.headers.len(), headers, "{shown}");
    }
}

#[test]
fn without_a_workflow_only_a_recorded_outcome_is_known() {
    for state in StepState::ALL {
        let decided = decided(&report(outcome(result("done"), 1)), seen(Some(in_state(state).record), None));
        let is_known = decided.reported == Reported::Known;
        assert!(is_known || decided.reported == Reported::Unknown, "{state:?}: {decided:?}");
        assert!(decided.steps.is_empty() && decided.headers.is_empty(), "{state:?}");
    }
}
