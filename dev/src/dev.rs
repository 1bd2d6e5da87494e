//! `locker dev`: the shop and its payment provider in one process, on loopback.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::request::Parts;
use clap::Args;
use locker::workflow::{Completer, Limits, Reaper, Workflows};
use locker::{Locker, Settings};
use locker_cli::{Connection, Exit, Output, Verb};
use locker_functions::orders::{Shop, router};
use locker_functions::payments::Payments;
use locker_functions::purchase::{self, Purchase, Purchases};
use locker_functions::sandbox::Sandbox;
use locker_functions::workflows;
use tokio::net::TcpListener;

use crate::loopback::refuse_web_pages;
use crate::rows::{self, Rows};
use crate::try_out;

/// Short, so that an overdue token shows while you wait.
const EXPECT_WITHIN: Duration = Duration::from_secs(5);

/// Run the sample shop here: orders API, payment provider, scanner, completer and reaper.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Port of the orders API; 0 takes any free port.
    #[arg(long, default_value_t = 4000)]
    port: u16,

    /// Port of the payment provider; 0 takes any free port.
    #[arg(long, default_value_t = 4001)]
    provider_port: u16,

    /// Seconds between two runs of the scanner, the completer and the reaper.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    scan_every: u64,

    /// Seconds that the API waits for the provider.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    patience: u64,

    #[command(flatten)]
    rows: Rows,
}

impl Verb for Dev {
    const NAME: &'static str = "dev";
    const IS_SERVER: bool = true;
    const DEFAULT_PLACE: Option<&'static str> = Some(".locker");

    async fn run(self, connection: &Connection, _: Output) -> Result<Exit, Exit> {
        Box::pin(serve(connection, &self)).await
    }
}

async fn serve(connection: &Connection, dev: &Dev) -> Result<Exit, Exit> {
    let (api, api_at) = listen(dev.port, "--port").await?;
    let (books, books_at) = listen(dev.provider_port, "--provider-port").await?;
    let (api_address, books_address) = (format!("http://{api_at}"), format!("http://{books_at}"));
    let provider = Sandbox::default();
    let payments = Payments::new(&books_address, Duration::from_secs(dev.patience))
        .map_err(|error| cannot("reach the provider", &*error))?;
    let purchases = purchases(connection, dev, payments.clone()).await?;
    let completer = workflows::completer(&purchases.workflows, purchases.code.clone());
    let shop = Shop { expect_within: EXPECT_WITHIN, ..Shop::new(named(connection)?, payments) };
    let app = router(shop, caller).merge(purchase::router(purchases, caller));
    let text = try_out::what_to_try(&api_address, &books_address, &connection.options);
    let _ = writeln!(std::io::stdout().lock(), "{text}");

    let every = Duration::from_secs(dev.scan_every.max(1));
    let serve_api = axum::serve(api, refuse_web_pages(app, api_at)).into_future();
    let serve_books = axum::serve(books, refuse_web_pages(provider.router(), books_at)).into_future();
    tokio::select! {
        served = serve_api => served.map_err(|error| cannot("serve the orders API", &error))?,
        served = serve_books => served.map_err(|error| cannot("serve the provider", &error))?,
        () = scan(&connection.locker, every) => {}
        () = complete(&completer, every) => {}
        () = reap(&completer, every) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    let charges = provider.entries().len();
    Ok(Exit::say(Exit::OK, format!("stopped; the provider's books have {charges} charges")))
}

/// The settings of the shop: the same tables, with the API as the owner of its tokens.
fn settings(connection: &Connection) -> Settings {
    let mut settings = Settings::default();
    settings.owner = "orders/dev".to_owned();
    settings.shards = connection.settings.shards;
    settings.expect_within = EXPECT_WITHIN;
    settings
}

fn named(connection: &Connection) -> Result<Locker, Exit> {
    Ok(Locker::builder(&connection.client, &connection.table).settings(settings(connection)).build()?)
}

/// Purchases, whose rows have a table of their own. Like every embedded table, it is created on first use.
async fn purchases(connection: &Connection, dev: &Dev, payments: Payments) -> Result<Purchases, Exit> {
    let orders_table = dev.rows.table(connection)?;
    if connection.is_embedded {
        rows::create(&connection.client, &orders_table).await?;
    }
    let mut limits = Limits::default();
    // Few and soon, so that a quarantined purchase shows while you wait.
    limits.attempts = 3;
    limits.retry_for = Duration::ZERO;
    limits.backoff_base = Duration::from_secs(1);
    let workflows = Workflows::builder(&connection.client, connection.workflows_table()?);
    let workflows = workflows.settings(settings(connection)).limits(limits).build()?;
    let code = Purchase { payments, dynamodb: connection.client.clone(), orders_table };
    Ok(Purchases { workflows, code })
}

/// The caller, from `X-User`. On AWS an authoriser names it.
fn caller(request: &Parts) -> Option<String> {
    let user = request.headers.get("x-user").map_or(Ok("you"), |user| user.to_str());
    user.ok().map(str::to_owned)
}

async fn scan(locker: &Locker, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        if let Err(error) = locker::Scanner::new(locker).run().await {
            tracing::error!(%error, "the scan failed");
        }
    }
}

async fn complete(completer: &Completer, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        if let Err(error) = completer.run().await {
            tracing::error!(%error, "the completer failed");
        }
    }
}

async fn reap(completer: &Completer, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        if let Err(error) = Reaper::new(completer).run().await {
            tracing::error!(%error, "the reaper failed");
        }
    }
}

async fn listen(port: u16, option: &str) -> Result<(TcpListener, SocketAddr), Exit> {
    let busy = |error| {
        Exit::say(
            Exit::SETUP,
            format!("cannot listen on 127.0.0.1:{port}: {error}; choose another port with {option}"),
        )
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(busy)?;
    let address = listener.local_addr().map_err(busy)?;
    Ok((listener, address))
}

fn cannot(what: &str, error: &dyn std::error::Error) -> Exit {
    Exit::say(Exit::FAILED, format!("cannot {what}: {error}"))
}
