//! Rules of a step that the printed pages do not show: its times, its key and its workflow.

use super::rules::{changed, in_state};
use super::sample::{at, by, result, stamp, start, step, undo, workflow};
use super::step_page::given;
use crate::core::answer::Codec;
use crate::core::workflow::compensation;
use crate::core::workflow::decide::Found;
use crate::core::workflow::header::{Header, HeaderData};
use crate::core::workflow::step::{
    Apart, Begin, End, HolderAct, NewStep, OperatorStep, Placed, RecordId, StepData, StepEvent, StepKind,
    StepRecord, StepRefusal, StepResult, StepState, Versions,
};

#[test]
fn operator_resolves_or_blocks_a_step_without_a_record() {
    let given = |act| StepRecord::given(&step("pay", "ada", 1), &by(at(5)), &act, stamp(at(5), "given"));
    let resolved = given(OperatorStep::Resolve(result("paid"))).expect("it is resolved");
    assert_eq!((resolved.state, resolved.result.clone()), (StepState::Completed, Some(result("paid"))));
    assert_eq!((resolved.ended, resolved.intervention.clone()), (Some(at(5)), Some(by(at(5)))));
    let blocked = given(OperatorStep::Block).expect("it is blocked");
    assert_eq!((blocked.state, blocked.result.clone()), (StepState::Cancelled, None));
    assert_eq!((blocked.ended, blocked.intervention.clone()), (Some(at(5)), Some(by(at(5)))));
    let dismissed = given(OperatorStep::Dismiss);
    assert_eq!(dismissed.expect_err("there is nothing to dismiss"), StepRefusal::NotPossible);
}

#[test]
fn started_step_is_cancelled_once_its_driver_is_overdue() {
    let started = in_state(StepState::Started).record;
    let cancelled = |now, anyway| {
        let event = StepEvent::Cancel { seen: started.revision.clone(), anyway };
        started.on(&event, stamp(at(now), "cancel")).map(|record| record.state)
    };
    assert_eq!(cancelled(9, false), Err(StepRefusal::Busy(at(10))));
    assert_eq!(cancelled(9, true), Ok(StepState::Cancelled));
    assert_eq!(cancelled(10, false), Ok(StepState::Cancelled));
}

#[test]
fn step_is_taken_over_once_its_driver_is_overdue() {
    let started = in_state(StepState::Started).record;
    let taken = |now| {
        let new = Box::new(step("pay", "run-2", 1));
        let event = StepEvent::TakeOver { seen: started.revision.clone(), new, due: at(60) };
        started.on(&event, stamp(at(now), "take")).map(|record| record.owner.clone())
    };
    assert_eq!(taken(9), Err(StepRefusal::Busy(at(10))));
    assert_eq!(taken(10), Ok("run-2".to_owned()));
}

/// A step with its own key would run again if DynamoDB deleted its held record.
#[test]
fn held_record_of_a_step_does_not_expire() {
    let ttl = |end| {
        let started = in_state(StepState::Started).record;
        let act = HolderAct::End { end, doubt: false, ttl: Some(7), by: "run-1".to_owned() };
        let event = StepEvent::Holder { attempt: started.attempt.clone(), act };
        started.on(&event, stamp(at(3), "end")).expect("the holder's own").ttl
    };
    assert_eq!(ttl(End::Completed(result("paid"))), Some(7));
    assert_eq!(ttl(End::Failed(result("declined"))), Some(7));
    assert_eq!(ttl(End::Held(result("odd"))), None);
}

/// If the step starts again after the close, its effect counts under a later number.
#[test]
fn pointer_is_replaced_if_the_operator_saw_it_at_the_close() {
    let point = |kind, is_given: bool, seen| {
        let stored = changed(StepState::Started, |data| {
            (data.kind, data.number) = (kind, 3);
            data.intervention = is_given.then(|| by(at(5)));
        });
        let new = NewStep { kind: StepKind::Pointer, ..step("pay", "run-2", 9) };
        StepRecord::point(Some(&stored.record), &new, seen, stamp(at(20), "point")).map(|next| next.number)
    };
    assert_eq!(point(StepKind::Pointer, false, Some(3)), Ok(9));
    for (kind, is_given, seen) in [
        (StepKind::Pointer, false, None),
        (StepKind::Pointer, false, Some(2)),
        (StepKind::Pointer, true, Some(3)),
        (StepKind::Once, false, Some(3)),
    ] {
        let kept = point(kind, is_given, seen);
        assert_eq!(kept, Err(StepRefusal::Changed), "{kind:?}, given: {is_given}, seen: {seen:?}");
    }
}

