//! A post office: a table of workflows, a broker, and a workflow that tells others what it does.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use lock_token_testing::{Broker, Calls};
use locker::Settings;
use locker::message::{NewMessage, Router};
use locker::relay::{Relay, RelayReport};
use locker::workflow::{Flow, Stop, Workflow, Workflows};
use locker_tests::Wire;

use crate::bench::Desk;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Sends one message in each of its steps: its topic, and its subject unless that is the workflow.
#[derive(Debug, Clone)]
pub(crate) struct Letters(pub(crate) Vec<(&'static str, Option<&'static str>)>);

impl Letters {
    /// This many, of one subject.
    pub(crate) fn in_order(count: usize) -> Self {
        const TOPICS: [&str; 6] = ["told/0", "told/1", "told/2", "told/3", "told/4", "told/5"];
        Self(TOPICS[..count].iter().map(|topic| (*topic, None)).collect())
    }
}

impl Workflow for Letters {
    const NAME: &'static str = "letters";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for (number, (topic, subject)) in self.0.iter().enumerate() {
            let letter = NewMessage::new(*topic, &number);
            let letter = match subject {
                Some(subject) => letter.subject(*subject),
                None => letter,
            };
            flow.atomic(format!("tell#{number}")).send(letter).commit(&()).await?;
        }
        flow.step("end").run(|_| async { Ok(()) }).await
    }
}

pub(crate) struct Post {
    pub(crate) desk: Desk,
    pub(crate) broker: Broker,
    pub(crate) calls: Calls,
}

impl Post {
    /// Commit these puts in one transaction.
    pub(crate) async fn commit(&self, puts: impl IntoIterator<Item = impl Into<Put>>) {
        let actions = puts.into_iter().map(|put| TransactWriteItem::builder().put(put.into()).build());
        let actions: Vec<_> = actions.collect();
        for _ in 0..3 {
            let request = self.desk.bench.client.transact_write_items();
            match request.set_transact_items(Some(actions.clone())).send().await {
                Ok(_) => return,
                // DynamoDB Local says so of what the client itself sends again. The puts are the
                // same.
                Err(error) if error.code() == Some("IdempotentParameterMismatchException") => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("it is refused again and again");
    }

    pub(crate) async fn new() -> Self {
        let calls = Calls::default();
        Self { desk: Desk::new().await, broker: Broker::new().over(&calls), calls }
    }

    pub(crate) fn router(&self) -> Router {
        Router::new().route("*", self.broker.clone())
    }

    /// Workflows on a machine of their own that send at once.
    pub(crate) fn sender(&self) -> (Workflows, Wire) {
        self.sending(self.router())
    }

    /// The same with other targets.
    pub(crate) fn sending(&self, router: Router) -> (Workflows, Wire) {
        let wire = Wire::default();
        let mut settings = Settings::default();
        settings.owner = "test/sender".to_owned();
        settings.backoff_base = Duration::from_millis(1);
        settings.backoff_cap = Duration::from_millis(10);
        settings.consumed_capacity = true;
        let client = self.desk.bench.engine.client_over(&wire);
        let workflows = Workflows::builder(&client, &self.desk.table)
            .settings(settings)
            .with_clock(Arc::new(self.desk.bench.clock.clone()))
            .source("/letters")
            .sending(router)
            .build();
        (workflows.unwrap(), wire)
    }

    /// A relay on a machine of its own.
    pub(crate) fn relay(&self) -> (Relay, Wire) {
        let (workflows, wire) = self.desk.machine();
        (Relay::new(&workflows, self.router()), wire)
    }

    /// Run relays, a minute apart, until nothing is left.
    pub(crate) async fn settle(&self) -> RelayReport {
        let mut all = RelayReport::default();
        for _ in 0..300 {
            self.desk.bench.clock.advance(MINUTE);
            let done = self.relay().0.run().await.unwrap();
            all.sent += done.sent;
            all.waiting += done.waiting;
            all.dead += done.dead;
            if self.unsent().await == 0 {
                return all;
            }
        }
        panic!("messages stay unsent: {all:?}");
    }

    /// Messages that are stored.
    pub(crate) async fn unsent(&self) -> usize {
        let is_message = |item: &std::collections::HashMap<String, _>| item.contains_key("body");
        self.desk.items().await.into_iter().filter(is_message).count()
    }

    /// The topics that the broker took, as often as it took them.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.broker.took().into_iter().map(|envelope| envelope.topic).collect()
    }

    /// The topics that receivers take which remember ids.
    pub(crate) fn topics_once(&self) -> Vec<String> {
        self.broker.took_once().into_iter().map(|envelope| envelope.topic).collect()
    }
}
