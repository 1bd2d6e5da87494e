//! The SDK's way to the engine: each request waits here until the scheduler says what becomes of it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;

use super::fate::Fate;
use super::world::World;

/// The world, shared between the scheduler and the clients.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
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
struct Waiting<'a> {
    world: &'a Shared,
    client: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let client = &mut self.world.world().clients[self.client];
        client.parked = None;
        client.heard = None;
    }
}

#[derive(Debug, Clone)]
struct Port {
    world: Shared,
    client: usize,
    waits: bool,
}

impl HttpConnector for Port {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { world: shared, client, waits } = self.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            let _waiting = Waiting { world: &shared, client };
            {
                let mut world = shared.world();
                let asked = world.ask(client, operation, body);
                world.clients[client].parked = Some(asked);
                if !waits {
                    world.grant(client, Fate::Ok);
                }
            }
            poll_fn(|_| match shared.world().clients[client].heard.take() {
                Some(Heard(heard)) => Poll::Ready(heard),
                // The scheduler polls again when it has decided.
                None => Poll::Pending,
            })
            .await
        })
    }
}
