//! Every outcome of `begin` and every error of `run`. Each branch is reached.
//!
//! Run it with `cargo run -p locker-examples --bin every_outcome`.

use lock_token_testing::Embedded;
use locker::{Begun, BoxError, Class, Failure, Locker, RunError};

/// With the lock in hand, your code decides how the token ends.
async fn begin(locker: &Locker, order: &str, amount: &str) -> Result<String, BoxError> {
    Ok(match locker.token(("begin", order)).fingerprint(amount).begin().await? {
        Begun::Acquired(lock) => {
            match order {
                "paid" => lock.complete("receipt 1").await?,
                "declined" => lock.fail("no credit").await?,
                "unclear" => lock.hold("two accounts match").await?,
                "closed" => lock.release().await?, // the bank was not called, so another call may try
                _ => lock.leave_in_doubt("the bank did not reply").await,
            }
            "acquired".to_owned()
        }
        Begun::Completed(replay) => format!("completed: {}", replay.result::<String>()?),
        Begun::Failed(failure) => format!("failed: {}", failure.error::<String>()?),
        Begun::Held(failure) => format!("held for an operator: {}", failure.error::<String>()?),
        Begun::InProgress(holder) => {
            format!("in progress: {}", holder.record().cause().unwrap_or("no cause is known"))
        }
        Begun::Mismatch(_) => "the key belongs to another request".to_owned(),
        Begun::Restored(_) => "the table was restored: an operator decides".to_owned(),
    })
}

/// In one call, the class of the error decides it.
async fn run(locker: &Locker, order: &str, amount: &str) -> String {
    let charged = locker.token(("run", order)).fingerprint(amount).run(async |_| match order {
        "paid" => Ok("receipt 2".to_owned()),
        "declined" => Err(Failure::permanent("no credit".to_owned())),
        "unclear" => Err(Failure::needs_operator("two accounts match".to_owned())),
        "closed" => Err(Failure::transient("the bank is closed".to_owned())),
        _ => Err(Failure::in_doubt("the bank did not reply".to_owned())),
    });
    match charged.await.map(|receipt| receipt.into_inner()) {
        Ok(receipt) => format!("charged: {receipt}"),
        Err(RunError::Failed { error, class, .. }) => match class {
            Class::Transient => format!("nothing happened, and the token is released: {error}"),
            Class::Permanent => format!("the failure is the answer: {error}"),
            Class::NeedsOperator => format!("the token is held for an operator: {error}"),
            Class::InDoubt => format!("it is unknown whether it happened: {error}"),
        },
        Err(RunError::InProgress(holder)) => {
            format!("in progress: {}", holder.record().cause().unwrap_or("no cause is known"))
        }
        Err(RunError::Mismatch(_)) => "the key belongs to another request".to_owned(),
        Err(RunError::Restored(_)) => "the table was restored: an operator decides".to_owned(),
        Err(RunError::Locker(error)) => format!("there is no outcome: {error}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    for order in ["paid", "declined", "unclear", "closed", "silent"] {
        for call in ["first", "second"] {
            println!("begin {order}, {call} call: {}", begin(&locker, order, "EUR 10.00").await?);
            println!("run {order}, {call} call: {}", run(&locker, order, "EUR 10.00").await);
        }
    }
    println!("begin paid, another amount: {}", begin(&locker, "paid", "EUR 99.00").await?);
    println!("run paid, another amount: {}", run(&locker, "paid", "EUR 99.00").await);
    println!("run paid, no table: {}", run(&Locker::new(&dynamodb, "nowhere")?, "paid", "EUR 10.00").await);
    Ok(())
}