#[test]
fn extension_of_a_step_never_brings_its_due_time_nearer() {
    let started = in_state(StepState::Started).record;
    let extended = |record: &StepRecord, due| {
        let event = StepEvent::Holder { attempt: record.attempt.clone(), act: HolderAct::Prolong(at(due)) };
        record.on(&event, stamp(at(3), "extend")).expect("the holder's own")
    };
    let longer = extended(&started, 60);
    assert_eq!((longer.due, extended(&longer, 20).due), (at(60), at(60)));
}

#[test]
fn step_that_was_written_since_is_left_alone() {
    let started = in_state(StepState::Started).record;
    let seen = || "r-before".to_owned();
    let due = at(99);
    let new = Box::new(step("pay", "run-2", 1));
    for event in [
        StepEvent::TakeOver { seen: seen(), new, due },
        StepEvent::Cancel { seen: seen(), anyway: true },
        StepEvent::Compensated { seen: seen(), version: 1 },
        StepEvent::Operator { seen: seen(), by: by(at(5)), act: OperatorStep::Free { new_key: true } },
    ] {
        let refused = started.on(&event, stamp(at(50), "late")).expect_err("it is another revision");
        assert_eq!(refused, StepRefusal::Changed, "{event:?}");
    }
}

/// An operator gave the step a new key while its compensation ran.
#[test]
fn compensation_of_an_earlier_version_settles_that_version_only() {
    for state in StepState::ALL {
        let record = changed(state, |data| data.key_version = 2).record;
        let settle = |record: &StepRecord| {
            let event = StepEvent::Compensated { seen: record.revision.clone(), version: 1 };
            record.on(&event, stamp(at(50), "settle"))
        };
        let settled = settle(&record).expect("it is another version");
        assert_eq!((settled.state, settled.key_version), (state, 2));
        assert!(settled.settled.contains(1) && !settled.settled.contains(2), "{state:?}");
        assert_eq!(settle(&settled).expect_err("once"), StepRefusal::NotPossible);
    }
}

#[test]
fn record_of_a_former_life_is_no_record() {
    let begin = |run| {
        let stored = changed(StepState::Completed, |data| {
            data.key_version = 2;
            data.run = Some(run);
        });
        let how = Begin::Start { version: None, due: at(60), expired_at: at(20) };
        let new = step("pay", "run-1", 1);
        StepRecord::begin(Some(&stored.record), &new, &how, stamp(at(20), "begin"))
    };
    let anew = begin(at(-1)).expect("it is of a former life");
    assert_eq!((anew.state, anew.key_version), (StepState::Started, 1));
    assert_eq!(begin(at(0)).expect_err("it is known"), StepRefusal::Found(Found::Completed));
    assert_eq!(begin(at(1)).expect_err("the workflow is another"), StepRefusal::Lost);
}

/// Begins the step over this record at 20, for the workflow `run-2`.
fn begun_over(placed: &Placed, version: Option<u32>, answers: bool) -> StepRecord {
    let how = Begin::Start { version, due: at(60), expired_at: at(20) };
    let new = NewStep { started_for: Some("run-2".to_owned()), answers, ..step("pay", "run-2", 1) };
    StepRecord::begin(Some(&placed.record), &new, &how, stamp(at(20), "begin")).expect("it is free")
}

#[test]
fn only_a_free_step_starts_again_under_the_same_key() {
    let second = |state| {
        changed(state, |data| {
            data.key_version = 2;
            data.started_for = Some("run-1".to_owned());
            data.ttl = (state == StepState::Completed).then_some(0);
        })
    };
    for state in [StepState::Withdrawn, StepState::Freed] {
        let again = begun_over(&second(state), None, true);
        assert_eq!((again.key_version, again.created), (2, start()), "{state:?}");
        let newer = begun_over(&second(state), Some(3), true);
        assert_eq!((newer.key_version, newer.created), (3, at(20)), "{state:?}");
        assert!(again.settled.is_empty() && newer.settled.is_empty(), "{state:?}");
    }
    for (state, version, is_settled) in [
        (StepState::Compensated, None, true),
        (StepState::Completed, None, true),
        (StepState::Failed, Some(3), false),
    ] {
        let next = begun_over(&second(state), version, true);
        assert_eq!((next.key_version, next.created), (3, at(20)), "{state:?}");
        assert_eq!(next.settled.contains(2), is_settled, "{state:?}");
    }
}

