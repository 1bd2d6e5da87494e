//! Messages to a broker that the library does not know, with a large body in an object store.
//!
//! Run it with `cargo run -p locker-examples --bin own_broker`. `locker::aws` has targets for
//! Amazon SQS, SNS and EventBridge, and `Bucket` for Amazon S3.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_token_testing::{Embedded, NumberedIds, TestClock};
use locker::aws_sdk_dynamodb::types::TransactWriteItem;
use locker::message::{
    Bodies, Claim, ClaimCheck, Envelope, MAX_BODY_BYTES, NewMessage, Router, Sent, Target,
};
use locker::relay::{Outbox, OutboxMessage, Relay, RelayReport};
use locker::workflow::Workflows;
use locker::{BoxError, Ids, RunReport};

/// A broker that is down at first.
#[derive(Clone, Default)]
struct Pigeons {
    rested: Arc<Mutex<bool>>,
}

impl Target for Pigeons {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let rested =
            std::mem::replace(&mut *self.rested.lock().unwrap_or_else(PoisonError::into_inner), true);
        let carry = |message: &Envelope| {
            if !rested {
                return Sent::Later("no pigeon is back yet".to_owned());
            }
            println!("carried {} about {}", message.topic, message.subject);
            Sent::Done
        };
        batch.iter().map(carry).collect()
    }
}

/// An object store.
#[derive(Clone, Default)]
struct Attic {
    boxes: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Bodies for Attic {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), BoxError> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), body);
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
        Ok(self.boxes.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let router = Router::new().route("report/*", Pigeons::default());
    let clock = TestClock::new();
    // The same ids in each run, so that a test can compare the messages.
    let ids: Arc<dyn Ids> = Arc::new(NumberedIds::new("example"));
    let builder =
        Workflows::builder(&dynamodb, "workflows").with_clock(Arc::new(clock.clone())).with_ids(ids);
    let workflows = builder.source("/orders").build()?;

    // A body has at most 256 KB, so the message contains a claim instead of the report.
    let report = "x".repeat(MAX_BODY_BYTES + 1);
    let attic = ClaimCheck::new(Attic::default());
    let claim: Claim = attic.store(&report).await?;
    println!("the claim stands for {} bytes", claim.bytes());

    let outbox: Outbox = workflows.outbox();
    let message: OutboxMessage =
        outbox.message(NewMessage::new("report/made", &claim).subject("report/7"))?;
    // Add your own rows to the transaction with `.transact_items(row)`.
    let message = TransactWriteItem::builder().put(message.put()).build();
    dynamodb.transact_write_items().transact_items(message).send().await?;

    let relay = Relay::new(&workflows, router);
    // A committed message is due for a relay after 30 seconds, and again after a growing pause.
    for run in 1..=2 {
        clock.advance(Duration::from_secs(60));
        let report: RunReport<RelayReport> = relay.run().await?;
        println!("run {run}: sent {}, waiting {}", report.sent, report.waiting);
    }
    println!("the receiver reads {} bytes", attic.fetch::<String>(&claim).await?.len() + 2);
    Ok(())
}
