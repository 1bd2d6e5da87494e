//! What happened to a token, and what an operator may do about it.

use chrono::{DateTime, Utc};

use super::choice::{Choice, Verb};
use super::event::{Event, Happening};
use crate::core::token::record::{Record, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;

fn work(record: &Record) -> Work {
    Work::Token(record.key().as_str().to_owned())
}

/// In no order.
pub(super) fn events(record: &Record, now: DateTime<Utc>) -> Vec<Event> {
    let of = work(record);
    let event = |at, what| Event::new(at, of.clone(), what);
    let begun = match record.taken_over_from() {
        Some(before) => {
            event(record.created(), Happening::TakenOver).because(Some(format!("from attempt {before}")))
        }
        None => event(record.created(), Happening::Begun),
    };
    let mut events = vec![begun.by(record.locked_by())];
    if let Some(since) = record.key_use.since.filter(|since| *since < record.created()) {
        let given =
            format!("an earlier attempt, which gave the provider the key {}", record.idempotency_key());
        events.push(event(since, Happening::Begun).because(Some(given)));
    }
    let due = record.expected_completion();
    if record.is_in_doubt() {
        events.push(event(due, Happening::InDoubt).by(record.locked_by()).because(record.cause()));
    } else if record.is_overdue(now) {
        let why = "its owner has not ended it: it died, or is late";
        events.push(event(due, Happening::Overdue).because(record.cause().or(Some(why))));
    } else if record.state() == TokenState::InProgress {
        events.push(event(due, Happening::Due));
    }
    if let Some(at) = record.actual_completion() {
        let what = match record.state() {
            TokenState::Held => Happening::Held,
            TokenState::Failed => Happening::Failed,
            _ => Happening::Completed,
        };
        // An operator's answer is in the audit. What an operator closed is a failure of its owner.
        if matches!(record.resolution(), None | Some(Resolution::Closed)) {
            events.push(event(at, what).by(record.locked_by()).because(record.cause()));
        }
    }
    events.extend(record.expires().map(|at| event(at, Happening::Forgotten)));
    events
}

/// `needs_operator`: nothing goes on by itself.
pub(super) fn choices(record: &Record, needs_operator: bool) -> Vec<Choice> {
    let of = work(record);
    let key = record.idempotency_key();
    let choice = |verb, effect: String| Choice::new(verb, of.clone(), record.revision(), effect);
    let resolve = || {
        choice(
            Verb::Resolve,
            "it happened: every later caller gets this result, and the work is not done".to_owned(),
        )
    };
    let release = || {
        let effect = format!(
            "it did not happen: the next caller does the work, and gives the provider the key {key} as before"
        );
        choice(Verb::Release, effect)
    };
    match record.state() {
        TokenState::InProgress if needs_operator => vec![resolve(), release()],
        TokenState::Held => {
            let close = "the stored failure is the answer: every later caller gets it".to_owned();
            // Of a token that another library wrote, it is not known how long its answer is kept.
            let close = record.retention.map(|_| choice(Verb::Close, close));
            [resolve(), release()].into_iter().chain(close).collect()
        }
        TokenState::Completed if record.is_answered_by_operator() => {
            vec![choice(
                Verb::Correct,
                "later callers get this result; callers that have the former one keep it".to_owned(),
            )]
        }
        TokenState::Released => {
            vec![choice(
                Verb::Resolve,
                "the release is taken back, unless the work has begun again: later callers get this result"
                    .to_owned(),
            )]
        }
        TokenState::InProgress | TokenState::Completed | TokenState::Failed => Vec::new(),
    }
}
