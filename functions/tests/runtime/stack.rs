//! An engine with a table, a provider, and functions.

use std::time::Duration;

use locker::Locker;
use locker_functions::sandbox::Sandbox;
use locker_tests::{Bench, Function};
use serde_json::Value;

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

    /// A new execution environment of a function.
    pub(crate) async fn function(&self, binary: &str) -> Function {
        let environment = [
            ("LOCKER_TABLE", self.bench.table.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.bench.engine.endpoint()),
            ("PAYMENTS_URL", &self.payments),
            // Only a provider that never answers takes longer.
            ("PAYMENTS_TIMEOUT_MS", "20000"),
            ("FUNCTION_TIMEOUT_MS", "60000"),
        ];
        Function::start(binary, &environment, Duration::from_secs(60)).await
    }

    /// A new execution environment that does not wait for a provider which never answers.
    pub(crate) async fn impatient_function(&self, binary: &str) -> Function {
        let environment = [
            ("LOCKER_TABLE", self.bench.table.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.bench.engine.endpoint()),
            ("PAYMENTS_URL", &self.payments),
            ("PAYMENTS_TIMEOUT_MS", "500"),
        ];
        // Longer than a slow machine takes: a worker begins nothing that it cannot end in time.
        Function::start(binary, &environment, Duration::from_secs(60)).await
    }

    /// A locker to inspect the table.
    pub(crate) fn locker(&self) -> Locker {
        Locker::new(&self.bench.client, &self.bench.table).expect("a locker")
    }

    /// The address of the provider.
    pub(crate) fn payments(&self) -> &str {
        &self.payments
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
