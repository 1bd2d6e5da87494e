//! The permissions of a function are exactly what its code requests from DynamoDB, observed on the
//! wire.

use std::collections::BTreeSet;
use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent};
use lock_token_testing::{Broker, CallFate};
use locker::http::IDEMPOTENCY_KEY;
use locker::lambda::Consumed;
use locker::message::{MessageState, Router};
use locker::relay::Relay;
use locker::workflow::{Completer, Reaper, StartBuilder};
use locker::{Intervened, Operator};
use locker_functions::orders::{Shop, router};
use locker_functions::packer;
use locker_functions::purchase::{Purchase, Purchases};
use locker_functions::sandbox::Mood;
use locker_functions::workflows;
use locker_tests::{Exchange, HOUR, Wire, fifo_message};
use serde_yaml_ng::Value;
use tower::ServiceExt as _;

use crate::kept::scheduled;
use crate::template::{resources, template, yaml};
use crate::till::{Till, request};

/// The statements of the policies of a function: of its own, and of those that it names.
fn statements<'a>(template: &'a Value, function: &'a Value) -> Vec<&'a Value> {
    let policies = function["Properties"]["Policies"].as_sequence().expect("policies");
    policies
        .iter()
        .flat_map(|policy| {
            let policy = policy["Fn::If"].get(1).unwrap_or(policy);
            let named = policy["Ref"].as_str();
            let document = named.map_or(policy, |name| managed(template, name));
            document["Statement"].as_sequence().expect("statements, no ready-made policy")
        })
        .collect()
}

/// The document of a policy of the template.
fn managed<'a>(template: &'a Value, name: &str) -> &'a Value {
    let policy = &template["Resources"][name];
    assert_eq!(policy["Type"], "AWS::IAM::ManagedPolicy", "{name}");
    &policy["Properties"]["PolicyDocument"]
}

/// A table or an index of the template, such as `Locks/byStatus`.
fn place(resource: &Value) -> Option<String> {
    if let Some(name) = resource["Fn::GetAtt"][0].as_str() {
        return Some(name.to_owned());
    }
    let name = resource["Fn::Sub"].as_str()?.rsplit("table/").next()?;
    Some(["${", ".Arn", "}", "/index"].iter().fold(name.to_owned(), |name, part| name.replace(*part, "")))
}

/// The permissions of a function on tables: actions and resources, such as `dynamodb:Query` on
/// `Locks/byStatus`.
fn allowed(template: &Value, function: &Value) -> BTreeSet<(String, String)> {
    let mut allowed = BTreeSet::new();
    for statement in statements(template, function) {
        for action in statement["Action"].as_sequence().into_iter().flatten() {
            let action = action.as_str().expect("text");
            if action.starts_with("dynamodb:") {
                let place = place(&statement["Resource"]).expect("a table or an index of the template");
                allowed.insert((action.to_owned(), place));
            }
        }
    }
    allowed
}

#[test]
fn no_permission_is_wide() {
    let template = template();
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        for statement in statements(&template, function) {
            let text = serde_yaml_ng::to_string(statement).expect("text");
            assert!(!text.contains('*'), "{name}: {text}");
            let statement = statement["Fn::If"].get(1).unwrap_or(statement);
            assert_eq!(statement["Effect"], "Allow", "{name}");
        }
    }
}

/// A scanner that could write tokens could end them.
#[test]
fn the_scanner_writes_down_its_run_and_nothing_else() {
    let template = template();
    let mut writes = 0;
    let all = statements(&template, &template["Resources"]["Scanner"]);
    // A key of the user is conditional.
    for statement in all.into_iter().filter(|statement| statement["Fn::If"].is_null()) {
        let actions = statement["Action"].as_sequence().expect("a list");
        if actions.iter().all(|action| action == "dynamodb:GetItem" || action == "dynamodb:Query") {
            continue;
        }
        // `ForAllValues` is also true for a request without the key.
        let only = "{ 'ForAllValues:StringEquals': { 'dynamodb:LeadingKeys': [locker runs scanner] }, \
                    'Null': { 'dynamodb:LeadingKeys': 'false' } }";
        assert_eq!(statement["Condition"], yaml(only));
        assert_eq!(statement["Action"], yaml("[dynamodb:PutItem]"));
        writes += 1;
    }
    assert_eq!(writes, 1);
}

