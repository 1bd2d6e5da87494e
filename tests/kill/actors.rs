//! The processes that work on tokens, each in its slot: asked, struck, started again.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use locker_tests::{Function, Reply, sqs_message};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::asks::{Ask, Came, Kind};
use crate::process;
use crate::world::{Slot, TABLE, World};

/// How long an invocation of a function may take.
const INVOCATION: Duration = Duration::from_secs(15);
/// How long anything else may take before the test calls it stuck.
const PATIENCE: Duration = Duration::from_secs(90);
const IDLE: Duration = Duration::from_millis(15);

/// A function of Lambda: `worker`, with batches, or `orders`, one by one.
pub(crate) async fn function(world: Arc<World>, binary: &'static str, number: usize, mut slot: Slot) {
    let most = if binary == "worker" { 10 } else { 1 };
    let (mut function, mut invocations) = (None, 0_u64);
    while let Some(asks) = world.asks.take(Kind::Order, most) {
        if asks.is_empty() {
            tokio::time::sleep(IDLE).await;
            continue;
        }
        if function.is_none() {
            function = Some(start(&world, binary, number).await);
        }
        let Some(running) = function.as_mut() else { continue };
        invocations += 1;
        let id = format!("{binary}-{number}-{invocations}");
        let event = if binary == "worker" { batch(&asks) } else { request(asks[0]) };
        match slot.watch(&world, running.pid(), running.invoke(&id, event)).await {
            Some(reply) => {
                for (at, ask) in asks.into_iter().enumerate() {
                    world.asks.done(
                        ask,
                        if binary == "worker" { of_batch(&reply, at) } else { of_response(&reply) },
                    );
                }
            }
            None => {
                running.kill().await;
                function = None;
                for ask in asks {
                    world.asks.done(ask, Came::Nothing);
                }
            }
        }
    }
    if let Some(mut function) = function {
        function.kill().await;
    }
}

async fn start(world: &World, binary: &str, number: usize) -> Function {
    let log =
        std::fs::OpenOptions::new().create(true).append(true).open(world.log(&format!("{binary}-{number}")));
    let environment = [
        ("LOCKER_TABLE", TABLE),
        ("LOCKER_EXPECT_MS", "2000"),
        ("AWS_ENDPOINT_URL_DYNAMODB", &world.endpoint),
        ("PAYMENTS_URL", &world.provider),
        ("PAYMENTS_TIMEOUT_MS", "2000"),
        ("RUST_LOG", "error,locker::history=debug"),
    ];
    let binary = process::beside(binary);
    let binary = binary.to_str().expect("a path in UTF-8");
    Function::start_into(binary, &environment, INVOCATION, log.expect("a log").into()).await
}

fn order(ask: Ask) -> Value {
    json!({ "orderId": ask.token.id.to_string(), "cents": 1000, "currency": "EUR" })
}

fn batch(asks: &[Ask]) -> Value {
    let message = |(at, ask): (usize, &Ask)| {
        let body = json!({ "customer": "kim", "order": order(*ask) }).to_string();
        sqs_message(&at.to_string(), &body)
    };
    json!({ "Records": asks.iter().enumerate().map(message).collect::<Vec<_>>() })
}

fn of_batch(reply: &Reply, at: usize) -> Came {
    let Reply::Response(response) = reply else { return Came::Nothing };
    let failures = response["batchItemFailures"].as_array().expect("failures");
    let at = at.to_string();
    if failures.iter().any(|failure| failure["itemIdentifier"] == at.as_str()) {
        return Came::Nothing;
    }
    Came::Answered(None)
}

fn request(ask: Ask) -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": "/orders", "rawQueryString": "",
        "headers": {
            "content-type": "application/json",
            "host": "api.example.com",
            "idempotency-key": format!("\"order-{}\"", ask.token.id),
        },
        "requestContext": {
            "accountId": "123456789012", "apiId": "api", "domainName": "api.example.com", "domainPrefix": "api",
            "http": { "method": "POST", "path": "/orders", "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "kill" },
            "authorizer": { "jwt": { "claims": { "sub": "kim" }, "scopes": null } },
            "requestId": "request", "routeKey": "$default", "stage": "$default",
            "time": "21/Nov/2026:11:09:09 +0000", "timeEpoch": 1_795_259_349_000_u64
        },
        "body": order(ask).to_string(), "isBase64Encoded": false
    })
}