#[test]
fn freed_step_stays_with_the_workflow_that_compensates_it() {
    let owner = |state, answers| {
        let placed = changed(state, |data| data.started_for = Some("run-1".to_owned()));
        begun_over(&placed, None, answers).started_for.clone()
    };
    assert_eq!(owner(StepState::Freed, false).as_deref(), Some("run-1"));
    assert_eq!(owner(StepState::Freed, true).as_deref(), Some("run-2"));
    // A withdrawn step never had its effect, so `run-1` has nothing to compensate.
    assert_eq!(owner(StepState::Withdrawn, false).as_deref(), Some("run-2"));
}

/// The workflow that started an earlier version has nothing to do with the new effect.
#[test]
fn step_that_is_freed_under_a_new_key_is_of_the_workflow_that_starts_it() {
    for (state, new_key) in
        [(StepState::Cancelled, true), (StepState::Held, true), (StepState::Failed, false)]
    {
        let former = changed(state, |data| data.started_for = Some("run-1".to_owned()));
        let freed = operated(&former, OperatorStep::Free { new_key }, 20).expect("it is freed");
        for answers in [false, true] {
            let next = begun_over(&Placed::own(freed.clone()), None, answers);
            let started_for = next.started_for.as_deref();
            assert_eq!((next.key_version, started_for), (2, Some("run-2")), "{state:?} {answers}");
        }
    }
}

#[test]
fn take_over_without_a_compensation_leaves_it_as_before() {
    let taken = |before: Option<&str>, answers| {
        let placed = changed(StepState::Started, |data| data.started_for = before.map(str::to_owned));
        let new = NewStep { started_for: Some("run-2".to_owned()), answers, ..step("pay", "run-2", 1) };
        let seen = placed.record.revision.clone();
        let event = StepEvent::TakeOver { seen, new: Box::new(new), due: at(60) };
        let taken = placed.record.on(&event, stamp(at(20), "take")).expect("it is overdue");
        assert_eq!((taken.owner.as_str(), taken.due, taken.created), ("run-2", at(60), start()));
        taken.started_for.clone()
    };
    assert_eq!(taken(Some("run-1"), false).as_deref(), Some("run-1"));
    assert_eq!(taken(Some("run-1"), true).as_deref(), Some("run-2"));
    assert_eq!(taken(None, false).as_deref(), Some("run-2"));
}

fn operated(placed: &Placed, act: OperatorStep, now: i64) -> Result<StepRecord, StepRefusal> {
    let event = StepEvent::Operator { seen: placed.record.revision.clone(), by: by(at(now)), act };
    placed.record.on(&event, stamp(at(now), "operate"))
}

fn answer() -> OperatorStep {
    OperatorStep::Answer { result: result("paid"), run: "run-2".to_owned() }
}

#[test]
fn operator_waits_for_a_driver_in_time() {
    let act = || OperatorStep::Resolve(result("paid"));
    let started = in_state(StepState::Started);
    assert_eq!(operated(&started, act(), 9).expect_err("it may be at work"), StepRefusal::Busy(at(10)));
    assert_eq!(operated(&started, act(), 10).expect("it is overdue").state, StepState::Completed);
}

#[test]
fn cancelled_step_with_its_own_key_is_freed_or_answered() {
    let left = changed(StepState::Cancelled, |data| data.started_for = Some("run-1".to_owned()));
    let freed = operated(&left, OperatorStep::Free { new_key: true }, 20).expect("under another key");
    assert_eq!((freed.state, freed.key_version, freed.created), (StepState::Freed, 2, at(20)));
    let same = operated(&left, OperatorStep::Free { new_key: false }, 20);
    assert_eq!(same.expect_err("its compensation may be on its way"), StepRefusal::NotPossible);
    for (act, owner) in [(answer(), "run-2"), (OperatorStep::Resolve(result("paid")), "run-1")] {
        let given = operated(&left, act, 20).expect("it is answered");
        assert_eq!((given.state, given.result.clone()), (StepState::Completed, Some(result("paid"))));
        assert_eq!((given.started_for.as_deref(), given.attempt.as_str()), (Some(owner), "a-operate"));
    }
}

