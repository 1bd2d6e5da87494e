//! The HTTP client of the SDK that reaches the engine of a play.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

use super::process::Process;
use super::world::{Shared, World};
use crate::Reply;
use crate::embedded::client_over;

/// An SDK client of one process.
pub(super) fn client(world: &World) -> Client {
    let wire = Wire { shared: Arc::clone(&world.shared), process: Arc::downgrade(&world.process) };
    let client = client_over(http_client_fn(move |_, _| SharedHttpConnector::new(wire.clone())));
    // The SDK's pauses are random. Without pauses, each play of a plan sends the same requests.
    let retries = RetryConfig::standard().with_max_backoff(Duration::ZERO);
    Client::from_conf(client.config().to_builder().retry_config(retries).build())
}

/// The process keeps its client, so the client does not keep the process.
#[derive(Clone)]
struct Wire {
    shared: Arc<Shared>,
    process: Weak<Process>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { shared, process } = self.clone();
        HttpConnectorFuture::new(async move {
            // If the process has ended, its spawned tasks stop here.
            let Some(process) = process.upgrade() else { return std::future::pending().await };
            let world = World { shared, process };
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            let (fate, reply) = world.request(operation, body).await;
            fate.heard(body, reply.map(Reply::into_response).transpose()?)
        })
    }
}

/// Returns a request as one line: its operation and its item.
pub(super) fn shown(operation: &str, body: &[u8]) -> String {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    match operation {
        "PutItem" => format!("PutItem {}", item(&request["Item"])),
        "GetItem" | "UpdateItem" | "DeleteItem" => format!("{operation} {}", item(&request["Key"])),
        "TransactWriteItems" => {
            let actions = request["TransactItems"].as_array().into_iter().flatten();
            let parts = actions.filter_map(|action| {
                let (verb, action) = action.as_object()?.iter().next()?;
                Some(format!("{verb} {}", item(&action[if verb == "Put" { "Item" } else { "Key" }])))
            });
            format!("TransactWriteItems [{}]", parts.collect::<Vec<_>>().join(", "))
        }
        _ => match request["IndexName"].as_str() {
            Some(index) => format!("{operation} {index}"),
            None => operation.to_owned(),
        },
    }
}

/// Returns the keys of an item, and its state.
fn item(item: &Value) -> String {
    let names = ["lockToken", "workflow", "item", "id", "pk", "sk", "status", "state"];
    let texts = names.iter().filter_map(|name| item[*name]["S"].as_str());
    texts.collect::<Vec<_>>().join(" ")
}
