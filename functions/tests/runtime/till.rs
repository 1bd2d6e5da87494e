//! A stack with the tables of purchases, and access to their content.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use lock_token_testing::Broker;
use locker::Settings;
use locker::message::Router;
use locker::workflow::{Builder, View, Workflows};
use locker_functions::orders::OrderRequest;
use locker_functions::packer::Packer;
use locker_functions::purchase::{Purchase, Purchases, SOURCE};
use locker_tests::{Function, Reply};
use serde_json::{Value, json};

use crate::stack::{MINUTE, Stack};

const COMPLETER: &str = env!("CARGO_BIN_EXE_completer");

/// A stack that accepts purchases.
pub(crate) struct Till {
    pub(crate) stack: Stack,
    workflows: String,
    rows: String,
}

impl Till {
    pub(crate) async fn new() -> Self {
        let stack = Stack::new().await;
        let workflows = format!("{}-workflows", stack.bench.table);
        let rows = format!("{}-rows", stack.bench.table);
        locker::workflow::create_table(&stack.bench.client, &workflows).await.expect("a table");
        let key = AttributeDefinition::builder()
            .attribute_name("id")
            .attribute_type(ScalarAttributeType::S)
            .build();
        let hash = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build();
        let create = stack.bench.client.create_table().table_name(&rows);
        let create = create.attribute_definitions(key.expect("whole")).key_schema(hash.expect("whole"));
        create.billing_mode(BillingMode::PayPerRequest).send().await.expect("a table");
        Self { stack, workflows, rows }
    }

    /// A new execution environment, with additional variables.
    pub(crate) async fn function(&self, binary: &str, more: &[(&str, &str)]) -> Function {
        // The timeout that the template gives a completer: a run keeps a reserve of its own.
        self.function_within(MINUTE, binary, more).await
    }

    /// The same with another timeout.
    pub(crate) async fn function_within(
        &self,
        timeout: Duration,
        binary: &str,
        more: &[(&str, &str)],
    ) -> Function {
        let mut environment = vec![
            ("LOCKER_WORKFLOWS_TABLE", self.workflows.as_str()),
            ("ORDERS_TABLE", self.rows.as_str()),
            ("PAYMENTS_TIMEOUT_MS", "20000"),
            ("FUNCTION_TIMEOUT_MS", "60000"),
            // The shortest allowed, so that an unfinished workflow is due soon.
            ("LOCKER_EXPECT_MS", "1000"),
        ];
        environment.extend(more);
        self.stack.start(binary, timeout, &environment).await
    }

    pub(crate) fn workflows(&self) -> Workflows {
        Workflows::new(&self.stack.bench.client, &self.workflows).expect("workflows")
    }

    /// The name of the table of workflows.
    pub(crate) fn table(&self) -> &str {
        &self.workflows
    }

    /// Purchases in this process, with a clock that is behind by this duration, over the given
    /// client.
    pub(crate) fn purchases(&self, client: &aws_sdk_dynamodb::Client, behind: Duration) -> Purchases {
        self.routed(client, behind, None)
    }

    /// Purchases in this process that send to packers over a broker.
    pub(crate) fn sending(&self, client: &aws_sdk_dynamodb::Client, broker: &Broker) -> Purchases {
        self.sending_behind(client, broker, Duration::ZERO)
    }

    /// The same, with a clock that is behind by this duration.
    pub(crate) fn sending_behind(
        &self,
        client: &aws_sdk_dynamodb::Client,
        broker: &Broker,
        behind: Duration,
    ) -> Purchases {
        self.routed(client, behind, Some(Router::new().route("*", broker.clone())))
    }

    fn routed(
        &self,
        client: &aws_sdk_dynamodb::Client,
        behind: Duration,
        router: Option<Router>,
    ) -> Purchases {
        let clock = std::sync::Arc::new(self.stack.bench.clock.behind(behind));
        let mut settings = Settings::default();
        settings.consumed_capacity = true;
        let code = Purchase {
            payments: self.stack.payments(),
            dynamodb: client.clone(),
            orders_table: self.rows.clone(),
            packed_within: router.is_some().then_some(Duration::from_secs(3600)),
        };
        let workflows = Workflows::builder(client, &self.workflows).settings(settings).source(SOURCE);
        let workflows = workflows.with_clock(clock);
        let workflows = router.into_iter().fold(workflows, Builder::sending).build();
        Purchases { workflows: workflows.expect("workflows"), code }
    }

