//! The report of everything that needs an operator.

use serde::Serialize;

use super::group::{Group, Groups, Need};
use super::lists::{Lists, Reading};
use super::subject::tokens::TokenList;
use super::{Console, LastRun};
use crate::core::listed::List;
use crate::core::listed::MessageState;
use crate::error::{Error, as_text};
use crate::session::listing::Count;
#[cfg(feature = "workflow")]
use crate::session::listing::ListBuilder;
#[cfg(feature = "workflow")]
use crate::workflow::waiting;

/// Entries that are read of each list.
const LIMIT: usize = 10_000;
/// Entries that are read to count the workflows that wait.
#[cfg(feature = "workflow")]
const COUNT_TO: usize = 1_000;

/// Everything that needs an operator, as the index shows it: eventually consistent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Status {
    /// Groups of items with the same cause, the most urgent first: by need, then by count.
    pub groups: Vec<Group>,
    /// The last run of each scheduled function, as far as its table was read.
    pub runs: Vec<LastRun>,
    /// The workflows that wait for an event or a timer, counted in up to 1,000 entries. They need
    /// no operator. `None`: the table of workflows was not read.
    pub waiting: Option<Count>,
    /// Whether everything was read. **If not, more items may need an operator.**
    pub finished: bool,
    /// The error that stopped the reading; [`Error::Expired`] at the deadline. A limit is no error.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read: half a read unit for each 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl Status {
    /// Returns whether everything was read, nothing needs an operator, and no function is silent.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.groups.is_empty() && self.finished && self.silent().next().is_none()
    }

    /// Returns the scheduled functions that ran before and are late now.
    pub fn silent(&self) -> impl Iterator<Item = &LastRun> {
        self.runs.iter().filter(|run| run.is_silent)
    }

    /// Returns the number of tokens, workflows, late events and messages that need an operator.
    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.iter().map(|group| group.count).sum()
    }
}

impl Console {
    /// Reports everything that needs an operator, in groups of the same cause.
    ///
    /// | item | need |
    /// |---|---|
    /// | a token in progress past its due time | [`Need::Overdue`] |
    /// | a token in doubt: the outcome of its work is unknown | [`Need::InDoubt`] |
    /// | a token that is held | [`Need::Held`] |
    /// | a workflow without progress for an hour, which is still retried | [`Need::Failing`] |
    /// | a workflow in quarantine | [`Need::Quarantined`] |
    /// | a workflow that has been due for 15 minutes without a driver | [`Need::Undriven`] |
    /// | a message that is dead | [`Need::Dead`] |
    /// | a message unsent, or waiting for its consumer, for 5 minutes | [`Need::Unsent`] |
    /// | a late event that nobody has handled | [`Need::Late`] |
    ///
    /// Two causes are the same if they differ only by ids, numbers of four digits or more, times,
    /// addresses and quoted words with digits. The number after `code`, `status` or `error` is a
    /// part of the cause. A cause that begins with a code in square brackets, such as
    /// `[card.declined] ...` ([`Failure::code`](crate::Failure::code)), belongs to the group of the
    /// code.
    ///
    /// The report contains the last run of each scheduled function ([`Status::runs`]), which the
    /// function stores at the end of the run.
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`](crate::ListBuilder::fetch) if the first request fails. Later
    /// errors are in [`Status::stopped_by`].
    ///
    /// # Cost
    ///
    /// 4 requests for the last runs. For each shard 10 requests, 2 for tokens and 8 for workflows,
    /// late events and messages; 1 request for each shard to count the workflows that wait, up to
    /// 1,000 entries. 1 request more for each 100 entries; half a read unit for each 4 KB of
    /// entries. Tokens that are in time are not read: a table with millions of them costs the same
    /// as an empty one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     locker: locker::Locker,
    /// #     workflows: locker::workflow::Workflows,
    /// # ) -> Result<(), locker::Error> {
    /// use locker::operator::Console;
    ///
    /// let status = Console::new().tokens(&locker).workflows(&workflows).status().await?;
    /// for group in &status.groups {
    ///     println!("{} {}: {}, such as {}", group.count, group.need, group.cause, group.sample);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn status(&self) -> Result<Status, Error> {
        let mut reading = Reading { entries: self.limit_or(LIMIT), ..self.reading() };
        let mut groups = Groups::default();
        self.read(&of_needs(), &mut reading, |it| groups.add(it)).await?;
        let waiting = self.waiting(&mut reading).await?;
        Ok(Status {
            groups: groups.sorted(),
            runs: reading.runs,
            waiting,
            finished: reading.finished,
            stopped_by: reading.stopped_by,
            rows_read: reading.rows_read,
        })
    }
}

impl Console {
    /// Counts the workflows that wait for an event or a timer.
    #[cfg(feature = "workflow")]
    async fn waiting(&self, reading: &mut Reading<'_>) -> Result<Option<Count>, Error> {
        let Some(workflows) = self.workflows.as_ref().filter(|_| reading.stopped_by.is_none()) else {
            return Ok(None);
        };
        let list = waiting(workflows.context());
        let counted = self.deadline.into_iter().fold(list, ListBuilder::deadline).count(COUNT_TO).await;
        reading.value(counted)
    }

    #[cfg(not(feature = "workflow"))]
    #[allow(clippy::unused_async, reason = "workflows are counted")]
    async fn waiting(&self, _: &mut Reading<'_>) -> Result<Option<Count>, Error> {
        Ok(None)
    }
}

/// The lists of everything that needs an operator.
fn of_needs() -> Lists {
    Lists {
        tokens: vec![TokenList::Overdue, TokenList::Held],
        workflows: vec![List::Quarantine, List::Failing, List::Unfinished],
        unfinished_due_for: Some(Need::UNDRIVEN_AFTER),
        late_events: true,
        messages: vec![MessageState::Dead, MessageState::Waiting, MessageState::Unsent],
        runs: true,
    }
}
