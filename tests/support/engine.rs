//! A DynamoDB engine: embedded and reached in process, or one that runs elsewhere and is reached
//! over HTTP.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};
use lock_token_testing::Embedded;
use serde_json::Value;

use crate::served::Served;
use crate::unhurried::unhurried;
use crate::{Gate, Wire};

/// An engine that is stopped when dropped, or one that runs elsewhere.
#[derive(Debug)]
pub struct Engine(Kind);

#[derive(Debug)]
enum Kind {
    Embedded(Embedded, Served),
    Elsewhere(String),
}

impl Engine {
    /// The engine that the environment names, or an embedded one in memory.
    pub async fn start() -> Self {
        match std::env::var("LOCKER_TEST_ENDPOINT") {
            Ok(endpoint) if !endpoint.is_empty() => Self(Kind::Elsewhere(endpoint)),
            _ => Self::embedded(),
        }
    }

    pub(crate) fn embedded() -> Self {
        Self(Kind::Embedded(Embedded::memory().expect("an engine"), Served::default()))
    }

    /// Whether the engine is the embedded one.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        matches!(self.0, Kind::Embedded(..))
    }

    /// Where it listens, for other processes. Clients of this process need no port: see
    /// [`client`](Self::client).
    #[must_use]
    pub fn endpoint(&self) -> &str {
        match &self.0 {
            Kind::Embedded(engine, served) => served.endpoint(engine),
            Kind::Elsewhere(endpoint) => endpoint,
        }
    }

    /// The HTTP client that reaches it. A paused clock stands still while it waits for a reply.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        unhurried(match &self.0 {
            Kind::Embedded(engine, _) => engine.http_client(),
            Kind::Elsewhere(_) => locker::client::http_client(),
        })
    }

    /// An SDK client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_with(self.http_client())
    }

    /// An SDK client that speaks through a wire.
    #[must_use]
    pub fn client_over(&self, wire: &Wire) -> Client {
        self.client_with(wire.over(self.http_client()))
    }

    /// An SDK client that speaks through a gate.
    #[must_use]
    pub fn client_behind(&self, gate: &Gate) -> Client {
        self.client_with(gate.over(self.http_client()))
    }

    fn client_with(&self, http: SharedHttpClient) -> Client {
        match &self.0 {
            Kind::Embedded(..) => client_for("http://embedded.invalid", http),
            Kind::Elsewhere(endpoint) => client_for(endpoint, http),
        }
    }

    /// Sends a raw request, without the SDK, as a late one would arrive. Returns the reply.
    pub async fn send(&self, operation: &str, request: &Value) -> String {
        let body = request.to_string();
        match &self.0 {
            Kind::Embedded(engine, _) => engine.ask(operation, body.as_bytes()).await.expect("a reply").body,
            Kind::Elsewhere(endpoint) => post(endpoint, operation, body).await,
        }
    }
}

/// An SDK client with its default retries, as a user might bring it.
#[must_use]
pub fn client_for(endpoint: &str, http: SharedHttpClient) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(http)
        .build();
    Client::from_conf(config)
}

async fn post(endpoint: &str, operation: &str, body: String) -> String {
    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sent = reqwest::Client::new()
        .post(endpoint)
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", SIGNED)
        .body(body);
    sent.send().await.expect("a reply").text().await.expect("a body")
}
