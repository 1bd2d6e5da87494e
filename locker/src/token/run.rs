//! The one-call form: begin, work, end.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::begun::{Begun, Holder};
use super::classify::{Class, Classify};
use super::end::EndError;
use super::lock::Lock;
use super::locker::Locker;
use super::options::Token;
use crate::core::answer::{self, AnswerError};
use crate::core::key::Key;
use crate::core::record::Record;
use crate::core::write::Finish;
use crate::error::Error;
use crate::metrics;

/// What the work may want to know of the attempt that it is part of.
#[derive(Debug, Clone)]
pub struct Attempt {
    key: Key,
    id: String,
    took_over: bool,
}

impl Attempt {
    pub(super) const fn new(key: Key, id: String, took_over: bool) -> Self {
        Self { key, id, took_over }
    }

    /// The key of the token.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The id of this begin, as stored in `attempt`. New for every begin, so it is for logs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the token was taken over from an overdue attempt, which may have done the work.
    #[must_use]
    pub const fn took_over(&self) -> bool {
        self.took_over
    }

    /// A key to give to a provider that has idempotency of its own, such as Stripe: the same for
    /// every attempt at this token, so that the provider recognises a second one.
    ///
    /// It is the token's key where that fits into the 255 bytes that providers take, and its SHA-256
    /// otherwise.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.key.for_provider()
    }
}

/// An answer, and where it comes from. Dereferences to the answer.
#[derive(Debug)]
pub struct Answer<T> {
    value: T,
    origin: Origin,
}

/// Where an answer comes from.
#[derive(Debug)]
pub enum Origin {
    /// The work ended in this call, and what that means for the token is done: the answer is stored, or
    /// the failure is, or the token was released or left in doubt.
    Fresh,
    /// The work was done before; this is the stored answer.
    Replayed(Box<Record>),
    /// The work was done in this call, and its answer could not be stored. The work is done: give the
    /// answer to your caller. Others are told that the work is in progress until a person resolves the
    /// token or, after [`Error::LostOwnership`], get the answer of the attempt that took it over.
    Unrecorded(Box<EndError>),
}

impl<T> Answer<T> {
    /// The answer.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Where it comes from.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the work was done before this call.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(self.origin, Origin::Replayed(_))
    }

    /// The answer and where it comes from.
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

/// Why `run` has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The work failed, in this call or before.
    Failed {
        /// How.
        error: E,
        /// What it means: see there what became of the token.
        class: Class,
        /// Whether it failed in this call, and whether that is stored.
        origin: Origin,
    },
    /// Somebody is at work, or died at it. Ask again at [`Holder::retry_after`], or
    /// [`wait_for`](Token::wait_for) the answer.
    InProgress(Holder),
    /// The key was used for another request. Nothing was done; use a new key.
    Mismatch(Box<Record>),
    /// The question was not answered. The work was not done by this call.
    Locker(Error),
}

impl<E> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { class, origin: Origin::Replayed(_), .. } => {
                write!(f, "the work failed before: class={}", class.as_str())
            }
            Self::Failed { class, .. } => write!(f, "the work failed: class={}", class.as_str()),
            Self::InProgress(holder) => {
                write!(f, "the work is in progress: try again in {} s", holder.retry_after().as_secs())
            }
            Self::Mismatch(_) => f.write_str("the key was used for another request; use a new key"),
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

