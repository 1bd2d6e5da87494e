//! Begin: one conditional put, and the reading of what refused it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::begun::{Begun, Holder, Replay, StoredFailure};
use super::classify::Class;
use super::lock::{Held, Lock};
use super::locker::Locker;
use super::options::{Probed, TakeOver};
use super::wait::Patience;
use crate::core::decide::{self, Asking, Found};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::record::{Record, State};
use crate::core::time;
use crate::core::write::{NewToken, Write};
use crate::error::Error;
use crate::metrics;
use crate::settings::{InvalidSetting, Retention};
use crate::store::{Applied, Freshness};

/// How often begin asks again when the token changes under it.
const ROUNDS: u32 = 4;

/// One call of begin, checked.
pub(super) struct Plan {
    pub(super) locker: Locker,
    pub(super) key: Key,
    pub(super) attempt: String,
    pub(super) owner: String,
    pub(super) due: Due,
    pub(super) retention: Retention,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) take_over: Option<TakeOver>,
    pub(super) wait_for: Option<Duration>,
    pub(super) deadline: Option<DateTime<Utc>>,
    pub(super) read_first: bool,
}

/// When the work is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    /// So long after it is begun.
    Within(Duration),
    /// At a time, however long the caller waited for the token.
    At(DateTime<Utc>),
}

impl Due {
    /// A second is the least that anything is expected to take.
    pub(super) fn from(self, now: DateTime<Utc>) -> Duration {
        match self {
            Self::Within(expected) => expected,
            Self::At(due) => time::between(now, due).max(Duration::from_secs(1)),
        }
    }
}

/// One round of begin.
pub(super) enum Round {
    Over(Begun),
    /// Somebody is at work.
    Held(Box<Record>),
    /// What stood in the way is gone.
    Again,
}

/// What stands in the way of a begin.
pub(super) enum Judged {
    Mine(Box<Record>),
    Overdue(Box<Record>),
    Round(Round),
}

impl Plan {
    pub(super) async fn begin(&self) -> Result<Begun, Error> {
        let mut silent = false;
        let begun = self.rounds(&mut silent).await;
        begun.map_err(|error| if silent { not_sure(error) } else { error })
    }

    /// `silent`: whether a request of this begin may have been applied, or may yet arrive.
    async fn rounds(&self, silent: &mut bool) -> Result<Begun, Error> {
        let mut patience = self.wait_for.map(|wait| Patience::until(Instant::now() + self.bounded(wait)));
        if self.read_first
            && let Some(begun) = self.peek().await?
        {
            return Ok(begun);
        }
        let mut rounds = 0;
        loop {
            let held = match self.put(silent).await? {
                Round::Over(begun) => return Ok(begun),
                Round::Held(record) => Some(record),
                Round::Again => None,
            };
            let held = match (held, patience.as_mut()) {
                (Some(record), None) => return Ok(self.held(record)),
                (Some(record), Some(patience)) => match self.wait(record, patience).await? {
                    Round::Over(begun) => return Ok(begun),
                    Round::Held(record) => return Ok(self.held(record)),
                    Round::Again => true,
                },
                (None, _) => false,
            };
            // Waiting has its own end; only a token that keeps changing at once is given up.
            rounds = if held { 0 } else { rounds + 1 };
            if rounds == ROUNDS {
                let source = "the token changed under every try".into();
                return Err(Error::Unavailable { verb: "begin", tries: rounds, source });
            }
        }
    }

