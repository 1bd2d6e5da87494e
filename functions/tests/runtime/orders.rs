//! The orders API: HTTP API events (version 2.0) in, responses out.

use locker::{Failure, Intervened, Retention};
use locker_functions::sandbox::Mood;
use locker_tests::{Function, Reply, ada, record_of};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stack::{MINUTE, Stack, measured, said};

const BINARY: &str = env!("CARGO_BIN_EXE_orders");

/// An event as API Gateway sends it, by a caller with a JWT.
pub(crate) fn event(method: &str, path: &str, user: Option<&str>, key: Option<&str>, body: &str) -> Value {
    let mut headers = json!({ "content-type": "application/json", "host": "api.example.com" });
    if let Some(key) = key {
        headers["idempotency-key"] = key.into();
    }
    let mut context = json!({
        "accountId": "123456789012",
        "apiId": "api",
        "domainName": "api.example.com",
        "domainPrefix": "api",
        "http": { "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "test" },
        "requestId": "request",
        "routeKey": "$default",
        "stage": "$default",
        "time": "21/Nov/2026:11:09:09 +0000",
        "timeEpoch": 1_795_259_349_000_u64,
    });
    if let Some(user) = user {
        context["authorizer"] = json!({ "jwt": { "claims": { "sub": user }, "scopes": null } });
    }
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": context,
        "body": body,
        "isBase64Encoded": false,
    })
}

fn order(id: &str) -> String {
    crate::till::order(id, 1000)
}

/// A request of Alice to read an order.
fn read(id: &str) -> Value {
    event("GET", &format!("/orders/{id}"), Some("alice"), None, "")
}

/// Status, body and whether it is a replay.
pub(crate) async fn send(function: &Function, id: &str, event: Value) -> (u64, Value, bool) {
    let Reply::Response(response) = function.invoke(id, event).await else { panic!("no response to {id}") };
    let status = response["statusCode"].as_u64().expect("a status");
    assert!(status != 202 || response["headers"]["retry-after"].is_string(), "{response}");
    let body = response["body"].as_str().unwrap_or_default();
    let body = serde_json::from_str(body).unwrap_or(Value::String(body.to_owned()));
    (status, body, response["headers"]["idempotent-replayed"] == "true")
}

