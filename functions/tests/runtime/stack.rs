//! An engine with a table, a provider, and functions.

use std::time::Duration;

use locker::Locker;
use locker_functions::payments::Payments;
use locker_functions::sandbox::Sandbox;
use locker_tests::{Bench, Function};
use serde_json::Value;

/// Longer than a slow machine takes.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) struct Stack {
    pub(crate) bench: Bench,
    pub(crate) provider: Sandbox,
    payments: String,
}

impl Stack {
    pub(crate) async fn new() -> Self {
        let provider = Sandbox::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let payments = format!("http://{}", listener.local_addr().expect("an address"));
        let router = provider.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { bench: Bench::new().await, provider, payments }
    }

    /// A new execution environment of a function. Only a provider that never answers takes longer.
    pub(crate) async fn function(&self, binary: &str) -> Function {
        let patient = [("PAYMENTS_TIMEOUT_MS", "20000"), ("FUNCTION_TIMEOUT_MS", "60000")];
        self.start(binary, MINUTE, &patient).await
    }

    /// A new execution environment with this timeout, and with additional variables.
    pub(crate) async fn start(&self, binary: &str, timeout: Duration, more: &[(&str, &str)]) -> Function {
        let mut environment = vec![
            ("LOCKER_TABLE", self.bench.table.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.bench.engine.endpoint()),
            ("PAYMENTS_URL", &self.payments),
        ];
        // Variables that are set twice have the last value.
        environment.extend(more);
        Function::start(binary, &environment, timeout).await
    }

    /// A locker to inspect the table.
    pub(crate) fn locker(&self) -> Locker {
        Locker::new(&self.bench.client, &self.bench.table).expect("a locker")
    }

    /// A client of the provider, which waits longer than the provider takes.
    pub(crate) fn payments(&self) -> Payments {
        Payments::new(&self.payments, Duration::from_secs(20)).expect("a client")
    }

    /// The number of charges made.
    pub(crate) fn charges(&self) -> usize {
        self.provider.entries().len()
    }
}

/// Wait until the last line with this metric has this value: the pipe may lag behind the reply.
pub(crate) async fn measured(function: &Function, metric: &str, value: Value) {
    let last = || function.logged().into_iter().rev().find_map(|line| line.get(metric).cloned());
    for _ in 0..6000 {
        if last().as_ref() == Some(&value) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{metric} is {:?} and not {value}", last());
}

/// Wait for a line of the log with this message.
pub(crate) async fn said(function: &Function, message: &str) -> Value {
    for _ in 0..6000 {
        let mut lines = function.logged().into_iter();
        if let Some(line) = lines.find(|line| line["fields"]["message"] == message) {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no line has {message:?}: {:?}", function.logged());
}

/// The error of a function that cannot start, without a Runtime API.
pub(crate) async fn refused(binary: &str, environment: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(binary);
    command.env_clear().envs(environment.iter().copied()).kill_on_drop(true);
    command
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    let ended =
        tokio::time::timeout(2 * MINUTE, command.output()).await.expect("it ends").expect("it starts");
    assert!(!ended.status.success(), "{binary} started");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}
