//! A worker that takes over what is overdue: its work may be done twice, and each time must be
//! explained.

use std::process::ExitCode;
use std::time::Duration;

use locker::{Class, Locker, Origin, RunError, Settings};
use locker_tests::{client_for, history};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::Taker;
use crate::charge::charge;

/// Read keys, work on each, and say what came of it: `answer RECEIPT` or `none`.
pub(crate) async fn run(taker: Taker) -> ExitCode {
    let layer = history::layer(&taker.history).expect("a history");
    tracing_subscriber::registry().with(layer).init();
    let client = client_for(&taker.endpoint, locker::client::http_client());
    let mut settings = Settings::default();
    settings.max_clock_skew = Duration::ZERO;
    let locker = Locker::builder(&client, &taker.table).settings(settings).build().expect("a locker");
    let http = reqwest::Client::new();
    let mut keys = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(key)) = keys.next_line().await {
        match work(&locker, &http, &taker.provider, &key).await {
            Some(answer) => println!("answer {answer}"),
            None => println!("none"),
        }
    }
    ExitCode::SUCCESS
}

async fn work(locker: &Locker, http: &reqwest::Client, provider: &str, key: &str) -> Option<String> {
    let mut token = locker.token(key).expect_within(Duration::from_secs(1)).take_over_after(Duration::ZERO);
    // Half of them hold on to what they have.
    if key.ends_with(|last: char| "02468".contains(last)) {
        token = token.keep_extended();
    }
    let ran = token.run(async |attempt| charge(http, provider, key, Some(attempt.id())).await).await;
    match ran {
        // Not stored: another taker's answer will be.
        Ok(answer) if matches!(answer.origin(), Origin::Unrecorded(_)) => None,
        Ok(answer) => Some(answer.into_inner()),
        Err(RunError::Failed {
            error,
            class: Class::Permanent,
            origin: Origin::Fresh | Origin::Replayed(_),
            ..
        }) => Some(error.error),
        Err(_) => None,
    }
}
