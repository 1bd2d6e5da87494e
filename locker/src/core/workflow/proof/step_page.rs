//! Every event of a step in every state of it.

use chrono::{DateTime, Utc};

use super::page::{Table, cell};
use super::sample::{EXPECTED, SKEW, at, by, result, stamp, start, step};
use crate::core::time;
use crate::core::workflow::compensation::{self, Owed};
use crate::core::workflow::decide::Found;
use crate::core::workflow::step::{
    Begin, End, HolderAct, NewStep, OperatorStep, Placed, StepEvent, StepKind, StepRecord, StepRefusal,
    StepState,
};

/// The possible states of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Started,
    InDoubt,
    Completed,
    Failed,
    Held,
    Cancelled,
    Late,
    Compensated,
    Withdrawn,
    Freed,
    FreedNext,
    Given,
}

pub(super) const STATES: [State; 13] = [
    State::Absent,
    State::Started,
    State::InDoubt,
    State::Completed,
    State::Failed,
    State::Held,
    State::Cancelled,
    State::Late,
    State::Compensated,
    State::Withdrawn,
    State::Freed,
    State::FreedNext,
    State::Given,
];

/// The possible events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Start,
    StartNext,
    Record,
    TakeOver,
    Prolong,
    Leave,
    Withdraw,
    WithdrawInDoubt,
    Complete,
    Fail,
    FailInDoubt,
    Hold,
    StaleComplete,
    Cancel,
    Disown,
    Compensated,
    Free,
    FreeNext,
    Resolve,
    Correct,
    Dismiss,
    Reach,
    Owed,
}

const EVENTS: [(Event, &str); 23] = [
    (Event::Start, "code: starts it"),
    (Event::StartNext, "code: starts it, next version of its key"),
    (Event::Record, "code: `step`, `atomic` record it"),
    (Event::TakeOver, "code: takes it over"),
    (Event::Prolong, "holder: takes longer"),
    (Event::Leave, "holder: does not know"),
    (Event::Withdraw, "holder: surely did nothing"),
    (Event::WithdrawInDoubt, "the same, an earlier start in doubt"),
    (Event::Complete, "holder: completed"),
    (Event::Fail, "holder: failed"),
    (Event::FailInDoubt, "the same, an earlier start in doubt"),
    (Event::Hold, "holder: needs an operator"),
    (Event::StaleComplete, "stale holder: completed"),
    (Event::Cancel, "compensation: cancels it"),
    (Event::Disown, "close: disowns a compensation"),
    (Event::Compensated, "compensation: done"),
    (Event::Free, "operator: retry"),
    (Event::FreeNext, "operator: retry with a new key"),
    (Event::Resolve, "operator: resolve"),
    (Event::Correct, "operator: correct what an operator gave"),
    (Event::Dismiss, "operator: nothing is left of it"),
    (Event::Reach, "code: reaches what an operator gave"),
    (Event::Owed, "*compensation owes*"),
];

pub(super) fn table() -> Table {
    let rows = EVENTS.iter().map(|(event, name)| {
        let cells = STATES.iter().map(|state| cell(name_of(*state), come_of(*event, *state))).collect();
        (*name, cells)
    });
    Table { states: STATES.iter().map(|state| name_of(*state)).collect(), rows: rows.collect() }
}

pub(super) const fn name_of(state: State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Started => "started",
        State::InDoubt => "in doubt",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Held => "held",
        State::Cancelled => "cancelled",
        State::Late => "late",
        State::Compensated => "compensated",
        State::Withdrawn => "withdrawn",
        State::Freed => "freed",
        State::FreedNext => "freed, next version",
        State::Given => "given",
    }
}

pub(super) fn state_of(record: &StepRecord, now: DateTime<Utc>) -> &'static str {
    name_of(match record.state {
        StepState::Started if time::after(record.due, SKEW) <= now => State::InDoubt,
        StepState::Started => State::Started,
        StepState::Completed if record.kind == StepKind::Given => State::Given,
        StepState::Completed => State::Completed,
        StepState::Failed => State::Failed,
        StepState::Held => State::Held,
        StepState::Cancelled => State::Cancelled,
        StepState::Late => State::Late,
        StepState::Compensated => State::Compensated,
        StepState::Withdrawn => State::Withdrawn,
        StepState::Freed if record.key_version > 1 => State::FreedNext,
        StepState::Freed => State::Freed,
    })
}

pub(super) fn now_in(state: State) -> DateTime<Utc> {
    // Past the due time and the allowance, but for a step that may be running.
    if state == State::Started { at(10) } else { at(100) }
}

/// A record in this state.
pub(super) fn record_in(state: State) -> Option<StepRecord> {
    if state == State::Absent {
        return None;
    }
    let started = begin(None, None, start()).expect("nothing is there");
    let held = |act| {
        let event = StepEvent::Holder { attempt: started.attempt.clone(), act };
        started.on(&event, stamp(at(20), "holder")).expect("the holder's own")
    };
    let ended = |end| held(HolderAct::End { end, doubt: false, ttl: None, by: "run-1".to_owned() });
    let operator = |record: &StepRecord, act| {
        let event = StepEvent::Operator { seen: record.revision.clone(), by: by(at(90)), act };
        record.on(&event, stamp(at(90), "operator")).expect("an operator may")
    };
    let cancelled = || {
        let event = StepEvent::Cancel { seen: started.revision.clone(), anyway: false };
        started.on(&event, stamp(at(90), "cancel")).expect("in doubt")
    };
    Some(match state {
        State::Absent => return None,
        State::Started | State::InDoubt => started,
        State::Completed => ended(End::Completed(result("paid"))),
        State::Failed => ended(End::Failed(result("declined"))),
        State::Held => ended(End::Held(result("odd"))),
        State::Cancelled => cancelled(),
        State::Late => super::report_page::late(cancelled()),
        State::Compensated => {
            let completed = ended(End::Completed(result("paid")));
            let event =
                StepEvent::Compensated { seen: completed.revision.clone(), version: completed.key_version };
            completed.on(&event, stamp(at(90), "undone")).expect("it completed")
        }
        State::Withdrawn => held(HolderAct::Withdraw { doubt: false }),
        State::Freed => operator(&started, OperatorStep::Free { new_key: false }),
        State::FreedNext => operator(&started, OperatorStep::Free { new_key: true }),
        State::Given => given(),
    })
}