impl Token {
    /// Do the work once: take the token, work, store the answer; or give the stored answer.
    ///
    /// The work runs on this task, once, and only if the token was taken. Its error says by its
    /// [`Class`] what becomes of the token. The outcome is logged before it is stored.
    ///
    /// Await `run` before you reply to anybody: in AWS Lambda an environment is frozen after the reply,
    /// and an end that is still on its way lands minutes later or never.
    ///
    /// # Errors
    ///
    /// [`RunError`]. Work that succeeded is never an error: if only storing the answer failed, the
    /// answer comes as [`Origin::Unrecorded`].
    ///
    /// # Crash window
    ///
    /// A process that dies after begin and before the answer is stored leaves the token in progress.
    /// Nobody runs the work again, unless the caller chose to take over, and the scanner reports it
    /// once it is due. Whether the work happened, the log knows best.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the work runs, it leaves the token in progress, as a crash does.
    ///
    /// # Cost
    ///
    /// 2 requests and 4 write units with the index; a replay is 1 request and 1 write unit. See
    /// [`begin`](Self::begin) and [`Lock::complete`]. With [`keep_extended`](Self::keep_extended),
    /// an extension at each third of the expected time.
    pub async fn run<T, E, F, Fut>(self, work: F) -> Result<Answer<T>, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let extend = self.keep_extended;
        match self.begin().await? {
            Begun::Acquired(lock) => lock.run(extend, work).await,
            Begun::Completed(replay) => {
                let value = replay.result().map_err(Error::from)?;
                Ok(Answer { value, origin: Origin::Replayed(replay.record) })
            }
            Begun::Failed(failure) => Err(RunError::Failed {
                error: failure.error().map_err(Error::from)?,
                class: failure.class(),
                origin: Origin::Replayed(failure.record),
            }),
            Begun::InProgress(holder) => Err(RunError::InProgress(holder)),
            Begun::Mismatch(record) => Err(RunError::Mismatch(record)),
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
        let (locker, attempt) = (self.locker().clone(), self.attempt());
        let key = attempt.key().clone();
        let began = Instant::now();
        let work = work(attempt.clone());
        let result = if extend {
            tokio::select! {
                biased;
                result = work => result,
                never = self.stay_ahead() => match never {},
            }
        } else {
            work.await
        };
        let seconds = began.elapsed().as_secs_f64();
        match result {
            Ok(value) => {
                metrics::work_took(&key, "success", seconds);
                let (json, value) = as_stored(value);
                let ended = self.finish(Finish::Success, json).await;
                let origin = ended.map_or_else(|end| locker.unrecorded(&attempt, end), |()| Origin::Fresh);
                Ok(Answer { value, origin })
            }
            Err(error) => {
                let class = error.class();
                metrics::work_took(&key, class.as_str(), seconds);
                let (error, ended) = match class {
                    Class::Transient => (error, self.release().await),
                    Class::InDoubt => {
                        self.leave_in_doubt();
                        (error, Ok(()))
                    }
                    Class::Permanent | Class::NeedsPerson => {
                        let (json, error) = as_stored(error);
                        let finish =
                            if class == Class::Permanent { Finish::Failure } else { self.needs_person() };
                        (error, self.finish(finish, json).await)
                    }
                };
                let origin = ended.map_or_else(|end| locker.unrecorded(&attempt, end), |()| Origin::Fresh);
                Err(RunError::Failed { error, class, origin })
            }
        }
    }

    /// Extend at each third of the expected time, until dropped or lost.
    async fn stay_ahead(&mut self) -> Infallible {
        let expected = self.expected().max(Duration::from_secs(1));
        loop {
            tokio::time::sleep(expected / 3).await;
            match self.push_due(expected).await {
                Ok(()) => {}
                Err(error @ Error::LostOwnership { .. }) => {
                    tracing::error!(%error, "the work goes on without its token");
                    std::future::pending::<()>().await;
                }
                Err(error) => tracing::warn!(%error, "the token could not be extended; trying again"),
            }
        }
    }
}

/// The JSON of a value, and the value as every later caller will read it.
///
/// What cannot be read back (`NaN` has no JSON form, and serde writes null for it) is better found now,
/// by the writer, than by a reader for whom it is too late. What reads back differently (`Some(None)`,
/// skipped fields) is given as it is stored, so that the first caller sees what all others do.
fn as_stored<T: Serialize + DeserializeOwned>(value: T) -> (Result<String, AnswerError>, T) {
    match answer::to_json(&value).and_then(|json| Ok((answer::from_json(&json)?, json))) {
        Ok((stored, json)) => (Ok(json), stored),
        Err(error) => (Err(error), value),
    }
}

impl Locker {
    /// The work is done; only its record is not.
    pub(crate) fn unrecorded(&self, attempt: &Attempt, end: EndError) -> Origin {
        metrics::count(metrics::UNRECORDED, attempt.key());
        let cause = std::error::Error::source(&end).map(ToString::to_string);
        tracing::error!(
            lock.token = self.shown(attempt.key()),
            lock.attempt = attempt.id(),
            error = %end,
            cause,
            "how the work ended could not be stored"
        );
        Origin::Unrecorded(Box::new(end))
    }
}
