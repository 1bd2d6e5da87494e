//! The wire between clients and engine, which loses, delays, refuses and lies.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// What may become of a request, and how often it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    LoseRequest,
    LoseReply,
    ErrorBefore,
    ErrorAfter,
    Throttle,
    /// It arrives after its client has given up.
    DelayRequest(Duration),
    /// It is applied, and its reply comes after its client has given up.
    DelayReply(Duration),
}

const FAULTS: [&str; 7] = [
    "lost requests",
    "lost replies",
    "500 before",
    "500 after",
    "throttled",
    "late requests",
    "late replies",
];

#[derive(Clone)]
pub(crate) struct Proxy(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    engine: String,
    state: Mutex<Fate>,
}

struct Fate {
    rng: fastrand::Rng,
    /// Out of 1,000.
    rate: u32,
    requests: u64,
    unreachable: u64,
    counts: [u64; 7],
}

impl Proxy {
    /// Start it, and say where it listens.
    pub(crate) async fn start(engine: String, seed: u64, rate: u32) -> (Self, String) {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build().expect("a client");
        let rng = fastrand::Rng::with_seed(seed);
        let fate = Fate { rng, rate, requests: 0, unreachable: 0, counts: [0; 7] };
        let proxy = Self(Arc::new(Inner { http, engine, state: Mutex::new(fate) }));
        let router = Router::new().fallback(pass).with_state(proxy.clone());
        (proxy, serve(router).await)
    }

    /// Pass everything on from now on.
    pub(crate) fn calm(&self) {
        self.0.state.lock().expect("the fate").rate = 0;
    }

    /// How many requests there were, and what became of some.
    pub(crate) fn summary(&self) -> String {
        let fate = self.0.state.lock().expect("the fate");
        let faults: Vec<_> =
            FAULTS.iter().zip(fate.counts).map(|(name, count)| format!("{count} {name}")).collect();
        format!(
            "{} requests, {}, {} while the engine was dead",
            fate.requests,
            faults.join(", "),
            fate.unreachable
        )
    }

    fn fault(&self) -> Option<Fault> {
        let mut fate = self.0.state.lock().expect("the fate");
        fate.requests += 1;
        if fate.rng.u32(0..1000) >= fate.rate {
            return None;
        }
        // Delays hold up a client for a second, so they are rarer.
        let which = [0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6][fate.rng.usize(0..17)];
        fate.counts[which] += 1;
        let late = Duration::from_millis(fate.rng.u64(1050..2500));
        Some(match which {
            0 => Fault::LoseRequest,
            1 => Fault::LoseReply,
            2 => Fault::ErrorBefore,
            3 => Fault::ErrorAfter,
            4 => Fault::Throttle,
            5 => Fault::DelayRequest(late),
            _ => Fault::DelayReply(late),
        })
    }

    async fn forward(&self, headers: HeaderMap, body: Bytes) -> Response {
        let mut request = self.0.http.post(&self.0.engine).body(body);
        for name in ["x-amz-target", "content-type", "authorization", "x-amz-date"] {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        let reply = async {
            let response = request.send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, response.bytes().await?))
        };
        match reply.await {
            Ok((status, headers, body)) => {
                let mut response = (status, body).into_response();
                for name in [header::CONTENT_TYPE.as_str(), "x-amzn-requestid", "x-amz-crc32"] {
                    if let Some(value) = headers.get(name) {
                        response.headers_mut().insert(
                            header::HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                            value.clone(),
                        );
                    }
                }
                response
            }
            Err(_) => {
                self.0.state.lock().expect("the fate").unreachable += 1;
                dropped()
            }
        }
    }
}

async fn pass(State(proxy): State<Proxy>, headers: HeaderMap, body: Bytes) -> Response {
    // A client that goes away must not take its request with it: on a wire, what is sent is sent.
    let passed = tokio::spawn(async move {
        match proxy.fault() {
            None => proxy.forward(headers, body).await,
            Some(Fault::LoseRequest) => dropped(),
            Some(Fault::LoseReply) => {
                proxy.forward(headers, body).await;
                dropped()
            }
            Some(Fault::ErrorBefore) => internal_error(),
            Some(Fault::ErrorAfter) => {
                proxy.forward(headers, body).await;
                internal_error()
            }
            Some(Fault::Throttle) => throttled(),
            Some(Fault::DelayRequest(late)) => {
                tokio::time::sleep(late).await;
                proxy.forward(headers, body).await
            }
            Some(Fault::DelayReply(late)) => {
                let response = proxy.forward(headers, body).await;
                tokio::time::sleep(late).await;
                response
            }
        }
    });
    passed.await.unwrap_or_else(|_| dropped())
}

fn internal_error() -> Response {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError")
}

fn throttled() -> Response {
    refusal(StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException")
}

fn refusal(status: StatusCode, name: &str) -> Response {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{name}","message":"injected"}}"#);
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.0")], body).into_response()
}

/// A reply that breaks off, and the connection with it.
pub(crate) fn dropped() -> Response {
    Response::new(Body::new(Dropped))
}

struct Dropped;

impl http_body::Body for Dropped {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

/// Serve on any free port of loopback.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}
