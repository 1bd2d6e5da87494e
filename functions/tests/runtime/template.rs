//! What is deployed is what the code needs: the template's permissions, binaries, metrics and alarms
//! against the code.

use std::collections::BTreeSet;
use std::time::Duration;

use locker::http::IDEMPOTENCY_KEY;
use locker_functions::orders::{OrderRequest, Shop, router};
use locker_functions::payments::{Charge, Payments};
use locker_functions::sandbox::Mood;
use serde_yaml_ng::Value;
use tower::ServiceExt as _;

use crate::stack::Stack;

fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).expect("YAML")
}

fn template() -> Value {
    yaml(include_str!("../../../template.yaml"))
}

fn monitoring() -> Value {
    yaml(include_str!("../../../infra/monitoring.yaml"))
}

/// The resources of a type, with their names.
fn resources<'a>(template: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let all = template["Resources"].as_mapping().expect("resources").iter();
    all.filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str().expect("a name"), resource))
        .collect()
}

fn statements(function: &Value) -> Vec<&Value> {
    let policies = function["Properties"]["Policies"].as_sequence().expect("policies");
    policies
        .iter()
        .flat_map(|policy| policy["Statement"].as_sequence().expect("statements, no ready-made policy"))
        .collect()
}

fn actions(function: &Value) -> BTreeSet<String> {
    let actions = statements(function)
        .into_iter()
        .flat_map(|statement| statement["Action"].as_sequence().expect("a list"));
    actions.map(|action| action.as_str().expect("text").to_owned()).collect()
}

#[test]
fn no_permission_is_wide() {
    for (name, function) in resources(&template(), "AWS::Serverless::Function") {
        for statement in statements(function) {
            let text = serde_yaml_ng::to_string(statement).expect("text");
            assert!(!text.contains('*'), "{name}: {text}");
            assert_eq!(statement["Effect"], "Allow", "{name}");
        }
    }
}

