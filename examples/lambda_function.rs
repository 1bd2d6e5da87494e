//! A Lambda function that charges an order once, however often its event is delivered.
//!
//! Run it with `cargo run -p locker-examples --bin lambda_function`: outside AWS Lambda it handles
//! one event twice.

use std::time::Duration;

use lambda_runtime::{Context, Diagnostic, Error, LambdaEvent, service_fn};
use lock_token_testing::Embedded;
use locker::{Failure, Locker, lambda};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    id: u64,
    cents: u64,
}

#[derive(Debug, Serialize)]
struct Reply {
    receipt: String,
    replay: bool,
}

async fn handle(locker: &Locker, event: LambdaEvent<Order>) -> Result<Reply, Diagnostic> {
    let LambdaEvent { payload: Order { id, cents }, context } = event;
    let mut token = locker.token(("order/charge", id)).fingerprint(&cents).owner(&context.request_id);
    // Half a second is left for the reply. There is no deadline outside of AWS Lambda.
    if let Some(deadline) = lambda::deadline(&context, Duration::from_millis(500)) {
        token = token.deadline(deadline);
    }
    let charge = async |attempt: locker::Attempt| {
        println!("charge {cents} cents under {}", attempt.idempotency_key());
        Ok::<_, Failure>(format!("receipt of order {id}"))
    };
    // The token is ended before the reply: the environment is frozen after it.
    let receipt = token.run(charge).await?;
    Ok(Reply { replay: receipt.is_replay(), receipt: receipt.into_inner() })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        let locker = Locker::new(
            &locker::client::lambda()?,
            std::env::var("LOCKER_TABLE").map_err(|error| format!("LOCKER_TABLE: {error}"))?,
        )?;
        locker.connect().await; // so that the first event does not wait for TLS
        return lambda_runtime::run(service_fn(|event| handle(&locker, event))).await;
    }
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    for request_id in ["request-1", "request-2"] {
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        let replied = handle(&locker, LambdaEvent::new(Order { id: 7, cents: 1000 }, context)).await;
        println!("{:?}", replied.map_err(|error| error.error_message)?);
    }
    Ok(())
}
