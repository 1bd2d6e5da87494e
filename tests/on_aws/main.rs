//! First contact with an account: `tests/on-aws` creates the tables and queues, and starts this
//! program on them. Each part prints a row with what it expected and what it saw.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

mod account;
mod args;
mod keys;
mod messages;
mod meter;
mod owners;
mod row;
mod table;
mod waits;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use account::Account;
use args::{Part, Role, Run};
use row::Row;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // What the library reports, for the owner of the account. Rows are on standard output.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match args::role() {
        Role::Run(run) => parts(run).await,
        Role::Keys { table, keys } => keys::child(&table, keys).await,
        Role::Holder { table, key } => owners::holder(&table, &key).await,
    }
}

/// Runs each part once, and prints the counts of all requests at the end.
async fn parts(run: Run) -> ExitCode {
    let account = Arc::new(Account::new(run));
    let limit = tokio::spawn(stop_at_the_limit(Arc::clone(&account)));
    let (run, only) = (&account.run, account.run.only);
    if only.is_none_or(|only| only == Part::Keys) {
        keys::run(&account).await;
    }
    if only.is_none() {
        let expiring = table::complete_for_a_minute(&account).await;
        let committed = messages::commit(&account).await;
        owners::run(&account).await;
        waits::run(&account).await;
        table::units(&account).await;
        table::index(&account).await;
        table::conflicts(&account).await;
        messages::send_and_consume(&account, &committed).await;
        table::expiry(&account, &expiring, Duration::from_secs(60 * run.ttl_minutes)).await;
    }
    limit.abort();
    account.meter.print();
    ExitCode::SUCCESS
}

/// Ends the process if its requests cost more than the owner allowed. The caller removes the
/// resources.
async fn stop_at_the_limit(account: Arc<Account>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let usd = account.meter.usd();
        if usd > account.run.limit_usd {
            let limit = format!("at most USD {}", account.run.limit_usd);
            Row::new("cost of the requests").expected(limit).seen(format!("USD {usd:.2}: stopped")).is(false);
            account.meter.print();
            std::process::exit(1);
        }
    }
}