/// Who sends messages may send them, to the queue that its variable names, and does nothing else
/// there. The queue for missed runs is open to the function whose runs it holds.
#[test]
fn each_queue_is_open_to_those_who_are_told_of_it() {
    let template = template();
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        let properties = &function["Properties"];
        let told = &properties["Environment"]["Variables"]["PACKING_QUEUE_URL"]["Ref"];
        let missed = &properties["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]["Destination"];
        let mut open = Vec::new();
        for statement in statements(&template, function) {
            let statement = statement["Fn::If"].get(1).unwrap_or(statement);
            let text = serde_yaml_ng::to_string(&statement["Action"]).expect("text");
            if !text.contains("sqs:") {
                continue;
            }
            let queue = statement["Resource"]["Fn::GetAtt"][0].as_str().expect("a queue");
            let is_missed = missed["Fn::GetAtt"][0] == queue;
            // Who hears it says when it is delivered again.
            let hears = "[sqs:ReceiveMessage, sqs:DeleteMessage, sqs:GetQueueAttributes, \
                         sqs:ChangeMessageVisibility]";
            let may = if name == "Packer" && !is_missed { hears } else { "[sqs:SendMessage]" };
            assert_eq!(statement["Action"], yaml(may), "{name}");
            if !is_missed {
                open.push(queue);
            }
        }
        assert_eq!(open, told.as_str().into_iter().collect::<Vec<_>>(), "{name}");
    }
}

/// A function may read the secrets that its variables name, and no other.
#[test]
fn each_secret_is_open_to_those_who_are_told_of_it() {
    let template = template();
    let mut told = BTreeSet::new();
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        let variables = function["Properties"]["Environment"]["Variables"].as_mapping();
        let named: BTreeSet<&str> = variables
            .into_iter()
            .flatten()
            .filter(|(variable, _)| {
                variable.as_str().is_some_and(|variable| variable.ends_with("_SECRET_ARN"))
            })
            .map(|(_, value)| value["Ref"].as_str().expect("a parameter"))
            .collect();
        let mut open = BTreeSet::new();
        let policies = function["Properties"]["Policies"].as_sequence().expect("policies");
        let choices = policies.iter().filter_map(|policy| policy["Fn::If"].as_sequence());
        for choice in choices.filter(|choice| choice[0] != "HasQueueKey") {
            let policy = choice[1]["Ref"].as_str().expect("a policy of the template");
            let [statement] = &managed(&template, policy)["Statement"].as_sequence().expect("statements")[..]
            else {
                panic!("{policy}: one statement")
            };
            let secret = statement["Resource"]["Ref"].as_str().expect("a parameter");
            assert_eq!(statement["Action"], yaml("[secretsmanager:GetSecretValue]"), "{policy}");
            assert_eq!(choice[0], format!("Has{}", secret.trim_end_matches("Arn")), "{name}");
            assert_eq!(template["Resources"][policy]["Condition"], choice[0], "{policy}");
            open.insert(secret);
        }
        assert_eq!(named, open, "{name}");
        let charges = !function["Properties"]["Environment"]["Variables"]["PAYMENTS_URL"].is_null();
        // What drives workflows compares the fingerprints of their steps, too.
        assert_eq!(named.len(), if charges { 2 } else { 0 }, "{name}");
        told.extend(named);
    }
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["FingerprintSecretArn", "PaymentsSecretArn"]);
}

/// What the code requests from DynamoDB, observed on the wire.
async fn asked(binary: &str) -> BTreeSet<(String, String)> {
    let till = Till::new().await;
    let wire = match binary {
        "scanner" => scan(&till).await,
        "orders" => orders(&till).await,
        "worker" => work(&till).await,
        "completer" => complete(&till).await,
        "reaper" => reap(&till).await,
        "relay" => relay(&till).await,
        "packer" => pack(&till).await,
        other => panic!("this test does not run {other}"),
    };
    wire.take().iter().flat_map(|exchange| needed(&till, exchange)).collect()
}

/// The permissions that a request needs. A transaction needs those of its parts.
fn needed(till: &Till, exchange: &Exchange) -> Vec<(String, String)> {
    let action = |operation: &str, request: &serde_json::Value| {
        let table = request["TableName"].as_str().expect("a table");
        let index = request["IndexName"].as_str().map(|index| format!("/{index}")).unwrap_or_default();
        (format!("dynamodb:{operation}"), format!("{}{index}", till.named(table)))
    };
    match exchange.operation.as_str() {
        "TransactWriteItems" => {
            let parts = exchange.request["TransactItems"].as_array().expect("parts").iter();
            parts
                .flat_map(|part| part.as_object().expect("a part"))
                .map(|(kind, request)| {
                    let kind = if kind == "ConditionCheck" { kind.clone() } else { kind.replace("Item", "") };
                    action(&format!("{kind}Item"), request)
                })
                .collect()
        }
        "BatchWriteItem" => {
            let tables = exchange.request["RequestItems"].as_object().expect("tables").keys();
            tables.map(|table| ("dynamodb:BatchWriteItem".to_owned(), till.named(table).to_owned())).collect()
        }
        operation => vec![action(operation, &exchange.request)],
    }
}

