//! Tokens: their lists, events and choices, and acts on them.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::core::class::Class;
use crate::core::token;
use crate::core::token::act::{Of, TokenAct};
use crate::core::token::record::{Record, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::lists::{Lists, Reading, fits};
use crate::operator::part::{Choice, Verb};
use crate::operator::rule::{About, ERASED, Meaning, Refusal, Unless};
use crate::operator::timeline::{Happening, TimelineEvent};
use crate::operator::{Act, Filter, IndexEntry, Match, Need};
use crate::session::{Intervened, Operator};
use crate::token::{Locker, TokenSummary};

/// A list of tokens.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator) enum TokenList {
    Overdue,
    InProgress,
    Held,
    /// Ended tokens whose result is kept. No index contains them.
    WithResult,
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
            TokenList::WithResult => {
                read_results(locker, reading, now, &mut take).await?;
                continue;
            }
            TokenList::Overdue => (locker.overdue(), false),
            TokenList::InProgress => (locker.in_progress(), false),
            TokenList::Held => (locker.held(), true),
        };
        reading.matches(listed, now, |token| listed_token(token, is_held, now), &mut take).await?;
    }
    Ok(())
}

/// Reads the whole table for tokens with a result.
async fn read_results(
    locker: &Locker,
    reading: &mut Reading<'_>,
    now: DateTime<Utc>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let (session, begin) =
        (locker.session(), reading.filter.and_then(Filter::begin_of_key).unwrap_or_default());
    let (filter, mut from) = (reading.filter, None);
    loop {
        let in_time = session.check_deadline("list", reading.deadline);
        let Some(()) = reading.value(in_time)? else { return Ok(()) };
        let until = session.until(reading.deadline);
        let page = session.store().ended(&begin, from, until).await;
        let Some(page) = reading.value(page)? else { return Ok(()) };
        reading.rows_read += page.items_read;
        for (key, record) in page.tokens {
            let found = match record {
                Ok(record) => with_result(&record).filter(|it| fits(filter, it, now)),
                Err(_) => {
                    reading.name_unread(Match::of(Work::Token(key)).grouped(), now, &mut take);
                    None
                }
            };
            if !reading.keep(found, &mut take) {
                return Ok(());
            }
        }
        if page.next.is_none() {
            return Ok(());
        }
        from = page.next;
    }
}

