//! The validated plan of a begin, and the meaning of a record that refuses it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::begun::{Begun, Holder, Replay, StoredFailure};
use super::take_over::TakeOver;
use crate::core::answer::{self, AnswerError, Body, Encoded};
use crate::core::class::Class;
use crate::core::fingerprint::Fingerprint;
use crate::core::form::Form;
use crate::core::key::Key;
use crate::core::private::Private;
use crate::core::restored;
use crate::core::retention::{Retention, unlisted_ttl};
use crate::core::time;
use crate::core::token::decide::{self, Asking, Found};
use crate::core::token::record::{KeyUse, Record, TokenState};
use crate::core::token::work::Work;
use crate::core::token::write::NewToken;
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::store::{Freshness, Until};
use crate::token::lock::guard::{Held, Lock};

/// One call of begin with its options, checked.
pub(crate) struct Plan {
    pub(crate) session: Session,
    pub(crate) key: Key,
    pub(crate) attempt: String,
    pub(crate) owner: String,
    pub(crate) due: Due,
    pub(crate) retention: Retention,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) take_over: Option<TakeOver>,
    pub(crate) wait_for: Option<Duration>,
    pub(crate) deadline: Option<DateTime<Utc>>,
    pub(crate) read_first: bool,
    pub(crate) form: Option<Form>,
    pub(crate) is_unlisted: bool,
    pub(crate) recognised_for: Option<Duration>,
    pub(crate) within: Option<Work>,
    pub(crate) requested: Option<DateTime<Utc>>,
    pub(crate) opened: Option<DateTime<Utc>>,
}

/// The expected completion of the work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// This long after the begin.
    Within(Duration),
    /// At this time, however long the caller waited for the token.
    At(DateTime<Utc>),
}

impl Due {
    /// The expected duration from now, at least one second.
    pub(crate) fn from(self, now: DateTime<Utc>) -> Duration {
        match self {
            Self::Within(expected) => expected,
            Self::At(due) => time::between(now, due).max(Duration::from_secs(1)),
        }
    }
}

/// One round of begin.
pub(crate) enum Round {
    Over(Begun),
    /// Another caller's work is in progress.
    Held(Box<Record>),
    /// The record that refused this begin no longer does; put again.
    Again,
}

/// The meaning of the record that refused a begin.
pub(crate) enum Judged {
    Mine(Box<Record>),
    Overdue(Box<Record>),
    Remembered(Box<Record>),
    Round(Round),
}

impl Plan {
    pub(crate) async fn judge(&self, record: Box<Record>) -> Result<Judged, Error> {
        let now = self.session.now();
        let asking = Asking {
            attempt: &self.attempt,
            fingerprint: self.fingerprint.as_ref(),
            fingerprint_keys: self.session.fingerprint_keys(),
            expired_at: self.session.expired_at(now),
            take_over_due_before: self.due_before(now),
            key_used_after: self.key_used_after(now),
        };
        let found = decide::found(&record, &asking)?;
        Ok(match found {
            Found::Mine => Judged::Mine(record),
            Found::Absent => Judged::Round(Round::Again),
            Found::Overdue => Judged::Overdue(record),
            Found::Remembered => Judged::Remembered(record),
            Found::InProgress => Judged::Round(Round::Held(record)),
            Found::Mismatch => Judged::Round(Round::Over(Begun::Mismatch(record))),
            Found::Restored => Judged::Round(Round::Over(Begun::Restored(record))),
            Found::Completed | Found::Failed => Judged::Round(self.ended(record).await?),
        })
    }

    async fn ended(&self, mut record: Box<Record>) -> Result<Round, Error> {
        let json = match self.session.answer(&record, self.session.until(self.deadline)).await {
            // The work has ended, so the outcome stays. Only its result has no value.
            Err(Error::Answer(AnswerError::Redacted)) => {
                record.body = Some(Body::Redacted);
                None
            }
            // After the token was read, an operator erased its result, or replaced its failure.
            Err(Error::Answer(AnswerError::Missing)) if self.has_changed(&record).await? => {
                return Ok(Round::Again);
            }
            read => read?,
        };
        let json = Private(json.unwrap_or_default());
        Ok(Round::Over(match record.state {
            TokenState::Completed => Begun::Completed(Replay { record, json }),
            TokenState::Held => Begun::Held(StoredFailure { record, json, class: Class::NeedsOperator }),
            _ => Begun::Failed(StoredFailure { record, json, class: Class::Permanent }),
        }))
    }

    /// Whether the token has changed since it was read.
    async fn has_changed(&self, record: &Record) -> Result<bool, Error> {
        let until = self.session.until(self.deadline);
        let now = self.session.store().read(self.key.as_str(), Freshness::Strong, until).await?;
        Ok(now.is_none_or(|now| now.seen != record.seen))
    }

