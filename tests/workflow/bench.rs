//! A table of workflows, a table of business rows, and machines that drive workflows with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use locker::workflow::{Completer, CompleterReport, Limits, List, View, Workflow, Workflows};
use locker::{Clock as _, RunReport, Settings};
use locker_tests::{Bench, Exchange, TestClock, Wire};

/// Longer than any run or step of a test is expected to take, and than clocks may differ.
pub(crate) const LATER: Duration = Duration::from_secs(3600);

pub(crate) struct Desk {
    pub(crate) bench: Bench,
    pub(crate) table: String,
    /// Business rows, by `id`.
    pub(crate) rows: String,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        let bench = Bench::new().await;
        let table = format!("{}-workflows", bench.table);
        let rows = format!("{}-rows", bench.table);
        locker::workflow::create_table(&bench.client, &table).await.expect("a table");
        let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
        bench
            .client
            .create_table()
            .table_name(&rows)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(id.build().expect("an attribute"))
            .key_schema(key.build().expect("a key"))
            .send()
            .await
            .expect("a table");
        Self { bench, table, rows }
    }

    /// Workflows on a machine of their own, and the wire to it.
    pub(crate) fn machine(&self) -> (Workflows, Wire) {
        self.machine_with(|_, _| {})
    }

    pub(crate) fn machine_with(&self, change: impl FnOnce(&mut Settings, &mut Limits)) -> (Workflows, Wire) {
        self.machine_at(self.bench.clock.clone(), change)
    }

    /// A machine whose clock is behind by this, and stands still from here on.
    pub(crate) fn machine_behind(&self, by: Duration) -> (Workflows, Wire) {
        self.machine_at(self.bench.clock.behind(by), |_, _| {})
    }

    fn machine_at(
        &self,
        clock: TestClock,
        change: impl FnOnce(&mut Settings, &mut Limits),
    ) -> (Workflows, Wire) {
        let wire = Wire::default();
        let (mut settings, mut limits) = (Settings::default(), Limits::default());
        settings.owner = "test/machine".to_owned();
        settings.backoff_base = Duration::from_millis(1);
        settings.backoff_cap = Duration::from_millis(10);
        settings.attempt_timeout = Duration::from_secs(5);
        settings.give_up_after = Duration::from_secs(20);
        settings.consumed_capacity = true;
        // Most tests count attempts, not hours.
        limits.retry_for = Duration::ZERO;
        limits.backoff_base = Duration::from_secs(1);
        limits.backoff_cap = Duration::from_secs(60);
        change(&mut settings, &mut limits);
        let client = self.bench.engine.client_over(&wire);
        let workflows = Workflows::builder(&client, &self.table)
            .settings(settings)
            .limits(limits)
            .source("/letters")
            .with_clock(Arc::new(clock))
            .build()
            .expect("settings of a test are allowed");
        (workflows, wire)
    }

    pub(crate) fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.bench.clock.now()
    }

    /// Advance the time and run completers until no workflow is due.
    pub(crate) async fn settle<W: Workflow + Clone>(&self, code: &W) -> RunReport<CompleterReport> {
        self.settle_with(|completer| completer.register(code.clone())).await
    }

    /// The same for several types of workflow.
    pub(crate) async fn settle_with(
        &self,
        register: impl FnOnce(Completer) -> Completer,
    ) -> RunReport<CompleterReport> {
        let (workflows, _) = self.machine();
        let completer = register(Completer::new(&workflows));
        let mut last = RunReport::default();
        for _ in 0..30 {
            self.bench.clock.advance(LATER);
            last = completer.run().await.expect("a run");
            if last.claimed + last.taken_elsewhere == 0 {
                return last;
            }
        }
        panic!("workflows stay due: {last:?}");
    }

    pub(crate) async fn view(&self, key: &str) -> View {
        self.machine().0.get(key, 1).await.expect("an answer").expect("a workflow")
    }

    pub(crate) async fn quarantine(&self) -> Vec<String> {
        self.quarantine_of(1).await
    }

    /// The same with this many shards.
    pub(crate) async fn quarantine_of(&self, shards: u16) -> Vec<String> {
        let (workflows, _) = self.machine_with(|settings, _| settings.shards = shards);
        let listed = workflows.list(List::Quarantine).limit(10_000).fetch().await.expect("a listing");
        assert!(listed.is_complete());
        listed.items.into_iter().map(|workflow| workflow.workflow).collect()
    }

    pub(crate) async fn row(&self, id: &str) -> Option<HashMap<String, AttributeValue>> {
        let key = AttributeValue::S(id.to_owned());
        let got = self.bench.client.get_item().table_name(&self.rows).key("id", key).consistent_read(true);
        got.send().await.expect("get").item
    }

    /// Every item of the table of workflows.
    pub(crate) async fn items(&self) -> Vec<HashMap<String, AttributeValue>> {
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let scan = self.bench.client.scan().table_name(&self.table).consistent_read(true);
            let page = scan.set_exclusive_start_key(start).send().await.expect("scan");
            items.extend(page.items.unwrap_or_default());
            start = page.last_evaluated_key;
            if start.is_none() {
                return items;
            }
        }
    }
}

/// The books of a provider: its requests, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books(Arc<Mutex<Vec<String>>>);

impl Books {
    pub(crate) fn enter(&self, entry: impl Into<String>) {
        self.0.lock().expect("no panic while the books are locked").push(entry.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().expect("no panic while the books are locked").clone()
    }

    pub(crate) fn count(&self, entry: &str) -> usize {
        self.entries().iter().filter(|known| *known == entry).count()
    }
}

/// What a request consumed, with its indexes.
pub(crate) fn price_of(exchange: &Exchange) -> f64 {
    let sum = |consumed: &serde_json::Value| {
        let of = |part: &serde_json::Value| part["CapacityUnits"].as_f64().unwrap_or_default();
        let indexes = consumed["GlobalSecondaryIndexes"].as_object();
        of(&consumed["Table"]) + indexes.into_iter().flat_map(|indexes| indexes.values()).map(of).sum::<f64>()
    };
    match exchange.consumed.as_ref() {
        Some(serde_json::Value::Array(tables)) => tables.iter().map(sum).sum(),
        Some(consumed) => sum(consumed),
        // A refusal carries none; DynamoDB bills the size of what refused it, here a header of 1 KB
        // at most.
        None => 1.0,
    }
}
