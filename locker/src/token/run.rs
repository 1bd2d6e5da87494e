//! The one-call form: begin, do the work, end.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::begin::begun::{Begun, Holder};
use super::begin::builder::BeginBuilder;
use super::lock::end::EndError;
use super::lock::guard::{Held, Lock};
use crate::core::answer::{self, AnswerError};
use crate::core::class::Class;
use crate::core::form::Form;
use crate::core::time;
use crate::core::token::record::Record;
use crate::core::token::write::Finish;
use crate::error::Error;
use crate::failure::{self, Classify};
use crate::metrics;
use crate::session::{self, Session};

/// An answer and its origin. Dereferences to the answer.
#[derive(Debug)]
pub struct Answer<T> {
    value: T,
    origin: Origin,
}

/// The origin of an answer or a failure.
#[derive(Debug)]
pub enum Origin {
    /// The work ended in this call, and the token was ended accordingly: the answer or the failure
    /// is stored, or the token was released, given back or left in doubt.
    Fresh,
    /// The work ended before this call; this is its stored answer or failure.
    Replayed(Box<Record>),
    /// The work ended in this call, but it is not certain that its outcome was stored.
    ///
    /// If the work succeeded, it is done: return the answer to your caller. Other callers may find
    /// the work in progress until an operator resolves the token. After [`Error::Answer`] they find
    /// the token held. After [`Error::LostOwnership`] they get the outcome of the attempt that took
    /// it over, or of the operator who ended it.
    Unrecorded(Box<EndError>),
}

impl<T> Answer<T> {
    /// The answer, by value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The origin of the answer.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the answer was stored before this call.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(self.origin, Origin::Replayed(_))
    }

    /// The answer and its origin.
    #[must_use]
    pub fn into_parts(self) -> (T, Origin) {
        (self.value, self.origin)
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The error of [`BeginBuilder::run`]: there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The work failed, in this call or before.
    Failed {
        /// The failure of the work.
        error: E,
        /// The cause of the failure: [`Classify::cause`], in at most 200 bytes.
        cause: String,
        /// The class of the failure, which decides what happens to the token.
        class: Class,
        /// Whether the work failed in this call, and whether that is stored.
        origin: Origin,
    },
    /// Another caller is working, or died while working. Ask again after [`Holder::retry_after`],
    /// or use [`wait_for`](BeginBuilder::wait_for).
    InProgress(Holder),
    /// The key was used for another request, which may have been processed. This call did not do
    /// the work. Send that request unchanged, or send this request with a new key.
    Mismatch(Box<Record>),
    /// The table was restored, and may have forgotten that the work was done. This call did not do
    /// the work. The key is held for an operator; see [`Begun::Restored`].
    Restored(Box<Record>),
    /// There is no outcome. The error contains the reason and the remedy. This call did not do the
    /// work.
    Locker(Error),
}

impl<E> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { class, cause, origin: Origin::Replayed(_), .. } => {
                write!(f, "the work failed before: class={}: {cause}", class.as_str())
            }
            Self::Failed { class, cause, .. } => {
                write!(f, "the work failed: class={}: {cause}", class.as_str())
            }
            Self::InProgress(holder) => {
                write!(f, "the work is in progress: try again in {} s", holder.retry_after().as_secs())
            }
            Self::Mismatch(_) => f.write_str(
                "the key was used for another request, which may have been processed; send that request unchanged, or this request with a new key",
            ),
            Self::Restored(_) => {
                f.write_str("the table was restored and may have forgotten this work; an operator decides")
            }
            Self::Locker(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Locker(error) => error.source(),
            _ => None,
        }
    }
}

impl<E> From<Error> for RunError<E> {
    fn from(error: Error) -> Self {
        Self::Locker(error)
    }
}

