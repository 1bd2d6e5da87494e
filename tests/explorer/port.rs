//! The SDK's way to the engine: each request waits here until the scheduler says what becomes of
//! it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;

/// A world that decides what becomes of requests.
pub(super) trait Wire: std::fmt::Debug + Send + 'static {
    /// A request arrives, and is known by this number until it is answered. Unless it waits, it
    /// goes well at once.
    fn arrives(&mut self, client: usize, operation: &str, body: &[u8], waits: bool) -> u64;
    /// What was decided for the request, once; until then the waker is the one to wake.
    fn heard(&mut self, request: u64, waker: &Waker) -> Option<Heard>;
    /// The caller of a request no longer waits.
    fn leaves(&mut self, request: u64);
}

/// The world, shared between the scheduler and the clients.
#[derive(Debug)]
pub(super) struct Shared<W>(Arc<Mutex<W>>);

impl<W> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Wire> Shared<W> {
    pub(super) fn new(world: W) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, W> {
        self.0.lock().expect("no panic while the world is locked")
    }

    /// An HTTP client whose exchanges the scheduler decides.
    pub(super) fn http_client(&self, client: usize) -> SharedHttpClient {
        let port = Port { world: self.clone(), client, waits: true };
        http_client_fn(move |_, _| SharedHttpConnector::new(port.clone()))
    }

    /// An HTTP client whose exchanges go well at once.
    pub(super) fn good_http_client(&self, client: usize) -> SharedHttpClient {
        let port = Port { world: self.clone(), client, waits: false };
        http_client_fn(move |_, _| SharedHttpConnector::new(port.clone()))
    }
}

/// What a client hears of its request.
#[derive(Debug)]
pub(super) struct Heard(Result<HttpResponse, ConnectorError>);

impl Heard {
    pub(super) const fn new(heard: Result<HttpResponse, ConnectorError>) -> Self {
        Self(heard)
    }
}

/// A request whose caller no longer waits was never sent.
struct Waiting<'a, W: Wire> {
    world: &'a Shared<W>,
    request: u64,
}

impl<W: Wire> Drop for Waiting<'_, W> {
    fn drop(&mut self) {
        self.world.world().leaves(self.request);
    }
}

#[derive(Debug)]
struct Port<W> {
    world: Shared<W>,
    client: usize,
    waits: bool,
}

impl<W> Clone for Port<W> {
    fn clone(&self) -> Self {
        Self { world: self.world.clone(), client: self.client, waits: self.waits }
    }
}

impl<W: Wire> HttpConnector for Port<W> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { world: shared, client, waits } = self.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            let request = shared.world().arrives(client, operation, body, waits);
            let _waiting = Waiting { world: &shared, request };
            poll_fn(|context| match shared.world().heard(request, context.waker()) {
                Some(Heard(heard)) => Poll::Ready(heard),
                // The scheduler polls again when it has decided.
                None => Poll::Pending,
            })
            .await
        })
    }
}
