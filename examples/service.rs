//! The start of a service: its settings, the check of its table, and an answer that does not fit.
//!
//! Run it with `cargo run -p locker-examples --bin service`.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker::{
    Answer, AnswerError, Begun, BoxError, EndError, Error, Failure, FingerprintKey, Holder, InvalidArgument,
    Key, KeysInLogs, Lock, Locker, LockerBuilder, Origin, Replay, Retention, RunError, Settings, TableCheck,
};

/// Builds the locker. Bad settings are refused before a request is sent.
fn service(builder: LockerBuilder, secret: &[u8]) -> Result<Locker, InvalidArgument> {
    let mut settings = Settings::default();
    settings.expect_within = Duration::from_secs(30);
    settings.retention = Retention::For(Duration::from_secs(90 * 24 * 60 * 60));
    settings.keys_in_logs = KeysInLogs::Digest;
    builder.settings(settings).with_fingerprint_keys([FingerprintKey::new("2026", secret)?]).build()
}

/// Stores the report, or a reference if it is too large: the work is done, so this is no failure.
async fn store(lock: Lock, report: &str) -> Result<(), EndError> {
    let Err(error) = lock.complete(report).await else { return Ok(()) };
    let Error::Answer(AnswerError::TooLarge { limit, .. }) = error.error() else { return Err(error) };
    println!("the report exceeds {limit} bytes, so the answer is a reference");
    match error.into_lock() {
        Some(lock) => lock.complete("s3://reports/7").await,
        None => Ok(()),
    }
}

/// Returns text that compresses badly: Locker compresses a large answer before it stores it.
fn incompressible(bytes: usize) -> String {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(1_u64), next).skip(1);
    states.take(bytes).map(|state| char::from(b'0' + (state >> 58) as u8)).collect()
}

fn print_answer(replay: &Replay) -> Result<(), BoxError> {
    println!("the stored answer: {}", replay.result::<String>()?);
    Ok(())
}

fn print_wait(holder: &Holder) {
    println!("try again in {:?}", holder.retry_after());
}

async fn charge(locker: &Locker, customer: &str) -> Result<Answer<u64>, RunError<Failure>> {
    // A part that comes from outside is encoded. If a part is not allowed, the client receives 400.
    let key = Key::new("charge", customer).map_err(|error| RunError::Locker(error.into()))?;
    locker.token(key).run(async |_| Ok(490)).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    // Check the table after a deployment, not at every start.
    let TableCheck { problems, .. } = locker::check_table(&dynamodb, "locks").await?;
    println!("problems of the table: {}", problems.len());
    if let Err(error) = service(Locker::builder(&dynamodb, "locks"), b"short") {
        println!("refused: {error}");
    }
    let locker = service(Locker::builder(&dynamodb, "locks"), b"32 random bytes of your secrets.")?;

    let report = incompressible(600_000);
    for _ in 0..2 {
        match locker.token(("report", 7)).fingerprint("report of order 7").begin().await? {
            Begun::Acquired(lock) => store(lock, &report).await?,
            Begun::Completed(replay) => print_answer(&replay)?,
            Begun::InProgress(holder) => print_wait(&holder),
            other => return Err(format!("{other:?}").into()),
        }
    }

    for customer in ["alice", "alice", ""] {
        match charge(&locker, customer).await {
            Ok(answer) => match answer.origin() {
                Origin::Fresh => println!("charged {} now", *answer),
                Origin::Replayed(record) => {
                    println!("charged {} before, {}", *answer, record.state().as_str())
                }
                // The charge is made: return its answer. An operator sees the token.
                _ => println!("charged {}, and not recorded", *answer),
            },
            Err(RunError::Locker(Error::Invalid(error))) if error.is_key() => println!("400: {error}"),
            Err(error) => return Err(error.to_string().into()),
        }
    }
    Ok(())
}