async fn post(function: &Function, id: &str, key: &str, order_id: &str) -> (u64, Value, bool) {
    send(function, id, event("POST", "/orders", Some("alice"), Some(key), &order(order_id))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_created_once_and_read() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    let created = post(&function, "r1", "k1", "7").await;
    assert_eq!(created, (201, json!({ "orderId": "7", "charge": "ch_1" }), false));
    let (status, body, replayed) = post(&function, "r2", "k1", "7").await;
    assert_eq!((status, body, replayed), (201, created.1.clone(), true));
    // Another request for the same order: the order's own token has the answer.
    let again = post(&function, "r3", "k2", "7").await;
    assert_eq!(again, (201, created.1.clone(), false));
    assert_eq!(stack.charges(), 1);

    assert_eq!(send(&function, "r4", read("7")).await, (200, created.1, false));
    assert_eq!(send(&function, "r5", read("8")).await.0, 404);
    let of_another = event("GET", "/orders/7", Some("bob"), None, "");
    assert_eq!(send(&function, "r6", of_another).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erased_order_is_gone_and_is_not_charged_again() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    assert_eq!(post(&function, "r1", "k1", "7").await.0, 201);
    let locker = stack.locker();
    let record = record_of(&locker, "@alice/order/create/7").await;
    assert_eq!(locker.redact(&record, &ada()).await.expect("redacted"), Intervened::Done);
    let read = send(&function, "r2", read("7")).await;
    let created = post(&function, "r3", "k2", "7").await;
    for (status, body, _) in [read, created] {
        let kind = json!("urn:locker:orders:order-not-kept");
        assert_eq!((status, &body["type"]), (410, &kind), "{body}");
    }
    let (status, _, replayed) = post(&function, "r4", "k2", "7").await;
    assert_eq!((status, replayed), (410, true), "the answer is the answer");
    assert_eq!(stack.charges(), 1);
}

/// A customer who reads that an order does not exist orders again under another number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_that_may_be_charged_is_not_absent() {
    let stack = Stack::new().await;
    let (function, locker) = (stack.function(BINARY).await, stack.locker());
    let token =
        |id: &'static str| locker.token(("order/create", id)).tenant("alice").retention(Retention::Forever);
    let held = token("7")
        .run(async |_| Err::<(), _>(Failure::needs_operator("a reply without a charge".to_owned())));
    held.await.expect_err("it is held");
    let (status, body, _) = send(&function, "r1", read("7")).await;
    assert_eq!((status, &body["type"]), (504, &json!("urn:locker:orders:in-doubt")), "{body}");
    // An order of a newer deployment.
    token("8").run(async |_| Ok::<_, Failure>(json!({ "number": 8 }))).await.expect("it is stored");
    assert_eq!(send(&function, "r2", read("8")).await.0, 500);
    let record = record_of(&locker, "@alice/order/create/7").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    assert_eq!(send(&function, "r3", read("7")).await.0, 404, "it was not charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_identical_requests_charge_once() {
    let stack = Stack::new().await;
    let mut tasks = JoinSet::new();
    for number in 0..5 {
        // Five environments at a time, ten requests each.
        let function = stack.function(BINARY).await;
        tasks.spawn(async move {
            let mut statuses = Vec::new();
            for request in 0..10 {
                statuses.push(post(&function, &format!("r{number}-{request}"), "k1", "50").await.0);
            }
            statuses
        });
    }
    let statuses: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(statuses.iter().all(|status| [201, 409].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&201));
    assert_eq!((stack.charges(), stack.provider.entries()[0].asked), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_providers_answers_are_classified_and_not_guessed() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    stack.provider.set_mood(Mood::Declining);
    let (status, body, _) = post(&function, "d1", "d", "declined").await;
    assert_eq!((status, &body["type"]), (402, &json!("urn:locker:orders:declined")));
    stack.provider.set_mood(Mood::Well);
    assert_eq!(post(&function, "d2", "d", "declined").await.0, 402, "the answer is the answer");
    assert_eq!(post(&function, "d3", "d-other", "declined").await.0, 402);
    assert_eq!(send(&function, "d4", read("declined")).await.0, 402);

    stack.provider.set_mood(Mood::Busy);
    let (status, body, _) = post(&function, "b1", "b", "busy").await;
    assert_eq!((status, &body["is_transient"]), (503, &json!(true)));
    stack.provider.set_mood(Mood::Well);
    assert_eq!(post(&function, "b2", "b", "busy").await.0, 201, "nothing had happened");
    assert_eq!(stack.charges(), 1);

    let impatient = stack.start(BINARY, MINUTE, &[("PAYMENTS_TIMEOUT_MS", "500")]).await;
    for (mood, order_id) in [(Mood::Failing, "failing"), (Mood::Dropping, "dropping"), (Mood::Slow, "slow")] {
        stack.provider.set_mood(mood);
        let function = if mood == Mood::Slow { &impatient } else { &function };
        let (status, body, _) = post(function, order_id, order_id, order_id).await;
        assert_eq!((status, &body["type"]), (504, &json!("urn:locker:orders:in-doubt")), "{mood:?}");
        stack.provider.set_mood(Mood::Well);
        let (status, body, _) = post(function, &format!("{order_id}-again"), order_id, order_id).await;
        assert_eq!(status, 409, "{mood:?}");
        let types = ["order-in-progress", "order-overdue"].map(|kind| format!("urn:locker:orders:{kind}"));
        assert!(types.iter().any(|kind| body["type"] == *kind), "{mood:?}: {body}");
        let (status, body, _) = send(function, &format!("{order_id}-read"), read(order_id)).await;
        assert!(status == 409 && types.iter().any(|kind| body["type"] == *kind), "{mood:?}: {body}");
    }
    let asked: Vec<_> = stack.provider.entries().into_iter().map(|entry| entry.asked).collect();
    assert_eq!(asked, [1, 1, 1, 1], "each order was asked for once");
    // A charge in doubt stays in progress, under the order's own key, which is also the provider's
    // key.
    let keys: Vec<_> = stack
        .locker()
        .in_progress()
        .fetch()
        .await
        .expect("a listing")
        .items
        .into_iter()
        .map(|token| token.token)
        .collect();
    assert_eq!(
        keys,
        ["@alice/order/create/failing", "@alice/order/create/dropping", "@alice/order/create/slow"]
    );
    assert!(stack.provider.entries().iter().any(|entry| entry.key == keys[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_allowed_are_refused() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    let cases = [
        ("no key", event("POST", "/orders", Some("alice"), None, &order("1")), 400),
        ("no caller", event("POST", "/orders", None, Some("k1"), &order("1")), 401),
        ("no order", event("POST", "/orders", Some("alice"), Some("k2"), "{}"), 422),
        ("no JSON", event("POST", "/orders", Some("alice"), Some("k3"), "tea"), 400),
        ("odd number", event("POST", "/orders", Some("alice"), Some("k4"), &order("caf\u{e9}")), 400),
        ("no route", event("POST", "/refunds", Some("alice"), Some("k5"), ""), 404),
    ];
    for (name, event, status) in cases {
        assert_eq!(send(&function, name.replace(' ', "-").as_str(), event).await.0, status, "{name}");
    }
    assert_eq!(stack.charges(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_is_killed_while_it_charges_leaves_the_order_in_progress() {
    let stack = Stack::new().await;
    let mut function = stack.function(BINARY).await;
    assert_eq!(post(&function, "warm", "warm", "warm").await.0, 201);
    stack.provider.set_mood(Mood::Slow);
    let killed = {
        let invoke =
            function.invoke("killed", event("POST", "/orders", Some("alice"), Some("k1"), &order("killed")));
        let charged = async {
            while stack.charges() < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            reply = invoke => Some(reply),
            () = charged => None,
        }
    };
    assert_eq!(killed, None, "it was charging");
    function.kill().await;
    stack.provider.set_mood(Mood::Well);
    let second = stack.function(BINARY).await;
    let (status, body, _) = post(&second, "again", "k1", "killed").await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:locker:problem:in-progress")));
    let (status, body, _) = post(&second, "other", "k2", "killed").await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:locker:orders:order-in-progress")));
    assert_eq!(stack.provider.entries().iter().map(|entry| entry.asked).max(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_written_in_the_embedded_format_and_hold_no_key() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    post(&function, "r1", "secret-key", "secret-order").await;
    post(&function, "r2", "secret-key", "secret-order").await;
    measured(&function, "lockTokensReplayed", json!(1)).await;
    let emf: Vec<_> = function.logged().into_iter().filter(|line| line.get("_aws").is_some()).collect();
    assert!(!emf.is_empty(), "no metrics");
    let acquired = emf.iter().find(|line| line.get("lockTokensAcquired").is_some()).expect("the metric");
    assert_eq!(acquired["service"], "orders");
    assert_eq!(acquired["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Locker");
    for line in &emf {
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    // The log contains the keys: an operator looks for orders there.
    let ended = function.logged().into_iter().find(|line| line["fields"]["message"] == "the work ended");
    let ended = ended.expect("the outcome in the log");
    assert_eq!(ended["fields"]["lock.token"], "@alice/order/create/secret-order");
    assert_eq!(ended["fields"]["lock.owner"], "orders/r1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_cannot_be_read_is_logged() {
    let stack = Stack::new().await;
    let function = stack.start(BINARY, MINUTE, &[("LOCKER_TABLE", "nowhere")]).await;
    let (status, _, _) = send(&function, "r1", read("7")).await;
    assert_eq!(status, 500);
    let line = said(&function, "an order could not be read").await;
    assert_eq!(line["fields"]["lock.token"], "@alice/order/create/7");
    let error = line["fields"]["error"].as_str().expect("the cause");
    assert!(error.contains("the table nowhere does not exist"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iam_identity_is_a_caller_of_its_own() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    for (user, charge) in [("ada", "ch_1"), ("ben", "ch_2")] {
        let mut event = event("POST", "/orders", None, Some("k1"), &order("7"));
        let identity = format!("arn:aws:iam::123456789012:user/{user}");
        event["requestContext"]["authorizer"] = json!({ "iam": { "userArn": identity } });
        let created = send(&function, user, event).await;
        assert_eq!(created, (201, json!({ "orderId": "7", "charge": charge }), false), "{user}");
    }
}

/// The first task was killed after its charge. The second task of the service has another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_role_are_one_caller() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    // A session of IAM Identity Center is a person.
    let cases = [
        ("till/task-1", "ch_1", false),
        ("till/task-2", "ch_1", true),
        ("AWSReservedSSO_Shop_1/ada", "ch_2", false),
        ("AWSReservedSSO_Shop_1/ben", "ch_3", false),
    ];
    for (session, charge, replayed) in cases {
        let mut event = event("POST", "/orders", None, Some("k1"), &order("7"));
        let identity = format!("arn:aws:sts::123456789012:assumed-role/{session}");
        event["requestContext"]["authorizer"] = json!({ "iam": { "userArn": identity } });
        let created = send(&function, &session.replace('/', "-"), event).await;
        assert_eq!(created, (201, json!({ "orderId": "7", "charge": charge }), replayed), "{session}");
    }
    // The session of each user of a Cognito identity pool.
    let mut event = event("POST", "/orders", None, Some("k1"), &order("7"));
    let identity = "arn:aws:sts::123456789012:assumed-role/users/CognitoIdentityCredentials";
    event["requestContext"]["authorizer"] = json!({ "iam": { "userArn": identity } });
    assert_eq!(send(&function, "cognito", event).await.0, 401);
    assert_eq!(stack.charges(), 3);
}
