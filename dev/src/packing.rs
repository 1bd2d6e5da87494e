//! The packers: they hear what the queue delivers, as the function does, and each round what an operator redrove.

use std::collections::BTreeSet;

use lambda_runtime::{Context, LambdaEvent};
use locker::lambda::Consumed;
use locker_functions::packer::{self, Packer};
use locker_functions::sandbox::Queue;
use serde_json::{Value, json};

/// Messages of one delivery, as of a queue of Amazon SQS.
const BATCH: usize = 10;

/// Handle all that the queue has to deliver now, and then what waits in the table.
pub(crate) async fn pack(packer: &Packer, queue: &Queue) {
    loop {
        let records = queue.receive(BATCH);
        if records.is_empty() {
            break;
        }
        let ids: Vec<_> = records.iter().filter_map(|record| record["messageId"].as_str()).collect();
        let undone: BTreeSet<String> = match handle(packer, json!({ "Records": &records })).await {
            Some(Consumed::Batch(undelivered)) => undelivered.ids().map(str::to_owned).collect(),
            _ => ids.iter().map(ToString::to_string).collect(),
        };
        ids.into_iter().filter(|id| !undone.contains(*id)).for_each(|id| queue.acknowledge(id));
    }
    if let Some(Consumed::Waiting(done)) = handle(packer, json!({})).await
        && done.handled + done.dead > 0
    {
        tracing::info!(handled = done.handled, dead = done.dead, "the packers handled what was redriven");
    }
}

async fn handle(packer: &Packer, event: Value) -> Option<Consumed> {
    match packer::handle(packer, LambdaEvent::new(event, Context::default())).await {
        Ok(consumed) => Some(consumed),
        Err(error) => {
            tracing::error!(%error, "the packers failed");
            None
        }
    }
}