#[test]
fn workflow_takes_over_a_step_of_another_one_that_an_operator_resolves() {
    use StepState::{Cancelled, Failed, Freed, Held, Withdrawn};
    for state in StepState::ALL {
        let shared = changed(state, |data| {
            (data.started_for, data.ttl) = (Some("run-1".to_owned()), Some(7));
        });
        let answered = operated(&shared, answer(), 20).ok();
        let expected = [Cancelled, Failed, Held, Freed, Withdrawn].contains(&state);
        assert_eq!(answered.is_some(), expected, "{state:?}");
        let found = answered.map(|it| (it.state, it.started_for.clone(), it.ttl));
        let taken = (StepState::Completed, Some("run-2".to_owned()), None);
        assert_eq!(found.unwrap_or_else(|| taken.clone()), taken, "{state:?}");
    }
}

#[test]
fn failed_step_that_an_operator_decides_about_does_not_expire() {
    let failed = changed(StepState::Failed, |data| {
        (data.started_for, data.ttl) = (Some("run-1".to_owned()), Some(7));
    });
    for act in [OperatorStep::Free { new_key: false }, OperatorStep::Resolve(result("paid")), answer()] {
        let decided = operated(&failed, act.clone(), 20).expect("it is possible");
        assert_eq!(decided.ttl, None, "{act:?}");
    }
}

/// The operator who closes a workflow does not know the outcome of its compensation.
#[test]
fn driver_of_a_disowned_compensation_writes_nothing() {
    for state in StepState::ALL {
        let record = in_state(state).record;
        let event = StepEvent::Disowned { seen: record.revision.clone() };
        let disowned = record.on(&event, stamp(at(5), "close"));
        if state != StepState::Started {
            assert_eq!(disowned.expect_err("its outcome is known"), StepRefusal::NotPossible, "{state:?}");
            continue;
        }
        let disowned = disowned.expect("its driver may be at work");
        assert_eq!((disowned.state, disowned.due), (state, record.due));
        let act = HolderAct::Prolong(at(90));
        let late =
            disowned.on(&StepEvent::Holder { attempt: record.attempt.clone(), act }, stamp(at(6), "late"));
        assert_eq!(late.expect_err("it lost the step"), StepRefusal::Lost);
    }
}

#[test]
fn cancelled_step_that_happened_is_late() {
    for state in StepState::ALL {
        let late = operated(&in_state(state), OperatorStep::Late(result("paid")), 20);
        let found = late.map(|it| (it.state, it.result.clone(), it.attempt.clone()));
        let expected = (StepState::Late, Some(result("paid")), "a-operate".to_owned());
        match state {
            StepState::Cancelled => assert_eq!(found, Ok(expected)),
            _ => assert_eq!(found, Err(StepRefusal::NotPossible), "{state:?}"),
        }
    }
}

#[test]
fn step_that_blocks_no_other_workflow_is_not_answered() {
    let started = changed(StepState::Started, |data| data.started_for = Some("run-1".to_owned()));
    let own = in_state(StepState::Cancelled);
    for (placed, act) in [
        (&started, answer()),
        (&own, answer()),
        (&own, OperatorStep::Resolve(result("paid"))),
        (&own, OperatorStep::Free { new_key: true }),
    ] {
        let refused = operated(placed, act.clone(), 20).expect_err("it is not left");
        assert_eq!(refused, StepRefusal::NotPossible, "{act:?}");
    }
}

#[test]
fn step_is_freed_under_another_key_after_a_failure() {
    let freed = |state, new_key| {
        let record = operated(&in_state(state), OperatorStep::Free { new_key }, 20).expect("it is freed");
        (record.state, record.key_version, record.created)
    };
    for state in [StepState::Started, StepState::Held] {
        assert_eq!(freed(state, false), (StepState::Freed, 1, start()), "{state:?}");
        assert_eq!(freed(state, true), (StepState::Freed, 2, at(20)), "{state:?}");
    }
    assert_eq!(freed(StepState::Failed, false), (StepState::Freed, 2, at(20)));
}

