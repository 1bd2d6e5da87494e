//! The guard: a token that is held, and the verbs that end it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::locker::Locker;
use super::run::Attempt;
use crate::core::answer::{self, Body};
use crate::core::decide::{self, Ended};
use crate::core::key::Key;
use crate::core::record::{Record, State};
use crate::core::time;
use crate::core::write::{Finish, NewToken, Write, answer_key};
use crate::error::Error;
use crate::metrics;
use crate::settings::{Retention, check_expect_within};
use crate::store::{Applied, TokenSize, room_for_answer};

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
    pub(super) retention: Retention,
    pub(super) deadline: Option<DateTime<Utc>>,
    pub(super) predecessor: Option<Box<Record>>,
}

impl Lock {
    pub(super) fn new(locker: Locker, held: Held) -> Self {
        Self { locker, held: Some(Box::new(held)) }
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
        match answer::to_json(answer) {
            Ok(json) => self.finish(Finish::Success, json).await,
            Err(error) => Err(EndError::kept(error.into(), self)),
        }
    }

    /// Store a failure as the answer: the work failed for good, and everyone who comes later with the
    /// same key gets this failure.
    ///
    /// # Errors
    ///
    /// As of [`complete`](Self::complete), whose crash window and cost it shares.
    pub async fn complete_err<E: Serialize + ?Sized>(self, failure: &E) -> Result<(), EndError> {
        match answer::to_json(failure) {
            Ok(json) => self.finish(Finish::Failure, json).await,
            Err(error) => Err(EndError::kept(error.into(), self)),
        }
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
        match (answer::to_json(failure), self.held()) {
            (Ok(json), Some(held)) => {
                let status = self.locker.status(State::Failed, &held.token.key);
                self.finish(Finish::NeedsPerson { status }, json).await
            }
            (Ok(_), None) => Ok(()),
            (Err(error), _) => Err(EndError::kept(error.into(), self)),
        }
    }

    /// Let go of the token: nothing happened, and somebody may try again.
    ///
    /// # Errors
    ///
    /// [`EndError`]. [`Error::LostOwnership`]: another attempt holds the token, and nothing was changed.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index).
    pub async fn release(mut self) -> Result<(), EndError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.locker.log_end(&held.token, "released");
        let write = Write::Release { key: held.token.key.clone(), attempt: held.token.attempt.clone() };
        End { locker: self.locker.clone(), held, write }.send(false).await
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
                Err(EndError { error: Box::new(error), lock: None, pending: None })
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
        let until = self.locker.until(held.deadline);
        if let Applied::No { record, after_silence } = self.locker.store().write(write.clone(), until).await?
            && decide::ended(&write, record.as_deref(), after_silence) == Ended::Lost
        {
            metrics::count(metrics::LOST_OWNERSHIP, &held.token.key);
            return Err(Error::LostOwnership { verb: write.verb(), record });
        }
        metrics::count(metrics::EXTENDED, &held.token.key);
        held.token.expected_completion = due;
        Ok(())
    }

    /// Store how the work ended: a large answer first, then the token that points to it.
    pub(super) async fn finish(mut self, finish: Finish, json: String) -> Result<(), EndError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let retention = match &finish {
            Finish::Success | Finish::Failure => held.retention,
            Finish::NeedsPerson { .. } => Retention::Forever,
        };
        self.locker.log_end(&held.token, finish.outcome());
        let at = self.locker.now();
        let ttl = Locker::ttl(at, retention);
        let stored = self.locker.place(size(&held.token), json, ttl, held.deadline).await;
        let body = match stored {
            Ok(body) => body,
            Err(error) => {
                self.held = Some(held);
                return Err(EndError::kept(error, self));
            }
        };
        let (key, attempt) = (held.token.key.clone(), held.token.attempt.clone());
        let write = Write::Finish { key, attempt, at, finish, body, ttl };
        End { locker: self.locker.clone(), held, write }.send(false).await
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

impl Locker {
    /// The outcome, in the log before it is in the table. Source: seed 004.
    fn log_end(&self, token: &NewToken, outcome: &'static str) {
        tracing::info!(
            lock.token = self.shown(&token.key),
            lock.owner = token.locked_by,
            lock.attempt = token.attempt,
            lock.outcome = outcome,
            "the work ended"
        );
    }

