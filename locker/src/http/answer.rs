//! Responses for the outcomes of tokens, for the layer and for handlers that begin a token
//! themselves.

use http::Response;

use super::body::{Whole, rebuilt};
use super::problem::{NotTheEnd, Problem};
use super::stored::StoredResponse;
use crate::core::answer::from_json;
use crate::core::class::Class;
use crate::core::form::Form;
use crate::error::Error;
use crate::token::{Begun, Holder, NotBegun, Origin, RunError};

/// The stored response of a token that was begun before, or the problem. `None` if the token was
/// acquired.
pub(super) fn answered(begun: &Begun) -> Option<Result<Response<Whole>, Problem>> {
    let (record, json, otherwise) = match begun {
        Begun::Acquired(_) => return None,
        Begun::Completed(replay) => (replay.record(), replay.json(), Problem::NoResponse),
        Begun::Failed(failure) => (failure.record(), failure.json(), Problem::NoResponse),
        Begun::Held(failure) => (failure.record(), failure.json(), Problem::Held),
        Begun::InProgress(holder) => return Some(Err(holder.into())),
        Begun::Mismatch(_) => return Some(Err(Problem::KeyReused)),
        Begun::Restored(_) => return Some(Err(Problem::Restored)),
    };
    if record.is_redacted() {
        return Some(Err(Problem::Redacted));
    }
    // An answer of another type may contain a `status` as well.
    let is_response = record.form().is_none_or(|form| *form == Form::HTTP);
    let stored = is_response.then(|| from_json::<StoredResponse>(json).ok()).flatten();
    Some(stored.and_then(StoredResponse::replay).ok_or(otherwise))
}

impl Begun {
    /// The HTTP response of a token that was not acquired: status, headers with `Retry-After`, and
    /// body. `None` if it was acquired: do the work.
    ///
    /// A stored response of the HTTP layer ([`Form::HTTP`](crate::Form::HTTP)) is replayed, without
    /// its trailers. An answer of another form is [`Problem::NoResponse`], or [`Problem::Held`] if
    /// the token is held. If you store answers of your own type, match
    /// [`Completed`](Self::Completed), [`Failed`](Self::Failed) and [`Held`](Self::Held) before you
    /// call this.
    ///
    /// In a handler behind the layer, see [`RunError::response`].
    ///
    /// The body is of the type that your service answers with, such as `axum::body::Body`,
    /// `lambda_http::Body` or `Bytes`.
    #[must_use]
    pub fn response<B>(&self) -> Option<Response<B>>
    where
        B: Default + From<String> + From<Vec<u8>>,
    {
        let mut response = match answered(self)? {
            Ok(response) => response.map(|whole| rebuilt(whole.bytes)),
            Err(problem) => problem.response(),
        };
        if matches!(self, Self::Held(_)) {
            NotTheEnd::mark(&mut response);
        }
        Some(response)
    }
}

impl<E> RunError<E> {
    /// The HTTP response of work without an answer: status, `Retry-After` and problem document.
    ///
    /// The document does not contain the failure of the work, which may be private. If the failure
    /// is an answer to your caller, such as a declined card, match [`Failed`](Self::Failed) before
    /// you call this.
    ///
    /// In a handler behind the layer, set
    /// [`Resumable::one_effect`](crate::http::Resumable::one_effect). Otherwise a problem that is
    /// not the end, such as `in-progress`, `held` or `not-now`, leaves the token of the request in
    /// doubt: it is listed for an operator. Without
    /// [`resumable`](crate::http::HttpSettings::resumable), a retry then does not help, even if the
    /// document states it.
    ///
    /// The body is of the type that your service answers with, such as `axum::body::Body`,
    /// `lambda_http::Body` or `Bytes`.
    #[must_use]
    pub fn response<B: From<String>>(&self) -> Response<B> {
        Problem::from(self).response()
    }
}

impl<E> From<&RunError<E>> for Problem {
    fn from(error: &RunError<E>) -> Self {
        match error {
            RunError::Failed { class, origin, .. } => of_failure(*class, origin),
            RunError::InProgress(holder) => holder.into(),
            RunError::Mismatch(_) => Self::KeyReused,
            RunError::Restored(_) => Self::Restored,
            RunError::Locker(Error::Unknown { .. }) => Self::NotRun,
            RunError::Locker(error) => error.into(),
        }
    }
}

fn of_failure(class: Class, origin: &Origin) -> Problem {
    let is_recorded = !matches!(origin, Origin::Unrecorded(_));
    match class {
        Class::Transient => Problem::NotNow { released: is_recorded },
        Class::Permanent => Problem::Failed,
        Class::NeedsOperator if is_recorded => Problem::Held,
        // It is not certain that the token is listed: the write for that is tried only once.
        Class::NeedsOperator | Class::InDoubt => Problem::InDoubt { resumable: false, listed: false },
    }
}

impl From<&Holder> for Problem {
    fn from(holder: &Holder) -> Self {
        match holder.overdue {
            Some(since) => {
                Self::Overdue { since, resumable: holder.is_continued, listed: holder.record.is_listed() }
            }
            None => Self::InProgress(holder.retry_after()),
        }
    }
}

impl From<&NotBegun> for Problem {
    fn from(not_begun: &NotBegun) -> Self {
        match not_begun {
            // A retry may acquire the token.
            NotBegun { error: Error::Unknown { .. }, is_withdrawn: true } => Self::Unavailable,
            NotBegun { error: Error::Unknown { .. }, is_withdrawn: false } => Self::NotRun,
            NotBegun { error, .. } => error.into(),
        }
    }
}