#[test]
fn record_is_free_or_completed() {
    use StepState::{Completed, Freed, Withdrawn};
    let states = |is: fn(&StepRecord) -> bool| {
        StepState::ALL.into_iter().filter(|state| is(&in_state(*state).record)).collect::<Vec<_>>()
    };
    assert_eq!(states(StepRecord::is_free), [Withdrawn, Freed]);
    assert_eq!(states(StepRecord::is_completed), [Completed]);
}

#[test]
fn only_a_pointer_refers_to_a_shared_record() {
    let shared = |kind| {
        let placed = changed(StepState::Completed, |data| {
            data.kind = kind;
            data.points_to = Some("pay/7".to_owned());
        });
        placed.record.shared()
    };
    assert_eq!(shared(StepKind::Pointer), Some(RecordId::shared("pay/7")));
    assert_eq!(shared(StepKind::Once), None);
}

#[test]
fn record_belongs_to_the_workflow_that_started_with_it() {
    let own = in_state(StepState::Completed).record;
    let shared = changed(StepState::Completed, |data| data.run = None).record;
    assert_eq!((own.is_of(start()), own.is_of(at(1)), shared.is_of(at(1))), (true, false, true));
}

/// The step as the code declares it, when it reaches the record of an operator.
fn reached(stored: &StepRecord, kind: StepKind, pivot: bool) -> Result<StepRecord, StepRefusal> {
    let new = NewStep { kind, pivot, points_to: Some("pay/7".to_owned()), ..step("pay", "run-2", 9) };
    let seen = stored.revision.clone();
    stored.on(&StepEvent::Reached { seen, new: Box::new(new) }, stamp(at(95), "reach"))
}

#[test]
fn code_declares_a_step_that_an_operator_gave() {
    let given = given();
    assert_eq!((given.kind, given.pivot, given.compensation.is_some()), (StepKind::Given, false, false));
    for kind in [StepKind::Step, StepKind::Once, StepKind::Atomic] {
        for pivot in [false, true] {
            let record = reached(&given, kind, pivot).expect("it is given");
            assert_eq!((record.kind, record.pivot, record.number), (kind, pivot, 9));
            assert_eq!((record.state, &record.result), (StepState::Completed, &given.result));
            assert_eq!((record.compensation.clone(), record.revision.as_str()), (Some(undo()), "r-reach"));
            assert!(record.intervention.is_some());
            // It is declared once.
            assert_eq!(reached(&record, kind, pivot).expect_err("it is reached"), StepRefusal::NotPossible);
        }
    }
    let changed_since =
        StepEvent::Reached { seen: "another".to_owned(), new: Box::new(step("pay", "run-2", 9)) };
    let refused = given.on(&changed_since, stamp(at(95), "reach")).expect_err("an operator corrected it");
    assert_eq!(refused, StepRefusal::Changed);
    let skipped = operated(&Placed::own(given.clone()), OperatorStep::Dismiss, 95).expect("it is repaired");
    let refused = reached(&skipped, StepKind::Once, false).expect_err("it was skipped");
    assert_eq!(refused, StepRefusal::NotPossible);
    let pointer = reached(&given, StepKind::Pointer, false).expect("it is given");
    assert_eq!((pointer.shared(), pointer.intervention.is_none()), (Some(RecordId::shared("pay/7")), true));
    for state in StepState::ALL {
        let record = in_state(state).record;
        let refused = reached(&record, StepKind::Once, false).expect_err("no operator gave it");
        assert_eq!(refused, StepRefusal::NotPossible, "{state:?}");
    }
}