    /// Put an answer where it belongs: into the token, or first into an item of its own.
    pub(super) async fn place(
        &self,
        token: TokenSize<'_>,
        json: String,
        ttl: Option<i64>,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Body, Error> {
        // The answer outlives its token, so that no reader finds one without the other.
        const MARGIN: i64 = 24 * 60 * 60;
        let id = self.new_id();
        let key = answer_key(token.key, &id);
        let (encoded, fits) = answer::encode(json, room_for_answer(&token), answer::most_bytes(key.len()))?;
        if fits {
            return Ok(Body::Inline(encoded));
        }
        let (codec, bytes) = (encoded.codec, encoded.bytes.len());
        let ttl = ttl.map(|ttl| ttl.saturating_add(MARGIN));
        self.store().write(Write::PutAnswer { key, encoded, ttl }, self.until(deadline)).await?;
        Ok(Body::Beside { codec, id, bytes })
    }

    /// Delete an answer that no token came to point to. If that fails, its `ttl` does it.
    pub(super) async fn drop_answer(&self, write: &Write, deadline: Option<DateTime<Utc>>) {
        let (Write::Finish { key, body, .. } | Write::Resolve { key, body, .. }) = write else { return };
        let Body::Beside { id, .. } = body else { return };
        let drop = Write::DropAnswer { key: answer_key(key.as_str(), id) };
        if let Err(error) = self.store().write(drop, self.until(deadline)).await {
            tracing::debug!(%error, "an unused answer stays behind");
        }
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

/// An end on its way.
struct End {
    locker: Locker,
    held: Box<Held>,
    write: Write,
}

impl End {
    /// `again`: an earlier call may have applied it.
    async fn send(self, again: bool) -> Result<(), EndError> {
        let until = self.locker.until(self.held.deadline);
        let key = &self.held.token.key;
        match self.locker.store().write(self.write.clone(), until).await {
            Ok(Applied::Yes) => {}
            Ok(Applied::No { record, after_silence }) => {
                let ended = decide::ended(&self.write, record.as_deref(), after_silence || again);
                if ended == Ended::Lost {
                    metrics::count(metrics::LOST_OWNERSHIP, key);
                    self.locker.drop_answer(&self.write, self.held.deadline).await;
                    let error = Error::LostOwnership { verb: self.write.verb(), record };
                    return Err(EndError { error: Box::new(error), lock: None, pending: None });
                }
            }
            // It may be stored. Only the very same write may follow, or an answer could change.
            Err(error @ Error::Unknown { .. }) => {
                let pending = Some(Box::new(self));
                return Err(EndError { error: Box::new(error), lock: None, pending });
            }
            Err(error) => {
                self.locker.drop_answer(&self.write, self.held.deadline).await;
                return Err(EndError::kept(error, Lock { locker: self.locker, held: Some(self.held) }));
            }
        }
        metrics::count_outcome(metrics::ENDED, key, self.write.outcome());
        Ok(())
    }
}

/// Why a lock could not be ended, with what is needed to try again.
///
/// If this is dropped, the token stays as it is.
pub struct EndError {
    error: Box<Error>,
    lock: Option<Box<Lock>>,
    pending: Option<Box<End>>,
}

impl EndError {
    pub(super) fn kept(error: Error, lock: Lock) -> Self {
        Self { error: Box::new(error), lock: Some(Box::new(lock)), pending: None }
    }

    /// Why.
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// Why, by value.
    #[must_use]
    pub fn into_error(mut self) -> Error {
        self.lock = None;
        *self.error
    }

    /// The lock, where the token is surely still held and not ended: to end it in another way.
    ///
    /// `None` after [`Error::LostOwnership`], and after [`Error::Unknown`], where another end could
    /// replace one that was applied: [`again`](Self::again) is the way on.
    #[must_use]
    pub fn into_lock(self) -> Option<Lock> {
        self.lock.map(|lock| *lock)
    }

    /// After [`Error::Unknown`]: send the very same end again, until there is a clear answer.
    ///
    /// # Errors
    ///
    /// As the first time; at once and unchanged where there is nothing to send again.
    pub async fn again(mut self) -> Result<(), Self> {
        match self.pending.take() {
            Some(end) => Box::pin(end.send(true)).await,
            None => Err(self),
        }
    }
}

impl fmt::Debug for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for EndError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.error)
    }
}

impl From<EndError> for Error {
    fn from(end: EndError) -> Self {
        end.into_error()
    }
}
