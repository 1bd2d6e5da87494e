//! The SDK's way to the engine of a play.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;

use super::provider::Provider;
use super::world::Shared;
use crate::explorer::heard;

/// An HTTP client of one process.
pub(super) fn http_client(world: &Shared, slot: usize) -> SharedHttpClient {
    let wire = Wire { world: world.clone(), slot };
    http_client_fn(move |_, _| SharedHttpConnector::new(wire.clone()))
}

/// The provider as one process reaches it.
pub(super) fn provider(world: &Shared, slot: usize) -> Provider {
    let world = world.clone();
    Provider::new(move |call| {
        let world = world.clone();
        async move { world.call(slot, call).await }
    })
}

#[derive(Debug, Clone)]
struct Wire {
    world: Shared,
    slot: usize,
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { world, slot } = self.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            let (fate, reply) = world.exchange(slot, operation, body).await;
            heard(fate, body, reply)
        })
    }
}