    /// The name of a table in the template.
    pub(crate) fn named(&self, table: &str) -> &'static str {
        match table {
            table if table == self.workflows => "Workflows",
            table if table == self.rows => "OrdersTable",
            table if table == self.stack.bench.table => "Locks",
            other => panic!("unknown table {other}"),
        }
    }

    pub(crate) async fn view(&self, key: &str) -> View {
        let view = self.workflows().get(workflow(key), 1).await.expect("an answer");
        view.unwrap_or_else(|| panic!("there is no {key}"))
    }

    /// The state of an order row, and the number of its charge.
    pub(crate) async fn row(&self, order_id: &str) -> Option<(String, Option<String>)> {
        let id = AttributeValue::S(format!("@alice/order/{order_id}"));
        let read = self.stack.bench.client.get_item().table_name(&self.rows).key("id", id);
        let item = read.consistent_read(true).send().await.expect("an answer").item?;
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
        Some((text("state").expect("a state"), text("charge")))
    }

    /// Gives an order row to another purchase.
    pub(crate) async fn hand_over(&self, order_id: &str, purchase: &str) {
        self.set(order_id, "purchase", purchase).await;
    }

    /// Changes an attribute of an order row.
    pub(crate) async fn set(&self, order_id: &str, name: &str, value: &str) {
        let id = AttributeValue::S(format!("@alice/order/{order_id}"));
        let update = self.stack.bench.client.update_item().table_name(&self.rows).key("id", id);
        let update = update.update_expression("SET #name = :value").expression_attribute_names("#name", name);
        let update = update.expression_attribute_values(":value", AttributeValue::S(value.to_owned()));
        update.send().await.expect("an answer");
    }

    /// The state of the event `packed` of a purchase.
    pub(crate) async fn packed(&self, key: &str) -> Option<String> {
        let read = self.stack.bench.client.get_item().table_name(&self.workflows).consistent_read(true);
        let read = read.key("workflow", AttributeValue::S(format!("@alice/purchase/{key}")));
        let read = read.key("item", AttributeValue::S("event/packed".to_owned())).send().await;
        let item = read.expect("an answer").item?;
        item["state"].as_s().ok().cloned()
    }

    /// The sort keys of all items of a workflow.
    pub(crate) async fn items(&self, workflow: &str) -> Vec<String> {
        let query = self.stack.bench.client.query().table_name(&self.workflows);
        let query = query.key_condition_expression("workflow = :workflow");
        let query = query.expression_attribute_values(":workflow", AttributeValue::S(workflow.to_owned()));
        let items = query.consistent_read(true).send().await.expect("an answer").items.unwrap_or_default();
        items.iter().map(|item| item["item"].as_s().expect("text").clone()).collect()
    }

    /// Invoke a completer until a workflow is due for it, since the workflow is due by the
    /// completer's clock.
    pub(crate) async fn completed(&self, more: &[(&str, &str)]) -> (Value, Function) {
        let function = self.function(COMPLETER, more).await;
        for number in 0..200 {
            let Reply::Response(report) = function.invoke(&format!("c{number}"), json!({})).await else {
                panic!("no report")
            };
            if report["completed"] != 0 || report["quarantined"] != 0 {
                return (report, function);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("nothing was completed: {:?}", function.logged());
    }
}

pub(crate) fn workflow(key: &str) -> locker::Key {
    locker::Key::new("purchase", key).and_then(|key| key.tenant("alice")).expect("a key")
}

pub(crate) fn order(id: &str, cents: u32) -> String {
    json!({ "orderId": id, "cents": cents, "currency": "EUR" }).to_string()
}

/// A packer with the tables of these purchases, and without a queue.
pub(crate) fn packer(purchases: Purchases) -> Packer {
    let inbox = purchases.workflows.inbox("packer").expect("a name");
    Packer { workflows: purchases.workflows, inbox, orders_table: purchases.code.orders_table, queue: None }
}

pub(crate) fn request(id: &str) -> OrderRequest {
    serde_json::from_str(&order(id, 1000)).expect("an order")
}
