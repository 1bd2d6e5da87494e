//! Cold start and size of functions: from the start of the process to its first answer, over the
//! Lambda Runtime API.
//!
//! ```sh
//! cargo build --release -p locker-benches --bins
//! cargo run -p locker-benches --example cold_start
//! cargo build --release -p locker-functions --bins
//! cargo run -p locker-benches --example cold_start -- target/release/orders target/release/worker target/release/scanner
//! ```
//!
//! Without arguments, it compares a minimal function that uses Locker with the same function
//! without it, and with itself if it opens its connection before the first event. DynamoDB is a
//! server of canned replies on this machine, so the figures contain no network. The ways to reach
//! it show what TLS and its root certificates cost.

#![allow(clippy::expect_used)]

#[path = "cold_start/tls.rs"]
mod tls;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use locker_benches::answer;
use locker_benches::canned::{Canned, SMALL};
use locker_tests::{Function, Reply};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use tokio::time::Instant;

const ROUNDS: usize = 31;

/// A way to reach DynamoDB.
struct Way {
    name: &'static str,
    endpoint: String,
    /// A file of root certificates, instead of those of this system. They are read and parsed
    /// whether or not TLS is used.
    roots: Option<String>,
}

/// What is started: a binary, and whether it is told to connect before the first event.
struct Started {
    binary: String,
    connected: bool,
}

impl Started {
    fn name(&self) -> String {
        format!("{}{}", name(&self.binary), if self.connected { ", connected" } else { "" })
    }
}

#[derive(Default)]
struct Measured {
    first: Vec<f64>,
    /// From the first event to its answer.
    invocation: Vec<f64>,
    second: Vec<f64>,
    cpu: Vec<f64>,
}

#[tokio::main]
async fn main() {
    let plain = |binary: String| Started { binary, connected: false };
    let mut binaries: Vec<_> = std::env::args().skip(1).map(plain).collect();
    if binaries.is_empty() {
        let [bare, ours] =
            ["target/release/function_bare", "target/release/function_locker"].map(str::to_owned);
        let connected = Started { binary: ours.clone(), connected: true };
        binaries = vec![plain(bare), plain(ours), connected];
    }
    println!(
        "| binary | DynamoDB by | first answer ms | ratio | CPU ms | ratio | first invocation ms | second ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let certificates = tls::Certificates::new();
    for way in ways(&certificates) {
        let mut measured: Vec<_> = binaries.iter().map(|_| Measured::default()).collect();
        for round in 0..ROUNDS {
            for turn in 0..binaries.len() {
                let number = (round + turn) % binaries.len();
                start(&binaries[number], &way, &mut measured[number]).await;
            }
        }
        for (binary, times) in binaries.iter().zip(&measured) {
            println!(
                "| {} | {} | {:.1} | {:.2} | {:.1} | {:.2} | {:.1} | {:.1} |",
                binary.name(),
                way.name,
                median(&times.first),
                ratio(&times.first, &measured[0].first),
                median(&times.cpu),
                ratio(&times.cpu, &measured[0].cpu),
                median(&times.invocation),
                median(&times.second),
            );
        }
    }
    println!("\n| binary | bytes | ratio |\n|---|---|---|");
    let size =
        |started: &Started| std::fs::metadata(&started.binary).expect("a binary, built for release").len();
    for binary in binaries.iter().filter(|binary| !binary.connected) {
        let ratio = size(binary) as f64 / size(&binaries[0]) as f64;
        println!("| {} | {} | {ratio:.3} |", binary.name(), size(binary));
    }
}

fn ways(certificates: &tls::Certificates) -> [Way; 4] {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain = Arc::new(Canned::default()).listen(listener(), |stream| stream);
    let server = certificates.server();
    let accept = move |stream| tls::accept(Arc::clone(&server), stream);
    let encrypted = Arc::new(Canned::default()).listen(listener(), accept);
    let way = |name, encrypt: bool, roots| {
        let endpoint = if encrypt { format!("https://{encrypted}") } else { format!("http://{plain}") };
        Way { name, endpoint, roots }
    };
    [
        way("HTTP, roots of the system", false, None),
        way("HTTP, roots in one file", false, Some(certificates.all_roots())),
        way("TLS, roots in one file", true, Some(certificates.all_roots())),
        way("TLS, one root", true, Some(certificates.one_root())),
    ]
}

async fn start(Started { binary, connected }: &Started, way: &Way, measured: &mut Measured) {
    let mut environment = vec![
        ("LOCKER_TABLE", "locks"),
        ("AWS_ENDPOINT_URL_DYNAMODB", way.endpoint.as_str()),
        ("PAYMENTS_URL", "http://127.0.0.1:9"),
    ];
    environment.extend(way.roots.as_deref().map(|roots| ("SSL_CERT_FILE", roots)));
    environment.extend(connected.then_some(("CONNECT", "1")));
    let (cpu, started) = (cpu_of_children(), Instant::now());
    let mut function = Function::start(binary, &environment, Duration::from_secs(10)).await;
    function.ready().await;
    let ready = Instant::now();
    let reply = function.invoke("cold", event(binary)).await;
    measured.invocation.push(ready.elapsed().as_secs_f64() * 1e3);
    measured.first.push(started.elapsed().as_secs_f64() * 1e3);
    assert!(matches!(reply, Reply::Response(_)), "{binary}: {reply:?}");
    let again = Instant::now();
    function.invoke("warm", event(binary)).await;
    measured.second.push(again.elapsed().as_secs_f64() * 1e3);
    // The CPU time of a child counts once it has ended.
    function.kill().await;
    measured.cpu.push(cpu_of_children() - cpu);
}

/// An event that makes each function do as little as it can with DynamoDB.
fn event(binary: &str) -> Value {
    match name(binary) {
        "orders" => json!({
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
        "worker" => json!({ "Records": [] }),
        "scanner" => json!({}),
        _ => json!(answer::of_size(SMALL)),
    }
}

fn name(binary: &str) -> &str {
    binary.rsplit('/').next().unwrap_or(binary)
}

/// The CPU time of child processes that have ended, in milliseconds.
fn cpu_of_children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
    let ms = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    ms(usage.user_time()) + ms(usage.system_time())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The median of the ratios of each round.
fn ratio(these: &[f64], those: &[f64]) -> f64 {
    let ratios: Vec<_> = these.iter().zip(those).map(|(this, that)| this / that).collect();
    median(&ratios)
}
