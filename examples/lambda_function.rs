//! A Lambda function that charges an order once, however often its event is delivered.
//!
//! Run it with `cargo run -p locker-examples --bin lambda_function`: outside AWS Lambda it handles
//! two events, each of them twice.

use lambda_runtime::{Context, Error, LambdaEvent, Service as _};
use lock_token_testing::Embedded;
use locker::aws_sdk_dynamodb::Client;
use locker::{Attempt, BoxError, Locker, OfClass as _, lambda};
use serde::Deserialize;

#[derive(Clone, Deserialize)]
struct Order {
    id: u64,
    cents: i64,
}

/// An error without a class is in doubt: it is unknown whether the effect happened, and no
/// delivery repeats it. `.permanent()` and `.transient()` choose another class.
async fn charge(order: Order, attempt: Attempt) -> Result<String, BoxError> {
    let cents = u32::try_from(order.cents).permanent()?;
    println!("charge {cents} cents under {}", attempt.idempotency_key());
    Ok(format!("receipt of order {}", order.id))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let on_lambda = std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some();
    let dynamodb = if on_lambda { locker::client::lambda()? } else { local().await? };
    let locker =
        Locker::new(&dynamodb, std::env::var("LOCKER_TABLE").unwrap_or_else(|_| "locks".to_owned()))?;
    let mut once = lambda::once(&locker, |order: &Order| ("order/charge", order.id), charge);
    once = once.same(|order| order.cents);
    if on_lambda {
        lambda_runtime::tracing::init_default_subscriber();
        locker.connect().await; // so that the first event does not wait for TLS
        return lambda_runtime::run(once).await;
    }
    for order in [Order { id: 7, cents: 1000 }, Order { id: 8, cents: -1 }] {
        for request_id in ["request-1", "request-2"] {
            let mut context = Context::default();
            context.request_id = request_id.to_owned();
            match once.call(LambdaEvent::new(order.clone(), context)).await {
                Ok(receipt) => println!("{request_id}: {receipt}"),
                Err(error) => println!("{request_id}: {}: {}", error.error_type, error.error_message),
            }
        }
    }
    Ok(())
}

/// A table in memory, outside AWS Lambda.
async fn local() -> Result<Client, Error> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    Ok(dynamodb)
}
