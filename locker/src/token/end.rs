//! An end on its way, and what is left when it does not arrive.

use std::fmt;

use super::lock::{Held, Lock};
use super::locker::Locker;
use crate::core::decide::{self, Ended};
use crate::core::write::Write;
use crate::error::Error;
use crate::history::Call;
use crate::metrics;
use crate::store::Applied;

/// An end on its way.
pub(super) struct End {
    locker: Locker,
    held: Box<Held>,
    write: Write,
    /// Of the answer, for the history.
    digest: Option<String>,
    /// Whether an earlier call may have applied it.
    again: bool,
}

impl End {
    pub(super) const fn new(locker: Locker, held: Box<Held>, write: Write, digest: Option<String>) -> Self {
        Self { locker, held, write, digest, again: false }
    }

    pub(super) async fn send(self) -> Result<(), EndError> {
        let owner = &self.held.token.locked_by;
        let call = Call::write(&self.locker, &self.write, owner, self.digest.as_deref());
        let ended = self.send_write().await;
        call.ended(ended.as_ref().copied().map_err(EndError::error));
        ended
    }

    async fn send_write(mut self) -> Result<(), EndError> {
        let until = self.locker.until(self.held.deadline).for_end();
        let (store, write) = (self.locker.store(), &self.write);
        let sent =
            if self.again { store.write_again(write, until).await } else { store.write(write, until).await };
        let error = match sent {
            Ok(Applied::Yes) => None,
            Ok(Applied::No { record, after_silence }) => {
                let ended = decide::ended(&self.write, record.as_deref(), after_silence);
                #[cfg(feature = "mutants")]
                let ended = crate::mutants::ended(ended);
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
            #[cfg(feature = "mutants")]
            crate::mutants::drop_answer_in_doubt(&self.locker, &self.write).await;
            // It may be stored. Only the very same write may follow, or an answer could change.
            self.again = true;
            return Err(EndError { error: Box::new(error), lock: None, pending: Some(Box::new(self)) });
        }
        self.locker.drop_answer(&self.write, self.held.deadline).await;
        match error {
            Error::LostOwnership { .. } => {
                metrics::count(metrics::LOST_OWNERSHIP, &self.held.token.key);
                Err(EndError::lost(error))
            }
            // Another's record that cannot be read: nothing is held any more.
            Error::Record(_) => Err(EndError::lost(error)),
            error => Err(EndError::kept(error, Lock::taken_back(self.locker, self.held))),
        }
    }

    /// Past its due time a token may have been taken over, and then let go of: nothing is left that
    /// tells this from a release of our own.
    fn may_have_been_freed_by_another(&self) -> bool {
        matches!(self.write, Write::Release { .. })
            && self.held.token.expected_completion <= self.locker.now()
    }
}

/// A reply was lost, and then somebody changed the token: nobody can tell whether ours was applied.
pub(super) fn overwritten(write: &Write) -> Error {
    let source = "a reply was lost, and the token has been changed by somebody since".into();
    Error::Unknown { verb: write.verb(), tries: 2, source }
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

    /// There is nothing left to end.
    pub(super) fn lost(error: Error) -> Self {
        Self { error: Box::new(error), lock: None, pending: None }
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

    /// Why, and the lock as [`into_lock`](Self::into_lock) gives it.
    #[must_use]
    pub fn into_parts(self) -> (Error, Option<Lock>) {
        (*self.error, self.lock.map(|lock| *lock))
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
    /// [`Error::Unknown`] once more, or [`Error::LostOwnership`]. Where there is nothing to send again,
    /// this error, at once: look at [`error`](Self::error) before you repeat it.
    pub async fn again(mut self) -> Result<(), Self> {
        match self.pending.take() {
            Some(end) => Box::pin(end.send()).await,
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
