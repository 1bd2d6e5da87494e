//! Work that should be done and is not: found by the scanner, settled by an operator.
//!
//! Run it with `cargo run -p locker-examples --bin scan`. As a Lambda function,
//! `locker::lambda::scan` does the same.

use lock_token_testing::Embedded;
use locker::{
    BoxError, Count, Cursor, Failure, Form, Intervened, ListBuilder, Locker, Operator, Page, Resolution,
    RunError, RunReport, ScanReport, Scanner, TokenState, TokenSummary,
};

async fn charge(locker: &Locker) -> Result<String, RunError<Failure>> {
    let charged = locker.token(("order/charge", 7)).owner("api/request-1").run(async |_| {
        println!("charge, and the reply of the bank is lost");
        Err::<String, _>(Failure::in_doubt("the bank did not reply".to_owned()))
    });
    Ok(charged.await?.into_inner())
}

/// Prints the tokens in progress, a page at a time. The index is eventually consistent.
async fn print_in_progress(locker: &Locker) -> Result<(), BoxError> {
    let Count { at_least, exact, .. } = locker.in_progress().count(1000).await?;
    println!("in progress: {}{at_least}", if exact { "" } else { "at least " });
    let mut from: Option<Cursor> = None;
    loop {
        let mut listing: ListBuilder<TokenSummary> = locker.in_progress().limit(50);
        if let Some(from) = from {
            listing = listing.from(from);
        }
        let Page { items, next, .. } = listing.fetch().await?;
        for TokenSummary { token, locked_by, .. } in items {
            println!("{token} by {}", locked_by.as_deref().unwrap_or("-"));
        }
        let Some(next) = next else { return Ok(()) };
        from = Some(next);
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    assert!(charge(&locker).await.is_err(), "it is in doubt");

    print_in_progress(&locker).await?;
    let report: RunReport<ScanReport> = Scanner::new(&locker).run().await?;
    println!("missing: {}, everything was read: {}", report.missing.len(), report.finished);
    for record in &report.missing {
        println!(
            "{} by {}: {}",
            record.key().as_str(),
            record.locked_by(),
            record.cause().unwrap_or("overdue")
        );
        println!("an answer looks like {}", record.form().and_then(Form::example).unwrap_or("any JSON"));
        // The books of the bank have the charge, so an operator gives its receipt as the answer.
        let operator = Operator::new("bob", "the bank has charge 1")?;
        let done = locker.resolve(record, &"receipt 1".into(), &operator).await?;
        assert!(matches!(done, Intervened::Done), "{done:?}");
    }

    if let Some(record) = locker.get("order/charge/7").await? {
        assert_eq!(
            (record.state(), record.resolution()),
            (TokenState::Completed, Some(Resolution::Resolved))
        );
        let by = record.intervention().map_or("-", |it| it.by.as_str());
        println!("completed by {by}");
    }
    println!("missing: {}", Scanner::new(&locker).run().await?.missing.len());
    println!("every later caller: {}", charge(&locker).await?); // the bank is not called
    Ok(())
}
