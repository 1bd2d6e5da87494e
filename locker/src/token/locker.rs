//! The entry: a locker is a table, a client and settings.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::options::Token;
use crate::clock::{Clock, Ids, RandomIds, SystemClock};
use crate::core::answer::{self, Body};
use crate::core::fingerprint::FingerprintKey;
use crate::core::key::{IntoKey, Key};
use crate::core::record::{Record, State};
use crate::core::{shard, time};
use crate::error::Error;
use crate::settings::{InvalidSetting, KeysInLogs, Settings, check_table};
use crate::store::{Freshness, Store, Until};

/// Once-only execution over one DynamoDB table. Clones share it; make one per process.
///
/// Needs `PutItem`, `UpdateItem`, `DeleteItem` and `GetItem` on the table, and `Query` on its index
/// `byStatus` for listings.
#[derive(Debug, Clone)]
pub struct Locker {
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

impl Locker {
    /// A locker with the default [`Settings`].
    ///
    /// It uses the client's connections, credentials and endpoint, and turns the client's own
    /// retries off for its requests: it retries itself, seeing each outcome.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::Table`] if DynamoDB takes no table of that name. Whether the table exists
    /// and is right is not asked here; [`check_table`](crate::check_table) asks.
    pub fn new(client: &Client, table: impl Into<String>) -> Result<Self, InvalidSetting> {
        Self::builder(client, table).build()
    }

    /// A locker with other settings, or another clock.
    #[must_use]
    pub fn builder(client: &Client, table: impl Into<String>) -> Builder {
        Builder {
            client: client.clone(),
            table: table.into(),
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            fingerprint_keys: Vec::new(),
        }
    }

    /// Name a token. Nothing is sent until one of the [`Token`]'s verbs is called, and a key that is
    /// not allowed is reported by that verb.
    pub fn token(&self, key: impl IntoKey) -> Token {
        Token::new(self.clone(), key.into_key())
    }

    /// Read a token as it is now. An answer that lies beside it is read by [`answer`](Self::answer).
    ///
    /// A terminal record past its `ttl` is shown for as long as DynamoDB keeps it.
    ///
    /// # Errors
    ///
    /// [`Error::Key`], [`Error::Record`] if the stored item cannot be read, [`Error::Denied`],
    /// [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 request; 1 read unit for each 4 KB.
    pub async fn get(&self, key: impl IntoKey) -> Result<Option<Record>, Error> {
        let key = key.into_key()?;
        self.store().read(key.as_str(), Freshness::Strong, self.until(None)).await
    }

    /// The stored answer or failure of a record, as JSON text. `None` while there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Answer`] if it is gone or damaged, [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// Nothing for an answer stored with its token, 1 request otherwise.
    pub async fn answer(&self, record: &Record) -> Result<Option<String>, Error> {
        self.answer_until(record, self.until(None)).await
    }

    pub(super) async fn answer_until(&self, record: &Record, until: Until) -> Result<Option<String>, Error> {
        let encoded = match &record.body {
            None => return Ok(None),
            Some(Body::Inline(encoded)) => encoded.clone(),
            Some(Body::Beside { codec, id, .. }) => {
                self.store().read_answer(record.key.as_str(), id, *codec, until).await?
            }
        };
        Ok(Some(answer::decode(encoded)?))
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(super) fn fingerprint_keys(&self) -> &[FingerprintKey] {
        &self.inner.fingerprint_keys
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn new_id(&self) -> String {
        #[cfg(feature = "mutants")]
        if crate::mutants::is_on(crate::mutants::Mutant::AttemptOfTheProcess) {
            return "attempt-of-the-process".to_owned();
        }
        self.inner.ids.attempt()
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        time::stored(self.inner.clock.now())
    }

    /// Until when a call goes on: as long as the settings say, and not past the caller's deadline.
    pub(super) fn until(&self, deadline: Option<DateTime<Utc>>) -> Until {
        let longest = self.settings().give_up_after;
        let left = deadline.map_or(longest, |deadline| time::between(self.now(), deadline).min(longest));
        Until::new(Instant::now() + left)
    }

    /// Whether a deadline, if there is one, has passed.
    pub(super) fn is_past(&self, deadline: Option<DateTime<Utc>>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.now())
    }

    /// What is past its `ttl` at this time counts as absent: now, less what the clock that wrote the
    /// `ttl` may be behind.
    pub(super) fn expired_at(&self) -> DateTime<Utc> {
        time::before(self.now(), self.settings().max_clock_skew)
    }

    pub(super) fn status(&self, state: State, key: &Key) -> String {
        let base = if state == State::Failed { shard::ERROR } else { shard::IN_PROGRESS };
        shard::status(base, key.as_str(), self.settings().shards)
    }

    /// What logs show of a key.
    pub(crate) fn shown(&self, key: &Key) -> String {
        match self.settings().keys_in_logs {
            KeysInLogs::Clear => key.as_str().to_owned(),
            KeysInLogs::Digest => key.digest(),
        }
    }
}

/// Builds a [`Locker`] with other settings or parts.
#[derive(Debug)]
pub struct Builder {
    client: Client,
    table: String,
    settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    fingerprint_keys: Vec<FingerprintKey>,
}

impl Builder {
    /// Use these settings.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Tell the time by this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Take attempt ids and jitter from here.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Store fingerprints as HMACs. The first key signs; the others only recognise what they signed
    /// before.
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
    pub fn build(self) -> Result<Locker, InvalidSetting> {
        check_table(&self.table)?;
        self.settings.check()?;
        Ok(Locker {
            inner: Arc::new(Inner {
                store: Store::new(&self.client, self.table, &self.settings, Arc::clone(&self.ids)),
                settings: self.settings,
                clock: self.clock,
                ids: self.ids,
                fingerprint_keys: self.fingerprint_keys,
            }),
        })
    }
}