fn of_response(reply: &Reply) -> Came {
    let Reply::Response(response) = reply else { return Came::Nothing };
    match response["statusCode"].as_u64() {
        Some(201) => {
            let body = response["body"].as_str().unwrap_or_default();
            let order: Value = serde_json::from_str(body).expect("an order");
            Came::Answered(order["charge"].as_str().map(str::to_owned))
        }
        Some(402) => Came::Answered(None),
        Some(409 | 500 | 503 | 504) | None => Came::Nothing,
        Some(other) => panic!("an order was answered with {other}: {response}"),
    }
}

/// `locker once`, a process for each ask.
pub(crate) async fn once(world: Arc<World>, mut slot: Slot) {
    let mut rng = fastrand::Rng::new();
    while let Some(asks) = world.asks.take(Kind::Once, 1) {
        let Some(ask) = asks.first().copied() else {
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let key = ask.token.key();
        let mut command = locker(&world);
        command.arg("once").arg(&key).args(["--expect", "2s", "--retry-on-failure"]);
        if rng.bool() {
            command.args(["--wait", "1s"]);
        }
        command.arg("--").arg(std::env::current_exe().expect("this program"));
        command.arg("charge").arg(&world.provider).arg(&key);
        let mut child = command.spawn().expect("locker starts");
        let pid = child.id();
        let ended = async {
            let mut text = String::new();
            let _ = child.stdout.take().expect("a pipe").read_to_string(&mut text).await;
            (child.wait().await.expect("ended"), text)
        };
        let ended = slot.watch(&world, pid, tokio::time::timeout(PATIENCE, ended)).await;
        let came = match ended {
            Some(ended) => {
                let (status, text) = ended.expect("locker once ends in time");
                if status.success() { Came::Answered(Some(text)) } else { Came::Nothing }
            }
            None => {
                let _ = child.kill().await;
                Came::Nothing
            }
        };
        world.asks.done(ask, came);
    }
}

/// The command, on the table, with a history.
pub(crate) fn locker(world: &World) -> Command {
    let mut command = Command::new(process::beside("locker"));
    command
        .env_remove("LOCKER_LOCAL")
        .env_remove("LOCKER_LOG")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .args(["--table", TABLE, "--endpoint-url", &world.endpoint, "--history"])
        .arg(world.log("command"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// A worker that takes over.
pub(crate) async fn taker(world: Arc<World>, mut slot: Slot) {
    let mut taker: Option<(Child, _)> = None;
    while let Some(asks) = world.asks.take(Kind::Taken, 1) {
        let Some(ask) = asks.first().copied() else {
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let (child, lines) = taker.get_or_insert_with(|| {
            let mut command = process::own_role();
            command.arg("taker").args(["--endpoint", &world.endpoint, "--table", TABLE]);
            command.args(["--provider", &world.provider, "--history"]).arg(world.log("takers"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("a taker starts");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            (child, lines)
        });
        let pid = child.id();
        let stdin = child.stdin.as_mut().expect("a pipe");
        let asked = async {
            stdin.write_all(format!("{}\n", ask.token.key()).as_bytes()).await?;
            lines.next_line().await
        };
        let came = match slot.watch(&world, pid, tokio::time::timeout(PATIENCE, asked)).await {
            Some(line) => {
                let line = line.expect("a taker answers in time").expect("a pipe").expect("a line");
                match line.strip_prefix("answer ") {
                    Some(answer) => Came::Answered(Some(answer.to_owned())),
                    None => Came::Nothing,
                }
            }
            None => {
                let _ = child.kill().await;
                taker = None;
                Came::Nothing
            }
        };
        world.asks.done(ask, came);
    }
    if let Some((mut child, _)) = taker {
        let _ = child.kill().await;
    }
}
