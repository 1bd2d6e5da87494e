//! The guard: a token that is held, and the verbs that end it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::end::{End, EndError};
use super::locker::Locker;
use super::run::Attempt;
use crate::core::answer::{self, AnswerError};
use crate::core::decide::{self, Ended};
use crate::core::key::Key;
use crate::core::record::{Record, State};
use crate::core::time;
use crate::core::write::{Finish, NewToken, Write};
use crate::error::Error;
use crate::history::{self, Call};
use crate::metrics;
use crate::settings::{Retention, check_expect_within};
use crate::store::{Applied, TokenSize};

/// A token that is held. End it: [`complete`](Self::complete), [`complete_err`](Self::complete_err),
/// [`fail`](Self::fail), [`release`](Self::release) or [`leave_in_doubt`](Self::leave_in_doubt).
///
/// Every verb takes the lock, so ending twice does not compile:
///
/// ```compile_fail,E0382
/// # async fn work(lock: locker::Lock) -> Result<(), locker::EndError> {
/// lock.complete(&"done").await?;
/// lock.release().await?; // error[E0382]: use of moved value: `lock`
/// # Ok(())
/// # }
/// ```
///
/// while ending once does:
///
/// ```
/// # async fn work(lock: locker::Lock) -> Result<(), locker::EndError> {
/// lock.complete(&"done").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// A lock that is dropped without an end stays in progress, as if the process had died: nobody else
/// does the work, and the scanner reports it once it is due. Dropping only writes a warning to the log.
#[must_use = "a token is held until its lock is ended"]
pub struct Lock {
    locker: Locker,
    /// `None` once it is ended, which keeps `Drop` silent.
    held: Option<Box<Held>>,
}

/// What a lock knows of its token.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) token: NewToken,
    pub(super) expected: Duration,
    pub(super) deadline: Option<DateTime<Utc>>,
    pub(super) predecessor: Option<Box<Record>>,
}

impl Lock {
    pub(super) fn new(locker: Locker, held: Held) -> Self {
        Self { locker, held: Some(Box::new(held)) }
    }

    pub(super) const fn locker(&self) -> &Locker {
        &self.locker
    }

    fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// What the work may want to know of this attempt.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        let token = self.held().map(|held| &held.token);
        Attempt::new(
            token.map_or_else(|| Key::stored(String::new()), |token| token.key.clone()),
            token.map(|token| token.attempt.clone()).unwrap_or_default(),
            self.predecessor().is_some(),
        )
    }

    /// When the work is expected to be done.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.held().map_or(DateTime::<Utc>::MIN_UTC, |held| held.token.expected_completion)
    }

    /// How long the work was expected to take when it was begun or last extended.
    pub(super) fn expected(&self) -> Duration {
        self.held().map_or(Duration::ZERO, |held| held.expected)
    }

    /// The overdue token that this one took over, if it did.
    #[must_use]
    pub fn predecessor(&self) -> Option<&Record> {
        self.held()?.predecessor.as_deref()
    }

    /// Store the answer. Everyone who comes later with the same key gets it.
    ///
    /// The outcome is logged before anything is written, so that the log knows what the table may not.
    ///
    /// # Errors
    ///
    /// [`EndError`]. The work is done all the same: give its answer to your caller, and do not run it
    /// again. [`Error::LostOwnership`]: another attempt holds the token or has ended it, and nothing was
    /// changed. [`Error::Answer`]: it has no JSON form or is too large; the lock comes back, so that a
    /// reference can be stored instead.
    ///
    /// # Crash window
    ///
    /// A process that dies between the work and this write leaves the token in progress, and the
    /// outcome in the log only.
    ///
    /// # Cancel safety
    ///
    /// Dropped while waiting for the reply, the answer may be stored or not; both are safe.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index). An answer that would not fit beside the token
    /// in its write unit lies in an item of its own: 1 request more, and 1 write unit for each KB.
    pub async fn complete<T: Serialize + ?Sized>(self, answer: &T) -> Result<(), EndError> {
        let json = answer::to_json(answer);
        self.finish(Finish::Success, json).await
    }

    /// Store a failure as the answer: the work failed for good, and everyone who comes later with the
    /// same key gets this failure.
    ///
    /// # Errors
    ///
    /// As of [`complete`](Self::complete), whose crash window and cost it shares.
    pub async fn complete_err<E: Serialize + ?Sized>(self, failure: &E) -> Result<(), EndError> {
        let json = answer::to_json(failure);
        self.finish(Finish::Failure, json).await
    }

    /// Store a failure for a person: `status` becomes `error`, the token is listed until somebody
    /// resolves or releases it, and it is never forgotten.
    ///
    /// # Errors
    ///
    /// As of [`complete`](Self::complete), whose crash window it shares.
    ///
    /// # Cost
    ///
    /// 1 request and 3 write units: the entry of the index moves.
    pub async fn fail<E: Serialize + ?Sized>(self, failure: &E) -> Result<(), EndError> {
        let json = answer::to_json(failure);
        let finish = self.needs_person();
        self.finish(finish, json).await
    }

    /// Let go of the token: nothing happened, and somebody may try again.
    ///
    /// After a takeover ([`predecessor`](Self::predecessor)) it says so for the first owner as well, whose
    /// work may have happened. Who does not know that it did not, leaves the token
    /// [in doubt](Self::leave_in_doubt).
    ///
    /// # Errors
    ///
    /// [`EndError`]. [`Error::LostOwnership`]: another attempt holds the token, and nothing was changed.
    /// [`Error::Unknown`], where a reply was lost past the due time: it is free, or another's; whether this
    /// call let go of it, or somebody who had taken it over, nothing is left to tell.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index).
    pub async fn release(mut self) -> Result<(), EndError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.locker.log_end(&held.token, "released");
        let write = Write::Release { key: held.token.key.clone(), attempt: held.token.attempt.clone() };
        End::new(self.locker.clone(), held, write, None).send().await
    }

    /// Leave the token in progress, because nobody knows whether the work happened: nobody does it
    /// again, and the scanner reports it once it is due. Writes to the log and not to the table.
    pub fn leave_in_doubt(mut self) {
        let Some(held) = self.held.take() else { return };
        metrics::count(metrics::IN_DOUBT, &held.token.key);
        tracing::error!(
            lock.token = self.locker.shown(&held.token.key),
            lock.owner = held.token.locked_by,
            lock.attempt = held.token.attempt,
            lock.outcome = "inDoubt",
            lock.due = %held.token.expected_completion,
            "nobody knows whether the work happened; the token stays in progress"
        );
    }

    /// Expect the work to be done so long from now. Never moves the due time forward.
    ///
    /// # Errors
    ///
    /// [`EndError`]. [`Error::LostOwnership`]: another attempt took the token over or ended it, so
    /// stop working if you can. After any other error the lock comes back, and still holds.
    ///
    /// # Cost
    ///
    /// 1 request and 3 write units: the entry of the index moves.
    pub async fn extend(mut self, expected: Duration) -> Result<Self, EndError> {
        match self.push_due(expected).await {
            Ok(()) => Ok(self),
            Err(error @ Error::LostOwnership { .. }) => {
                self.held = None;
                Err(EndError::lost(error))
            }
            Err(error) => Err(EndError::kept(error, self)),
        }
    }

    /// Extend in place.
    pub(super) async fn push_due(&mut self, expected: Duration) -> Result<(), Error> {
        check_expect_within(expected)?;
        let due = time::stored(time::after(self.locker.now(), expected));
        let Some(held) = self.held.as_mut().filter(|held| held.token.expected_completion < due) else {
            return Ok(());
        };
        let write = Write::Extend { key: held.token.key.clone(), attempt: held.token.attempt.clone(), due };
        let call = Call::write(&self.locker, &write, &held.token.locked_by, None);
        let extended = self.locker.extend(&write, held).await;
        call.ended(extended.as_ref().copied());
        extended?;
        held.token.expected_completion = due;
        held.expected = expected;
        Ok(())
    }

    pub(super) fn needs_person(&self) -> Finish {
        let status = self.held().map(|held| self.locker.status(State::Failed, &held.token.key));
        Finish::NeedsPerson { status: status.unwrap_or_default() }
    }

    /// Log how the work ended, then store it: a large answer first, then the token that points to it.
    pub(super) async fn finish(
        mut self,
        finish: Finish,
        json: Result<String, AnswerError>,
    ) -> Result<(), EndError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let retention = match &finish {
            Finish::Success | Finish::Failure => held.token.retention,
            Finish::NeedsPerson { .. } => Retention::Forever,
        };
        self.locker.log_end(&held.token, finish.outcome());
        let at = self.locker.now();
        let ttl = retention.ttl(at);
        let digest = json.as_ref().ok().and_then(|json| history::digest(json));
        let placed = match json {
            Ok(json) => self.locker.place(size(&held.token), json, ttl, held.deadline).await,
            Err(error) => Err(error.into()),
        };
        let body = match placed {
            Ok(body) => body,
            Err(error) => {
                self.held = Some(held);
                return Err(EndError::kept(error, self));
            }
        };
        let (key, attempt) = (held.token.key.clone(), held.token.attempt.clone());
        let write = Write::Finish { key, attempt, at, finish, body, ttl };
        End::new(self.locker.clone(), held, write, digest).send().await
    }

    pub(super) fn taken_back(locker: Locker, held: Box<Held>) -> Self {
        Self { locker, held: Some(held) }
    }
}

impl Locker {
    async fn extend(&self, write: &Write, held: &Held) -> Result<(), Error> {
        let until = self.until(held.deadline).for_end();
        if let Applied::No { record, after_silence } = self.store().write(write, until).await?
            && decide::ended(write, record.as_deref(), after_silence) != Ended::Done
        {
            metrics::count(metrics::LOST_OWNERSHIP, &held.token.key);
            return Err(Error::LostOwnership { verb: write.verb(), record });
        }
        metrics::count(metrics::EXTENDED, &held.token.key);
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Some(held) = &self.held else { return };
        tracing::warn!(
            lock.token = self.locker.shown(&held.token.key),
            lock.owner = held.token.locked_by,
            lock.attempt = held.token.attempt,
            lock.due = %held.token.expected_completion,
            "a lock was dropped without an end; its token stays in progress"
        );
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.held().map(|held| &held.token);
        f.debug_struct("Lock")
            .field("key", &token.map(|token| &token.key))
            .field("attempt", &token.map(|token| &token.attempt))
            .field("due", &self.due())
            .finish_non_exhaustive()
    }
}

fn size(token: &NewToken) -> TokenSize<'_> {
    TokenSize {
        key: token.key.as_str(),
        locked_by: &token.locked_by,
        attempt: &token.attempt,
        fingerprint: token.fingerprint.as_deref(),
        taken_over_from: token.taken_over_from.as_deref(),
        person: 0,
    }
}
