//! What the examples of the documentation run on.

use aws_sdk_dynamodb::Client;
use locker::BoxError;

use crate::Engine;

/// Run an example with a client of an embedded DynamoDB that has a table `locks`.
///
/// # Panics
///
/// If the example fails.
pub fn example(body: impl AsyncFnOnce(Client) -> Result<(), BoxError>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Engine::embedded().client();
        locker::create_table(&client, "locks").await.expect("a table");
        body(client).await.expect("the example works");
    });
}
