//! The session that tokens and workflows share: one table, settings, a clock, and where ids come
//! from.

mod audit;
pub(crate) mod due_work;
pub(crate) mod heartbeat;
pub(crate) mod history;
pub(crate) mod listing;
mod operator;
pub(crate) mod polling;

pub use audit::AuditRecord;
pub use due_work::RunReport;
pub use operator::{Intervened, Operator};

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::clock::{Clock, Ids, RandomIds, SystemClock};
use crate::core::argument::InvalidSetting;
use crate::core::fingerprint::FingerprintKey;
use crate::core::key::digest_of;
use crate::core::restored::Restored;
use crate::core::time;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::settings::{KeysInLogs, Settings, check_table};
#[cfg(feature = "http")]
use crate::store::reserve;
use crate::store::{Layout, Store, Until};

/// The key of a read whose result is not used.
pub(crate) const CONNECT: &str = "locker/connect";
/// How long a start waits for a connection.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(1);

tokio::task_local! {
    static WITHIN: Request;
}

/// The work that runs on a task, and its times. Everything that the work begins has them, unless
/// the code sets the work or the time of the request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The token or the workflow.
    pub(crate) work: Option<Work>,
    /// The time at which its caller made the request first. `None`: unknown.
    pub(crate) requested: Option<DateTime<Utc>>,
    /// When an operator allowed the work, if one did. The code cannot set it.
    pub(crate) opened: Option<DateTime<Utc>>,
}

/// The token or the workflow whose work runs on this task.
pub(crate) fn within() -> Option<Work> {
    WITHIN.try_with(|request| request.work.clone()).ok().flatten()
}

/// The time of the request whose work runs on this task.
pub(crate) fn requested() -> Option<DateTime<Utc>> {
    WITHIN.try_with(|request| request.requested).ok().flatten()
}

/// When an operator allowed the work that runs on this task, if one did.
pub(crate) fn opened() -> Option<DateTime<Utc>> {
    WITHIN.try_with(|request| request.opened).ok().flatten()
}

/// Runs work on a task on which everything that is begun is part of this request.
pub(crate) fn inside<F: Future>(request: Request, work: F) -> impl Future<Output = F::Output> {
    WITHIN.scope(request, work)
}

/// A table, and how to use it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    fingerprint_keys: Vec<FingerprintKey>,
}

impl Session {
    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn fingerprint_keys(&self) -> &[FingerprintKey] {
        &self.inner.fingerprint_keys
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn new_id(&self) -> String {
        self.inner.ids.attempt()
    }

    pub(crate) fn jitter(&self) -> f64 {
        self.inner.ids.jitter()
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        time::stored(self.inner.clock.now())
    }

    pub(crate) fn skew(&self) -> Duration {
        self.settings().max_clock_skew
    }

    /// The restore of the table, while the table is closed for older requests.
    pub(crate) fn restored(&self) -> Option<Restored> {
        self.settings().restored.map(|end| Restored::new(end, self.skew()))
    }

    /// Whether the table was restored, and may have forgotten a request of this time.
    #[cfg(feature = "workflow")]
    pub(crate) fn may_have_forgotten(&self, requested: Option<DateTime<Utc>>) -> bool {
        self.restored().is_some_and(|restored| restored.is_before(requested))
    }

    /// Returns `longest`, or the time left before the deadline if that is shorter.
    pub(crate) fn bounded(&self, longest: Duration, deadline: Option<DateTime<Utc>>) -> Duration {
        deadline.map_or(longest, |deadline| longest.min(time::between(self.now(), deadline)))
    }

    /// The time before the deadline that the work may use. A part is reserved for its end.
    #[cfg(feature = "http")]
    pub(crate) fn left_for_work(&self, deadline: DateTime<Utc>) -> Duration {
        let left = time::between(self.now(), deadline);
        left - reserve(left)
    }

    /// Returns the time before which a `ttl` counts as expired: now, minus the allowance for clock
    /// skew. The clock that wrote the `ttl` may be slow.
    pub(crate) fn expired_at(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        time::before(now, self.skew())
    }

    /// When a call gives up: after the time that the settings allow, and at the caller's deadline
    /// at the latest.
    pub(crate) fn until(&self, deadline: Option<DateTime<Utc>>) -> Until {
        let longest = self.settings().give_up_after;
        let left = deadline.map_or(longest, |deadline| time::between(self.now(), deadline).min(longest));
        Until::new(Instant::now() + left)
    }

    /// Whether a deadline, if there is one, has passed.
    pub(crate) fn is_past(&self, deadline: Option<DateTime<Utc>>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.now())
    }

    pub(crate) fn check_deadline(
        &self,
        verb: &'static str,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<(), Error> {
        if self.is_past(deadline) { Err(Error::Expired { verb }) } else { Ok(()) }
    }

    /// What logs show of the key of a token or a workflow.
    pub(crate) fn shown(&self, key: &str) -> String {
        match self.settings().keys_in_logs {
            KeysInLogs::Clear => key.to_owned(),
            KeysInLogs::Digest => digest_of(key),
        }
    }
}

/// Builds a [`Session`]; the public builders of both layers wrap it.
#[derive(Debug)]
pub(crate) struct SessionBuilder {
    client: Client,
    table: String,
    layout: &'static Layout,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) fingerprint_keys: Vec<FingerprintKey>,
}

impl SessionBuilder {
    pub(crate) fn new(client: &Client, table: String, layout: &'static Layout) -> Self {
        Self {
            client: client.clone(),
            table,
            layout,
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            fingerprint_keys: Vec::new(),
        }
    }

    /// Checks the settings and builds.
    pub(crate) fn build(self) -> Result<Session, InvalidSetting> {
        check_table(&self.table)?;
        self.settings.check(self.clock.now())?;
        let store =
            Store::new(&self.client, (self.table, self.layout), &self.settings, Arc::clone(&self.ids));
        let Self { settings, clock, ids, fingerprint_keys, .. } = self;
        Ok(Session { inner: Arc::new(Inner { store, settings, clock, ids, fingerprint_keys }) })
    }
}
