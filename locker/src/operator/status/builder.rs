//! Reading what needs an operator.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::group::{Group, Groups, Need};
use crate::core::message::letter::MessageState;
use crate::core::workflow::header::List;
use crate::error::{Error, as_text};
use crate::operator::Match;
use crate::session::Session;
use crate::session::heartbeat::{LastRun, Machine};
use crate::session::listing::{ListBuilder, Listed};
use crate::token::Locker;
use crate::workflow::Workflows;

/// Entries that are read of each list.
const LIMIT: usize = 10_000;

/// Reads what needs an operator.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until `read` is called"]
pub struct StatusBuilder {
    tokens: Option<Locker>,
    workflows: Option<Workflows>,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
}

impl Default for StatusBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// What needs an operator, as the index shows it: a moment behind the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Status {
    /// What needs an operator, the most urgent first: by need, then by count.
    pub groups: Vec<Group>,
    /// When the scanner, the completer, the reaper and the relay ran last, as far as their tables were read.
    pub runs: Vec<LastRun>,
    /// Whether everything was read. **If not, more may need an operator than is shown.**
    pub finished: bool,
    /// Why not everything was read, other than a limit or the deadline.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read: half a read unit for each 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl Status {
    /// Whether everything was read, nothing needs an operator, and nothing that ran before has fallen silent.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.groups.is_empty() && self.finished && self.silent().next().is_none()
    }

    /// What ran before, and has not for longer than its schedule explains.
    pub fn silent(&self) -> impl Iterator<Item = &LastRun> {
        self.runs.iter().filter(|run| run.is_silent)
    }

    /// How many tokens, workflows and messages need an operator.
    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.iter().map(|group| group.count).sum()
    }
}

impl StatusBuilder {
    /// A report on nothing yet: add [`tokens`](Self::tokens), [`workflows`](Self::workflows), or both.
    pub const fn new() -> Self {
        Self { tokens: None, workflows: None, limit: LIMIT, deadline: None }
    }

    /// Report on the tokens of this table.
    pub fn tokens(mut self, locker: &Locker) -> Self {
        self.tokens = Some(locker.clone());
        self
    }

    /// Report on the workflows of this table.
    pub fn workflows(mut self, workflows: &Workflows) -> Self {
        self.workflows = Some(workflows.clone());
        self
    }

    /// Read at most this many entries of each list, 10,000 by default.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    /// Stop at this time and say so.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Read what needs an operator.
    ///
    /// Nothing is read but what needs one, and unsent messages: a table with millions of tokens that are in time costs the same as an empty one.
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`], if the first list cannot be read. Later errors are in [`Status::stopped_by`].
    ///
    /// # Cost
    ///
    /// 4 requests for the last runs; 8 requests, 2 for tokens and 6 for workflows, for each shard; 1 request more for each 100 entries; half a read unit for each 4 KB
    /// of entries.
    pub async fn read(&self) -> Result<Status, Error> {
        let mut reading = Reading { limit: self.limit, deadline: self.deadline, ..Reading::default() };
        if let Some(locker) = &self.tokens {
            reading.run(locker.session(), Machine::Scanner).await?;
            let now = locker.session().now();
            reading.list(locker.overdue(), |token| Match::of_token(token, false, now)).await?;
            reading.list(locker.held(), |token| Match::of_token(token, true, now)).await?;
        }
        if let Some(workflows) = &self.workflows {
            let now = workflows.context().now();
            for machine in Machine::OF_WORKFLOWS {
                reading.run(workflows.context(), machine).await?;
            }
            for list in [List::Quarantine, List::Failing] {
                reading
                    .list(workflows.list(list), |workflow| Match::of_workflow(workflow, list, now))
                    .await?;
            }
            let undriven = workflows.list(List::Unfinished).due_for(Need::UNDRIVEN_AFTER);
            reading.list(undriven, |workflow| Match::of_workflow(workflow, List::Unfinished, now)).await?;
            for state in [MessageState::Unsent, MessageState::Waiting, MessageState::Dead] {
                let list = workflows.messages(state);
                reading.list(list, |message| Match::of_message(message, state, now)).await?;
            }
        }
        Ok(Status {
            groups: reading.groups.sorted(),
            runs: reading.runs,
            finished: !reading.cut && reading.stopped_by.is_none(),
            stopped_by: reading.stopped_by,
            rows_read: reading.rows_read,
        })
    }
}

/// A report under construction.
#[derive(Debug, Default)]
struct Reading {
    limit: usize,
    deadline: Option<DateTime<Utc>>,
    groups: Groups,
    runs: Vec<LastRun>,
    rows_read: u64,
    /// A list was not read to its end.
    cut: bool,
    any: bool,
    stopped_by: Option<Error>,
}

impl Reading {
    /// When the scanner, the completer or the reaper ran last.
    async fn run(&mut self, session: &Session, machine: Machine) -> Result<(), Error> {
        if self.stopped_by.is_some() {
            return Ok(());
        }
        match session.last_run(machine, self.deadline).await {
            Ok(run) => {
                self.any = true;
                self.runs.push(run);
            }
            Err(error) if self.any => self.stopped_by = Some(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Read a list to its end, or as far as the limit.
    async fn list<T: Listed>(
        &mut self,
        list: ListBuilder<T>,
        to_match: impl Fn(T) -> Match,
    ) -> Result<(), Error> {
        if self.stopped_by.is_some() {
            self.cut = true;
            return Ok(());
        }
        let list = self.deadline.into_iter().fold(list.limit(self.limit), ListBuilder::deadline);
        match list.fetch().await {
            Ok(page) => {
                self.any = true;
                self.rows_read += page.rows_read;
                self.cut |= page.next.is_some();
                self.stopped_by = page.stopped_by;
                page.items.into_iter().for_each(|item| self.groups.add(to_match(item)));
                Ok(())
            }
            Err(error) if self.any => {
                self.stopped_by = Some(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
