//! The list of tokens, workflows and messages that fit a filter.

use std::collections::HashSet;

use serde::Serialize;

use super::lists::Reading;
use super::{Console, Filter, Match};
use crate::error::{Error, as_text};

/// Matches of one list.
const LIMIT: usize = 10_000;
/// Entries that are read of each list of the index.
const MOST_ROWS: u64 = 200_000;

/// The tokens, workflows and messages that fit a filter.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Listing {
    /// The matches: tokens, then workflows, then late events, then messages; each list is sorted by
    /// due time.
    pub matches: Vec<Match>,
    /// Whether everything was read. **If not, more may fit.**
    pub finished: bool,
    /// The error that stopped the reading; [`Error::Expired`] at the deadline. A limit is no error.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read: half a read unit for each 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl Console {
    /// Lists the tokens, workflows and messages that fit a filter.
    ///
    /// The index contains tokens that are in progress, overdue, in doubt or held; workflows that
    /// are unfinished, failing or in quarantine; late events; and messages that are stored.
    /// Finished workflows and archived messages are read if the [filter](Filter) asks for them. A
    /// token with an answer is in no list: [`get`](Self::get) reads it by its key. With a
    /// [need](Filter::need), only tokens that need an operator are read, and not every token in
    /// progress.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if a condition of the filter has an empty text, or selects no work with a
    /// result in a filter for such work; then nothing was read.
    /// Otherwise the same as [`ListBuilder::fetch`](crate::ListBuilder::fetch) if the first request
    /// fails. Later errors are in [`Listing::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each list, shard and 100 entries; half a read unit for each 4 KB of entries,
    /// including entries that do not fit. At most 200,000 entries of each list are read. A filter
    /// for work [with a result](Filter::with_result) has no such limit.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     locker: locker::Locker,
    /// #     workflows: locker::workflow::Workflows,
    /// # ) -> Result<(), locker::Error> {
    /// use locker::operator::{Console, Filter};
    ///
    /// let console = Console::new().tokens(&locker).workflows(&workflows);
    /// let listing = console.list(&Filter::new().tenant("cust8").cause("connection reset")).await?;
    /// for it in &listing.matches {
    ///     println!("{} {:?} since {:?}: {:?}", it.work.to_text(), it.need, it.since, it.cause);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        filter.check()?;
        let reading = self.reading();
        let mut reading =
            Reading { filter: Some(filter), most: self.limit_or(LIMIT), rows: MOST_ROWS, ..reading };
        let mut matches = Vec::new();
        self.read(&filter.lists(), &mut reading, |it| matches.push(it)).await?;
        // An item that moves to another list during the reading is in both.
        let mut seen = HashSet::new();
        matches.retain(|it: &Match| seen.insert((it.work.clone(), it.event.clone())));
        Ok(Listing {
            matches,
            finished: reading.finished,
            stopped_by: reading.stopped_by,
            rows_read: reading.rows_read,
        })
    }
}
