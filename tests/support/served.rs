//! An embedded engine behind a port of the loopback interface, for processes that a test starts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use lock_token_testing::Embedded;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server that starts when its endpoint is asked for, and ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Served(OnceLock<(String, oneshot::Sender<()>)>);

impl Served {
    pub(crate) fn endpoint(&self, engine: &Embedded) -> &str {
        &self.0.get_or_init(|| start(engine.clone(), None, Sight::default())).0
    }
}

fn start(engine: Embedded, asked: Option<Arc<Mutex<Asked>>>, sight: Sight) -> (String, oneshot::Sender<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    // The runtime of the test may have one thread, which the test may block.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let answer = move |headers: HeaderMap, body: Bytes| {
                answer(engine.clone(), asked.clone(), sight.clone(), (headers, body))
            };
            let limit = axum::extract::DefaultBodyLimit::disable();
            let serve = axum::serve(listener, Router::new().fallback(answer).layer(limit));
            tokio::select! {
                served = serve.into_future() => served.expect("served"),
                _ = stopped => {}
            }
        });
    });
    (format!("http://{address}"), stop)
}

async fn answer(
    engine: Embedded,
    asked: Option<Arc<Mutex<Asked>>>,
    sight: Sight,
    (headers, body): (HeaderMap, Bytes),
) -> impl IntoResponse {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let content_type = [(header::CONTENT_TYPE, "application/x-amz-json-1.0")];
    if sight.is_refused(operation) {
        return (StatusCode::BAD_REQUEST, content_type, DENIED.to_owned());
    }
    if let Some((_, time)) = sight.slow.get().filter(|(slow, _)| *slow == operation) {
        tokio::time::sleep(*time).await;
    }
    let reply = match asked {
        Some(asked) => counted(&engine, operation, &body, &asked).await,
        None => engine.ask(operation, &body).await.expect("a reply"),
    };
    if operation == "TransactWriteItems" && sight.loses.load(Ordering::SeqCst) {
        return (StatusCode::INTERNAL_SERVER_ERROR, content_type, LOST.to_owned());
    }
    let status = StatusCode::from_u16(reply.status).expect("a status");
    let keeps_it = status == StatusCode::BAD_REQUEST && sight.keeps_items.load(Ordering::SeqCst);
    (status, content_type, if keeps_it { without_item(&reply.body) } else { reply.body })
}

const DENIED: &str = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}"#;

const LOST: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"lost"}"#;

/// A refusal as an engine sends it that does not know `ReturnValuesOnConditionCheckFailure`.
pub(crate) fn without_item(refusal: &str) -> String {
    let mut refusal: Value = serde_json::from_str(refusal).expect("JSON");
    refusal.as_object_mut().expect("an object").remove("Item");
    refusal.to_string()
}

/// What the engine shows.
#[derive(Debug, Clone, Default)]
struct Sight {
    /// Whether reads are refused once a transaction was sent.
    blinded: Arc<AtomicBool>,
    written: Arc<AtomicBool>,
    /// Whether refusals have no items.
    keeps_items: Arc<AtomicBool>,
    /// The operation that is denied, after this number of its requests.
    denied: Arc<OnceLock<(&'static str, usize)>>,
    /// The requests of that operation so far.
    asked: Arc<AtomicUsize>,
    /// Whether the replies to transactions are lost.
    loses: Arc<AtomicBool>,
    /// An operation, and the time that each of its requests waits.
    slow: Arc<OnceLock<(&'static str, Duration)>>,
}

impl Sight {
    fn is_refused(&self, operation: &str) -> bool {
        self.written.fetch_or(operation == "TransactWriteItems", Ordering::SeqCst);
        let is_read = ["GetItem", "Query"].contains(&operation);
        let is_blind = is_read && self.blinded.load(Ordering::SeqCst) && self.written.load(Ordering::SeqCst);
        let is_denied = |(denied, after): &(&str, usize)| {
            *denied == operation && self.asked.fetch_add(1, Ordering::SeqCst) >= *after
        };
        is_blind || self.denied.get().is_some_and(is_denied)
    }
}

/// What a served engine was asked, and what DynamoDB would have charged for reading it.
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct Asked {
    /// Requests.
    pub requests: u64,
    /// Requests, equal ones once.
    pub different: u64,
    seen: BTreeSet<(String, Vec<u8>)>,
    /// Read units.
    pub read_units: f64,
}

/// An engine behind a port that counts what it is asked.
#[derive(Debug)]
pub struct Counted {
    endpoint: String,
    asked: Arc<Mutex<Asked>>,
    sight: Sight,
    _stop: oneshot::Sender<()>,
}

impl Counted {
    /// Serves this engine on the loopback interface until it is dropped.
    #[must_use]
    pub fn start(engine: &Embedded) -> Self {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let sight = Sight::default();
        let (endpoint, stop) = start(engine.clone(), Some(Arc::clone(&asked)), sight.clone());
        Self { endpoint, asked, sight, _stop: stop }
    }

    /// From the next transaction on, every read is denied.
    pub fn blind_after_a_transaction(&self) {
        self.sight.blinded.store(true, Ordering::SeqCst);
    }

    /// From now on, a refusal does not return the item that refused the write.
    pub fn keep_items(&self) {
        self.sight.keeps_items.store(true, Ordering::SeqCst);
    }

    /// From now on, each request of this operation waits for this long. Only the first call has an
    /// effect.
    pub fn slow_down(&self, operation: &'static str, time: Duration) {
        self.sight.slow.get_or_init(|| (operation, time));
    }

    /// From now on, a transaction is applied, and its reply is an error of the server.
    pub fn lose_replies_of_transactions(&self) {
        self.sight.loses.store(true, Ordering::SeqCst);
    }

    /// From now on, this operation is denied. Only the first call has an effect.
    pub fn deny(&self, operation: &'static str) {
        self.deny_after(operation, 0);
    }

    /// The same, after this number of requests.
    pub fn deny_after(&self, operation: &'static str, requests: usize) {
        self.sight.denied.get_or_init(|| (operation, requests));
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it was asked since the last call of this.
    #[must_use]
    pub fn take(&self) -> Asked {
        std::mem::take(&mut self.asked.lock().expect("a lock"))
    }
}

/// Asks for the units of a read, and adds them up.
async fn counted(
    engine: &Embedded,
    operation: &str,
    body: &[u8],
    asked: &Mutex<Asked>,
) -> lock_token_testing::Reply {
    let mut request: Value = serde_json::from_slice(body).expect("a request");
    let is_read = ["GetItem", "Query", "Scan"].contains(&operation);
    if is_read {
        request["ReturnConsumedCapacity"] = "TOTAL".into();
    }
    let body = serde_json::to_vec(&request).expect("a request");
    let reply = engine.ask(operation, &body).await.expect("a reply");
    let said: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let mut asked = asked.lock().expect("a lock");
    asked.requests += 1;
    asked.different += u64::from(asked.seen.insert((operation.to_owned(), body)));
    asked.read_units += said["ConsumedCapacity"]["CapacityUnits"].as_f64().unwrap_or_default();
    reply
}
