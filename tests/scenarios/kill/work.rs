//! The processes that are killed: callers, completers, relays and receivers.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use locker::relay::Relay;
use locker::workflow::{Limits, Workflows};
use locker::{Settings, SystemClock};
use locker_tests::client_for;
use locker_tests::scenarios::{Answer, CASES, Case, Rows, Shop, broker, completer, take};

use super::bank::provider;
use super::queue::Receiver;

/// The addresses and files of the test.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// The engine, or the wire to it.
    #[arg(long)]
    pub(super) endpoint: String,
    /// Provider and broker.
    #[arg(long)]
    pub(super) provider: String,
    /// The file in which callers note the answers they get.
    #[arg(long)]
    pub(super) told: PathBuf,
}

/// Real time passes here, so the cases that wait for hours are left out. So are those whose operator
/// would have to find the latest version.
pub(super) fn case_of(n: u64) -> Case {
    let is_quick = |case: &Case| !case.is_room() && case.last_version() == case.versions();
    let quick: Vec<Case> = CASES.iter().map(|(case, _)| *case).filter(is_quick).collect();
    quick[usize::try_from(n).unwrap_or_default() % quick.len()]
}

impl Place {
    pub(super) fn client(&self) -> (Workflows, Shop) {
        let dynamodb = client_for(&self.endpoint, locker::client::http_client());
        let mut settings = Settings::default();
        settings.expect_within = Duration::from_secs(4);
        settings.max_clock_skew = Duration::from_millis(200);
        let mut limits = Limits::default();
        limits.attempts = 30;
        limits.retry_for = Duration::ZERO;
        limits.backoff_base = Duration::from_millis(200);
        limits.backoff_cap = Duration::from_secs(1);
        let workflows = Workflows::builder(&dynamodb, "workflows").settings(settings).limits(limits);
        let rows = Rows { dynamodb, table: "rows".to_owned() };
        let (provider, clock) = (provider(&self.provider), Arc::new(SystemClock));
        let workflows = workflows.source("/scenarios").sending(broker(&provider)).build().expect("settings");
        let (outbox, patience) = (workflows.outbox(), Duration::from_secs(3));
        (workflows, Shop { rows, outbox, provider, patience, clock })
    }
}

/// Start a range of workflows, and note the final answers.
pub(crate) async fn work(place: &Place, first: u64) -> ExitCode {
    let (workflows, shop) = place.client();
    let mut told = OpenOptions::new().append(true).create(true).open(&place.told).expect("a file of answers");
    for n in first..first + super::SPAN {
        match Box::pin(case_of(n).ask(n, &workflows, &shop)).await {
            Ok(answer) if answer.is_final() => {
                // One write for each line, since others write there and this process may be killed
                // at any time.
                let note = format!("{n}\t{}\n", line(&answer));
                told.write_all(note.as_bytes()).expect("an answer is noted");
            }
            // The completers resume it.
            _ => {}
        }
    }
    ExitCode::SUCCESS
}

/// Run completers forever.
pub(crate) async fn complete(place: &Place) -> ExitCode {
    let (workflows, shop) = place.client();
    loop {
        let _ = completer(&workflows, &shop).run().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Relay forever.
pub(crate) async fn relay(place: &Place) -> ExitCode {
    let (workflows, shop) = place.client();
    let relay = Relay::new(&workflows, broker(&shop.provider));
    loop {
        let _ = relay.run().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Receive forever.
pub(crate) async fn receive(place: &Place) -> ExitCode {
    let (workflows, shop) = place.client();
    let receiver = Receiver::new(&place.provider);
    loop {
        if !hear(&workflows, &shop, &receiver).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Take one message. `false`: there was none, or it comes again.
pub(super) async fn hear(workflows: &Workflows, shop: &Shop, receiver: &Receiver) -> bool {
    let inbox = workflows.inbox("receiver").expect("a name");
    let Some(delivered) = receiver.receive().await else { return false };
    let taken = Box::pin(take(&inbox, &shop.rows, &delivered.event)).await;
    let is_final = taken.as_ref().is_ok_and(|taken| taken.done().is_ok());
    if is_final {
        receiver.delete(&delivered).await;
    }
    is_final
}

pub(super) fn line(answer: &Answer) -> String {
    format!("{answer:?}")
}
