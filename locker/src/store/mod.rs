//! DynamoDB: the only place that knows the SDK's requests and errors.

mod action;
mod acts;
#[cfg(feature = "workflow")]
mod delete_batch;
mod exchange;
mod expression;
mod item;
mod listing;
mod read;
mod records;
mod schema;
#[cfg(feature = "workflow")]
pub(crate) mod sdk_actions;
mod transact;
mod write;
mod written;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::StalledStreamProtectionConfig;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::{Capacity, ConsumedCapacity, ReturnConsumedCapacity};
use tokio::time::Instant;

#[cfg(feature = "workflow")]
pub(crate) use action::{Action, check_actions};
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
pub(crate) use exchange::heard;
pub(crate) use expression::Guard;
#[cfg(feature = "workflow")]
pub(crate) use item::{
    Item, LedgerEntry, beside_item, event_item, event_of, event_receipt_item, failed_runs_item, header_item,
    header_of, ledger_item, message_item, message_of, record_item, record_of, workflow_audit_item,
};
pub(crate) use item::{TokenSize, room_for_answer};
#[cfg(feature = "messages")]
pub(crate) use item::{receipt_item, receipt_of, replaced_item};
pub(crate) use listing::{Positions, Query, Row, RowPage};
#[cfg(feature = "workflow")]
pub(crate) use read::Everything;
pub(crate) use read::Freshness;
#[cfg(feature = "workflow")]
pub(crate) use records::{Changed, Over, Versioned};
pub(crate) use records::{StoredBeat, TableOf};
pub(crate) use schema::Layout;
#[cfg(feature = "workflow")]
pub(crate) use schema::workflow;
pub use schema::{TableCheck, check_table, create_table};
pub(crate) use written::Written;
#[cfg(feature = "workflow")]
pub(crate) use written::found;

use crate::clock::Ids;
use crate::core::retry::{Backoff, Left, Step, Tries, Why};
use crate::error::Error;
use crate::settings::Settings;
use exchange::Failure;

/// The shortest time for which a request is sent.
const SHORTEST_TRY: Duration = Duration::from_millis(50);
/// The time for the first try of an end, even if the deadline has passed.
const LAST_CHANCE: Duration = Duration::from_millis(250);
/// The number of refused signatures after which a request is sent again. A request that ends or
/// records something has no such limit.
const SIGNATURES: u32 = 2;

/// One table, through one client.
#[derive(Debug)]
pub(crate) struct Store {
    client: Client,
    table: String,
    layout: &'static Layout,
    ids: Arc<dyn Ids>,
    backoff: Backoff,
    attempt_timeout: Duration,
    /// Of the index.
    #[cfg(feature = "workflow")]
    shards: u16,
    capacity: Option<ReturnConsumedCapacity>,
}

/// The part of this time that is reserved for the end of the work.
pub(crate) fn reserve(left: Duration) -> Duration {
    const MOST: Duration = Duration::from_secs(1);
    (left / 4).min(MOST)
}

/// The time limit of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    at: Instant,
    /// The shortest time for its first try.
    first: Duration,
    /// Whether there is only one try.
    once: bool,
    /// The number of refused signatures after which it is tried again.
    signatures: u32,
}

impl Until {
    pub(crate) const fn new(at: Instant) -> Self {
        Self { at, first: SHORTEST_TRY, once: false, signatures: SIGNATURES }
    }

    /// Reserves a part of the time for requests after this call: a quarter, and 1 second at most.
    pub(crate) fn reserving(self) -> Self {
        Self { at: self.at - reserve(self.left()), ..self }
    }

    /// For a write that ends or records something. Even a late write is tried once, because only
    /// this write shows other callers that the work is done.
    pub(crate) const fn for_end(self) -> Self {
        Self { first: LAST_CHANCE, signatures: u32::MAX, ..self }
    }

    /// Only one try, even if it fails.
    pub(crate) const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

impl Store {
    /// Takes over the client's connections and credentials, with one attempt for every request:
    /// this module's own loop sees each outcome.
    pub(crate) fn new(
        client: &Client,
        (table, layout): (String, &'static Layout),
        settings: &Settings,
        ids: Arc<dyn Ids>,
    ) -> Self {
        // `exchange` bounds the time of each attempt, so a second timer would never fire first.
        let timeouts = TimeoutConfig::builder().connect_timeout(settings.attempt_timeout).build();
        let config = client.config().to_builder();
        let config = config
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            // The timeout of an attempt ends it sooner, bodies included.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        Self {
            client: Client::from_conf(config),
            table,
            layout,
            ids,
            backoff: Backoff::doubling(settings.backoff_base, settings.backoff_cap),
            attempt_timeout: settings.attempt_timeout,
            #[cfg(feature = "workflow")]
            shards: settings.write_shards(),
            capacity: settings.consumed_capacity.then_some(ReturnConsumedCapacity::Indexes),
        }
    }

    pub(crate) fn jitter(&self) -> f64 {
        self.ids.jitter()
    }

    /// One exchange, cut off where time is up.
    async fn exchange<T>(
        &self,
        tries: Tries,
        until: Until,
        reply: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let least = if tries.made == 0 { until.first } else { Duration::ZERO };
        let limit = self.attempt_timeout.min(until.left().max(least));
        tokio::time::timeout(limit, reply).await.unwrap_or_else(|_| Err(Failure::timed_out()))
    }

    /// Handles a failed exchange: pauses before the next one, or returns the reason why there is
    /// none.
    async fn after_failure(
        &self,
        verb: &'static str,
        tries: &mut Tries,
        until: Until,
        failure: Failure,
    ) -> Result<(), Error> {
        let time = if until.once { Duration::ZERO } else { until.left().saturating_sub(SHORTEST_TRY) };
        let left = Left { time, signatures: until.signatures };
        match tries.hear(failure.heard, left, self.backoff, self.jitter()) {
            Step::Again(pause) => {
                tracing::debug!(verb, tries = tries.made, cause = %failure.cause, "trying again");
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Step::GiveUp(why) => Err(self.give_up(verb, *tries, why, failure)),
            // A refused read: it has no condition, so this does not occur.
            Step::Done => Err(self.give_up(verb, *tries, Why::Denied, failure)),
        }
    }

    fn give_up(&self, verb: &'static str, tries: Tries, why: Why, failure: Failure) -> Error {
        let (tries, advice) = (tries.made, failure.advice(&self.table, self.layout));
        let (code, source) = (failure.code, failure.cause);
        match why {
            Why::Unknown => Error::Unknown { verb, tries, source },
            Why::Unavailable => Error::Unavailable { verb, tries, source },
            Why::Denied => Error::Denied { verb, code, advice, source },
        }
    }
}

/// The units that a request consumed, for table and indexes together. `None`: DynamoDB was not
/// asked, or did not report them.
fn units(consumed: Option<&ConsumedCapacity>) -> Option<f64> {
    let consumed = consumed?;
    let table = consumed.table().and_then(Capacity::capacity_units).unwrap_or_default();
    let indexes = consumed.global_secondary_indexes().into_iter().flat_map(|indexes| indexes.values());
    Some(table + indexes.filter_map(Capacity::capacity_units).sum::<f64>())
}