/// What the code really asks of DynamoDB, seen on the wire.
async fn asked(binary: &str) -> BTreeSet<String> {
    let stack = Stack::new().await;
    let (locker, wire) = stack.bench.machine();
    let payments = Payments::new(stack.payments(), Duration::from_millis(300)).expect("a client");
    let shop = Shop::new(locker.clone(), payments);
    match binary {
        "scanner" => {
            let _late =
                locker_tests::held_by(locker.token("late").expect_within(Duration::from_secs(1))).await;
            stack.bench.clock.advance(Duration::from_secs(60));
            wire.take();
            locker.scan().run().await.expect("a scan");
        }
        "orders" => {
            let app = router(shop, |_| Some("alice".to_owned()));
            for (number, mood) in [Mood::Well, Mood::Busy].into_iter().enumerate() {
                stack.provider.set_mood(mood);
                let body = format!(r#"{{"orderId":"{number}","cents":1,"currency":"EUR"}}"#);
                let post = http::Request::post("/orders").header(IDEMPOTENCY_KEY, number.to_string());
                let post = post.header("content-type", "application/json").body(axum::body::Body::from(body));
                app.clone().oneshot(post.expect("a request")).await.expect("a response");
                let get = http::Request::get(format!("/orders/{number}")).body(axum::body::Body::empty());
                app.clone().oneshot(get.expect("a request")).await.expect("a response");
            }
        }
        _ => {
            // An order of a long number does not fit beside its token, so a replay reads it.
            let long: String = (0..400).map(|_| fastrand::alphanumeric()).collect();
            for (id, mood) in [("1", Mood::Busy), (long.as_str(), Mood::Well), (long.as_str(), Mood::Well)] {
                stack.provider.set_mood(mood);
                let charge = Charge { cents: 1, currency: "EUR".to_owned() };
                let order = OrderRequest { order_id: id.to_owned(), charge };
                let _ = shop.create("alice", &order, None, None).await;
            }
        }
    }
    wire.take().into_iter().map(|exchange| format!("dynamodb:{}", exchange.operation)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_function_may_do_what_it_does_and_no_more() {
    for (name, function) in resources(&template(), "AWS::Serverless::Function") {
        let binary = function["Metadata"]["BuildProperties"]["Binary"].as_str().expect("a binary");
        assert_eq!(actions(function), asked(binary).await, "{name}");
    }
}

#[test]
fn every_binary_is_deployed_and_every_function_has_one() {
    let deployed: BTreeSet<String> = resources(&template(), "AWS::Serverless::Function")
        .into_iter()
        .map(|(_, function)| {
            assert_eq!(function["Metadata"]["BuildMethod"], "rust-cargolambda");
            function["Metadata"]["BuildProperties"]["Binary"].as_str().expect("a binary").to_owned()
        })
        .collect();
    let built = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin")).expect("binaries");
    let built: BTreeSet<String> = built
        .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(deployed, built);
}

#[test]
fn the_table_is_what_the_code_checks_for() {
    let template = template();
    let table = &template["Resources"]["Locks"]["Properties"];
    let keys = |keys: &Value| -> Vec<String> {
        let keys = keys.as_sequence().expect("keys").iter();
        keys.map(|key| key["AttributeName"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(keys(&table["KeySchema"]), ["lockToken"]);
    let index = &table["GlobalSecondaryIndexes"][0];
    assert_eq!(index["IndexName"], "byStatus");
    assert_eq!(keys(&index["KeySchema"]), ["status", "expectedCompletion"]);
    assert_eq!(index["Projection"]["NonKeyAttributes"], yaml("[created, lockedBy]"));
    assert_eq!(table["TimeToLiveSpecification"], yaml("{ AttributeName: ttl, Enabled: true }"));
    assert_eq!(table["DeletionProtectionEnabled"], true);
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    assert_eq!(template["Resources"]["Locks"]["DeletionPolicy"], "Retain");
}

/// The metrics of our namespace that a text speaks of.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let queried =
        text.split("SELECT ").skip(1).filter_map(|rest| rest.split_once('(')).map(|(_, rest)| word(rest));
    let plotted = text.split("[\"Locker\", \"").skip(1).map(word);
    let ditto = text.split("[\".\", \"").skip(1).map(word);
    queried.chain(plotted).chain(ditto).collect()
}

#[test]
fn alarms_and_dashboard_speak_of_metrics_that_the_code_emits() {
    let monitoring = monitoring();
    let known: BTreeSet<String> = locker::metrics::ALL.map(str::to_owned).into();
    let mut alarmed = BTreeSet::new();
    for (name, alarm) in resources(&monitoring, "AWS::CloudWatch::Alarm") {
        let alarm = &alarm["Properties"];
        if alarm["Namespace"] == "Locker" {
            alarmed.insert(alarm["MetricName"].as_str().expect("a name").to_owned());
            assert_eq!(alarm["Dimensions"][0]["Value"], "scanner", "{name}: the scanner emits it");
            assert_eq!(
                alarm["Dimensions"][1],
                yaml("{ Name: stack, Value: { Ref: Stack } }"),
                "{name}: of this stack"
            );
        } else if let Some(query) = alarm["Metrics"][0]["Expression"]["Fn::Sub"].as_str() {
            assert!(query.ends_with("WHERE stack = '${Stack}'"), "{name} listens to every stack: {query}");
            alarmed.extend(metrics_of(query));
        }
        let text = serde_yaml_ng::to_string(&alarm["AlarmDescription"]).expect("text");
        assert!(text.contains("Run first: locker "), "{name}: {text}");
        assert!(alarm["AlarmActions"].is_sequence(), "{name} wakes nobody");
    }
    // Seed 004's triggers, and what must never go unseen.
    for metric in [
        "missingTasks",
        "tokensFailed",
        "tokensInProgress",
        "scanFinished",
        "lostOwnership",
        "unrecordedResults",
        "inDoubt",
    ] {
        assert!(alarmed.contains(metric), "no alarm on {metric}");
    }
    let body = monitoring["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
        .as_str()
        .expect("a body");
    let dashboard: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert!(dashboard["widgets"].as_array().is_some_and(|widgets| widgets.len() >= 5));
    let shown = metrics_of(&body.replace("\\\"", "\""));
    assert!(shown.len() >= 12, "{shown:?}");
    let unknown: Vec<_> = alarmed.union(&shown).filter(|metric| !known.contains(*metric)).collect();
    assert!(unknown.is_empty(), "no code emits {unknown:?}");
}

#[test]
fn saved_queries_look_for_what_the_code_logs() {
    let monitoring = monitoring();
    let queries = resources(&monitoring, "AWS::Logs::QueryDefinition");
    assert_eq!(queries.len(), 4);
    let source = [
        include_str!("../../../locker/src/token/scan.rs"),
        include_str!("../../../locker/src/token/place.rs"),
        include_str!("../../../locker/src/token/run.rs"),
    ]
    .concat();
    for (name, query) in queries {
        let query = query["Properties"]["QueryString"].as_str().expect("a query");
        if let Some((_, rest)) = query.split_once("fields.message = \"") {
            let message = rest.split('"').next().expect("a message");
            assert!(source.contains(message), "{name}: nobody logs {message:?}");
        }
    }
}
