//! State shared by drivers, the completer, the reaper and operators: a session with the table, and
//! the limits.

use std::ops::Deref;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::limits::Limits;
#[cfg(feature = "messages")]
use super::lines::Lines;
use crate::core::message::ticks::{Tick, Ticks};
use crate::core::retry::Backoff;
use crate::core::time;
use crate::core::workflow::header::{Header, Stamp};
use crate::message::Router;
use crate::session::Session;
use crate::store::{Guard, Until, failed_runs_item};

/// A session with the table of workflows, and the limits. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    session: Session,
    limits: Arc<Limits>,
    source: Option<Arc<str>>,
    router: Option<Arc<Router>>,
    ticks: Arc<Ticks>,
    #[cfg(feature = "messages")]
    lines: Arc<Lines>,
}

impl Deref for Context {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Context {
    pub(crate) fn new(session: Session, limits: Limits, sends: (Option<String>, Option<Router>)) -> Self {
        let (source, router) = sends;
        Self {
            session,
            limits: Arc::new(limits),
            source: source.map(Arc::from),
            router: router.map(Arc::new),
            ticks: Arc::default(),
            #[cfg(feature = "messages")]
            lines: Arc::default(),
        }
    }

    /// The source of the messages that are committed here.
    pub(crate) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Where messages are sent to right after their commit.
    pub(crate) fn router(&self) -> Option<&Router> {
        self.router.as_deref()
    }

    /// The place of a commit that is made now among those of this process.
    pub(crate) fn tick(&self, now: DateTime<Utc>) -> Tick {
        self.ticks.next(now)
    }

    /// The subjects about which callers of this process send.
    #[cfg(feature = "messages")]
    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When a workflow that has had this many attempts is driven again.
    pub(crate) fn next_try(&self, attempts: u32, limits: &Limits) -> DateTime<Utc> {
        let backoff = Backoff::doubling(limits.backoff_base, limits.backoff_cap);
        time::after(self.now(), backoff.equal(attempts, self.jitter()))
    }

    /// Writes the causes of failed runs that this write of the header added. The header is written
    /// first, so that only the driver that has the workflow writes a cause. If a record is lost, no
    /// decision depends on it.
    pub(crate) async fn record_failed_runs(&self, header: &Header, until: Until) {
        for (place, failed) in header.failures.added() {
            let item = || failed_runs_item(header, *place, failed);
            let put = self.store().put_item("record the failed run", &item, None, Guard::None, until.once());
            if let Err(error) = Box::pin(put).await {
                tracing::debug!(%error, "the cause of a failed run could not be recorded");
            }
        }
    }

    /// The time and the ids of one write.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now: self.now(), skew: self.skew(), revision: self.new_id(), attempt: self.new_id() }
    }
}
