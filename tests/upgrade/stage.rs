//! Two tables, and lockers and workflows with a virtual clock and numbered ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use lock_token_testing::NumberedIds;
use locker::workflow::{Builder, Completer, Limits, View, Workflow, Workflows};
use locker::{Error, Intervened, Locker, LockerBuilder, Settings};

use crate::bench::Desk;

/// When each table is written. DynamoDB deletes expired items by its own clock, so this is far ahead.
pub(crate) const BEGIN: &str = "2050-01-01T00:00:00Z";

pub(crate) struct Stage {
    pub(crate) desk: Desk,
    owner: &'static str,
    ids: Arc<NumberedIds>,
}

impl Stage {
    /// Empty tables, before anything is written. All ids are the same each time.
    pub(crate) async fn empty() -> Self {
        Self::new("first/machine", BEGIN.parse().unwrap(), "first".to_owned()).await
    }

    /// Empty tables at a later time.
    pub(crate) async fn later(now: DateTime<Utc>) -> Self {
        // An engine recognises a transaction by its id, whatever its tables are.
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let ids = format!("later-{}", STAGES.fetch_add(1, Ordering::Relaxed));
        Self::new("later/machine", now, ids).await
    }

    async fn new(owner: &'static str, now: DateTime<Utc>, ids: String) -> Self {
        let desk = Desk::new().await;
        desk.bench.clock.set(now);
        Self { desk, owner, ids: Arc::new(NumberedIds::new(ids)) }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.desk.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.desk.bench.clock.advance(by);
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.owner = self.owner.to_owned();
        settings.attempt_timeout = Duration::from_secs(30);
        settings.give_up_after = Duration::from_secs(60);
        settings
    }

    pub(crate) fn locker(&self) -> Locker {
        self.locker_with(|locker| locker)
    }

    pub(crate) fn locker_with(&self, change: impl FnOnce(LockerBuilder) -> LockerBuilder) -> Locker {
        let bench = &self.desk.bench;
        let locker = Locker::builder(&bench.client, &bench.table).settings(self.settings());
        let locker = locker.with_clock(Arc::new(bench.clock.clone())).with_ids(self.ids.clone());
        change(locker).build().unwrap()
    }

    /// A locker of a table that was restored now.
    pub(crate) fn restored(&self) -> Locker {
        let mut settings = self.settings();
        settings.restored = Some(self.now());
        self.locker_with(|locker| locker.settings(settings))
    }

    pub(crate) fn workflows(&self) -> Workflows {
        self.workflows_with(|builder| builder)
    }

    pub(crate) fn workflows_with(&self, change: impl FnOnce(Builder) -> Builder) -> Workflows {
        let bench = &self.desk.bench;
        // Each attempt of a step ends its run.
        let mut limits = Limits::default();
        limits.retry_for = Duration::ZERO;
        let workflows = Workflows::builder(&bench.client, &self.desk.table).settings(self.settings());
        let workflows = workflows.limits(limits).source("/trips").with_ids(self.ids.clone());
        change(workflows.with_clock(Arc::new(bench.clock.clone()))).build().unwrap()
    }

    /// Drives the workflows that are due now, and the workflows that become due within these minutes.
    pub(crate) async fn complete<W: Workflow + Clone>(&self, code: &W, minutes: u32) {
        for _ in 0..=minutes {
            let completer = Completer::new(&self.workflows()).register(code.clone());
            completer.concurrency(1).run().await.unwrap();
            self.advance(Duration::from_secs(60));
        }
    }

    pub(crate) async fn view(&self, key: &str) -> View {
        let view = self.workflows().get_listed(key).await.unwrap();
        view.unwrap_or_else(|| panic!("there is no workflow {key}"))
    }
}

/// An act of an operator has to be done.
#[track_caller]
pub(crate) fn done(act: Result<Intervened, Error>) {
    assert_eq!(act.expect("an answer"), Intervened::Done);
}

/// A text that does not compress, the same on each machine: an answer of this size has a separate item.
pub(crate) fn noise(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut state: u32 = 7;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(LETTERS[usize::try_from(state >> 26).unwrap()])
    };
    (0..length).map(next).collect()
}