    /// Put the token; if it is refused, read why.
    async fn put(&self, silent: &mut bool) -> Result<Round, Error> {
        self.check_deadline()?;
        let token = self.new_token(None);
        match self.send(&Write::Begin { token: token.clone() }, silent).await? {
            Applied::Yes => Ok(self.acquired(token, None)),
            Applied::No { record: None, .. } => Ok(Round::Again),
            Applied::No { record: Some(record), .. } => match self.judge(record).await? {
                Judged::Mine(record) => Ok(self.acquired(self.recovered(&record), None)),
                Judged::Overdue(record) => self.take_over(record, silent).await,
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// Put the token over the overdue one, if that is still as it was seen.
    async fn take_over(&self, record: Box<Record>, silent: &mut bool) -> Result<Round, Error> {
        if let Some(probe) = self.take_over.as_ref().and_then(|take_over| take_over.probe.as_ref()) {
            let probed = probe(record.as_ref().clone()).await.map_err(|source| Error::Probe { source })?;
            if probed == Probed::Unsafe {
                return Ok(Round::Held(record));
            }
        }
        self.check_deadline()?;
        let token = self.new_token(Some(&record));
        let due_before = self.due_before(token.created).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let write = Write::TakeOver { token: token.clone(), seen: record.seen.clone(), due_before };
        match self.send(&write, silent).await? {
            Applied::Yes => Ok(self.acquired(token, Some(record))),
            Applied::No { record: None, .. } => Ok(Round::Again),
            Applied::No { record: Some(now), .. } => match self.judge(now).await? {
                Judged::Mine(mine) => Ok(self.acquired(self.recovered(&mine), Some(record))),
                Judged::Overdue(_) => Ok(Round::Again),
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// Send a write of this begin, remembering whether any of its requests went unheard.
    async fn send(&self, write: &Write, silent: &mut bool) -> Result<Applied, Error> {
        let (store, until) = (self.locker.store(), self.locker.until(self.deadline));
        let sent =
            if *silent { store.write_again(write, until).await } else { store.write(write, until).await };
        if let Ok(Applied::No { after_silence, .. }) = &sent {
            *silent |= after_silence;
        }
        sent
    }

    /// A terminal record, read at half the price. Anything else proves nothing.
    async fn peek(&self) -> Result<Option<Begun>, Error> {
        let until = self.locker.until(self.deadline);
        let record = self.locker.store().read(self.key.as_str(), Freshness::Eventual, until).await?;
        match record {
            Some(record) if record.state.is_terminal() => match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Over(begun)) => Ok(Some(begun)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    pub(super) async fn judge(&self, record: Box<Record>) -> Result<Judged, Error> {
        let now = self.locker.now();
        let asking = Asking {
            attempt: &self.attempt,
            fingerprint: self.fingerprint.as_ref(),
            fingerprint_keys: self.locker.fingerprint_keys(),
            expired_at: self.locker.expired_at(),
            take_over_due_before: self.due_before(now),
        };
        let found = decide::found(&record, &asking)?;
        #[cfg(feature = "mutants")]
        let found = crate::mutants::found(found);
        Ok(match found {
            Found::Mine => Judged::Mine(record),
            Found::Absent => Judged::Round(Round::Again),
            Found::Overdue => Judged::Overdue(record),
            Found::InProgress => Judged::Round(Round::Held(record)),
            Found::Mismatch => Judged::Round(Round::Over(Begun::Mismatch(record))),
            Found::Completed | Found::Failed => Judged::Round(Round::Over(self.ended(record).await?)),
        })
    }

    async fn ended(&self, record: Box<Record>) -> Result<Begun, Error> {
        let json =
            self.locker.answer_until(&record, self.locker.until(self.deadline)).await?.unwrap_or_default();
        Ok(match record.state {
            State::Completed => Begun::Completed(Replay { record, json }),
            State::Failed => Begun::Failed(StoredFailure { record, json, class: Class::NeedsPerson }),
            _ => Begun::Failed(StoredFailure { record, json, class: Class::Permanent }),
        })
    }

    fn held(&self, record: Box<Record>) -> Begun {
        let retry_after = decide::retry_after(&record, self.locker.now());
        Begun::InProgress(Holder { record, retry_after })
    }

    fn acquired(&self, token: NewToken, predecessor: Option<Box<Record>>) -> Round {
        let held = Held {
            expected: time::between(token.created, token.expected_completion),
            token,
            deadline: self.deadline,
            predecessor,
        };
        Round::Over(Begun::Acquired(Lock::new(self.locker.clone(), held)))
    }

    fn new_token(&self, predecessor: Option<&Record>) -> NewToken {
        let created = self.locker.now();
        let fingerprint = self.fingerprint.as_ref().map(|print| print.stored(self.locker.fingerprint_keys()));
        let before = |record: &Record| record.attempt.clone().unwrap_or_else(|| "unknown".to_owned());
        NewToken {
            key: self.key.clone(),
            locked_by: self.owner.clone(),
            attempt: self.attempt.clone(),
            created,
            expected_completion: time::stored(time::after(created, self.due.from(created))),
            status: self.locker.status(State::InProgress, &self.key),
            // A caller that brings no request does not erase what the token is for.
            fingerprint: fingerprint
                .or_else(|| predecessor?.fingerprint.as_ref().map(|stored| stored.0.clone())),
            taken_over_from: predecessor.map(before),
            retention: self.retention,
            expired_at: self.locker.expired_at(),
        }
    }

    /// The token as an earlier request of this call stored it, its reply lost.
    fn recovered(&self, record: &Record) -> NewToken {
        NewToken {
            created: record.created,
            expected_completion: record.expected_completion,
            taken_over_from: record.taken_over_from.clone(),
            ..self.new_token(None)
        }
    }

    /// Taking a token with no time left to work would leave it to the scanner.
    fn check_deadline(&self) -> Result<(), Error> {
        if self.locker.is_past(self.deadline) { Err(InvalidSetting::Deadline.into()) } else { Ok(()) }
    }

    pub(super) fn due_before(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let take_over = self.take_over.as_ref()?;
        let margin = take_over.grace.saturating_add(self.locker.settings().max_clock_skew);
        #[cfg(feature = "mutants")]
        let margin = crate::mutants::margin(margin);
        Some(time::before(now, margin))
    }

    fn bounded(&self, wait: Duration) -> Duration {
        self.deadline.map_or(wait, |deadline| wait.min(time::between(self.locker.now(), deadline)))
    }

    pub(super) fn count(&self, begun: &Begun) {
        let key = &self.key;
        match begun {
            Begun::Acquired(lock) => metrics::count_acquired(key, lock.predecessor().is_some()),
            Begun::Completed(_) => metrics::count_outcome(metrics::REPLAYED, key, "success"),
            Begun::Failed(failure) => {
                metrics::count_outcome(metrics::REPLAYED, key, failure.class().as_str())
            }
            Begun::InProgress(_) => metrics::count(metrics::IN_PROGRESS, key),
            Begun::Mismatch(_) => metrics::count(metrics::MISMATCHED, key),
        }
    }
}

/// An error that says that nothing was written, where an earlier request may have been applied or may
/// yet arrive.
fn not_sure(error: Error) -> Error {
    let (verb, tries) = match &error {
        Error::Unavailable { tries, .. } => ("begin", *tries),
        Error::Denied { .. } | Error::Setting(InvalidSetting::Deadline) => ("begin", 1),
        _ => return error,
    };
    Error::Unknown { verb, tries, source: error.into() }
}

/// A word for the span.
pub(super) const fn outcome(begun: &Result<Begun, Error>) -> &'static str {
    match begun {
        Ok(Begun::Acquired(_)) => "acquired",
        Ok(Begun::Completed(_)) => "completed",
        Ok(Begun::Failed(_)) => "failed",
        Ok(Begun::InProgress(_)) => "inProgress",
        Ok(Begun::Mismatch(_)) => "mismatch",
        Err(Error::Unknown { .. }) => "unknown",
        Err(_) => "error",
    }
}
