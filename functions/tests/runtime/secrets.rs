//! Secrets come from Secrets Manager at start, are used, and are shown nowhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use locker_tests::{Function, Reply};
use serde_json::{Value, json};

use crate::doubt::wire::{Wire, answer};
use crate::orders::event;
use crate::stack::{Stack, said};

const ORDERS: &str = env!("CARGO_BIN_EXE_orders");
const PROVIDER: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:provider-a1B2c3";
const KEYS: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:keys-a1B2c3";
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
        KEYS => json!([{ "id": "k1", "secret": KEY }]).to_string(),
        _ => {
            let error = json!({ "__type": "AccessDeniedException", "Message": "no policy allows it" });
            return (StatusCode::BAD_REQUEST, Json(error));
        }
    };
    (StatusCode::OK, Json(json!({ "ARN": arn, "Name": "a secret", "SecretString": text })))
}

async fn order(function: &Function, id: &str) -> Value {
    let body = json!({ "orderId": "7", "cents": 1000, "currency": "EUR" }).to_string();
    let event = event("POST", "/orders", Some("alice@example.com"), Some("k1"), &body);
    let Reply::Response(response) = function.invoke(id, event).await else { panic!("no response") };
    response
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
        ("LOCKER_TABLE", stack.bench.table.as_str()),
        ("LOCKER_KEYS_IN_LOGS", "digest"),
        ("LOCKER_FINGERPRINT_SECRET_ARN", KEYS),
        ("AWS_ENDPOINT_URL_DYNAMODB", stack.bench.engine.endpoint()),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", &url),
        ("PAYMENTS_SECRET_ARN", PROVIDER),
        ("PAYMENTS_URL", &provider.url),
    ];
    let function = Function::start(ORDERS, &environment, Duration::from_secs(60)).await;
    assert_eq!(order(&function, "r1").await["statusCode"], 201);
    assert_eq!(order(&function, "r2").await["headers"]["idempotent-replayed"], "true");

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
async fn a_function_whose_secret_cannot_be_read_does_not_start() {
    let (url, _) = secrets_manager().await;
    let denied = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:denied-a1B2c3";
    // A secret that is there, and is no list of keys.
    for (variable, arn, cause) in [
        ("PAYMENTS_SECRET_ARN", denied, "AccessDenied"),
        ("LOCKER_FINGERPRINT_SECRET_ARN", denied, "AccessDenied"),
        ("LOCKER_FINGERPRINT_SECRET_ARN", PROVIDER, "it is not a JSON array of keys"),
    ] {
        let output = tokio::process::Command::new(ORDERS)
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_ENDPOINT_URL_SECRETS_MANAGER", &url)
            .env("LOCKER_TABLE", "locks")
            .env("PAYMENTS_URL", "http://127.0.0.1:9")
            .env(variable, arn)
            .output();
        let output = output.await.expect("it ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(said.contains(&format!("the secret that {variable} names cannot be used")), "{said}");
        assert!(said.contains(cause) && !said.contains(TOKEN), "{said}");
    }
}
