//! Counts requests and units, for the bill.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use locker::BoxError;
use serde_json::{Value, json};

/// The on-demand prices of us-east-1, in USD for a million. `docs/book/src/costs.md` has those of
/// DynamoDB; the others are rounded up.
pub(crate) const PRICES: [(&str, f64); 5] =
    [("writeUnits", 0.625), ("readUnits", 0.125), ("sqs", 0.5), ("sns", 0.5), ("events", 1.0)];

/// Counts the requests of clients. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<BTreeMap<String, f64>>>);

/// Counts the requests of one service.
#[derive(Debug)]
pub(crate) struct Of {
    meter: Meter,
    service: &'static str,
}

impl Meter {
    pub(crate) fn of(&self, service: &'static str) -> Of {
        Of { meter: self.clone(), service }
    }

    pub(crate) fn add(&self, name: &str, count: f64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default() += count;
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or_default()
    }

    /// Adds the counts of another process.
    pub(crate) fn add_all(&self, counts: &Value) {
        for (name, count) in counts.as_object().into_iter().flatten() {
            self.add(name, count.as_f64().unwrap_or_default());
        }
    }

    pub(crate) fn usd(&self) -> f64 {
        PRICES.iter().map(|(name, price)| self.get(name) * price / 1e6).sum()
    }

    pub(crate) fn counts(&self) -> Value {
        json!(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn print(&self) {
        println!("{}", json!({ "counts": self.counts(), "usd": self.usd() }));
    }

    /// Adds the units of a reply of DynamoDB.
    fn note(&self, reply: &Value, is_read: bool) {
        let units = |consumed: &Value| consumed["CapacityUnits"].as_f64().unwrap_or_default();
        let consumed: f64 = match &reply["ConsumedCapacity"] {
            Value::Array(tables) => tables.iter().map(units).sum(),
            table => units(table),
        };
        self.add(if is_read { "readUnits" } else { "writeUnits" }, consumed);
        // A reply to a refused write contains no units. Each item of a transaction costs two.
        let reasons: Vec<_> =
            reply["CancellationReasons"].as_array().into_iter().flatten().map(|it| &it["Code"]).collect();
        self.add("writeUnits", 2.0 * reasons.len() as f64);
        self.add("conflicts", reasons.iter().filter(|code| **code == "TransactionConflict").count() as f64);
        let kind = reply["__type"].as_str().unwrap_or_default();
        if kind.ends_with("ConditionalCheckFailedException") {
            self.add("writeUnits", 1.0);
        }
        if kind.ends_with("ThrottlingException") || kind.ends_with("ProvisionedThroughputExceededException") {
            self.add("throttled", 1.0);
        }
    }
}

/// Whether a request of DynamoDB reads.
#[derive(Debug)]
struct IsRead(bool);

impl Storable for IsRead {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Of {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let operation = context.request().headers().get("x-amz-target").unwrap_or_default();
        let is_read = ["GetItem", "Query", "Scan"].iter().any(|read| operation.ends_with(read));
        bag.interceptor_state().store_put(IsRead(is_read));
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.service != "dynamodb" {
            // A request of up to 64 KB. The messages of this test are far below it.
            self.meter.add(self.service, 1.0);
            return Ok(());
        }
        self.meter.add("dynamodb", 1.0);
        let is_read = bag.load::<IsRead>().is_some_and(|it| it.0);
        let body = context.response().body().bytes().unwrap_or_default();
        if let Ok(reply) = serde_json::from_slice(body) {
            self.meter.note(&reply, is_read);
        }
        Ok(())
    }
}
