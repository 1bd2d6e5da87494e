//! A large store: samples that the library wrote, many times over under other keys.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker::workflow::{Flow, Stop, Workflow, Workflows};
use locker::{Begun, Failure, Lock, Locker};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const TOKENS: &str = "locks";
pub(crate) const WORKFLOWS: &str = "flows";

pub(crate) struct Store {
    pub(crate) engine: Embedded,
    pub(crate) directory: TempDir,
}

/// Ends as it is told.
struct Buy(Option<Failure>);

impl Workflow for Buy {
    const NAME: &'static str = "buy";
    type Input = u32;
    type Output = ();

    async fn run(&self, flow: &Flow, _: u32) -> Result<(), Stop> {
        let came_to = || self.0.clone().map_or(Ok(()), Err);
        flow.once("pay").run(|_| async { came_to() }).await
    }
}

/// In time for as long as the test takes on a busy machine.
async fn held_by(locker: &Locker, key: &str) -> Lock {
    let token = locker.token(key).expect_within(Duration::from_secs(12 * 60 * 60));
    match token.begin().await.expect("an outcome") {
        Begun::Acquired(lock) => lock,
        other => panic!("{other:?}"),
    }
}

impl Store {
    /// 100,000 tokens, of which 1,000 are in progress in time, 3 in doubt, and the others have
    /// their answers; and 2,000 workflows, of which 200 wait in quarantine for one cause, 40 for
    /// another, and the others have ended.
    pub(crate) fn new() -> Self {
        let store = Self {
            engine: Embedded::memory().expect("an engine"),
            directory: tempfile::tempdir().expect("a directory"),
        };
        tokio::runtime::Runtime::new().expect("a runtime").block_on(store.fill());
        store
    }

    async fn fill(&self) {
        let client = self.engine.client();
        locker::create_table(&client, TOKENS).await.expect("a table");
        locker::workflow::create_table(&client, WORKFLOWS).await.expect("a table");
        let locker = Locker::new(&client, TOKENS).expect("a locker");
        held_by(&locker, "sample/done").await.complete("done").await.expect("completed");
        drop(held_by(&locker, "sample/running").await);
        for number in 0..3 {
            let lock = held_by(&locker, &format!("@cust{number}/pay/{number}")).await;
            lock.leave_in_doubt(&format!("no reply to ch_{number}a7b7c7")).await;
        }
        drop(held_by(&locker, "@cust7/mail/7").await);
        held_by(&locker, "@cust7/order/4711").await.complete("paid").await.expect("completed");
        self.copy_tokens("sample/done", "done", 100_000 - 1_000 - 7).await;
        self.copy_tokens("sample/running", "running", 1_000 - 2).await;

        let workflows = Workflows::new(&client, WORKFLOWS).expect("workflows");
        let needs = |cause: &str| Buy(Some(Failure::needs_operator(cause.to_owned())));
        let kinds = [
            ("buy", needs("the ledger is read only"), 200),
            ("mail", needs("address unknown"), 40),
            ("ended", Buy(None), 1_760),
        ];
        for (name, code, count) in kinds {
            workflows.start(&code, (name, 0), &7).run().await.expect("an outcome");
            self.copy_workflow(name, count - 1).await;
        }
    }

    async fn ask(&self, operation: &str, body: Value) -> Value {
        let reply = self.engine.ask(operation, body.to_string().as_bytes()).await.expect("a reply");
        assert_eq!(reply.status, 200, "{}", reply.body);
        serde_json::from_str(&reply.body).expect("JSON")
    }

    async fn put(&self, table: &str, items: impl Iterator<Item = Value>) {
        let mut requests: Vec<Value> = Vec::new();
        let mut items = items.peekable();
        while let Some(item) = items.next() {
            requests.push(json!({ "PutRequest": { "Item": item } }));
            if requests.len() == 25 || items.peek().is_none() {
                let batch = std::mem::take(&mut requests);
                self.ask("BatchWriteItem", json!({ "RequestItems": { table: batch } })).await;
            }
        }
    }

    async fn copy_tokens(&self, sample: &str, name: &str, count: usize) {
        let key = json!({ "lockToken": { "S": sample } });
        let item = self.ask("GetItem", json!({ "TableName": TOKENS, "Key": key })).await["Item"].clone();
        let copies = (0..count).map(|number| {
            let mut copy = item.clone();
            copy["lockToken"] = json!({ "S": format!("{name}/{number}") });
            copy
        });
        self.put(TOKENS, copies).await;
    }

    async fn copy_workflow(&self, name: &str, count: usize) {
        let of = json!({ ":w": { "S": format!("{name}/0") } });
        let query = json!({ "TableName": WORKFLOWS, "KeyConditionExpression": "workflow = :w", "ExpressionAttributeValues": of });
        let items = self.ask("Query", query).await["Items"].as_array().expect("items").clone();
        let copies = (1..=count).flat_map(|number| {
            items.clone().into_iter().map(move |mut copy| {
                copy["workflow"] = json!({ "S": format!("{name}/{number}") });
                copy
            })
        });
        self.put(WORKFLOWS, copies).await;
    }
}
