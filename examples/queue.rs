//! A Lambda function of an SQS queue: each message once, and the failed ones return to the queue.
//!
//! Run it with `cargo run -p locker-examples --bin queue`: outside AWS Lambda it handles one batch.

use lambda_runtime::{Context, Error, LambdaEvent, Service as _};
use lock_token_testing::Embedded;
use locker::aws_sdk_dynamodb::Client;
use locker::lambda::Deliveries;
use locker::{Attempt, BoxError, Locker, OfClass as _, lambda};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Order {
    id: u64,
    weight: i32,
}

/// The warehouse takes one parcel for each key, and heavy parcels only while its gate is open.
async fn pack(order: Order, attempt: Attempt) -> Result<(), BoxError> {
    if order.weight > 20 {
        return Ok(Err("the gate is closed").transient()?);
    }
    println!("pack order {} under {}", order.id, attempt.idempotency_key());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let on_lambda = std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some();
    let dynamodb = if on_lambda { locker::client::lambda()? } else { local().await? };
    let locker =
        Locker::new(&dynamodb, std::env::var("LOCKER_TABLE").unwrap_or_else(|_| "locks".to_owned()))?;
    let mut each = lambda::once_each(&locker, |order: &Order| ("order/pack", order.id), pack);
    if on_lambda {
        lambda_runtime::tracing::init_default_subscriber();
        return lambda_runtime::run(each).await;
    }
    let message = |id: &str, body: &str| json!({ "messageId": id, "body": body });
    let records = vec![
        message("m1", r#"{"id":7,"weight":2}"#),
        message("m2", r#"{"id":8,"weight":30}"#),
        message("m3", r#"{"id":7,"weight":2}"#),
        message("m4", "tea"),
    ];
    let undelivered = each.call(LambdaEvent::new(Deliveries { records }, Context::default())).await?;
    println!("back in the queue: {:?}", undelivered.ids().collect::<Vec<_>>());
    Ok(())
}

/// A table in memory, outside AWS Lambda.
async fn local() -> Result<Client, Error> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    Ok(dynamodb)
}
