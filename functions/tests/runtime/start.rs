//! The start of a function: its variables, and its secrets, which are used, and shown nowhere.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use locker_tests::Function;
use serde_json::{Value, json};

use crate::doubt::wire::{Wire, answer};
use crate::orders::{event, send};
use crate::stack::{MINUTE, Stack, refused, said};
use crate::till;

const ORDERS: &str = env!("CARGO_BIN_EXE_orders");
const PROVIDER: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:provider-a1B2c3";
const KEYS: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:keys-a1B2c3";
const UNREADABLE: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:odd-a1B2c3";
const TOKEN: &str = "a-token-of-the-provider";
const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Secrets Manager as far as the functions use it, with the ARNs that it was asked for.
async fn secrets_manager() -> (String, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let router = Router::new().route("/", post(get)).with_state(Arc::clone(&asked));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

async fn get(
    State(asked): State<Arc<Mutex<Vec<String>>>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, Json<Value>) {
    assert_eq!(headers["x-amz-target"], "secretsmanager.GetSecretValue");
    let request: Value = serde_json::from_str(&body).expect("JSON");
    let arn = request["SecretId"].as_str().expect("an ARN").to_owned();
    asked.lock().expect("the requests").push(arn.clone());
    let text = match arn.as_str() {
        PROVIDER => format!("{TOKEN}\n"),
        UNREADABLE => {
            return (StatusCode::OK, Json(json!({ "SecretString": TOKEN, "CreatedDate": "yesterday" })));
        }
        KEYS => json!([{ "id": "k1", "secret": KEY }]).to_string(),
        _ => {
            let error = json!({ "__type": "AccessDeniedException", "Message": "no policy allows it" });
            return (StatusCode::BAD_REQUEST, Json(error));
        }
    };
    (StatusCode::OK, Json(json!({ "ARN": arn, "Name": "a secret", "SecretString": text })))
}

async fn order(function: &Function, id: &str) -> (u64, bool) {
    let event = event("POST", "/orders", Some("alice@example.com"), Some("k1"), &till::order("7", 1000));
    let (status, _, replayed) = send(function, id, event).await;
    (status, replayed)
}

#[tokio::test]
async fn the_provider_gets_its_token_and_fingerprints_are_signed_and_the_log_has_neither() {
    let stack = Stack::new().await;
    let (url, asked) = secrets_manager().await;
    let provider = Wire::new(|asked| {
        let is_known = asked.authorization == format!("Bearer {TOKEN}");
        let status = if is_known { "201 Created" } else { "401 Unauthorized" };
        Some(answer(status, "", r#"{"charge":"ch_1"}"#))
    })
    .await;
    let environment = [
        ("LOCKER_KEYS_IN_LOGS", "digest"),
        ("LOCKER_FINGERPRINT_SECRET_ARN", KEYS),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", url.as_str()),
        ("PAYMENTS_SECRET_ARN", PROVIDER),
        ("PAYMENTS_URL", &provider.url),
    ];
    let function = stack.start(ORDERS, MINUTE, &environment).await;
    assert_eq!(order(&function, "r1").await, (201, false));
    assert_eq!(order(&function, "r2").await, (201, true));

    let mut asked = asked.lock().expect("the requests").clone();
    asked.sort();
    assert_eq!(asked, [KEYS, PROVIDER], "each once, however many requests come");
    for item in stack.bench.items().await {
        let fingerprint = item["fingerprint"].as_s().expect("text");
        assert!(fingerprint.starts_with("hmac-sha256:k1:"), "{fingerprint}");
    }
    said(&function, "the work ended").await;
    for line in function.logged() {
        let line = line.to_string();
        for secret in [TOKEN, KEY, "alice"] {
            assert!(!line.contains(secret), "{line}");
        }
    }
}

#[tokio::test]
async fn fingerprints_of_purchases_are_signed() {
    let till = till::Till::new().await;
    let (url, _) = secrets_manager().await;
    let environment =
        [("LOCKER_FINGERPRINT_SECRET_ARN", KEYS), ("AWS_ENDPOINT_URL_SECRETS_MANAGER", url.as_str())];
    let function = till.function(ORDERS, &environment).await;
    let event = event("POST", "/purchases", Some("alice"), Some("k1"), &till::order("7", 1000));
    assert_eq!(send(&function, "r1", event).await.0, 201);
    let scan = till.stack.bench.client.scan().table_name(till.table()).consistent_read(true);
    let items = scan.send().await.expect("an answer").items.expect("items");
    let found: Vec<_> = items.iter().filter_map(|item| item.get("fingerprint")?.as_s().ok()).collect();
    assert!(!found.is_empty() && found.iter().all(|it| it.starts_with("hmac-sha256:k1:")), "{found:?}");
}

/// An order of the hours that the table has lost may have been charged.
#[tokio::test]
async fn a_function_with_a_restored_table_charges_no_request_of_unknown_time() {
    let stack = Stack::new().await;
    let now = locker::Clock::now(&locker::SystemClock).to_rfc3339();
    let function = stack.start(ORDERS, MINUTE, &[("LOCKER_RESTORED", now.as_str())]).await;
    let event = event("POST", "/orders", Some("alice"), Some("k1"), &till::order("7", 1000));
    let (status, body, _) = send(&function, "r1", event).await;
    let kind = &body["type"];
    assert_eq!((status, kind, stack.charges()), (409, &json!("urn:locker:problem:restored"), 0));
}

#[tokio::test]
async fn a_function_whose_secret_cannot_be_read_does_not_start() {
    let (url, _) = secrets_manager().await;
    let denied = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:denied-a1B2c3";
    for (variable, arn, cause) in [
        ("PAYMENTS_SECRET_ARN", denied, "AccessDenied"),
        ("PAYMENTS_SECRET_ARN", UNREADABLE, "the answer of Secrets Manager cannot be read"),
        ("LOCKER_FINGERPRINT_SECRET_ARN", denied, "AccessDenied"),
        // A secret that exists, and is no list of keys.
        ("LOCKER_FINGERPRINT_SECRET_ARN", PROVIDER, "it is not a JSON array of keys"),
    ] {
        let said =
            refused(ORDERS, &[("AWS_ENDPOINT_URL_SECRETS_MANAGER", url.as_str()), (variable, arn)]).await;
        assert!(
            said.contains(&format!("the secret that {variable} names cannot be used: {cause}")),
            "{said}"
        );
        assert!(!said.contains(TOKEN), "{said}");
    }
}

#[tokio::test]
async fn a_function_names_what_its_environment_lacks() {
    let all = [
        ("LOCKER_TABLE", "locks"),
        ("LOCKER_WORKFLOWS_TABLE", "workflows"),
        ("ORDERS_TABLE", "orders"),
        ("PAYMENTS_URL", "https://payments.example.com"),
        ("PACKING_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/packing.fifo"),
    ];
    let worker = env!("CARGO_BIN_EXE_worker");
    let driving = [ORDERS, env!("CARGO_BIN_EXE_completer"), env!("CARGO_BIN_EXE_reaper")];
    let (relay, packer) = (env!("CARGO_BIN_EXE_relay"), env!("CARGO_BIN_EXE_packer"));
    for (needed, binaries) in [
        ("LOCKER_TABLE", &[ORDERS, worker, env!("CARGO_BIN_EXE_scanner")][..]),
        ("LOCKER_WORKFLOWS_TABLE", &[driving[0], driving[1], driving[2], relay, packer]),
        ("ORDERS_TABLE", &[driving[0], driving[1], driving[2], packer]),
        ("PAYMENTS_URL", &[driving[0], driving[1], driving[2], worker]),
        ("PACKING_QUEUE_URL", &[relay]),
    ] {
        let others: Vec<_> = all.into_iter().filter(|(name, _)| *name != needed).collect();
        for binary in binaries {
            let said = refused(binary, &others).await;
            assert!(said.contains(&format!("{needed} is not set; the template sets it")), "{binary}: {said}");
        }
    }
    let scanner = env!("CARGO_BIN_EXE_scanner");
    for (binary, wrong, expected) in [
        (
            scanner,
            ("LOCKER_SHARDS", "0"),
            "LOCKER_SHARDS is not a number from 1 to 1000; correct it in the template",
        ),
        (
            scanner,
            ("LOCKER_RESTORED", "yesterday"),
            "LOCKER_RESTORED is not a time such as 2026-11-27T08:30:00Z",
        ),
        (scanner, ("LOCKER_TABLE", "a table"), "a table name must be 3 to 255 letters"),
        (worker, ("PAYMENTS_URL", "localhost:4001"), "PAYMENTS_URL cannot be used: the address must be http"),
    ] {
        let said = refused(binary, &[("LOCKER_TABLE", "locks"), wrong]).await;
        assert!(said.contains(expected), "{said}");
    }
}
