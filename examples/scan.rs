//! Work that should be done and is not: found by the scanner, settled by an operator.
//!
//! Run it with `cargo run -p locker-examples --bin scan`. As a Lambda function,
//! `locker::lambda::scan` does the same.

use lock_token_testing::Embedded;
use locker::{BoxError, Failure, Intervened, Locker, Operator, RunError, Scanner};

async fn charge(locker: &Locker) -> Result<String, RunError<Failure>> {
    let charged = locker.token(("order/charge", 7)).owner("api/request-1").run(async |_| {
        println!("charge, and the reply of the bank is lost");
        Err::<String, _>(Failure::in_doubt("the bank did not reply".to_owned()))
    });
    Ok(charged.await?.into_inner())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    assert!(charge(&locker).await.is_err(), "it is in doubt");

    let report = Scanner::new(&locker).run().await?;
    println!("missing: {}, everything was read: {}", report.missing.len(), report.finished);
    for record in &report.missing {
        println!(
            "{} by {}: {}",
            record.key().as_str(),
            record.locked_by(),
            record.cause().unwrap_or("overdue")
        );
        // The books of the bank have the charge, so an operator gives its receipt as the answer.
        let operator = Operator::new("bob", "the bank has charge 1")?;
        let done = locker.resolve(record, &"receipt 1".into(), &operator).await?;
        assert!(matches!(done, Intervened::Done), "{done:?}");
    }

    println!("missing: {}", Scanner::new(&locker).run().await?.missing.len());
    println!("every later caller: {}", charge(&locker).await?); // the bank is not called
    Ok(())
}
