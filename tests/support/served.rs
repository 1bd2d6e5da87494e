//! An embedded engine behind a port of the loopback interface, for processes that a test starts.

use std::net::SocketAddr;
use std::sync::OnceLock;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use lock_token_testing::Embedded;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server that starts when its endpoint is asked for, and ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Served(OnceLock<(String, oneshot::Sender<()>)>);

impl Served {
    pub(crate) fn endpoint(&self, engine: &Embedded) -> &str {
        &self.0.get_or_init(|| start(engine.clone())).0
    }
}

fn start(engine: Embedded) -> (String, oneshot::Sender<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    // The runtime of the test may have one thread, which the test may block.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let answer = move |headers: HeaderMap, body: Bytes| answer(engine.clone(), headers, body);
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

async fn answer(engine: Embedded, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let reply = engine.ask(operation, &body).await.expect("a reply");
    let status = StatusCode::from_u16(reply.status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.0")], reply.body)
}
