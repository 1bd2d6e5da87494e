//! The process that had the token is gone. Another caller asks the bank, and takes over only if
//! that is safe.
//!
//! Run it with `cargo run -p locker-examples --bin take_over`.

use std::sync::Arc;
use std::time::Duration;

use lock_token_testing::{Embedded, TestClock};
use locker::{BeginBuilder, Begun, BoxError, Failure, Locker, Probed, Record, RunError};

const MINUTE: Duration = Duration::from_secs(60);

/// Whether the bank has a charge under the key that it was given.
async fn ask_the_bank(record: Record) -> Result<Probed, BoxError> {
    println!("probe: {} was locked by {}", record.key().as_str(), record.locked_by());
    Ok(match record.idempotency_key().as_str() {
        // Unknown to the bank, which refuses a request that is older than the grace.
        "order/7" => Probed::Safe,
        _ => Probed::Unsafe,
    })
}

async fn charge(token: BeginBuilder) -> Result<String, RunError<Failure>> {
    let charged =
        token.run(async |attempt| Ok(format!("charged, after a takeover: {}", attempt.took_over())));
    Ok(charged.await?.into_inner())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let clock = TestClock::new();
    let locker = Locker::builder(&dynamodb, "locks").with_clock(Arc::new(clock.clone())).build()?;
    let token = |order: u64| locker.token(("order", order)).expect_within(MINUTE);

    for order in [7, 8] {
        let Begun::Acquired(lock) = token(order).owner("a process that dies").begin().await? else {
            return Err("the token was taken".into());
        };
        drop(lock); // nothing is written: the token stays in progress
    }
    println!("at once: {:?}", charge(token(7).take_over_if(MINUTE, ask_the_bank)).await.is_ok());

    clock.advance(10 * MINUTE);
    println!("without a choice: {:?}", charge(token(7)).await.is_ok());
    println!("order 7: {}", charge(token(7).take_over_if(MINUTE, ask_the_bank)).await?);
    match charge(token(8).take_over_if(MINUTE, ask_the_bank)).await {
        Err(RunError::InProgress(_)) => println!("order 8: it stays in progress, for an operator"),
        other => println!("order 8: {other:?}"),
    }
    Ok(())
}