/// A step whose result an operator recorded before the code reached it.
pub(super) fn given() -> StepRecord {
    let new = NewStep { kind: StepKind::Given, compensation: None, ..step("pay", "ada", 1) };
    let resolve = OperatorStep::Resolve(result("paid"));
    StepRecord::given(&new, &by(at(90)), &resolve, stamp(at(90), "given")).expect("it has a result")
}

fn begin(
    stored: Option<&StepRecord>,
    version: Option<u32>,
    now: DateTime<Utc>,
) -> Result<StepRecord, StepRefusal> {
    let how = Begin::Start { version, due: time::after(now, EXPECTED), expired_at: now };
    StepRecord::begin(stored, &step("pay", "run-1", 1), &how, stamp(now, "begin"))
}

/// The new state, or the answer.
fn come_of(event: Event, state: State) -> Result<&'static str, String> {
    let now = now_in(state);
    let stored = record_in(state);
    let id = stamp(now, "event");
    let refused = |refusal: StepRefusal| match refusal {
        StepRefusal::Found(found) => word(found),
        StepRefusal::Lost => "lost",
        StepRefusal::InDoubt => "stays in doubt",
        StepRefusal::Changed | StepRefusal::NotPossible => "·",
        StepRefusal::Busy(_) => "may be running",
    };
    let new = |made: Result<StepRecord, StepRefusal>| match made {
        Ok(record) => Ok(state_of(&record, now)),
        Err(refusal) => Err(refused(refusal).to_owned()),
    };
    match event {
        Event::Start => return new(begin(stored.as_ref(), None, now)),
        Event::StartNext => return new(begin(stored.as_ref(), Some(2), now)),
        Event::Record => {
            let how = Begin::End(End::Completed(result("paid")));
            return new(StepRecord::begin(stored.as_ref(), &step("pay", "run-2", 1), &how, id));
        }
        _ => {}
    }
    let Some(stored) = stored else { return Err("·".to_owned()) };
    if event == Event::Owed {
        return Err(owed(stored, now).to_owned());
    }
    new(stored.on(&event_on(event, &stored, now), id))
}

fn event_on(event: Event, stored: &StepRecord, now: DateTime<Utc>) -> StepEvent {
    let seen = stored.revision.clone();
    let attempt = stored.attempt.clone();
    let holder = |act| StepEvent::Holder { attempt: attempt.clone(), act };
    let end = |end, doubt| holder(HolderAct::End { end, doubt, ttl: None, by: "run-1".to_owned() });
    let operator = |act| StepEvent::Operator { seen: seen.clone(), by: by(now), act };
    match event {
        Event::TakeOver => {
            let due = time::after(now, EXPECTED);
            StepEvent::TakeOver { seen, new: Box::new(step("pay", "run-2", 9)), due }
        }
        Event::Prolong => holder(HolderAct::Prolong(time::after(now, EXPECTED))),
        Event::Leave => holder(HolderAct::Leave),
        Event::Withdraw => holder(HolderAct::Withdraw { doubt: false }),
        Event::WithdrawInDoubt => holder(HolderAct::Withdraw { doubt: true }),
        Event::Complete => end(End::Completed(result("paid")), false),
        Event::Fail => end(End::Failed(result("declined")), false),
        Event::FailInDoubt => end(End::Failed(result("declined")), true),
        Event::Hold => end(End::Held(result("odd")), false),
        Event::StaleComplete => {
            let act = HolderAct::End {
                end: End::Completed(result("paid")),
                doubt: false,
                ttl: None,
                by: "run-1".to_owned(),
            };
            StepEvent::Holder { attempt: "another".to_owned(), act }
        }
        Event::Cancel => StepEvent::Cancel { seen, anyway: false },
        Event::Disown => StepEvent::Disowned { seen },
        Event::Compensated => StepEvent::Compensated { seen, version: 1 },
        Event::Free => operator(OperatorStep::Free { new_key: false }),
        Event::FreeNext => operator(OperatorStep::Free { new_key: true }),
        Event::Resolve => operator(OperatorStep::Resolve(result("by hand"))),
        Event::Dismiss => operator(OperatorStep::Dismiss),
        Event::Reach => StepEvent::Reached { seen, new: Box::new(step("pay", "run-2", 9)) },
        _ => operator(OperatorStep::Correct { result: result("by hand"), unreadable: true }),
    }
}

fn owed(stored: StepRecord, now: DateTime<Utc>) -> &'static str {
    let version = stored.key_version;
    match compensation::owed(&Placed::own(stored), "", version, false, now, SKEW) {
        Owed::Nothing => "nothing",
        Owed::Wait(_) => "waits",
        Owed::Cancel => "cancels it",
        Owed::Compensate => "compensates",
        Owed::EndFirst => "ends the first",
        Owed::CompensateLate => "compensates again",
    }
}

const fn word(found: Found) -> &'static str {
    match found {
        Found::Completed => "its result",
        Found::Failed => "its failure",
        Found::Cancelled => "cancelled",
        Found::Busy => "may be running",
        Found::InDoubt => "in doubt",
        Found::Free => "free",
    }
}
