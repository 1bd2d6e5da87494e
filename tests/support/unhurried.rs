//! Time that stands still while a request is on its way.
//!
//! A test whose clock is paused waits for no pause and no limit: tokio advances its clock to the
//! next timer whenever nothing else is left to do. It takes a request that another thread or
//! process works on for nothing to do, and does not advance while a blocking task runs. So a limit
//! of 200 ms is reached by a fault, and never by a slow machine.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;

/// The same HTTP client, whose exchanges take no time of a paused clock.
#[must_use]
pub fn unhurried(real: SharedHttpClient) -> SharedHttpClient {
    http_client_fn(move |settings, components| {
        SharedHttpConnector::new(Unhurried(real.http_connector(settings, components)))
    })
}

#[derive(Debug)]
struct Unhurried(SharedHttpConnector);

impl HttpConnector for Unhurried {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let reply = self.0.call(request);
        HttpConnectorFuture::new(async move {
            let (_replied, waits) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || waits.recv());
            reply.await
        })
    }
}