/// A token with a result, in the form of a list. `None`: it has none to erase.
pub(in crate::operator) fn with_result(record: &Record) -> Option<Match> {
    token::act::may_redact(record).ok()?;
    let token = TokenSummary::of_record(record);
    let listed = Match {
        since: token.created,
        owner: token.locked_by.clone(),
        within: token.within.clone(),
        entry: Some(IndexEntry::Token(token)),
        ..Match::of(Work::Token(record.key().as_str().to_owned()))
    };
    Some(listed.grouped())
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

/// A token as it was read, in the form of a list. `None`: no list contains a token in its state.
pub(in crate::operator) fn match_of(record: &Record, now: DateTime<Utc>) -> Option<Match> {
    let is_held = match record.state() {
        TokenState::Held => true,
        TokenState::InProgress => false,
        _ => return None,
    };
    Some(listed_token(TokenSummary::of_record(record), is_held, now))
}

/// The acts of the core that an act stands for, in the order in which they are tried.
fn acts(act: &Act) -> Vec<TokenAct> {
    let running = act.running.then_some(Of::Running);
    let of = || std::iter::once(Of::Stuck).chain(running);
    match act.verb {
        _ if act.step.is_some() => Vec::new(),
        Verb::Release => {
            let of = of().chain(act.completed.then_some(Of::Ended));
            of.map(|of| TokenAct::Release { of, new_key: act.new_key }).collect()
        }
        Verb::Resolve => of().map(TokenAct::Resolve).collect(),
        Verb::Correct => vec![TokenAct::Correct],
        Verb::Close => vec![TokenAct::Close],
        Verb::Redact => vec![TokenAct::Redact],
        _ => Vec::new(),
    }
}

/// The act of the core that is possible, or the first reason why none is.
fn allowed(locker: &Locker, record: &Record, act: &Act, runs: Option<bool>) -> Result<TokenAct, Refusal> {
    let facts = locker.facts(runs);
    let mut first = None;
    for act in acts(act) {
        match token::act::may(act, record, &facts) {
            Ok(()) => return Ok(act),
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    Err(match first {
        Some(refusal) => refused(refusal, record, act.verb),
        None => Refusal::of(format!("a token has no verb {}", act.verb)),
    })
}

fn refused(refusal: token::act::Refusal, record: &Record, verb: Verb) -> Refusal {
    use token::act::Refusal as No;
    match refusal {
        No::Runs => Refusal::unless("its work is running", Unless::Running),
        No::MayRun => Refusal::unless("its work is not overdue and may still be running", Unless::Running),
        No::JustDue => Refusal::unless(
            "it has just become due, and its owner's clock may be behind this clock; try again in some seconds",
            Unless::Running,
        ),
        No::HasResult => {
            Refusal::unless("it has a result, and a release does its work again", Unless::Completed)
        }
        No::NotHeld if record.is_held_by_restore() => {
            Refusal::of("the table was restored, so no failure is known; resolve or release it")
        }
        No::NotHeld => Refusal::of(format!(
            "it is {}, and only a held token has a failure to {verb}",
            record.state().as_str()
        )),
        No::Foreign => Refusal::of(
            "another library wrote its failure, which callers can read only while the token is held",
        ),
        No::NotOperators => {
            Refusal::of("no operator gave its result, and a result of the work never changes")
        }
        No::Redacted => Refusal::of(ERASED),
        No::NotEnded => Refusal::of(format!(
            "it is {}, and only a token that has ended has a result to erase",
            record.state().as_str()
        )),
        No::Nothing => Refusal::of(format!("it is {}", record.state().as_str())),
    }
}

/// The effect of an act on a token, or the reason why it is not possible.
///
/// `runs`: whether the work is running, if that is known.
pub(in crate::operator) fn judge(
    locker: &Locker,
    record: &Record,
    act: &Act,
    runs: Option<bool>,
) -> Result<Meaning, Refusal> {
    let chosen = allowed(locker, record, act, runs)?;
    let mut meaning = Meaning::of(effect(chosen, record));
    if let Some(result) = &act.result {
        if let Some(Err(mismatch)) = record.form().map(|form| form.check(result)) {
            return Err(Refusal::of(mismatch.to_string()).about(About::Result));
        }
        meaning.unknown.extend(unchecked(record));
    }
    let ends_work = matches!(chosen, TokenAct::Release { .. } | TokenAct::Resolve(_));
    if ends_work && record.state() == TokenState::InProgress && runs.is_none() {
        meaning.unknown.push("whether its work is still running is unknown here".to_owned());
    }
    Ok(meaning)
}

/// A sentence about a result whose form cannot be checked.
fn unchecked(record: &Record) -> Option<String> {
    match record.form() {
        None => Some(
            "the token has no form, so it is not checked whether its callers can read the result".to_owned(),
        ),
        Some(form) if form.example().is_none() => {
            Some(format!("callers read the result as {form}, which cannot be checked"))
        }
        Some(_) => None,
    }
}

fn effect(act: TokenAct, record: &Record) -> String {
    let key = record.idempotency_key();
    let given = |new_key| match token::act::gives_new_key(new_key, record) {
        true => "gives the provider another key".to_owned(),
        false => format!("gives the provider the key {key} as before"),
    };
    match act {
        TokenAct::Resolve(_) if record.state() == TokenState::Released => {
            "the release is taken back, unless the work has begun again: later callers get this result"
                .to_owned()
        }
        TokenAct::Resolve(Of::Running) => {
            "every later caller gets this result; the work is not stopped, and its own result is refused"
                .to_owned()
        }
        TokenAct::Resolve(_) => {
            "it happened: every later caller gets this result, and the work is not done".to_owned()
        }
        TokenAct::Correct => {
            "later callers get this result; callers that have the former result keep it".to_owned()
        }
        TokenAct::Close => "the stored failure is the answer: every later caller gets it".to_owned(),
        TokenAct::Redact => {
            "its result is erased for ever: later callers learn that the work has ended and its result is not kept, and \
             the work is not done again"
                .to_owned()
        }
        TokenAct::Release { of: Of::Running, new_key } => {
            format!("the work is not stopped: the next caller does it, perhaps twice, and {}", given(new_key))
        }
        TokenAct::Release { of: Of::Ended, new_key } => {
            format!("its result is dropped: the next caller does the work again, and {}", given(new_key))
        }
        TokenAct::Release { new_key, .. } => {
            format!("it did not happen: the next caller does the work, and {}", given(new_key))
        }
    }
}

/// Writes an act that [`judge`] allows.
pub(in crate::operator) async fn act(
    locker: &Locker,
    record: &Record,
    act: &Act,
    operator: &Operator,
) -> Result<Intervened, Error> {
    // The caller has applied the rule about running work before.
    match allowed(locker, record, act, None) {
        Ok(chosen) => locker.intervene(record, chosen, act.result.as_ref(), operator).await,
        Err(_) => Ok(Intervened::NotPossible),
    }
}

fn work(record: &Record) -> Work {
    Work::Token(record.key().as_str().to_owned())
}

/// The events of a token, in no order.
pub(in crate::operator) fn events(record: &Record, now: DateTime<Utc>) -> Vec<TimelineEvent> {
    let of = work(record);
    let event = |at, what| TimelineEvent::new(at, of.clone(), what);
    let begun = match record.taken_over_from() {
        Some(before) => {
            event(record.created(), Happening::TakenOver).because(Some(format!("from attempt {before}")))
        }
        None => event(record.created(), Happening::Begun),
    };
    let mut events = vec![begun.by(record.locked_by())];
    let is_earlier = |since: &DateTime<Utc>| *since < record.created() && *since > DateTime::UNIX_EPOCH;
    if let Some(since) = record.key_use.since.filter(is_earlier) {
        let key = record.idempotency_key();
        let given = format!("an earlier attempt or request; the provider may know the key {key}");
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
        // The audit contains an operator's answer. A failure that an operator closed was reported
        // by the owner of the token.
        match record.resolution() {
            None | Some(Resolution::Closed) => {
                events.push(event(at, what).by(record.locked_by()).because(record.cause()));
            }
            // An operator may have given the result that was erased, so no owner is named.
            Some(Resolution::Redacted) => {
                events.push(event(at, what).because(Some("its result is not kept")));
            }
            Some(_) => {}
        }
    }
    events.extend(record.expires().map(|at| event(at, Happening::Forgotten)));
    events
}

/// The acts that are possible now, without a result and without an option.
pub(in crate::operator) fn choices(locker: &Locker, record: &Record, runs: Option<bool>) -> Vec<Choice> {
    let of_verb = |act: Act| {
        let chosen = allowed(locker, record, &act, runs).ok()?;
        Some(Choice::new(act.verb, work(record), record.revision(), effect(chosen, record)))
    };
    let acts = [Act::resolve(Value::Null), Act::release(), Act::close(), Act::correct(Value::Null)];
    acts.into_iter().filter_map(of_verb).collect()
}
