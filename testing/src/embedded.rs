//! The engine on a separate thread, and the HTTP client of the SDK that reaches it.

use std::path::Path;
use std::sync::mpsc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use tokio::sync::oneshot;

use crate::database::{Database, Reply};
use crate::open::OpenError;

/// An embedded DynamoDB on a separate thread.
///
/// The engine blocks the thread that calls it, for example while it waits for other processes. So
/// it has its own thread, which executes requests one after the other. Clones, and the clients made
/// here, share the engine. When the last of them is dropped, the thread ends and closes the file.
#[derive(Debug, Clone)]
pub struct Embedded {
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Request {
    operation: String,
    body: Vec<u8>,
    reply: oneshot::Sender<Reply>,
}

impl Embedded {
    /// Starts an engine in memory.
    ///
    /// # Errors
    ///
    /// [`OpenError::Engine`] if there is no memory or thread for it.
    pub fn memory() -> Result<Self, OpenError> {
        Self::start(Database::memory()?)
    }

    /// Starts an engine over a file, as [`Database::open`] does.
    ///
    /// # Errors
    ///
    /// [`OpenError`] contains the problem with the file and the remedy.
    pub fn open(file: &Path) -> Result<Self, OpenError> {
        Self::start(Database::open(file)?)
    }

    fn start(database: Database) -> Result<Self, OpenError> {
        let (requests, received) = mpsc::channel();
        let thread = std::thread::Builder::new().name("embedded-dynamodb".to_owned());
        let spawned = thread.spawn(move || serve(&database, &received));
        spawned.map_err(|error| OpenError::Engine(error.to_string()))?;
        Ok(Self { requests })
    }

    /// Executes a request: an operation such as `PutItem`, and its JSON.
    ///
    /// Returns `None` if the engine has stopped. Only a defect of the engine causes this; the
    /// request may have been applied.
    ///
    /// # Cancel safety
    ///
    /// A request that is dropped before the engine starts it is not applied.
    pub async fn ask(&self, operation: &str, body: &[u8]) -> Option<Reply> {
        let (reply, replied) = oneshot::channel();
        let request = Request { operation: operation.to_owned(), body: body.to_owned(), reply };
        self.requests.send(request).ok()?;
        replied.await.ok()
    }

    /// Returns an HTTP client for the configuration of an SDK client. It ignores the endpoint and
    /// the signature.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        let connector = Connector(self.clone());
        http_client_fn(move |_, _| SharedHttpConnector::new(connector.clone()))
    }

    /// Returns an SDK client with the default settings of the SDK.
    #[must_use]
    pub fn client(&self) -> Client {
        client_over(self.http_client())
    }

    /// Returns an SDK client whose requests pass this wire, which can inject faults.
    #[cfg(feature = "kit")]
    #[must_use]
    pub fn client_over(&self, wire: &crate::Wire) -> Client {
        client_over(wire.over(self.http_client()))
    }
}

/// Returns an SDK client with the default settings of the SDK, and without an endpoint that it
/// could reach.
pub(crate) fn client_over(http: SharedHttpClient) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "embedded"))
        .endpoint_url("http://embedded.invalid")
        .http_client(http);
    Client::from_conf(config.build())
}

fn serve(database: &Database, requests: &mpsc::Receiver<Request>) {
    while let Ok(Request { operation, body, reply }) = requests.recv() {
        if !reply.is_closed() {
            let _ = reply.send(database.ask(&operation, &body));
        }
    }
}

#[derive(Debug, Clone)]
struct Connector(Embedded);

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self(engine) = self.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let streamed = || ConnectorError::user("the body of the request is a stream".into());
            let body = request.body().bytes().ok_or_else(streamed)?;
            let stopped = || ConnectorError::io("the embedded DynamoDB has stopped".into());
            engine.ask(operation, body).await.ok_or_else(stopped)?.into_response()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_given_up_in_the_queue_is_not_applied() {
        let database = Database::memory().unwrap();
        let (requests, received) = mpsc::channel();
        let table = |name: &str| {
            format!(
                r#"{{"TableName":"{name}","BillingMode":"PAY_PER_REQUEST",
                    "AttributeDefinitions":[{{"AttributeName":"id","AttributeType":"S"}}],
                    "KeySchema":[{{"AttributeName":"id","KeyType":"HASH"}}]}}"#
            )
        };
        let send = |name: &str| {
            let (reply, replied) = oneshot::channel();
            let (operation, body) = ("CreateTable".to_owned(), table(name).into_bytes());
            requests.send(Request { operation, body, reply }).unwrap();
            replied
        };
        drop(send("given-up"));
        let mut awaited = send("awaited");
        drop(requests);
        serve(&database, &received);
        assert_eq!(awaited.try_recv().unwrap().status, 200);
        let tables = database.ask("ListTables", b"{}").body;
        assert_eq!(tables, r#"{"TableNames":["awaited"]}"#);
    }
}