async fn scan(till: &Till) -> Wire {
    let bench = &till.stack.bench;
    let (locker, wire) = bench.machine();
    let _late = locker_tests::held_by(locker.token("late").expect_within(Duration::from_secs(1))).await;
    bench.clock.advance(Duration::from_secs(60));
    wire.take();
    locker::Scanner::new(&locker).run().await.expect("a scan");
    wire
}

fn shop(till: &Till) -> (Shop, Wire) {
    let (locker, wire) = till.stack.bench.machine();
    (Shop::new(locker, till.stack.payments()), wire)
}

async fn orders(till: &Till) -> Wire {
    let (shop, wire) = shop(till);
    let app = router(shop, |_| Some("alice".to_owned()));
    for (number, mood) in [Mood::Well, Mood::Busy].into_iter().enumerate() {
        till.stack.provider.set_mood(mood);
        let body = format!(r#"{{"orderId":"{number}","cents":1,"currency":"EUR"}}"#);
        let post = http::Request::post("/orders").header(IDEMPOTENCY_KEY, number.to_string());
        let post = post.header("content-type", "application/json").body(axum::body::Body::from(body));
        app.clone().oneshot(post.expect("a request")).await.expect("a response");
        let get = http::Request::get(format!("/orders/{number}")).body(axum::body::Body::empty());
        app.clone().oneshot(get.expect("a request")).await.expect("a response");
    }
    // Purchases are resumed once they are due, and replayed.
    let client = till.stack.bench.engine.client_over(&wire);
    let long: String = (0..600).map(|_| fastrand::alphanumeric()).collect();
    for ago in [HOUR, Duration::ZERO, Duration::ZERO] {
        let purchases = till.purchases(&client, ago);
        for mood in MOODS {
            till.stack.provider.set_mood(mood);
            purchase(&purchases, &format!("{mood:?}")).run().await.expect("an outcome");
        }
        // An input stored in its own item is deleted if the header exists.
        till.stack.provider.set_mood(Mood::Well);
        purchase(&purchases, &long).run().await.expect("an outcome");
    }
    // The input of a long number does not fit into its header; on a second request its item is
    // deleted.
    let long: String = (0..600).map(|_| fastrand::alphanumeric()).collect();
    till.stack.provider.set_mood(Mood::Well);
    for _ in 0..2 {
        purchase(&till.purchases(&client, Duration::ZERO), &long).run().await.expect("an outcome");
    }
    wire
}

async fn work(till: &Till) -> Wire {
    let (shop, wire) = shop(till);
    // The answer of a long number does not fit into its token, so a replay reads a second item.
    let long: String = (0..400).map(|_| fastrand::alphanumeric()).collect();
    for (id, mood) in [("1", Mood::Busy), (long.as_str(), Mood::Well), (long.as_str(), Mood::Well)] {
        till.stack.provider.set_mood(mood);
        let _ = shop.create("alice", &request(id), None, None).await;
    }
    wire
}

/// Longer than an unfinished workflow may take, and longer than a finished one is kept.
const LONG_AGO: Duration = Duration::from_secs(40 * 24 * 60 * 60);
/// A charge that succeeds, one that is withdrawn, and one that is declined.
const MOODS: [Mood; 3] = [Mood::Well, Mood::Busy, Mood::Declining];

fn purchase<'a>(purchases: &'a Purchases, id: &str) -> StartBuilder<'a, Purchase> {
    purchases.start("alice", id, &request(id)).expect("a key")
}

/// A completer over a wire, with an enqueued purchase for each mood that no driver has run yet.
async fn left_behind(till: &Till, ago: Duration) -> (Completer, Wire) {
    let behind = till.purchases(&till.stack.bench.client, ago);
    for mood in MOODS {
        purchase(&behind, &format!("{mood:?}")).enqueue().await.expect("an outcome");
    }
    let wire = Wire::default();
    let client = till.stack.bench.engine.client_over(&wire);
    let purchases = till.purchases(&client, Duration::ZERO);
    (workflows::completer(&purchases.workflows, purchases.code), wire)
}

async fn complete(till: &Till) -> Wire {
    let (completer, wire) = left_behind(till, HOUR).await;
    for mood in MOODS {
        till.stack.provider.set_mood(mood);
        // A workflow left by one run is due later than the next run looks ahead.
        completer.clone().concurrency(1).limit(1).run().await.expect("a run");
    }
    // It deletes a message right after it sent it.
    let broker = Broker::new();
    till.stack.provider.set_mood(Mood::Well);
    let behind = till.sending_behind(&till.stack.bench.client, &broker, HOUR);
    purchase(&behind, "sent").enqueue().await.expect("an outcome");
    let sending = till.sending(&till.stack.bench.engine.client_over(&wire), &broker);
    workflows::completer(&sending.workflows, sending.code).run().await.expect("a run");
    assert_eq!(broker.took().len(), 1);
    wire
}

