//! The console: the tables that an operator reads and acts in.

use chrono::{DateTime, Utc};

use super::lists::Reading;
#[cfg(feature = "workflow")]
use super::rule::Events;
use super::rule::Runs;
use crate::session::Session;
use crate::token::Locker;
#[cfg(feature = "workflow")]
use crate::workflow::Workflows;

/// Shows an operator what the tables contain, and acts on it.
///
/// Each verb covers the tables that are set. A console without a table of workflows shows tokens
/// only.
///
/// # Examples
///
/// ```no_run
/// # async fn example(locker: locker::Locker) -> Result<(), locker::Error> {
/// use locker::operator::Console;
///
/// let console = Console::new().tokens(&locker).limit(500);
/// let status = console.status().await?;
/// # let _ = status;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a console reads nothing until one of its verbs is called"]
pub struct Console {
    pub(super) tokens: Option<Locker>,
    #[cfg(feature = "workflow")]
    pub(super) workflows: Option<Workflows>,
    pub(super) runs: Option<Runs>,
    #[cfg(feature = "workflow")]
    pub(super) events: Events,
    limit: Option<usize>,
    pub(super) deadline: Option<DateTime<Utc>>,
}

impl Console {
    /// Creates a console without tables.
    ///
    /// Add [`tokens`](Self::tokens), [`workflows`](Self::workflows), or both.
    pub const fn new() -> Self {
        Self {
            tokens: None,
            #[cfg(feature = "workflow")]
            workflows: None,
            runs: None,
            #[cfg(feature = "workflow")]
            events: Events::new(),
            limit: None,
            deadline: None,
        }
    }

    /// Sets the table of tokens.
    pub fn tokens(mut self, locker: &Locker) -> Self {
        self.tokens = Some(locker.clone());
        self
    }

    /// Sets the table of workflows and messages.
    #[cfg(feature = "workflow")]
    pub fn workflows(mut self, workflows: &Workflows) -> Self {
        self.workflows = Some(workflows.clone());
        self
    }

    /// Limits a verb to this many entries.
    ///
    /// A [`list`](Self::list) and a [`plan`](Self::plan) return at most this many matches. A record
    /// [with a result](super::Filter::with_result) that cannot be read does not count. Every other
    /// verb reads at most this many entries of each list of the index.
    ///
    /// The default is 2,000 for a [`timeline`](Self::timeline) and 10,000 for every other verb.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.limit = Some(entries);
        self
    }

    /// Stops reading at this time.
    ///
    /// The result then states that it is not finished. [`apply`](Self::apply) has no deadline: stop
    /// it by [`ApplyOptions::stop`](super::ApplyOptions::stop).
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    pub(super) fn limit_or(&self, default: usize) -> usize {
        self.limit.unwrap_or(default)
    }

    /// A reading with the deadline of this console.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading { deadline: self.deadline, ..Reading::default() }
    }

    /// The session of the first table. `None`: no table is set.
    pub(super) fn session(&self) -> Option<&Session> {
        let of_tokens = self.tokens.as_ref().map(Locker::session);
        #[cfg(feature = "workflow")]
        let of_tokens = of_tokens.or_else(|| self.workflows.as_ref().map(|workflows| &**workflows.context()));
        of_tokens
    }
}
