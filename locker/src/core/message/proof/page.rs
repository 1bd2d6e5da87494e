//! Every event of a message in every state.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::core::class::Class;
use crate::core::message::attributes::Attributes;
use crate::core::message::event::{LetterAct, LetterEvent, LetterRefusal, Mark};
use crate::core::message::letter::{
    BodyAt, Committed, Content, Letter, MessageState, Order, Origin, ReceivedLetter,
};
use crate::core::message::ticks::Tick;
use crate::core::token::record::Intervention;
use crate::core::workflow::proof::{Table, cell};

const STATES: [&str; 10] = [
    "unsent",
    "unsent, due",
    "unsent, taken",
    "waiting, due",
    "waiting, taken",
    "taken too long ago",
    "dead",
    "dead, held",
    "dead, in its queue",
    "archived",
];

const EVENTS: [&str; 16] = [
    "taken by a relay or a consumer",
    "not sent or handled, as far as is known",
    "the same, three days later",
    "refused by its target or its consumer",
    "its consumer stores the body",
    "held by code that decides",
    "code: leave",
    "code: redrive",
    "code: archive",
    "operator: redrive",
    "operator: archive",
    "operator: restore",
    "operator: note",
    "operator: correct",
    "stale relay: refused",
    "stale operator: redrive",
];

pub(in crate::core) fn table() -> Table {
    let rows = EVENTS.iter().map(|event| {
        let cells = STATES.iter().map(|state| cell(state, come_of(event, state))).collect();
        (*event, cells)
    });
    Table { states: STATES.to_vec(), rows: rows.collect() }
}

pub(super) const LEASE: Duration = Duration::from_secs(60);

pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

pub(super) fn ada(seconds: i64) -> Intervention {
    Intervention { by: "ada".to_owned(), reason: "it is repaired".to_owned(), at: at(seconds) }
}

/// The message at this place of one subject, in a commit of this name.
pub(super) fn committed(place: usize, commit: &str, seconds: i64) -> Letter {
    let content = Content {
        source: "/orders".to_owned(),
        topic: "order/placed".to_owned(),
        subject: "order/7".to_owned(),
        body: "7".to_owned(),
        trace: None,
        number: None,
        attributes: Attributes::new(),
        delay: None,
        expires: None,
    };
    Letter::committed(Committed {
        origin: Origin::Step { workflow: "order/7", number: 1, name: "place" },
        place,
        attempt: "attempt",
        revision: format!("{commit} {place}"),
        content: &content,
        now: at(seconds),
        tick: Tick { at: at(seconds), number: 0 },
    })
}

/// A message that its consumer dead-lettered at the beginning.
fn received(body_at: BodyAt, dead: Option<(Class, String)>) -> Letter {
    Letter::received(ReceivedLetter {
        consumer: "packer",
        order: Order::Group("order/7"),
        identity: "7",
        id: "7",
        source: "/orders",
        revision: "received".to_owned(),
        topic: "order.placed",
        body: "7",
        body_at,
        delivery: "{}".to_owned(),
        trace: None,
        now: at(0),
        after: None,
        receives: 1,
        dead,
    })
}

fn on(letter: &Letter, seconds: i64, act: LetterAct) -> Letter {
    let event = LetterEvent::new(&letter.revision, act);
    letter.on(&event, Mark { now: at(seconds), revision: format!("at {seconds}") }).expect("a way there")
}

fn taken(letter: &Letter) -> Letter {
    on(letter, 40, LetterAct::Take { by: "relay".to_owned(), lease: LEASE })
}

fn held() -> LetterAct {
    LetterAct::Hold { by: "code".to_owned(), lease: LEASE }
}

fn refused() -> LetterAct {
    LetterAct::Refused { class: Some(Class::Permanent), cause: "no such queue".to_owned() }
}

