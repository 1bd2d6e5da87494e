//! The smallest use: a charge that is made once, and a second call that gets its receipt.
//!
//! Run it with `cargo run -p locker-examples --bin once`.

use lock_token_testing::Embedded;
use locker::{Attempt, BoxError, Failure, Locker};

async fn charge(attempt: Attempt) -> Result<String, Failure> {
    Ok(format!("charged {}", attempt.idempotency_key()))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client(); // on AWS Lambda: locker::client::lambda()?
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    for _ in 0..2 {
        let token = locker.token(("order/charge", 7)).fingerprint("EUR 10.00");
        let receipt = token.run(charge).await?;
        println!("{}, replay: {}", *receipt, receipt.is_replay());
    }
    Ok(())
}
