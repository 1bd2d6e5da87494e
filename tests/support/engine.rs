//! A DynamoDB engine, reached over HTTP.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};
use tokio::sync::oneshot;

/// An engine that is stopped when dropped, or one that somebody else runs.
#[derive(Debug)]
pub struct Engine {
    endpoint: String,
    _stop: Option<oneshot::Sender<()>>,
}

impl Engine {
    /// The engine that the environment names, or an embedded one in memory.
    pub async fn start() -> Self {
        match std::env::var("LOCKER_TEST_ENDPOINT") {
            Ok(endpoint) if !endpoint.is_empty() => Self { endpoint, _stop: None },
            _ => Self::embedded().await,
        }
    }

    /// Whether the engine is the embedded one.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self._stop.is_some()
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) async fn embedded() -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        // A thread of its own: the engine works on the thread that it is called on.
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                let database = dynoxide::Database::memory().expect("an engine");
                let until = async {
                    let _ = stopped.await;
                };
                tokio::select! {
                    served = dynoxide::server::serve_with_shutdown(listener, database, std::future::pending()) => served.expect("served"),
                    () = until => {}
                }
            });
        });
        let address = told.await.expect("the engine started");
        Self { endpoint: format!("http://{address}"), _stop: Some(stop) }
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

/// Send a request to an engine as it stands, past the SDK, as one that comes late would. Gives what it answers.
pub async fn send(endpoint: &str, operation: &str, request: &serde_json::Value) -> String {
    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sent = reqwest::Client::new()
        .post(endpoint)
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", SIGNED)
        .body(request.to_string());
    sent.send().await.expect("a reply").text().await.expect("a body")
}
