//! The guard of an acquired token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::token::record::Record;
use crate::core::token::write::NewToken;
use crate::session::Session;
use crate::token::attempt::Attempt;

/// An acquired token, and the verbs that end it.
///
/// End it with [`complete`](Self::complete), [`fail`](Self::fail), [`hold`](Self::hold),
/// [`release`](Self::release) or [`leave_in_doubt`](Self::leave_in_doubt).
///
/// Every verb consumes the lock, so ending it twice does not compile:
///
/// ```compile_fail,E0382
/// # async fn work(lock: locker::Lock) -> Result<(), locker::EndError> {
/// lock.complete(&"done").await?;
/// lock.release().await?; // error[E0382]: use of moved value: `lock`
/// # Ok(())
/// # }
/// ```
///
/// Ending it once does:
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
/// If a lock is dropped before it is ended, its token stays in progress, as if the process had
/// died: no other caller does the work unless it chose to take over, and the scanner reports the
/// token once it is overdue. Dropping only logs a warning.
#[must_use = "a token stays in progress until its lock is ended"]
pub struct Lock {
    pub(crate) session: Session,
    /// `None` once it is ended, which keeps `Drop` silent.
    pub(crate) held: Option<Box<Held>>,
}

/// The state of a lock's token, as the lock knows it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) token: Arc<NewToken>,
    pub(crate) expected: Duration,
    pub(crate) deadline: Option<DateTime<Utc>>,
    pub(crate) predecessor: Option<Box<Record>>,
    /// Whether a probe reported that the predecessor's work did not happen and will not happen.
    pub(crate) probed: bool,
    /// Whether a later begin with the same options takes the token over, if this attempt leaves it
    /// in doubt.
    #[cfg(feature = "http")]
    pub(crate) is_continued: bool,
    /// The latest due time that begin or an extension asked for, also one whose reply was lost.
    pub(crate) promised: DateTime<Utc>,
}

impl Held {
    /// Whether another attempt may have done the work.
    pub(crate) const fn may_have_been_done(&self) -> bool {
        self.predecessor.is_some() && !self.probed
    }

    /// Whether an earlier attempt used the provider's key. The release of this attempt proves
    /// nothing about that attempt. It ran before an operator's release, or this attempt took over
    /// from it.
    pub(crate) fn remembers_key(&self) -> bool {
        let before = self.predecessor.as_ref().map_or(self.token.key_use, |record| record.key_use);
        self.token.key_use.version > 1 || before.since.is_some()
    }

    /// Whether no listing has the token while it is in progress.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.token.ttl.is_some()
    }
}

impl Lock {
    pub(crate) fn new(session: Session, held: Held) -> Self {
        Self { session, held: Some(Box::new(held)) }
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// The attempt that this lock belongs to: its key, its id, and whether it took the token over.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        Attempt::of(self.held().map(|held| &*held.token), self.predecessor().is_some())
    }

    /// The expected completion: past it, the token is overdue.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.held().map_or(DateTime::<Utc>::MIN_UTC, |held| held.token.expected_completion)
    }

    /// The expected duration of the work, from its begin or last extension.
    pub(crate) fn expected(&self) -> Duration {
        self.held().map_or(Duration::ZERO, |held| held.expected)
    }

    /// The overdue token that this attempt took over, if it did.
    #[must_use]
    pub fn predecessor(&self) -> Option<&Record> {
        self.held()?.predecessor.as_deref()
    }

    /// Whether a later begin with the same options takes the token over, if this attempt leaves it
    /// in doubt.
    #[cfg(feature = "http")]
    pub(crate) fn is_continued(&self) -> bool {
        self.held().is_some_and(|held| held.is_continued)
    }

    pub(crate) fn taken_back(session: Session, held: Box<Held>) -> Self {
        Self { session, held: Some(held) }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Some(held) = &self.held else { return };
        tracing::warn!(
            lock.token = self.session.shown(held.token.key.as_str()),
            lock.owner = held.token.locked_by,
            lock.attempt = held.token.attempt,
            lock.due = %held.token.expected_completion,
            "a lock was dropped before it was ended; its token stays in progress"
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
