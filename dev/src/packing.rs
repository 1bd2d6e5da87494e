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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::types::TransactWriteItem;
    use lock_token_testing::Embedded;
    use locker::Operator;
    use locker::message::{MessageState, NewMessage, Router};
    use locker::workflow::{Message, Workflows, create_table};

    use super::*;

    fn packer(dynamodb: &Client, table: &str) -> Packer {
        let workflows = Workflows::new(dynamodb, table).unwrap();
        let inbox = workflows.inbox("packer").unwrap();
        Packer { workflows, inbox, orders_table: "orders".to_owned(), queue: None }
    }

    /// What is no order comes to this queue.
    async fn tea(dynamodb: &Client, queue: &Queue) -> Workflows {
        create_table(dynamodb, "workflows").await.unwrap();
        let router = Router::new("/orders").route("*", queue.clone());
        let workflows = Workflows::builder(dynamodb, "workflows").sending(router).build().unwrap();
        let tea = NewMessage::new("order/placed", "tea").subject("order/7");
        let put = workflows.outbox().message(tea).unwrap();
        let put = TransactWriteItem::builder().put(put).build();
        dynamodb.transact_write_items().transact_items(put).send().await.unwrap();
        workflows.outbox().send("order/7").await;
        assert_eq!(queue.len(), 1);
        workflows
    }

    async fn in_state(workflows: &Workflows, state: MessageState) -> Vec<Message> {
        let mut found = Vec::new();
        for listed in workflows.messages(state).fetch().await.unwrap().items {
            found.extend(workflows.message(&listed.work).await.unwrap());
        }
        found
    }

    #[tokio::test]
    async fn what_packers_could_not_do_stays_in_the_queue() {
        let (dynamodb, queue) = (Embedded::memory().unwrap().client(), Queue::default());
        tea(&dynamodb, &queue).await;
        pack(&packer(&dynamodb, "elsewhere"), &queue).await;
        assert_eq!(queue.len(), 1, "its table is not there");
    }

    #[tokio::test]
    async fn what_is_no_order_is_set_aside_and_handled_again_when_an_operator_says_so() {
        let (dynamodb, queue) = (Embedded::memory().unwrap().client(), Queue::default());
        let workflows = tea(&dynamodb, &queue).await;
        let packer = packer(&dynamodb, "workflows");
        pack(&packer, &queue).await;
        assert!(queue.is_empty());
        let dead = in_state(&workflows, MessageState::Dead).await.remove(0);
        let ada = Operator::new("ada", "the code was repaired").unwrap();
        assert_eq!(workflows.redrive(&dead, &ada).await.unwrap(), locker::Intervened::Done);
        assert_eq!(in_state(&workflows, MessageState::Waiting).await.len(), 1);
        pack(&packer, &queue).await;
        // It is still no order.
        assert!(in_state(&workflows, MessageState::Waiting).await.is_empty());
        assert_eq!(in_state(&workflows, MessageState::Dead).await[0].redrives(), 1);
    }
}
