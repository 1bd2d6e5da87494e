//! What the examples of the documentation run on.

use aws_sdk_dynamodb::Client;
use locker::BoxError;

use crate::{Engine, client_for};

/// Run an example with a client of an embedded DynamoDB that has a table `locks`.
///
/// # Panics
///
/// If the example fails.
pub fn example(body: impl AsyncFnOnce(Client) -> Result<(), BoxError>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::embedded().await;
        let client = client_for(engine.endpoint(), locker::client::http_client());
        locker::create_table(&client, "locks").await.expect("a table");
        body(client).await.expect("the example works");
    });
}
