//! Every event of a workflow in every state of its header.

use chrono::{DateTime, Utc};

use super::page::{Table, cell};
use super::sample::{SKEW, at, by, stamp, workflow};
use crate::core::answer::{Body, Codec};
use crate::core::restored::Restored;
use crate::core::workflow::decide::Standing;
use crate::core::workflow::header::{
    Claim, DriverAct, Events, Header, HeaderEvent, HeaderRefusal, List, MostCrashes, OperatorAct, Pause,
    ReaperAct, State as Stored,
};

const STATES: [&str; 18] = [
    "driven",
    "overdue",
    "waiting",
    "due",
    "quarantined",
    "compensating, driven",
    "compensating, due",
    "compensating, quarantined",
    "completed",
    "failed",
    "cancelled",
    "continued",
    "closed",
    "closed, late effect",
    "closed, decided",
    "closed, retried",
    "ended, late event due",
    "reaping",
];

const EVENTS: [&str; 37] = [
    "claim",
    "claim by the same owner",
    "claim after too many crashes",
    "claim by older code",
    "claim after a restore",
    "claim for a workflow that had the key before",
    "driver: extends",
    "driver: completes",
    "driver: completes, an event is not read",
    "driver: completes, a late event is owed",
    "driver: continues as the next version",
    "driver: continues, an event is not read",
    "driver: fails, nothing to compensate",
    "driver: fails, compensates",
    "driver: all is compensated",
    "driver: releases it, to be tried again",
    "driver: waits on purpose",
    "driver: waits, an event is not read",
    "driver: sets it aside",
    "stale driver: completes",
    "operator: retry",
    "operator: decides about a step",
    "operator: compensate",
    "operator: close",
    "operator: redact",
    "operator: skips a late event with a compensation",
    "stale operator: retry",
    "settled",
    "late",
    "late, of the step that it waits for",
    "twice",
    "event, waited for",
    "late event with a compensation",
    "the next version continues again",
    "reaper: keeps it",
    "reaper: deletes it",
    "reaper: sets it aside",
];

pub(super) fn table() -> Table {
    let rows = EVENTS.iter().map(|event| {
        let cells = STATES.iter().map(|state| cell(state, come_of(event, state))).collect();
        (*event, cells)
    });
    Table { states: STATES.to_vec(), rows: rows.collect() }
}

fn answer() -> Body {
    Body::Beside { codec: Codec::Json, id: "answer".to_owned(), bytes: 1 }
}

/// A driver that has not read an event.
fn unread(header: &Header, act: DriverAct) -> (Header, HeaderEvent) {
    let happened = HeaderEvent::Signalled { is_waited_for: false, owed: false };
    let signalled = header.on(&happened, stamp(at(40), "signal"));
    (signalled.unwrap_or_else(|_| header.clone()), driver(header, act))
}

fn driver(header: &Header, act: DriverAct) -> HeaderEvent {
    let events = Events { known: header.signals, owed: false };
    HeaderEvent::Driver { attempt: header.attempt.clone(), events, act }
}

fn operator(header: &Header, act: OperatorAct) -> HeaderEvent {
    HeaderEvent::Operator { seen: header.revision.clone(), by: by(at(40)), act }
}

fn release(pause: Pause, until: DateTime<Utc>) -> DriverAct {
    let failing_after = std::time::Duration::from_secs(3600);
    DriverAct::Release {
        at: until,
        pause,
        reason: "503".to_owned(),
        progressed: false,
        failing_after,
        waits: None,
    }
}

