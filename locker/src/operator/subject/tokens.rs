//! Tokens: their lists, events and choices, and acts on them.

use chrono::{DateTime, Utc};

use crate::core::class::Class;
use crate::core::token::record::{Record, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::lists::{Lists, Reading};
use crate::operator::part::{Choice, Verb};
use crate::operator::timeline::{Event, Happening};
use crate::operator::{Act, IndexEntry, Match, Need};
use crate::session::{Intervened, Operator};
use crate::token::{Locker, TokenSummary};

/// A list of tokens.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator) enum TokenList {
    Overdue,
    InProgress,
    Held,
}

pub(in crate::operator) async fn read(
    locker: &Locker,
    asked: &Lists,
    reading: &mut Reading<'_>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let now = locker.session().now();
    for list in &asked.tokens {
        let (listed, is_held) = match list {
            TokenList::Overdue => (locker.overdue(), false),
            TokenList::InProgress => (locker.in_progress(), false),
            TokenList::Held => (locker.held(), true),
        };
        reading.matches(listed, now, |token| listed_token(token, is_held, now), &mut take).await?;
    }
    Ok(())
}

fn listed_token(token: TokenSummary, is_held: bool, now: DateTime<Utc>) -> Match {
    let is_overdue = token.expected_completion.is_none_or(|due| due < now);
    let need = match token.class {
        _ if is_held => Some(Need::Held),
        _ if !is_overdue => None,
        Some(Class::InDoubt) => Some(Need::InDoubt),
        _ => Some(Need::Overdue),
    };
    let entry = Some(IndexEntry::Token(token.clone()));
    Match {
        entry,
        need,
        class: token.class,
        cause: token.cause,
        // The index has no time of the failure, and the due time of a held token may be ahead.
        since: if is_held { token.created } else { token.expected_completion },
        due: token.expected_completion.filter(|_| !is_held),
        owner: token.locked_by,
        within: token.within,
        ..Match::of(Work::Token(token.token))
    }
    .grouped()
}

pub(in crate::operator) async fn act(
    locker: &Locker,
    record: &Record,
    act: &Act,
    operator: &Operator,
) -> Result<Intervened, Error> {
    match act.verb {
        Verb::Release => locker.release(record, operator).await,
        Verb::Resolve => locker.resolve(record, &act.result.clone().unwrap_or_default(), operator).await,
        Verb::Close => locker.close(record, operator).await,
        _ => Ok(Intervened::NotPossible),
    }
}

fn work(record: &Record) -> Work {
    Work::Token(record.key().as_str().to_owned())
}

/// The events of a token, in no order.
pub(in crate::operator) fn events(record: &Record, now: DateTime<Utc>) -> Vec<Event> {
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

/// `needs_operator`: no caller resumes the token.
pub(in crate::operator) fn choices(record: &Record, needs_operator: bool) -> Vec<Choice> {
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