    pub(crate) fn held(&self, record: Box<Record>) -> Begun {
        let now = self.session.now();
        let retry_after = decide::retry_after(&record, now);
        Begun::InProgress(Holder {
            #[cfg(feature = "http")]
            overdue: (now - record.expected_completion).to_std().ok(),
            #[cfg(feature = "http")]
            is_continued: self.is_continued(record.promised_completion(), record.key_since()),
            retry_after,
            record,
        })
    }

    /// Returns whether a later begin with the same options takes over a token. `promised`: the due
    /// time of the token. `key_since`: the first use of its provider's key.
    #[cfg(feature = "http")]
    fn is_continued(&self, promised: DateTime<Utc>, key_since: DateTime<Utc>) -> bool {
        let Some(take_over) = &self.take_over else { return false };
        // Strictly after the margin: see `due_before`.
        let margin =
            take_over.grace.saturating_add(self.session.skew()).saturating_add(Duration::from_millis(1));
        let soonest = time::after(promised, margin).max(self.session.now());
        self.key_used_after(soonest).is_none_or(|since| key_since > since)
    }

    pub(crate) fn acquired(&self, token: Arc<NewToken>, predecessor: Option<Box<Record>>) -> Round {
        Round::Over(Begun::Acquired(self.lock(token, predecessor)))
    }

    pub(crate) fn lock(&self, token: Arc<NewToken>, predecessor: Option<Box<Record>>) -> Lock {
        let held = Held {
            expected: time::between(token.created, token.expected_completion),
            promised: token.expected_completion,
            probed: self.take_over.as_ref().is_some_and(|take_over| take_over.probe.is_some()),
            #[cfg(feature = "http")]
            is_continued: self
                .is_continued(token.expected_completion, token.key_use.since.unwrap_or(token.created)),
            token,
            deadline: self.deadline,
            predecessor,
        };
        Lock::new(self.session.clone(), held)
    }

    /// The time limit of the requests of this begin. A part of the time is reserved for the release
    /// after an unknown outcome.
    pub(crate) fn until(&self) -> Until {
        self.session.until(self.deadline).reserving()
    }

    fn new_token(&self, predecessor: Option<&Record>) -> NewToken {
        let created = self.session.now();
        let fingerprint =
            self.fingerprint.as_ref().map(|print| print.stored(self.session.fingerprint_keys()));
        let before = |record: &Record| record.attempt.clone().unwrap_or_else(|| "unknown".to_owned());
        let used = |record: &Record| KeyUse { since: Some(record.key_since()), ..record.key_use };
        let expected_completion = time::stored(time::after(created, self.due.from(created)));
        // A token that an earlier attempt left in doubt stays listed until the work has ended.
        let is_unlisted = self.is_unlisted && predecessor.is_none_or(|record| !record.is_listed());
        NewToken {
            key: self.key.clone(),
            locked_by: self.owner.clone(),
            attempt: self.attempt.clone(),
            created,
            expected_completion,
            status: self.session.in_progress(&self.key, is_unlisted),
            ttl: is_unlisted.then(|| unlisted_ttl(expected_completion)),
            // A caller without a fingerprint keeps the one of the token that it takes over.
            fingerprint: fingerprint.or_else(|| predecessor?.fingerprint.clone()),
            form: self.form.clone().or_else(|| predecessor?.form.clone()),
            cause: predecessor.and_then(|record| record.cause.clone()),
            held: None,
            requested: self.requested,
            opened: self.opened,
            key_use: predecessor.map_or(KeyUse::FIRST, used),
            taken_over_from: predecessor.map(before),
            within: self.within.clone().or_else(|| predecessor?.within.clone()),
            retention: self.retention,
            expired_at: self.session.expired_at(created),
        }
    }

    /// The same token, held for an operator instead of acquired, because the table was restored.
    fn held_by_restore(&self, token: NewToken) -> NewToken {
        let cause = restored::cause(self.requested);
        NewToken {
            status: self.session.status(TokenState::Held, &self.key),
            held: Some(Encoded::plain(answer::text(&cause))),
            cause: Some(cause),
            ttl: None,
            ..token
        }
    }