#[test]
fn given_result_is_shared_only_over_a_free_record() {
    let given = given();
    let started_for = Some("run-2".to_owned());
    let new = NewStep { started_for, answers: true, run: None, ..step("pay", "run-2", 9) };
    let start = Begin::Start { version: None, due: at(95), expired_at: at(95) };
    let share = |stored: Option<&StepRecord>| {
        StepRecord::share(&given, stored, &new, (&start, Some(7)), stamp(at(95), "share"))
    };
    let own_key = |state, ttl: Option<i64>| {
        changed(state, |data| {
            (data.run, data.started_for, data.ttl) = (None, Some("run-1".to_owned()), ttl);
            data.result = Some(result("other"));
        })
        .record
    };
    let free = [StepState::Freed, StepState::Withdrawn, StepState::Compensated];
    for state in StepState::ALL.into_iter().filter(|state| !free.contains(state)) {
        let refused = share(Some(&own_key(state, None))).expect_err("it has a record");
        assert!(matches!(refused, StepRefusal::Found(_)), "{state:?}: {refused:?}");
    }
    // The operator's result may be of the undone effect.
    let undone = changed(StepState::Compensated, |data| {
        (data.run, data.started_for) = (None, Some("run-1".to_owned()));
        data.result.clone_from(&given.result);
    });
    let unknown = changed(StepState::Compensated, |data| {
        (data.run, data.started_for, data.result) = (None, Some("run-1".to_owned()), None);
    });
    let settled = |state| {
        StepRecord::stored(StepData {
            settled: Versions::default().with(9),
            ..StepData::clone(&own_key(state, None))
        })
    };
    for stored in [undone.record, unknown.record].into_iter().chain(free.map(settled)) {
        let refused = share(Some(&stored)).expect_err("it was undone");
        assert_eq!(refused, StepRefusal::Found(Found::Cancelled));
    }
    let expired = own_key(StepState::Completed, Some(start_seconds()));
    let stored = free.map(|state| own_key(state, None));
    for stored in [None].into_iter().chain(stored.iter().map(Some)).chain([Some(&expired)]) {
        let shared = share(stored).expect("it is free");
        assert_eq!(
            (shared.state, &shared.result, shared.ttl),
            (StepState::Completed, &given.result, Some(7))
        );
        assert_eq!((shared.kind, shared.started_for.as_deref()), (StepKind::Once, Some("run-2")));
        assert_eq!(shared.intervention, given.intervention);
        // An undone version stays settled.
        let undone = stored.filter(|it| it.is_completed() || it.state == StepState::Compensated);
        assert_eq!(shared.settled.is_empty(), undone.is_none());
        assert!(shared.has_result_of(&given));
    }
    // The workflow that compensates the step needs its record.
    let without = NewStep { answers: false, ..new.clone() };
    let freed = own_key(StepState::Freed, None);
    let shared = StepRecord::share(&given, Some(&freed), &without, (&start, Some(7)), stamp(at(95), "share"));
    let shared = shared.expect("it is free");
    assert_eq!((shared.started_for.as_deref(), shared.ttl), (Some("run-1"), None));
}

/// After an operator closed the workflow, clocks do not show which step is later.
#[test]
fn undeclared_step_waits_for_its_repair_unless_the_workflow_ended_after_it() {
    let record = given();
    let (number, recorded) = (record.number, record.ended.expect("it has ended"));
    let second = chrono::TimeDelta::seconds(1);
    for (closed_after, ended, waits) in [
        (None, None, true),
        (None, Some(recorded - second), true),
        (None, Some(recorded), true),
        (None, Some(recorded + second), false),
        (Some(number - 1), Some(recorded + second), true),
        (Some(number), Some(recorded - second), false),
    ] {
        let header = HeaderData { closed_after, ended, ..HeaderData::clone(&workflow(None, "h")) };
        let found = compensation::awaits_repair(&record, &Header::stored(header));
        assert_eq!(found, waits, "{closed_after:?}, {ended:?}");
    }
}

fn start_seconds() -> i64 {
    start().timestamp()
}

/// A step that no code declares has no known compensation, and may be a pivot.
#[test]
fn only_a_given_step_is_undeclared_until_it_is_skipped() {
    let given = given();
    assert!(compensation::is_undeclared(&given));
    let skipped = operated(&Placed::own(given), OperatorStep::Dismiss, 100).expect("it is repaired");
    assert_eq!((skipped.state, compensation::is_undeclared(&skipped)), (StepState::Compensated, false));
    for state in StepState::ALL {
        assert!(!compensation::is_undeclared(&in_state(state).record), "{state:?}");
    }
}

#[test]
fn record_refers_to_its_own_large_result() {
    let beside = |id: &str| {
        let digest = "d".to_owned();
        StepResult::Beside(Apart { id: id.to_owned(), codec: Codec::Json, bytes: 5000, digest, held: None })
    };
    let mut record = in_state(StepState::Completed).record;
    assert!(!record.refers_to(&beside("r-1")));
    record.set_result(beside("r-1"));
    assert_eq!(record.result, Some(beside("r-1")));
    assert!(record.refers_to(&beside("r-1")) && !record.refers_to(&beside("r-2")));
    assert!(!record.refers_to(&result("paid")));
}