impl BeginBuilder {
    /// Does the work once and stores its answer, or returns the stored answer.
    ///
    /// The work runs once, on the current task, and only if this call acquired the token. The
    /// [`Class`] of its error determines the end of the token. The outcome is logged before it is
    /// stored.
    ///
    /// Await `run` before you reply to your caller: AWS Lambda freezes an environment after the
    /// reply, and a write in flight arrives minutes later or never.
    ///
    /// # Errors
    ///
    /// [`RunError`]. Work that succeeded in this call is never an error: if only storing its answer
    /// failed, the answer is returned with [`Origin::Unrecorded`].
    ///
    /// An answer that is too large to be stored, or that JSON would change, holds the token for an
    /// operator: the work happened. For a failure that cannot be stored, its class and its cause
    /// are stored. To return something else instead, call [`Attempt::check_answer`] in the work.
    ///
    /// # Crash window
    ///
    /// A process that dies after begin and before the answer is stored leaves the token in
    /// progress. No other caller runs the work unless it chose to take over, and the scanner
    /// reports the token once it is overdue. The log has the outcome if the work had ended.
    ///
    /// # Cancel safety
    ///
    /// If dropped while the work runs, the token stays in progress, as after a crash. If dropped
    /// while the answer is stored, the work is done: call `run` with the same key again, which
    /// returns the stored answer or reports the token as in progress.
    ///
    /// # Cost
    ///
    /// 2 requests and 4 write units (table and index); a replay is 1 request and 1 write unit. See
    /// [`begin`](Self::begin) and [`Lock::complete`]. With [`keep_extended`](Self::keep_extended),
    /// also one [`extend`](Lock::extend) for each third of the expected duration.
    ///
    /// # Examples
    ///
    /// The type of the failure is that of the work. A closure that calls nothing fallible has no
    /// such type: call a function instead.
    ///
    /// ```no_run
    /// use locker::{Failure, Locker, RunError};
    ///
    /// # async fn charge(_key: String) -> Result<u64, Failure> { todo!() }
    /// async fn order(locker: &Locker) -> Result<u64, RunError<Failure>> {
    ///     let token = locker.token(("order/create", 7));
    ///     let answer = token.run(async |attempt| charge(attempt.idempotency_key()).await).await?;
    ///     Ok(answer.into_inner())
    /// }
    /// ```
    pub async fn run<T, E, F, Fut>(mut self, work: F) -> Result<Answer<T>, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let extend = self.keep_extended;
        self.form = self.form.or_else(|| Some(Form::of::<T>()));
        match self.begin().await? {
            Begun::Acquired(lock) => lock.run(extend, work).await,
            Begun::Completed(replay) => {
                let value = replay.result().map_err(Error::from)?;
                Ok(Answer { value, origin: Origin::Replayed(replay.record) })
            }
            Begun::Failed(failure) | Begun::Held(failure) => {
                let error: E = failure.error().map_err(Error::from)?;
                Err(RunError::Failed {
                    cause: failure::said(&error),
                    error,
                    class: failure.class(),
                    origin: Origin::Replayed(failure.record),
                })
            }
            Begun::InProgress(holder) => Err(RunError::InProgress(holder)),
            Begun::Mismatch(record) => Err(RunError::Mismatch(record)),
            Begun::Restored(record) => Err(RunError::Restored(record)),
        }
    }
}

impl Lock {
    async fn run<T, E, F, Fut>(mut self, extend: bool, work: F) -> Result<Answer<T>, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let (session, attempt) = (self.session().clone(), self.attempt());
        let key = attempt.key().clone();
        let (began, begun_at) = (Instant::now(), session.now());
        let work = session::inside(attempt.request(), work(attempt.clone()));
        let result = if extend {
            tokio::select! {
                biased;
                result = work => result,
                never = self.stay_ahead(begun_at, began) => match never {},
            }
        } else {
            work.await
        };
        let seconds = began.elapsed().as_secs_f64();
        match result {
            Ok(value) => {
                metrics::work_took(&key, "success", seconds);
                let (json, value) = as_stored(value);
                let ended = self.succeed::<E>(json).await;
                let origin = match ended {
                    Ok(()) => Origin::Fresh,
                    Err(end) => session.unrecorded(&attempt, end),
                };
                Ok(Answer { value, origin })
            }
            Err(error) => {
                let (class, cause) = (error.class(), failure::said(&error));
                metrics::work_took(&key, class.as_str(), seconds);
                let (error, ended) = match class {
                    // The failure proves nothing about the attempt that the token was taken over
                    // from.
                    Class::Transient if attempt.took_over() => {
                        (error, self.give_back(cause.clone()).await.map_err(EndError::lost))
                    }
                    Class::Transient => (error, self.release_because(Some(&cause)).await),
                    Class::InDoubt => (error, self.doubt(cause.clone()).await.map_err(EndError::lost)),
                    Class::Permanent | Class::NeedsOperator => {
                        let (json, error) = as_stored(error);
                        let finish = self.failed(class, &cause);
                        (error, self.fail_as::<E>(finish, json, (class, &cause)).await)
                    }
                };
                let origin = match ended {
                    Ok(()) => Origin::Fresh,
                    // There is no result.
                    Err(end) if matches!(class, Class::Transient | Class::InDoubt) => {
                        session.not_stored(&attempt, end)
                    }
                    Err(end) => session.unrecorded(&attempt, end),
                };
                Err(RunError::Failed { error, cause, class, origin })
            }
        }
    }

    /// Stores the answer. If that fails, holds the token: the work is done, so no other
    /// caller may do it.
    async fn succeed<E: Classify>(self, json: Result<String, AnswerError>) -> Result<(), EndError> {
        let Some((error, lock)) = refused(self.finish(Finish::Success, json).await)? else {
            return Ok(());
        };
        let why = answer::unrecorded(&error);
        let hold = lock.needs_operator(&why);
        lock.finish(hold, Ok(instead::<E>(Class::NeedsOperator, &why))).await?;
        Err(EndError::lost(error.into()))
    }

    /// Stores a failure. If its details cannot be stored, stores its class and its cause.
    async fn fail_as<E: Classify>(
        self,
        finish: Finish,
        json: Result<String, AnswerError>,
        (class, cause): (Class, &str),
    ) -> Result<(), EndError> {
        match refused(self.finish(finish.clone(), json).await)? {
            None => Ok(()),
            Some((error, lock)) => {
                let why = format!("{cause}; {}", answer::not_whole(&error));
                lock.finish(finish, Ok(instead::<E>(class, &why))).await
            }
        }
    }

    /// Returns the end of the token after a failure. After a takeover, the failure proves nothing
    /// about the former attempt, which may have done the work. Then the failure becomes the answer
    /// only if an operator decides so.
    fn failed(&self, class: Class, cause: &str) -> Finish {
        let in_doubt = self.held().is_some_and(Held::may_have_been_done);
        match class {
            Class::Permanent if !in_doubt => Finish::Failure,
            Class::Permanent => self.needs_operator(&format!(
                "failed after a takeover, and the attempt before may have done the work: {cause}"
            )),
            _ => self.needs_operator(cause),
        }
    }

    /// Extends at each third of the expected duration, until dropped or until ownership is lost. If
    /// less than two thirds of the time are left at the begin, it extends at once.
    ///
    /// The due time grows by the time that has passed since the begin, even if the clock of this
    /// machine is set back: the clocks of other machines decide whether the token is overdue.
    pub(crate) async fn stay_ahead(&mut self, begun_at: DateTime<Utc>, began: Instant) -> Infallible {
        let expected = self.expected().max(Duration::from_secs(1));
        let third = expected / 3;
        let left =
            self.held().map(|held| time::between(self.session().now(), held.token.expected_completion));
        let mut pause = left.unwrap_or_default().saturating_sub(expected - third).min(third);
        loop {
            tokio::time::sleep(pause).await;
            pause = third;
            let now = self.session().now().max(time::after(begun_at, began.elapsed()));
            match self.push_due(now, expected).await {
                Ok(()) => {}
                Err(error @ Error::LostOwnership { .. }) => {
                    tracing::error!(%error, "the work continues, but this attempt no longer owns its token");
                    std::future::pending::<()>().await;
                }
                Err(error) => tracing::warn!(%error, "the token could not be extended; trying again"),
            }
        }
    }
}

