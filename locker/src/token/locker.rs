//! The entry point: a locker combines a table, a client and settings.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;

use crate::clock::{Clock, Ids};
use crate::core::answer::AnswerError;
use crate::core::argument::InvalidArgument;
use crate::core::fingerprint::FingerprintKey;
use crate::core::key::IntoKey;
use crate::core::token::record::Record;
use crate::error::Error;
use crate::session::{CONNECT, CONNECT_WITHIN, Session, SessionBuilder};
use crate::settings::Settings;
use crate::store::Freshness;
use crate::store::Layout;

/// Once-only execution over one DynamoDB table.
///
/// Create one per process and clone it; clones share its state. It needs `PutItem`, `UpdateItem`,
/// `DeleteItem` and `GetItem` on the table, and `Query` on its index `byStatus` for listings.
#[derive(Debug, Clone)]
pub struct Locker {
    session: Session,
}

impl Locker {
    /// Creates a locker with the default [`Settings`].
    ///
    /// It uses the client's connections, credentials and endpoint. It turns off the client's
    /// retries for its own requests and retries itself, because it has to see the outcome of each.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if DynamoDB does not accept the table name. Call
    /// [`check_table`](crate::check_table) to check that the table exists and has the right layout.
    pub fn new(client: &Client, table: impl Into<String>) -> Result<Self, InvalidArgument> {
        Self::builder(client, table).build()
    }

    /// Builds a locker with other settings, clock, ids or fingerprint keys.
    #[must_use]
    pub fn builder(client: &Client, table: impl Into<String>) -> LockerBuilder {
        LockerBuilder { session: SessionBuilder::new(client, table.into(), &Layout::TOKENS) }
    }

    /// Reads a token as it is now, strongly consistent.
    ///
    /// A terminal record past its `ttl` is returned until DynamoDB deletes it. To read the answer,
    /// call [`answer`](Self::answer).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the key is invalid, [`Error::Record`] if the stored item cannot be
    /// read, [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 request; 1 read unit for each 4 KB.
    pub async fn get(&self, key: impl IntoKey) -> Result<Option<Record>, Error> {
        let key = key.into_key()?;
        let session = &self.session;
        session.store().read(key.as_str(), Freshness::Strong, session.until(None)).await
    }

    /// Opens a connection to DynamoDB, so that the first request does not wait for it: a Lambda
    /// function has a whole processor while it starts, at any memory size.
    ///
    /// It takes a second at most and returns no error: if the connection fails, the first request
    /// fails.
    ///
    /// # Cost
    ///
    /// 1 request and half a read unit.
    pub async fn connect(&self) {
        let session = &self.session;
        let read = session.store().read(CONNECT, Freshness::Eventual, session.until(None));
        if tokio::time::timeout(CONNECT_WITHIN, read).await.is_err() {
            tracing::debug!("no connection to DynamoDB yet");
        }
    }

    /// The stored answer or failure of a record as JSON text; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Answer`] if the answer is missing or damaged, or if an operator erased or replaced
    /// it after the record was read; [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// No request for an answer stored in the token's item, 1 request for one in a separate item.
    pub async fn answer(&self, record: &Record) -> Result<Option<String>, Error> {
        match self.session.answer(record, self.session.until(None)).await {
            Err(Error::Answer(AnswerError::Missing)) => {
                let now = self.get(record.key()).await?;
                let is_redacted = now.is_some_and(|now| now.is_redacted() && now.created == record.created);
                Err(if is_redacted { AnswerError::Redacted } else { AnswerError::Missing }.into())
            }
            read => read,
        }
    }

    /// The settings that this locker was built with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.session.settings()
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }
}

/// Builds a [`Locker`] with other settings or parts.
#[derive(Debug)]
pub struct LockerBuilder {
    session: SessionBuilder,
}

impl LockerBuilder {
    /// Uses these settings.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.session.settings = settings;
        self
    }

    /// Uses this clock instead of the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.session.clock = clock;
        self
    }

    /// Uses this source of attempt ids and jitter.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.session.ids = ids;
        self
    }

    /// Stores fingerprints as HMACs. The first key signs. The others only verify fingerprints that
    /// they signed before.
    #[must_use]
    pub fn with_fingerprint_keys(mut self, keys: impl IntoIterator<Item = FingerprintKey>) -> Self {
        self.session.fingerprint_keys = keys.into_iter().collect();
        self
    }

    /// Checks the settings and builds the locker.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if a setting is not allowed. The text names the setting and its allowed
    /// values.
    pub fn build(self) -> Result<Locker, InvalidArgument> {
        Ok(Locker { session: self.session.build()? })
    }
}