pub(super) fn header_in(state: &str) -> Header {
    let on = |header: &Header, event: HeaderEvent| {
        header.on(&event, stamp(at(40), &format!("{event:?}").len().to_string())).expect("a way there")
    };
    let aside = || DriverAct::Quarantine { reason: "odd".to_owned(), waits_for: Some("step/pay".to_owned()) };
    let fails = || DriverAct::Compensate { result: answer(), reason: "declined".to_owned() };
    let driven = workflow(Some("machine"), "start");
    let compensating = on(&driven, driver(&driven, fails()));
    let quarantined = on(&driven, driver(&driven, aside()));
    match state {
        "driven" | "overdue" => driven,
        "waiting" => on(&driven, driver(&driven, release(Pause::Failed, at(600)))),
        "due" => on(&driven, driver(&driven, release(Pause::Failed, at(50)))),
        "quarantined" => quarantined,
        "compensating, driven" => compensating,
        "compensating, due" => on(&compensating, driver(&compensating, release(Pause::Failed, at(50)))),
        "compensating, quarantined" => on(&compensating, driver(&compensating, aside())),
        "completed" => on(&driven, driver(&driven, DriverAct::Complete { result: None, note: None })),
        "failed" => on(&compensating, driver(&compensating, DriverAct::EndCompensated)),
        "cancelled" => {
            let cancelled = on(&quarantined, operator(&quarantined, OperatorAct::Compensate));
            let driven = on(&cancelled, claim(&cancelled, false, None));
            on(&driven, driver(&driven, DriverAct::EndCompensated))
        }
        "ended, late event due" => {
            let ended = on(&driven, driver(&driven, DriverAct::Complete { result: None, note: None }));
            on(&ended, HeaderEvent::Signalled { is_waited_for: false, owed: true })
        }
        "continued" => on(&driven, driver(&driven, DriverAct::Continue { version: 2, note: None })),
        "closed" => on(&quarantined, operator(&quarantined, OperatorAct::Close { seen: 9 })),
        "closed, late effect" => on(&header_in("closed"), late("step/seat")),
        "closed, decided" | "closed, retried" => {
            let late = header_in("closed, late effect");
            let act = if state == "closed, decided" { OperatorAct::Decide } else { OperatorAct::Retry };
            on(&late, operator(&late, act))
        }
        _ => {
            let completed = on(&driven, driver(&driven, DriverAct::Complete { result: None, note: None }));
            let act = ReaperAct::Delete(at(90));
            on(&completed, HeaderEvent::Reaper { seen: completed.revision.clone(), act })
        }
    }
}

fn claim(header: &Header, is_named: bool, most_crashes: Option<MostCrashes>) -> HeaderEvent {
    HeaderEvent::Claim(Claim {
        name: header.name.clone(),
        code: 1,
        started: header.created,
        owner: "machine".to_owned(),
        is_named,
        expected: None,
        may_take: std::time::Duration::ZERO,
        progressed: false,
        most_crashes,
        restored: None,
    })
}

fn changed_claim(header: &Header, change: impl FnOnce(&mut Claim)) -> HeaderEvent {
    let mut event = claim(header, false, None);
    if let HeaderEvent::Claim(claim) = &mut event {
        change(claim);
    }
    event
}

