//! Listing workflows: unfinished, in quarantine, or finished.

use chrono::{DateTime, Utc};

use crate::core::listed::LATE;
use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::header::{Awaited, List, State, Waits};
use crate::session::Session;
use crate::session::listing::{Entry, ListBuilder, Listed, WORKFLOWS_AND_MESSAGES};
use crate::store::Layout;
#[cfg(feature = "operator")]
use crate::workflow::View;
use crate::workflow::workflows::Workflows;

impl Workflows {
    /// Lists workflows from the index, which is eventually consistent, oldest due time first.
    pub fn list(&self, list: List) -> ListBuilder<Summary> {
        listing(self.context(), list)
    }
}

pub(crate) fn listing(session: &Session, list: List) -> ListBuilder<Summary> {
    ListBuilder::new(session.clone(), &Layout::WORKFLOWS, list.base(), WORKFLOWS_AND_MESSAGES)
}

/// Lists the workflows that wait for an event or a timer and are not due. The list is longer than
/// its name implies: it contains workflows that a driver has claimed, and workflows that are
/// retried.
pub(crate) fn waiting(session: &Session) -> ListBuilder<Summary> {
    listing(session, List::Unfinished).since(session.now()).that_wait()
}

/// Lists the late events that are not handled yet, in the order of their arrival.
pub(crate) fn late_events(session: &Session) -> ListBuilder<LateEvent> {
    ListBuilder::new(session.clone(), &Layout::WORKFLOWS, LATE, WORKFLOWS_AND_MESSAGES)
}

impl ListBuilder<Summary> {
    /// Lists only workflows that are due by now.
    pub const fn due(self) -> Self {
        self.only_due()
    }
}

/// A workflow in a listing. The index is eventually consistent: read the workflow before you act on
/// it.
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
    /// The event or the timer that its code waits for: of several, the wait that ends first.
    pub waits_for: Option<Awaited>,
    /// The number of other events and timers that its code waits for.
    pub other_waits: u32,
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
            waits_for: header.waits.as_ref().map(|waits| waits.on.clone()),
            other_waits: header.waits.as_ref().map_or(0, |waits| waits.others),
            within: header.within.clone(),
        }
    }
}

impl Listed for Summary {
    fn of(Entry(row): Entry) -> Self {
        let waits = row.step.as_deref().and_then(Waits::parse);
        Self {
            other_waits: waits.as_ref().map_or(0, |waits| waits.others),
            waits_for: waits.map(|waits| waits.on),
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

/// A late event, as the index shows it.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "operators have a console"))]
pub(crate) struct LateEvent {
    pub(crate) workflow: String,
    /// The name of the workflow's code.
    pub(crate) name: Option<String>,
    /// The name of the event, as operators see it.
    pub(crate) event: String,
    pub(crate) cause: Option<String>,
    /// When the event came.
    pub(crate) arrived: Option<DateTime<Utc>>,
}

impl Listed for LateEvent {
    fn of(Entry(row): Entry) -> Self {
        Self {
            workflow: row.key,
            name: row.name,
            event: row.subject.unwrap_or_default(),
            cause: row.cause,
            arrived: time::from_text(&row.due),
        }
    }
}
