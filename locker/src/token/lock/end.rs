//! Sending an end, and the error that lets a caller send it again or end the lock in another way.

use std::fmt;

use super::guard::{Held, Lock};
use crate::core::private::Private;
use crate::core::token::decide::{self, Ended};
use crate::core::token::write::Write;
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::history::Call;
use crate::store::Written;

/// An end to send.
pub(crate) struct End {
    session: Session,
    held: Box<Held>,
    write: Write,
    /// The digest of the answer, for the history.
    digest: Option<String>,
    /// Whether an earlier call may have applied the write.
    again: bool,
}

impl End {
    pub(crate) const fn new(session: Session, held: Box<Held>, write: Write, digest: Option<String>) -> Self {
        Self { session, held, write, digest, again: false }
    }

    /// The same end, if it is unknown whether this attempt has the token.
    pub(crate) fn again(self) -> Self {
        Self { again: true, ..self }
    }

    pub(crate) async fn send(self) -> Result<(), EndError> {
        let owner = &self.held.token.locked_by;
        let call = Call::write(&self.session, &self.write, owner, self.digest.as_deref());
        let ended = self.send_write().await;
        call.ended(ended.as_ref().copied().map_err(EndError::error));
        ended
    }

    async fn send_write(mut self) -> Result<(), EndError> {
        let until = self.session.until(self.held.deadline).for_end();
        let (store, write) = (self.session.store(), &self.write);
        let sent =
            if self.again { store.write_again(write, until).await } else { store.write(write, until).await };
        let error = match sent {
            Ok(Written::Done) => None,
            Ok(Written::Refused { found: record, after_silence }) => {
                let ended = decide::ended(&self.write, record.as_deref(), after_silence);
                match ended {
                    Ended::Done if after_silence && self.may_have_been_freed_by_another() => {
                        return Err(EndError::lost(overwritten(&self.write)));
                    }
                    Ended::Done => None,
                    Ended::Lost => Some(Error::LostOwnership { verb: self.write.verb(), record }),
                    Ended::Unknown => return Err(EndError::lost(overwritten(&self.write))),
                }
            }
            Err(error) => Some(error),
        };
        let Some(error) = error else {
            metrics::count_outcome(metrics::ENDED, &self.held.token.key, self.write.outcome());
            return Ok(());
        };
        if matches!(error, Error::Unknown { .. }) {
            // It may be stored. Only the same write may follow, or a stored answer could change.
            self.again = true;
            let pending = Private(Some(Box::new(self)));
            return Err(EndError { error: Box::new(error), lock: None, pending });
        }
        self.session.drop_answer(&self.write, self.held.deadline).await;
        match error {
            Error::LostOwnership { .. } => {
                metrics::count(metrics::LOST_OWNERSHIP, &self.held.token.key);
                Err(EndError::lost(error))
            }
            // The token belongs to another writer, whose record cannot be read: there is nothing
            // left to end.
            Error::Record { .. } => Err(EndError::lost(error)),
            error => Err(EndError::kept(error, Lock::taken_back(self.session, self.held))),
        }
    }

    /// Past its expected completion a token may have been taken over and then released by another
    /// owner: nothing distinguishes that from our own release.
    fn may_have_been_freed_by_another(&self) -> bool {
        matches!(self.write, Write::Release { .. })
            && self.held.token.expected_completion <= self.session.now()
    }
}

/// A reply was lost, and then another writer changed the token: it is unknown whether our write was
/// applied.
pub(crate) fn overwritten(write: &Write) -> Error {
    let source = "a reply was lost, and another writer has changed the token since".into();
    Error::Unknown { verb: write.verb(), tries: 2, source }
}

/// A lock could not be ended. Contains the error, and the data to try again.
///
/// Dropping it leaves the token as it is.
#[derive(Debug)]
pub struct EndError {
    error: Box<Error>,
    lock: Option<Box<Lock>>,
    pending: Private<Option<Box<End>>>,
}

impl EndError {
    pub(crate) fn kept(error: Error, lock: Lock) -> Self {
        Self { error: Box::new(error), lock: Some(Box::new(lock)), pending: Private(None) }
    }

    /// An error after which there is nothing left to end.
    pub(crate) fn lost(error: Error) -> Self {
        Self { error: Box::new(error), lock: None, pending: Private(None) }
    }

    /// The error that occurred.
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// The error that occurred, by value.
    #[must_use]
    pub fn into_error(mut self) -> Error {
        self.lock = None;
        *self.error
    }

    /// The error that occurred, and the lock as [`into_lock`](Self::into_lock) returns it.
    #[must_use]
    pub fn into_parts(self) -> (Error, Option<Lock>) {
        (*self.error, self.lock.map(|lock| *lock))
    }

    /// Returns the lock, if this attempt still owns the token for certain: end it in another way.
    /// After [`extend`](Lock::extend), it returns the lock even if that is not certain.
    ///
    /// `None` after [`Error::LostOwnership`]. Also `None` after [`Error::Unknown`] if a different
    /// end could replace an end that was applied: call [`again`](Self::again) instead.
    #[must_use]
    pub fn into_lock(self) -> Option<Lock> {
        self.lock.map(|lock| *lock)
    }

    /// After [`Error::Unknown`], send the same end again, until there is a clear answer.
    ///
    /// # Errors
    ///
    /// As for the verb that you called first, such as [`Error::Unknown`] again or
    /// [`Error::LostOwnership`]. If there is nothing to send again, this error is returned at once:
    /// check [`error`](Self::error) before you repeat the call.
    pub async fn again(mut self) -> Result<(), Self> {
        match self.pending.take() {
            Some(end) => Box::pin(end.send()).await,
            None => Err(self),
        }
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
