//! The scheduled functions and the packers, again and again until `dev` stops. A round that has
//! begun ends.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent};
use locker::lambda::Consumed;
use locker::{Clock as _, Locker, Scanner, SystemClock};
use locker_functions::packer::{self, Packer};
use locker_functions::sandbox::Queue;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The time between two rounds, and the signal to stop.
#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) every: Duration,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Rounds {
    /// Runs the scanner, and logs each missing task once.
    pub(crate) async fn scan(self, locker: &Locker) {
        let mut logged = BTreeSet::new();
        let round = async || match Scanner::new(locker).run().await {
            Ok(scanned) => {
                for record in scanned.missing.iter().filter(|record| logged.insert(record.revision())) {
                    let overdue = SystemClock.now() - record.expected_completion();
                    let (key, cause) = (record.key().as_str(), record.cause());
                    let overdue = format!("{} s", overdue.num_seconds());
                    tracing::warn!(key, cause, overdue, "the scanner: a task is missing");
                }
            }
            Err(error) => tracing::error!(%error, "the scanner failed"),
        };
        self.each(std::future::pending, round).await;
    }

    /// Runs another scheduled function, and logs its reports in which one of these counts is not
    /// zero.
    pub(crate) async fn run<R: Serialize, E: Display>(
        self,
        name: &str,
        counts: &[&str],
        run: impl AsyncFn() -> Result<R, E>,
    ) {
        self.each(std::future::pending, async || log(name, counts, run().await)).await;
    }

    /// Packs at each message, and at each round.
    pub(crate) async fn pack(self, packer: &Packer, queue: &Queue) {
        self.each(async || queue.came().await, async || pack(packer, queue).await).await;
    }

    async fn each(mut self, wake: impl AsyncFn(), mut round: impl AsyncFnMut()) {
        let mut timer = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                () = wake() => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => return,
            }
            round().await;
        }
    }
}

fn log<R: Serialize, E: Display>(name: &str, counts: &[&str], report: Result<R, E>) {
    match report.map(|report| json!(report)) {
        Ok(report) if counts.iter().all(|count| report[count] == 0) => {}
        Ok(report) => tracing::info!(%report, "{name}"),
        Err(error) => tracing::error!(%error, "{name} failed"),
    }
}

/// Delivers the messages of the queue as Lambda does. Then the packer processes the redriven
/// messages.
async fn pack(packer: &Packer, queue: &Queue) {
    loop {
        let records = queue.receive();
        if records.is_empty() {
            break;
        }
        let ids = records.iter().filter_map(|record| record["messageId"].as_str());
        let undone: BTreeSet<String> = match handle(packer, json!({ "Records": &records })).await {
            Ok(Consumed::Batch(undelivered)) => undelivered.ids().map(str::to_owned).collect(),
            Ok(_) => return,
            Err(error) => {
                tracing::error!(%error, "the packer failed");
                return;
            }
        };
        let done: Vec<_> = ids.filter(|id| !undone.contains(*id)).collect();
        done.iter().for_each(|id| queue.delete(id));
        if done.is_empty() {
            break;
        }
    }
    let scheduled = handle(packer, json!({ "source": "aws.scheduler" })).await;
    log("the packer, of messages that were redriven", &["handled", "dead"], scheduled);
}

async fn handle(packer: &Packer, event: Value) -> Result<Consumed, lambda_runtime::Error> {
    packer::handle(packer, LambdaEvent::new(event, Context::default())).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use aws_sdk_dynamodb::types::TransactWriteItem;
    use lock_token_testing::Embedded;
    use locker::message::{MessageState, NewMessage, Router};
    use locker::workflow::{Workflows, create_table};
    use locker::{Intervened, Operator};

    use super::*;

    #[tokio::test]
    async fn messages_that_are_not_done_or_redriven_are_handled_again() {
        let (dynamodb, queue) = (Embedded::memory().unwrap().client(), Queue::default());
        create_table(&dynamodb, "workflows").await.unwrap();
        let router = Router::new().route("*", queue.clone());
        let workflows =
            Workflows::builder(&dynamodb, "workflows").source("/orders").sending(router).build().unwrap();
        let odd = workflows.outbox().message(NewMessage::new("t", "no order").subject("order/7")).unwrap();
        let put = TransactWriteItem::builder().put(odd.put()).build();
        dynamodb.transact_write_items().transact_items(put).send().await.unwrap();
        workflows.outbox().send([odd]).await;
        let packer = |table: &str| {
            let workflows = Workflows::new(&dynamodb, table).unwrap();
            let inbox = workflows.inbox("packer").unwrap();
            Packer { workflows, inbox, orders_table: "orders".to_owned(), queue: None }
        };
        pack(&packer("elsewhere"), &queue).await;
        assert_eq!(
            queue.receive()[0]["attributes"]["ApproximateReceiveCount"],
            "2",
            "its table does not exist"
        );
        pack(&packer("workflows"), &queue).await;
        assert!(queue.receive().is_empty());
        let dead = async || {
            let listed = workflows.messages(MessageState::Dead).fetch().await.unwrap().items.remove(0);
            workflows.message(&listed.work).await.unwrap().unwrap()
        };
        // An operator has it handled again.
        let ada = Operator::new("ada", "the code was repaired").unwrap();
        assert_eq!(workflows.redrive(&dead().await, &ada).await.unwrap(), Intervened::Done);
        pack(&packer("workflows"), &queue).await;
        assert_eq!(dead().await.redrives(), 1);
    }
}
