//! Cold start of the functions: from starting the process to the first answer, over the Lambda Runtime API.
//!
//! ```sh
//! cargo build --release -p locker-functions --bins
//! cargo run -p locker-functions --example cold_start -- target/release/orders target/release/worker target/release/scanner
//! ```
//!
//! The engine and the provider are on this machine and speak plain HTTP, so neither network nor TLS is in
//! the figures. Medians of interleaved rounds; read the ratios.

#![allow(clippy::expect_used, clippy::print_stdout)]

use std::time::Duration;

use locker_tests::{Bench, Function, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

const ROUNDS: usize = 21;

/// The least that each function does with DynamoDB.
fn event(binary: &str) -> Value {
    match binary.rsplit('/').next() {
        Some("orders") => json!({
            "version": "2.0", "routeKey": "$default", "rawPath": "/orders/1", "rawQueryString": "",
            "headers": { "host": "api.example.com" },
            "requestContext": {
                "accountId": "123456789012", "apiId": "api", "domainName": "api.example.com", "domainPrefix": "api",
                "http": { "method": "GET", "path": "/orders/1", "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "bench" },
                "authorizer": { "jwt": { "claims": { "sub": "alice" }, "scopes": null } },
                "requestId": "request", "routeKey": "$default", "stage": "$default",
                "time": "21/Nov/2026:11:09:09 +0000", "timeEpoch": 1_795_259_349_000_u64
            },
            "body": "", "isBase64Encoded": false
        }),
        Some("worker") => json!({ "Records": [] }),
        _ => json!({}),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let binaries: Vec<String> = std::env::args().skip(1).collect();
    let bench = Bench::new().await;
    let environment = [
        ("LOCKER_TABLE", bench.table.as_str()),
        ("AWS_ENDPOINT_URL_DYNAMODB", bench.engine.endpoint()),
        ("PAYMENTS_URL", "http://127.0.0.1:9"),
    ];
    let mut cold = vec![Vec::new(); binaries.len()];
    let mut warm = vec![Vec::new(); binaries.len()];
    for _ in 0..ROUNDS {
        for (number, binary) in binaries.iter().enumerate() {
            let started = Instant::now();
            let function = Function::start(binary, &environment, Duration::from_secs(10)).await;
            let reply = function.invoke("cold", event(binary)).await;
            cold[number].push(started.elapsed());
            assert!(matches!(reply, Reply::Response(_)), "{binary}: {reply:?}");
            let again = Instant::now();
            function.invoke("warm", event(binary)).await;
            warm[number].push(again.elapsed());
        }
    }
    println!("| binary | size MB | first answer ms | second answer ms |\n|---|---|---|---|");
    for (number, binary) in binaries.iter().enumerate() {
        let bytes = std::fs::metadata(binary).expect("a binary").len();
        let megabytes = bytes as f64 / 1e6;
        let ms = |times: &Vec<Duration>| median(times.clone()).as_secs_f64() * 1e3;
        let name = binary.rsplit('/').next().unwrap_or(binary);
        println!("| {name} | {megabytes:.1} | {:.1} | {:.1} |", ms(&cold[number]), ms(&warm[number]));
    }
}