    /// Returns the token of this begin, if no token in progress is stored under the key.
    /// `released`: the released token that it replaces.
    pub(crate) fn first_token(&self, released: Option<&Record>) -> NewToken {
        let mut token = self.new_token(None);
        if let Some(released) = released {
            token.key_use = released.key_use;
            // A caller without a fingerprint keeps the one under which the key was given out.
            if token.fingerprint.is_none() && released.key_use.since.is_some() {
                token.fingerprint.clone_from(&released.fingerprint);
            }
        }
        let Some(restored) = self.session.restored() else { return token };
        // An operator who opened the key allowed all that its work begins.
        let opened = self.opened.max(released.and_then(|record| restored.opened(record)));
        let is_held = restored.is_before(self.requested.max(opened));
        if is_held || self.opened.is_some() {
            // A forgotten attempt may have given the provider the key, at the earliest at its
            // request. A newer time is that of the operator's act, so the age is unknown.
            let asked = self.requested.filter(|at| restored.is_before(Some(*at)));
            let earliest = asked.unwrap_or(DateTime::UNIX_EPOCH).min(token.created);
            token.key_use.since = token.key_use.since.or(Some(earliest));
        }
        if is_held { self.held_by_restore(token) } else { NewToken { opened, ..token } }
    }

    /// Returns the token that replaces the overdue token. A probe has asked the provider, so its
    /// result holds after a restore too.
    pub(crate) fn next_token(&self, overdue: &Record) -> NewToken {
        let token = self.new_token(Some(overdue));
        let is_probed = self.take_over.as_ref().is_some_and(|take_over| take_over.probe.is_some());
        match self.session.restored() {
            Some(restored) if !is_probed && restored.holds_unfinished(overdue) => self.held_by_restore(token),
            _ => self.dated(token, Some(overdue), overdue),
        }
    }

    /// The token as an earlier request of this call stored it, whose reply was lost. `predecessor`:
    /// the token that it replaced, if it was overdue.
    pub(crate) fn recovered(&self, record: &Record, predecessor: Option<&Record>) -> NewToken {
        let token = NewToken {
            created: record.created,
            expected_completion: record.expected_completion,
            taken_over_from: record.taken_over_from.clone(),
            key_use: record.key_use,
            ..self.new_token(predecessor)
        };
        self.dated(token, predecessor, record)
    }

    /// The same token, with the times of its work after a restore.
    ///
    /// Work that is taken over from before the restore is as old as before. Otherwise the token in
    /// progress, `working`, may show that its key was opened.
    fn dated(&self, token: NewToken, overdue: Option<&Record>, working: &Record) -> NewToken {
        let Some(restored) = self.session.restored() else { return token };
        match overdue.filter(|overdue| restored.holds_unfinished(overdue)) {
            Some(overdue) => NewToken { requested: token.requested.min(Some(overdue.created)), ..token },
            None => NewToken { opened: token.opened.max(restored.began(working)), ..token },
        }
    }

    /// A token acquired after the deadline would leave no time for the work, and end up with the
    /// scanner.
    pub(crate) fn check_deadline(&self) -> Result<(), Error> {
        self.session.check_deadline("begin", self.deadline)
    }

    /// The clock of the owner may be slow. Without the skew, a caller would take the token over
    /// while its owner is still in time, and both would do the work.
    pub(crate) fn due_before(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let take_over = self.take_over.as_ref()?;
        let margin = take_over.grace.saturating_add(self.session.skew());
        Some(time::before(now, margin))
    }

    /// A provider's key that was first used before this time may be forgotten before the work has
    /// ended.
    fn key_used_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let recognised = self.recognised_for?;
        // The clock of the first use may be fast: then the key is older than its time.
        let recognised = recognised.saturating_sub(self.session.skew());
        Some(time::before(time::after(now, self.due.from(now)), recognised))
    }

    pub(crate) fn count(&self, begun: &Begun) {
        let key = &self.key;
        match begun {
            Begun::Acquired(lock) => metrics::count_acquired(key, lock.predecessor().is_some()),
            Begun::Completed(_) => metrics::count_outcome(metrics::REPLAYED, key, "success"),
            Begun::Failed(failure) | Begun::Held(failure) => {
                metrics::count_outcome(metrics::REPLAYED, key, failure.class().as_str())
            }
            Begun::InProgress(_) => metrics::count(metrics::IN_PROGRESS, key),
            Begun::Mismatch(_) => metrics::count(metrics::MISMATCHED, key),
            Begun::Restored(_) => metrics::count(metrics::RESTORED, key),
        }
    }
}

/// The outcome as the span names it.
pub(crate) const fn outcome(begun: &Result<Begun, Error>) -> &'static str {
    match begun {
        Ok(Begun::Acquired(_)) => "acquired",
        Ok(Begun::Completed(_)) => "completed",
        Ok(Begun::Failed(_)) => "failed",
        Ok(Begun::Held(_)) => "held",
        Ok(Begun::InProgress(_)) => "inProgress",
        Ok(Begun::Mismatch(_)) => "mismatch",
        Ok(Begun::Restored(_)) => "restored",
        Err(Error::Unknown { .. }) => "unknown",
        Err(_) => "error",
    }
}
