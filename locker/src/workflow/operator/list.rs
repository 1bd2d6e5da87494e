//! Listing workflows: unfinished, in quarantine, or finished.

use chrono::{DateTime, Utc};

use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::header::{List, State};
use crate::session::Session;
use crate::session::listing::{Entry, ListBuilder, Listed};
use crate::store::Layout;
#[cfg(feature = "operator")]
use crate::workflow::View;
use crate::workflow::workflows::Workflows;

/// How many workflows are listed where a caller does not say.
const LIMIT: usize = 100;

impl Workflows {
    /// Lists workflows from the index, which is eventually consistent, oldest due time first.
    pub fn list(&self, list: List) -> ListBuilder<Summary> {
        listing(self.context(), list)
    }
}

pub(crate) fn listing(session: &Session, list: List) -> ListBuilder<Summary> {
    ListBuilder::new(session.clone(), &Layout::WORKFLOWS, list.base(), LIMIT)
}

impl ListBuilder<Summary> {
    /// Lists only workflows that are due by now.
    pub const fn due(self) -> Self {
        self.only_due()
    }
}

/// What a listing shows of a workflow. The index is eventually consistent: read the workflow before
/// you act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The key as it is stored: followed by ` v2` under the second version.
    pub workflow: String,
    /// The name of its code.
    pub name: Option<String>,
    /// Its state.
    pub state: Option<State>,
    /// When it was started.
    pub created: Option<DateTime<Utc>>,
    /// Unfinished: when it may be driven. In quarantine: since when. Finished: when it may be
    /// deleted.
    pub due: Option<DateTime<Utc>>,
    /// Its driver.
    pub locked_by: Option<String>,
    /// The number of runs since the last progress, with the run that made it. 0 after a wait that
    /// the code chose.
    pub attempts: Option<u32>,
    /// Since when it makes no progress.
    pub since: Option<DateTime<Utc>>,
    /// Why it waits, or why it is in quarantine.
    pub reason: Option<String>,
    /// The token or the workflow whose work began it.
    pub within: Option<Work>,
}

#[cfg(feature = "operator")]
impl Summary {
    /// The summary of a workflow as it was read.
    pub(crate) fn of_view(view: &View) -> Self {
        let header = &view.header;
        Self {
            workflow: header.workflow.clone(),
            name: Some(header.name.clone()),
            state: Some(header.state),
            created: Some(header.created),
            due: Some(header.next_due),
            locked_by: header.locked_by.clone(),
            attempts: Some(header.attempts),
            since: Some(header.since),
            reason: header.reason.clone(),
            within: header.within.clone(),
        }
    }
}

impl Listed for Summary {
    fn of(Entry(row): Entry) -> Self {
        Self {
            due: time::from_text(&row.due),
            state: row.state.as_deref().and_then(State::named),
            workflow: row.key,
            name: row.name,
            created: row.created,
            locked_by: row.locked_by,
            attempts: row.attempts,
            since: row.since.or(row.created),
            reason: row.reason,
            within: row.within,
        }
    }
}
