//! An engine with a table, a provider, and functions beside them.

use std::time::Duration;

use locker::Locker;
use locker_functions::sandbox::Sandbox;
use locker_tests::{Bench, Function};

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
            ("PAYMENTS_TIMEOUT_MS", "500"),
        ];
        Function::start(binary, &environment, Duration::from_secs(10)).await
    }

    /// For looking at the table.
    pub(crate) fn locker(&self) -> Locker {
        Locker::new(&self.bench.client, &self.bench.table).expect("a locker")
    }

    /// Where the provider is.
    pub(crate) fn payments(&self) -> &str {
        &self.payments
    }

    /// How often money moved.
    pub(crate) fn charges(&self) -> usize {
        self.provider.entries().len()
    }
}