/// The JSON of a value, and the value as every later caller will read it.
fn as_stored<T: Serialize + DeserializeOwned>(value: T) -> (Result<String, AnswerError>, T) {
    match answer::to_json_and_back(&value) {
        Ok((json, stored)) => (Ok(json), stored),
        Err(error) => (Err(error), value),
    }
}

/// The lock of an end whose value cannot be stored, and the reason. `None`: the value was stored.
fn refused(ended: Result<(), EndError>) -> Result<Option<(AnswerError, Lock)>, EndError> {
    match ended {
        Err(end) if matches!(end.error(), Error::Answer(_)) => match end.into_parts() {
            (Error::Answer(error), Some(lock)) => Ok(Some((error, lock))),
            (error, _) => Err(EndError::lost(error)),
        },
        ended => ended.map(|()| None),
    }
}

/// The JSON of a text that is stored instead of a value that cannot be stored. If the failure type
/// of later callers is a [`Failure`](crate::Failure) of a text, or a text, they can read it.
fn instead<E: Classify>(class: Class, text: &str) -> String {
    let classed = serde_json::json!({ "class": class, "error": text }).to_string();
    let is_read = |json: &String| answer::from_json::<E>(json).is_ok_and(|error| error.class() == class);
    if is_read(&classed) { classed } else { answer::text(text) }
}

impl Session {
    /// Counts and logs an answer or a failure that could not be stored.
    pub(crate) fn unrecorded(&self, attempt: &Attempt, end: EndError) -> Origin {
        metrics::count(metrics::UNRECORDED, attempt.key());
        self.log_unstored(attempt, end, "how the work ended could not be stored")
    }

    /// Logs an end without a result that could not be stored.
    pub(crate) fn not_stored(&self, attempt: &Attempt, end: EndError) -> Origin {
        self.log_unstored(attempt, end, "a release or a doubt could not be stored")
    }

    fn log_unstored(&self, attempt: &Attempt, end: EndError, said: &str) -> Origin {
        let cause = std::error::Error::source(&end).map(ToString::to_string);
        tracing::error!(
            lock.token = self.shown(attempt.key().as_str()),
            lock.attempt = attempt.id(),
            error = %end,
            cause,
            "{said}"
        );
        Origin::Unrecorded(Box::new(end))
    }
}
