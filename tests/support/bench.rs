//! One table on one engine, and lockers over it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use locker::{BeginBuilder, Begun, Clock as _, Lock, Locker, Record, Settings, SystemClock};
use tracing::Dispatch;

use crate::{Engine, TestClock, Wire};

/// A workbench: an engine, a table, a clock, and lockers as different machines would have them.
#[derive(Debug)]
pub struct Bench {
    /// The engine that holds the table.
    pub engine: Engine,
    /// The table.
    pub table: String,
    /// The clock of every locker made here.
    pub clock: TestClock,
    /// A client without faults, for looking behind the library's back.
    pub client: Client,
}

/// While a process has at most one subscriber, a log statement that is first reached on a thread
/// without it is off on every thread. These two are there for as long as the process.
static LISTENERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));

impl Bench {
    /// A new table.
    pub async fn new() -> Self {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        LazyLock::force(&LISTENERS);
        let engine = Engine::start().await;
        let client = engine.client();
        let unique = SystemClock.now().timestamp_micros();
        let table = format!("locks-{unique}-{}", TABLES.fetch_add(1, Ordering::Relaxed));
        locker::create_table(&client, &table).await.expect("a table");
        Self { engine, table, clock: TestClock::new(), client }
    }

    /// A locker of its own machine, with the wire that it speaks through.
    #[must_use]
    pub fn machine(&self) -> (Locker, Wire) {
        self.machine_with(|_| {})
    }

    /// The same, with other settings.
    #[must_use]
    pub fn machine_with(&self, change: impl FnOnce(&mut Settings)) -> (Locker, Wire) {
        let wire = Wire::default();
        (self.locker(&self.engine.client_over(&wire), &self.clock, change), wire)
    }

    /// A locker over a client and a clock of the test.
    #[must_use]
    pub fn locker(&self, client: &Client, clock: &TestClock, change: impl FnOnce(&mut Settings)) -> Locker {
        let mut settings = Settings::default();
        settings.owner = "test/machine".to_owned();
        settings.backoff_base = Duration::from_millis(1);
        settings.backoff_cap = Duration::from_millis(10);
        settings.attempt_timeout = Duration::from_secs(5);
        settings.give_up_after = Duration::from_secs(20);
        settings.consumed_capacity = true;
        change(&mut settings);
        let locker = Locker::builder(client, &self.table).settings(settings);
        locker.with_clock(Arc::new(clock.clone())).build().expect("settings of a test are allowed")
    }

    /// A locker that gives up soon, for faults that never end.
    #[must_use]
    pub fn impatient_machine(&self) -> (Locker, Wire) {
        self.machine_with(|settings| {
            settings.attempt_timeout = Duration::from_millis(200);
            settings.give_up_after = Duration::from_millis(400);
        })
    }

    /// Put an item behind the library's back.
    pub async fn put(&self, item: HashMap<String, AttributeValue>) {
        self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await.expect("put");
    }

    /// Delete an item behind the library's back, as DynamoDB's TTL does.
    pub async fn delete(&self, key: &str) {
        let key = AttributeValue::S(key.to_owned());
        self.client.delete_item().table_name(&self.table).key("lockToken", key).send().await.expect("delete");
    }

    /// Every item of the table, to compare before and after.
    pub async fn items(&self) -> Vec<HashMap<String, AttributeValue>> {
        let scanned = self.client.scan().table_name(&self.table).consistent_read(true).send().await;
        let mut items = scanned.expect("scan").items.unwrap_or_default();
        items.sort_by_key(|item| item.get("lockToken").and_then(|key| key.as_s().ok()).cloned());
        items
    }

    /// The item of a key as it is stored.
    pub async fn item(&self, key: &str) -> Option<HashMap<String, AttributeValue>> {
        let key = AttributeValue::S(key.to_owned());
        let got = self.client.get_item().table_name(&self.table).key("lockToken", key).consistent_read(true);
        got.send().await.expect("get").item
    }
}

/// The lock of a begin that must have taken the token.
pub async fn held_by(token: BeginBuilder) -> Lock {
    match token.begin().await.expect("an answer") {
        Begun::Acquired(lock) => lock,
        other => panic!("the token was not acquired: {other:?}"),
    }
}

/// The record of a token that must exist.
pub async fn record_of(locker: &Locker, key: &str) -> Record {
    locker.get(key).await.expect("an answer").expect("a record")
}