fn come_of(event: &str, state: &str) -> Result<&'static str, String> {
    let mut header = header_in(state);
    let now = if state == "overdue" { at(300) } else { at(55) };
    let event = match event {
        "claim" => claim(&header, false, None),
        "claim by the same owner" => claim(&header, true, None),
        "claim after too many crashes" => claim(&header, false, Some(MostCrashes { in_a_row: 0, in_all: 9 })),
        "claim by older code" => changed_claim(&header, |claim| claim.code = 0),
        "claim for a workflow that had the key before" => {
            changed_claim(&header, |claim| claim.started = at(-1))
        }
        "claim after a restore" => {
            let restored = Restored::new(at(500), std::time::Duration::ZERO);
            changed_claim(&header, |claim| claim.restored = Some(restored))
        }
        "driver: extends" => driver(&header, DriverAct::Extend { due: at(900), held_since: None }),
        "driver: completes" => driver(&header, DriverAct::Complete { result: None, note: None }),
        "driver: completes, an event is not read" => {
            let (signalled, event) = unread(&header, DriverAct::Complete { result: None, note: None });
            header = signalled;
            event
        }
        "driver: completes, a late event is owed" => HeaderEvent::Driver {
            attempt: header.attempt.clone(),
            events: Events { known: header.signals, owed: true },
            act: DriverAct::Complete { result: None, note: None },
        },
        "driver: continues as the next version" => {
            driver(&header, DriverAct::Continue { version: 2, note: None })
        }
        "driver: continues, an event is not read" => {
            let (signalled, event) = unread(&header, DriverAct::Continue { version: 2, note: None });
            header = signalled;
            event
        }
        "driver: fails, nothing to compensate" => driver(&header, DriverAct::Fail { result: answer() }),
        "driver: fails, compensates" => {
            driver(&header, DriverAct::Compensate { result: answer(), reason: "declined".to_owned() })
        }
        "driver: all is compensated" => driver(&header, DriverAct::EndCompensated),
        "driver: releases it, to be tried again" => driver(&header, release(Pause::Failed, at(600))),
        "driver: waits on purpose" => driver(&header, release(Pause::Chosen, at(600))),
        "driver: waits, an event is not read" => {
            let (signalled, event) = unread(&header, release(Pause::Chosen, at(600)));
            header = signalled;
            event
        }
        "driver: sets it aside" => {
            driver(&header, DriverAct::Quarantine { reason: "odd".to_owned(), waits_for: None })
        }
        "stale driver: completes" => HeaderEvent::Driver {
            attempt: "another".to_owned(),
            events: Events::default(),
            act: DriverAct::Complete { result: None, note: None },
        },
        "operator: retry" => operator(&header, OperatorAct::Retry),
        "operator: decides about a step" => operator(&header, OperatorAct::Decide),
        "operator: compensate" => operator(&header, OperatorAct::Compensate),
        "operator: close" => operator(&header, OperatorAct::Close { seen: 9 }),
        "operator: redact" => operator(&header, OperatorAct::Redact),
        "operator: skips a late event with a compensation" => operator(&header, OperatorAct::Dismiss),
        "stale operator: retry" => {
            HeaderEvent::Operator { seen: "another".to_owned(), by: by(now), act: OperatorAct::Retry }
        }
        "settled" => HeaderEvent::Settled { item: "step/pay".to_owned() },
        "late" => late("step/seat"),
        "late, of the step that it waits for" => late("step/pay"),
        "twice" => HeaderEvent::Twice { why: "twice" },
        "event, waited for" => HeaderEvent::Signalled { is_waited_for: true, owed: false },
        "late event with a compensation" => HeaderEvent::Signalled { is_waited_for: false, owed: true },
        "the next version continues again" => HeaderEvent::Followed { version: 3 },
        "reaper: keeps it" => reaper(&header, ReaperAct::Keep(at(9000))),
        "reaper: deletes it" => reaper(&header, ReaperAct::Delete(at(9000))),
        _ => reaper(&header, ReaperAct::Quarantine { reason: "old".to_owned() }),
    };
    match header.on(&event, stamp(now, "event")) {
        Ok(next) => Ok(state_of(&next, now)),
        Err(HeaderRefusal::Lost) => Err("lost".to_owned()),
        Err(HeaderRefusal::Changed | HeaderRefusal::NotPossible) => Err("·".to_owned()),
        Err(HeaderRefusal::Signalled) => Err("reads the events".to_owned()),
        Err(HeaderRefusal::Newer(_)) => Err("newer code".to_owned()),
        Err(HeaderRefusal::Standing(standing)) => Err(match standing {
            Standing::Ended => "its outcome",
            Standing::Quarantined => "in quarantine",
            Standing::Claimable => "claimable",
            Standing::Busy => "in progress",
            Standing::Reaping => "being deleted",
        }
        .to_owned()),
    }
}

fn late(item: &str) -> HeaderEvent {
    HeaderEvent::Late { item: item.to_owned() }
}

fn reaper(header: &Header, act: ReaperAct) -> HeaderEvent {
    HeaderEvent::Reaper { seen: header.revision.clone(), act }
}

fn state_of(header: &Header, now: DateTime<Utc>) -> &'static str {
    let due = header.is_claimable(now, SKEW);
    match (header.state, header.listed, header.locked_by.is_some()) {
        (Stored::Reaping, ..) => "reaping",
        (state, ..) if state.is_answered() && header.closed => "closed",
        (Stored::Completed, ..) => "completed",
        (Stored::Failed, ..) => "failed",
        (Stored::Cancelled, ..) => "cancelled",
        (Stored::Continued, ..) => "continued",
        (Stored::Compensating, Some(List::Unfinished), false) if header.stands && due => {
            "ended, late event due"
        }
        (Stored::Compensating, Some(List::Quarantine), _) if header.closed => "closed, late effect",
        (Stored::Compensating, _, false) if header.closed && due => "closed, decided",
        (Stored::Compensating, _, false) if header.was_closed() && due => "closed, retried",
        (Stored::Running, Some(List::Quarantine), _) => "quarantined",
        (Stored::Running, _, true) if due => "overdue",
        (Stored::Running, _, true) => "driven",
        (Stored::Running, ..) if due => "due",
        (Stored::Running, ..) => "waiting",
        (Stored::Compensating, Some(List::Quarantine), _) => "compensating, quarantined",
        (Stored::Compensating, _, true) => "compensating, driven",
        (Stored::Compensating, ..) if due => "compensating, due",
        (Stored::Compensating, ..) => "compensating, waiting",
    }
}