async fn reap(till: &Till) -> Wire {
    let (completer, wire) = left_behind(till, LONG_AGO).await;
    for mood in MOODS {
        till.stack.provider.set_mood(mood);
        Reaper::new(&completer).limit(1).run().await.expect("a run");
    }
    till.stack.provider.set_mood(Mood::Well);
    let old = till.purchases(&till.stack.bench.client, LONG_AGO);
    purchase(&old, "old").run().await.expect("an outcome");
    for message in till.view("old").await.messages() {
        let told = till.workflows().sent(message).await.expect("told");
        assert_eq!(told, locker::workflow::SentReport::Deleted);
    }
    let reaped = Reaper::new(&completer).run().await.expect("a run");
    assert_eq!(reaped.deleted, 1);
    wire
}

/// A purchase that tells packers, whose message nobody has sent.
async fn told(till: &Till, key: &str) {
    let purchases = till.purchases(&till.stack.bench.client, HOUR);
    let code = Purchase { packed_within: Some(HOUR), ..purchases.code };
    let purchases = Purchases { workflows: purchases.workflows, code };
    purchase(&purchases, key).run().await.expect("an outcome");
}

async fn relay(till: &Till) -> Wire {
    for key in ["sent", "refused", "later"] {
        told(till, key).await;
    }
    let wire = Wire::default();
    let workflows = till.purchases(&till.stack.bench.engine.client_over(&wire), Duration::ZERO).workflows;
    let calls = lock_token_testing::Calls::default();
    calls.next([CallFate::Ok, CallFate::Declined, CallFate::Refused]);
    let router = Router::new().route("*", Broker::new().over(&calls));
    // A run that ends before it has examined everything records that.
    let cut = Relay::new(&workflows, router.clone()).limit(1).run().await.expect("a run");
    let done = Relay::new(&workflows, router).run().await.expect("a run");
    assert_eq!((cut.finished, done.finished), (false, true), "{cut:?} {done:?}");
    let counts = (cut.sent + done.sent, cut.dead + done.dead, cut.waiting + done.waiting);
    assert_eq!(counts, (1, 1, 1), "{cut:?} {done:?}");
    wire
}

async fn pack(till: &Till) -> Wire {
    told(till, "packed").await;
    let broker = Broker::new();
    let workflows = till.purchases(&till.stack.bench.client, Duration::ZERO).workflows;
    let relay = Relay::new(&workflows, Router::new().route("*", broker.clone()));
    assert_eq!(relay.run().await.expect("a run").sent, 1);
    let wire = Wire::default();
    let client = till.stack.bench.engine.client_over(&wire);
    let packer_behind = |time| crate::till::packer(till.purchases(&client, time));
    let packer = packer_behind(Duration::from_secs(1));
    let body = broker.took()[0].to_json().expect("JSON");
    for (delivery, body) in
        [("m1", body.as_str()), ("again", &body), ("unreadable", "tea"), ("behind", &body)]
    {
        let batch = serde_json::json!({ "Records": [fifo_message(delivery, "packed", body)] });
        let event = LambdaEvent::new(batch, Context::default());
        let Consumed::Batch(undelivered) = packer::handle(&packer, event).await.expect("an answer") else {
            panic!("a batch")
        };
        assert_eq!(undelivered.ids().count(), 0);
    }
    // An operator has the unreadable one handled again, and then discards it.
    let operator = till.purchases(&till.stack.bench.client, Duration::from_secs(1)).workflows;
    let packer = packer_behind(Duration::ZERO);
    for expected in [(0, 1), (1, 0)] {
        let dead = operator.messages(MessageState::Dead).fetch().await.expect("a list").items.remove(0);
        let dead = operator.message(&dead.work).await.expect("a read").expect("it is there");
        let ada = Operator::new("ada", "look again").expect("an operator");
        let act = if expected.1 == 1 {
            operator.redrive(&dead, &ada).await
        } else {
            operator.discard(&dead, &ada).await
        };
        assert_eq!(act.expect("an act"), Intervened::Done);
        let event = LambdaEvent::new(scheduled(), Context::default());
        let Consumed::Waiting(done) = packer::handle(&packer, event).await.expect("a run") else {
            panic!("a run")
        };
        assert_eq!((done.handled, done.dead), expected, "{done:?}");
    }
    wire
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_function_may_do_what_it_does_and_no_more() {
    let template = template();
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        let binary = function["Metadata"]["BuildProperties"]["Binary"].as_str().expect("a binary");
        assert_eq!(allowed(&template, function), asked(binary).await, "{name}");
    }
}
