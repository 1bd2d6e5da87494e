//! The entry point: a table of workflows, a client and settings.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;

use super::context::Context;
use super::limits::Limits;
use crate::clock::{Clock, Ids};
use crate::core::argument::InvalidArgument;
use crate::core::fingerprint::FingerprintKey;
use crate::core::message::id::{InvalidMessage, check_source};
use crate::message::Router;
use crate::session::SessionBuilder;
use crate::session::{CONNECT, CONNECT_WITHIN};
use crate::settings::Settings;
use crate::store::Layout;

/// Resumable workflows in a separate DynamoDB table. Clones share one session; create one per
/// process.
///
/// Needs `PutItem`, `DeleteItem`, `GetItem`, `Query` and `ConditionCheckItem` on the table, `Query`
/// on its index `byStatus` for listings and the completer, `BatchWriteItem` for the reaper, and the
/// permissions that your own writes in [`Flow::atomic`](super::Flow::atomic) need.
#[derive(Debug, Clone)]
pub struct Workflows {
    context: Context,
}

impl Workflows {
    /// Workflows with the default [`Settings`] and [`Limits`].
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if DynamoDB does not accept the table name. Call
    /// [`check_table`](super::check_table) to check that the table exists and has the right layout.
    pub fn new(client: &Client, table: impl Into<String>) -> Result<Self, InvalidArgument> {
        Self::builder(client, table).build()
    }

    /// A builder for workflows with other settings, limits or clock.
    #[must_use]
    pub fn builder(client: &Client, table: impl Into<String>) -> Builder {
        Builder {
            session: SessionBuilder::new(client, table.into(), &Layout::WORKFLOWS),
            limits: Limits::default(),
            source: None,
            router: None,
        }
    }

    /// Opens a connection to DynamoDB, as [`Locker::connect`](crate::Locker::connect) does.
    ///
    /// # Cost
    ///
    /// 1 request and 1 read unit.
    pub async fn connect(&self) {
        let read = self.context.store().read_header(CONNECT, self.context.until(None));
        if tokio::time::timeout(CONNECT_WITHIN, read).await.is_err() {
            tracing::debug!("no connection to DynamoDB yet");
        }
    }

    /// The settings that these workflows were built with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.context.settings()
    }

    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }
}

/// Builds [`Workflows`] with other settings or parts.
#[derive(Debug)]
pub struct Builder {
    session: SessionBuilder,
    limits: Limits,
    source: Option<String>,
    router: Option<Router>,
}

impl Builder {
    /// Uses these settings. For workflows, [`Settings::expect_within`] is how long one run of the
    /// driver is expected to take, and [`Settings::retention`] how long a finished workflow is
    /// kept.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.session.settings = settings;
        self
    }

    /// Uses these limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Uses this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.session.clock = clock;
        self
    }

    /// Uses this source of ids and jitter.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.session.ids = ids;
        self
    }

    /// Sets the `source` of the messages that are committed here, such as `/orders`: 1 to 256
    /// printable ASCII characters without a space. Without a source, each message is refused before
    /// anything is written.
    ///
    /// The commit stores the source with the message, and the message is sent under it, whichever
    /// process sends it. A new source applies to later messages only. Receivers keep the order of
    /// each subject of a source, so do not change the source while receivers use
    /// [`latest`](crate::inbox::Receive::latest) or [`gapless`](crate::inbox::Receive::gapless).
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sends messages right after their commit, for up to 2 seconds. The
    /// [`Relay`](crate::relay::Relay) sends the rest. Without this, it sends all messages. Needs a
    /// [`source`](Self::source).
    #[must_use]
    pub fn sending(mut self, router: Router) -> Self {
        self.router = Some(router);
        self
    }

    /// Stores fingerprints as HMACs.
    ///
    /// See [`LockerBuilder::with_fingerprint_keys`](crate::LockerBuilder::with_fingerprint_keys).
    #[must_use]
    pub fn with_fingerprint_keys(mut self, keys: impl IntoIterator<Item = FingerprintKey>) -> Self {
        self.session.fingerprint_keys = keys.into_iter().collect();
        self
    }

    /// Checks the settings and builds.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if a setting is not allowed. The text names the setting and its allowed
    /// values.
    pub fn build(self) -> Result<Workflows, InvalidArgument> {
        self.limits.check()?;
        match (&self.source, &self.router) {
            (Some(source), _) => check_source(source)?,
            (None, Some(_)) => return Err(InvalidMessage::NoSource.into()),
            (None, None) => {}
        }
        let sends = (self.source, self.router);
        Ok(Workflows { context: Context::new(self.session.build()?, self.limits, sends) })
    }
}
