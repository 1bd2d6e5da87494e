//! The SDK's way to the engine of a play.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use locker::message::{Envelope, Router, Sent, Target};

use super::books::{Call, Said, Verb};
use super::provider::{Provider, Reply};
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

/// The broker as one process reaches it.
pub(super) fn broker(world: &Shared, slot: usize) -> Router {
    Router::new("/scenarios").route("*", Broker { world: world.clone(), slot })
}

#[derive(Debug)]
struct Broker {
    world: Shared,
    slot: usize,
}

impl Target for Broker {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let mut sent = Vec::new();
        for envelope in batch {
            let call = Call {
                verb: Verb::Tell,
                about: envelope.topic.clone(),
                account: String::new(),
                amount: 0,
                key: None,
                event: Some(envelope.to_json().expect("an event")),
                valid_until: None,
            };
            sent.push(match self.world.call(self.slot, call).await {
                Reply::Said(Said::Done(_)) => Sent::Done,
                Reply::Said(Said::Refused(why)) => Sent::Never(why),
                Reply::Said(Said::Expired) | Reply::Busy(_) | Reply::Down => {
                    Sent::Later("not now".to_owned())
                }
                Reply::Silence => Sent::Unknown("no reply".to_owned()),
            });
        }
        sent
    }
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
            heard(fate, reply)
        })
    }
}