/// The message, and the time of the event.
fn letter_in(state: &str) -> (Letter, i64) {
    match state {
        "unsent" => (committed(0, "commit", 0), 20),
        "unsent, due" => (committed(0, "commit", 0), 50),
        "unsent, taken" => (taken(&committed(0, "commit", 0)), 50),
        "waiting, due" => (received(BodyAt::Item, None), 50),
        "waiting, taken" => (taken(&received(BodyAt::Item, None)), 50),
        "taken too long ago" => (taken(&committed(0, "commit", 0)), 200),
        "dead" => (on(&committed(0, "commit", 0), 40, refused()), 50),
        "dead, in its queue" => (received(BodyAt::Queue, Some((Class::Permanent, "no box".to_owned()))), 50),
        "dead, held" => (on(&on(&committed(0, "commit", 0), 40, refused()), 45, held()), 50),
        _ => (on(&on(&committed(0, "commit", 0), 40, refused()), 45, LetterAct::Archive { by: ada(45) }), 50),
    }
}

fn come_of(event: &str, state: &str) -> Result<&'static str, String> {
    let (letter, mut now) = letter_in(state);
    let failed =
        || LetterAct::Failed { class: None, cause: "no reply".to_owned(), pause: Duration::from_secs(5) };
    let by = ada(now);
    let holds = event.starts_with("code");
    let (seen, act) = match event {
        "taken by a relay or a consumer" => {
            (letter.revision.clone(), LetterAct::Take { by: "another".to_owned(), lease: LEASE })
        }
        "not sent or handled, as far as is known" => (letter.revision.clone(), failed()),
        "the same, three days later" => {
            now += 3 * 24 * 3600;
            (letter.revision.clone(), failed())
        }
        "refused by its target or its consumer" => (letter.revision.clone(), refused()),
        "its consumer stores the body" => {
            (letter.revision.clone(), LetterAct::MoveBody { claim: "claim".to_owned() })
        }
        "held by code that decides" => (letter.revision.clone(), held()),
        "code: leave" => (letter.revision.clone(), LetterAct::Release),
        "operator: redrive" | "code: redrive" => (letter.revision.clone(), LetterAct::Redrive { by }),
        "operator: archive" | "code: archive" => (letter.revision.clone(), LetterAct::Archive { by }),
        "operator: restore" => (letter.revision.clone(), LetterAct::Restore { by }),
        "operator: note" => (letter.revision.clone(), LetterAct::Note { by }),
        "operator: correct" => (letter.revision.clone(), LetterAct::Correct { by, body: "8".to_owned() }),
        "stale relay: refused" => ("another".to_owned(), refused()),
        _ => ("another".to_owned(), LetterAct::Redrive { by }),
    };
    match letter.on(&LetterEvent { seen, act, holds }, Mark { now: at(now), revision: "next".to_owned() }) {
        Ok(next) => Ok(state_of(&next, at(now))),
        Err(LetterRefusal::Changed | LetterRefusal::NotPossible) => Err("·".to_owned()),
        Err(LetterRefusal::NotDue) if letter.state == MessageState::Dead => Err("held".to_owned()),
        Err(LetterRefusal::NotDue) => Err("not due".to_owned()),
    }
}

fn state_of(letter: &Letter, now: DateTime<Utc>) -> &'static str {
    let (is_due, is_taken) = (letter.next_due <= now, letter.locked_by.is_some());
    match letter.state {
        MessageState::Dead if letter.is_held(now) => "dead, held",
        MessageState::Dead if letter.is_in_queue() => "dead, in its queue",
        MessageState::Dead => "dead",
        MessageState::Archived => "archived",
        MessageState::Unsent if is_taken => "unsent, taken",
        MessageState::Unsent if is_due => "unsent, due",
        MessageState::Unsent => "unsent",
        MessageState::Waiting if is_taken => "waiting, taken",
        MessageState::Waiting if is_due => "waiting, due",
        MessageState::Waiting => "waiting",
    }
}
