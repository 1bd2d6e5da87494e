//! The entry: workflows are a table, a client and settings.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::time::Instant;

use super::definition::Workflow;
use super::start::Start;
use crate::clock::{Clock, Ids, RandomIds, SystemClock};
use crate::core::answer;
use crate::core::fingerprint::FingerprintKey;
use crate::core::key::IntoKey;
use crate::core::retry::Backoff;
use crate::core::time;
use crate::core::workflow::header::Listed;
use crate::settings::{InvalidSetting, KeysInLogs, Retention, Settings, check_table};
use crate::store::{Store, Until};

/// Resumable workflows over one DynamoDB table of their own. Clones share it; make one per process.
///
/// Needs `PutItem`, `DeleteItem`, `GetItem`, `Query` and `ConditionCheckItem` on the table, `Query` on its
/// index `byStatus` for listings and the completer, `BatchWriteItem` for the reaper, and for
/// [`Flow::atomic`](super::Flow::atomic) what the caller's own writes need.
#[derive(Debug, Clone)]
pub struct Workflows {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: Settings,
    limits: Limits,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    fingerprint_keys: Vec<FingerprintKey>,
}

/// How long workflows are driven, and how long they are kept.
///
/// ```
/// let mut limits = locker::workflow::Limits::default();
/// limits.attempts = 5;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How often somebody begins to drive a workflow before it is parked. Counted when it is taken, so that
    /// one that kills its driver is parked, too. 10.
    pub attempts: u32,
    /// The range of the pause before the second attempt; it doubles from there, with full jitter. 5 seconds.
    pub backoff_base: Duration,
    /// The longest range of a pause between attempts. 15 minutes.
    pub backoff_cap: Duration,
    /// Work that is unfinished so long after it was started gets one last attempt from the reaper, and is
    /// parked if that does not finish it. 72 hours, so that a weekend does not matter.
    pub last_chance_after: Duration,
    /// How long the compact record of a forgotten workflow is kept. For ever.
    pub ledger: Retention,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts: 10,
            backoff_base: Duration::from_secs(5),
            backoff_cap: Duration::from_secs(15 * 60),
            last_chance_after: Duration::from_secs(72 * 60 * 60),
            ledger: Retention::Forever,
        }
    }
}

impl Workflows {
    /// Workflows with the default [`Settings`] and [`Limits`].
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::Table`] if DynamoDB takes no table of that name. Whether the table exists and is
    /// right is not asked here; [`check_workflow_table`](super::check_workflow_table) asks.
    pub fn new(client: &Client, table: impl Into<String>) -> Result<Self, InvalidSetting> {
        Self::builder(client, table).build()
    }

    /// Workflows with other settings, or another clock.
    #[must_use]
    pub fn builder(client: &Client, table: impl Into<String>) -> WorkflowsBuilder {
        WorkflowsBuilder {
            client: client.clone(),
            table: table.into(),
            settings: Settings::default(),
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            fingerprint_keys: Vec::new(),
        }
    }

    /// Name a workflow: its code, what it is about, and what it is given. Nothing is sent until one of the
    /// [`Start`]'s verbs is called, and a key or an input that is not allowed is reported by that verb.
    pub fn workflow<'a, W: Workflow>(
        &self,
        code: &'a W,
        key: impl IntoKey,
        input: &W::Input,
    ) -> Start<'a, W> {
        Start::new(self.clone(), code, key.into_key(), json_of(input))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn fingerprint_keys(&self) -> &[FingerprintKey] {
        &self.inner.fingerprint_keys
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

    /// What is past its `ttl` at this time counts as absent.
    pub(crate) fn expired_at(&self) -> DateTime<Utc> {
        time::before(self.now(), self.skew())
    }

    /// Until when a call goes on: as long as the settings say, and not past the caller's deadline.
    pub(crate) fn until(&self, deadline: Option<DateTime<Utc>>) -> Until {
        let longest = self.settings().give_up_after;
        let left = deadline.map_or(longest, |deadline| time::between(self.now(), deadline).min(longest));
        Until::new(Instant::now() + left)
    }

    pub(crate) fn is_past(&self, deadline: Option<DateTime<Utc>>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.now())
    }

    /// When a workflow is tried again that has been driven so often.
    pub(crate) fn next_try(&self, attempts: u32) -> DateTime<Utc> {
        let limits = self.limits();
        let backoff = Backoff { base: limits.backoff_base, cap: limits.backoff_cap };
        time::after(self.now(), backoff.pause(attempts.max(1), self.jitter()))
    }

    pub(crate) fn statuses(&self, listed: Listed) -> Vec<String> {
        crate::core::shard::all(listed.base(), self.settings().shards)
    }

    /// The same, beginning anywhere.
    pub(crate) fn statuses_from_any(&self, listed: Listed) -> Vec<String> {
        let mut statuses = self.statuses(listed);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "at most a thousand shards"
        )]
        let first = (self.jitter() * statuses.len() as f64) as usize;
        let first = first.min(statuses.len().saturating_sub(1));
        statuses.rotate_left(first);
        statuses
    }

    /// What logs show of a workflow.
    pub(crate) fn shown(&self, workflow: &str) -> String {
        match self.settings().keys_in_logs {
            KeysInLogs::Clear => workflow.to_owned(),
            KeysInLogs::Digest => crate::core::key::digest_of(workflow),
        }
    }
}

fn json_of<T: Serialize>(input: &T) -> Result<String, answer::AnswerError> {
    let json = answer::to_json(input)?;
    answer::check_depth(&json)?;
    Ok(json)
}

/// Builds [`Workflows`] with other settings or parts.
#[derive(Debug)]
pub struct WorkflowsBuilder {
    client: Client,
    table: String,
    settings: Settings,
    limits: Limits,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    fingerprint_keys: Vec<FingerprintKey>,
}

impl WorkflowsBuilder {
    /// Use these settings. Of a workflow, [`Settings::expect_within`] is how long one drive takes, and
    /// [`Settings::retention`] how long a finished one is kept.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Use these limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Tell the time by this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Take ids and jitter from here.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Store fingerprints as HMACs, as [`Builder::with_fingerprint_keys`](crate::Builder::with_fingerprint_keys) says.
    #[must_use]
    pub fn with_fingerprint_keys(mut self, keys: impl IntoIterator<Item = FingerprintKey>) -> Self {
        self.fingerprint_keys = keys.into_iter().collect();
        self
    }

    /// Check the settings and build.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`], which names the setting and what it may be.
    pub fn build(self) -> Result<Workflows, InvalidSetting> {
        check_table(&self.table)?;
        self.settings.check()?;
        self.limits.check()?;
        Ok(Workflows {
            inner: Arc::new(Inner {
                store: Store::new(&self.client, self.table, &self.settings, Arc::clone(&self.ids)),
                settings: self.settings,
                limits: self.limits,
                clock: self.clock,
                ids: self.ids,
                fingerprint_keys: self.fingerprint_keys,
            }),
        })
    }
}

impl Limits {
    fn check(&self) -> Result<(), InvalidSetting> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        if self.attempts == 0 {
            return Err(InvalidSetting::Attempts);
        }
        for (name, given) in [
            ("backoff_base", self.backoff_base),
            ("backoff_cap", self.backoff_cap),
            ("last_chance_after", self.last_chance_after),
        ] {
            crate::settings::check_duration(name, given, Duration::from_millis(1), YEAR)?;
        }
        Ok(())
    }
}
