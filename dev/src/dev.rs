//! `locker dev`: the shop, its payment provider and its packers in one process, on loopback.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::request::Parts;
use clap::Args;
use locker::message::Router as MessageRouter;
use locker::relay::Relay;
use locker::workflow::{Limits, Reaper, Workflows};
use locker::{Locker, Settings};
use locker_cli::{Connection, Exit, Output, Verb, WebConsole};
use locker_functions::orders::{self, Shop};
use locker_functions::packer::Packer;
use locker_functions::payments::Payments;
use locker_functions::purchase::{self, ORDER_PLACED, PACKED_WITHIN, Purchase, Purchases, SOURCE};
use locker_functions::workflows;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::demo::Demo;
use crate::rounds::Rounds;
use crate::rows::{self, Rows};
use crate::server::{logged, refuse_web_pages};
use crate::store::Store;

/// Short, so that an overdue token shows while you wait.
const EXPECT_WITHIN: Duration = Duration::from_secs(5);
/// The time that a request needs in addition to the provider's.
const GRACE: Duration = Duration::from_secs(10);

/// Run the sample shop here: API, payment provider, packers, queue and scheduled functions
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Port of the orders API; 0 takes any free port.
    #[arg(long, default_value_t = 4000)]
    port: u16,

    /// Port of the payment provider; 0 takes any free port.
    #[arg(long, default_value_t = 4001)]
    provider_port: u16,

    /// Port of the web console; 0 takes any free port.
    #[arg(long, default_value_t = 0)]
    console_port: u16,

    /// Seconds between two runs of the scanner, the completer, the reaper and the relay.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    scan_every: u64,

    /// Seconds that the API waits for the provider.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=86_400))]
    patience: u64,

    /// Delete the tables, the charges and the queue of earlier runs first.
    #[arg(long)]
    fresh: bool,

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
    let orders_table = dev.rows.table(connection)?;
    let mut store = Store::open(connection, &orders_table, dev.fresh).await?;
    let (api, api_at) = listen(dev.port, "--port").await?;
    let (books, books_at) = listen(dev.provider_port, "--provider-port").await?;
    let (api_address, books_address) = (format!("http://{api_at}"), format!("http://{books_at}"));
    store.serves_at(&api_address)?;
    // The tables are those of the demo, so its pages have acts.
    let console = WebConsole::open(connection, dev.console_port).await?.allow_changes();
    let console_address = console.address()?;
    let patience = Duration::from_secs(dev.patience);
    let payments =
        Payments::new(&books_address, patience).map_err(|error| cannot("reach the provider", &*error))?;
    let queue = store.queue.clone();
    let router = || MessageRouter::new().route(ORDER_PLACED, queue.clone());
    let purchases = purchases(connection, orders_table, payments.clone(), router()).await?;
    let workflows = purchases.workflows.clone();
    let completer = workflows::completer(&workflows, purchases.code.clone());
    let (reaper, relay) = (Reaper::new(&completer), Relay::new(&workflows, router()));
    let packer = packer(&workflows, &purchases.code.orders_table)?;
    let locker =
        Locker::builder(&connection.client, &connection.table).settings(settings(connection)).build()?;
    let app = orders::router(Shop::new(locker, payments), caller).merge(purchase::router(purchases, caller));
    let app = logged(app.merge(queue.router()));
    let charges = store.provider.entries().len();
    let place = &connection.options;
    let demo =
        Demo { api: &api_address, provider: &books_address, console: &console_address, place, charges };
    let _ = write!(std::io::stdout().lock(), "{}", demo.text());

    let (stop, stopping) = watch::channel(false);
    let rounds = Rounds { every: Duration::from_secs(dev.scan_every), stopping: stopping.clone() };
    let serve_books = axum::serve(books, refuse_web_pages(store.provider.router(), books_at)).into_future();
    let serve_api = axum::serve(api, refuse_web_pages(app, api_at)).with_graceful_shutdown(stopped(stopping));
    let work = async {
        let (served, ..) = tokio::join!(
            serve_api.into_future(),
            rounds.clone().scan(&connection.locker),
            rounds.clone().run("the completer", &["claimed"], async || completer.run().await),
            rounds.clone().run("the reaper", &["deleted"], async || reaper.run().await),
            rounds.clone().run("the relay", &["sent", "dead"], async || relay.run().await),
            rounds.clone().pack(&packer, &queue),
        );
        served
    };
    let (mut work, mut serve_books) = (Box::pin(work), Box::pin(serve_books));
    // A page only reads, so it may be cut off.
    let console = console.serve();
    tokio::select! {
        served = &mut work => served.map_err(|error| cannot("serve the orders API", &error))?,
        served = &mut serve_books => served.map_err(|error| cannot("serve the provider", &error))?,
        served = console => served?,
        signalled = signal_to_stop() => signalled?,
    }
    // Without a reader `eprintln!` would panic.
    let _ = writeln!(
        std::io::stderr(),
        "locker: stopping when the requests on their way are answered; Ctrl-C ends them at once"
    );
    let _ = stop.send(true);
    // The provider continues until then, because these requests need it.
    let ended = tokio::select! {
        _ = work => true,
        _ = serve_books => false,
        _ = signal_to_stop() => false,
        // A connection on which nothing more comes.
        () = tokio::time::sleep(patience + GRACE) => false,
    };
    let charges = store.provider.entries().len();
    let cut = if ended { "" } else { ", and requests were cut off" };
    Ok(Exit::say(Exit::OK, format!("stopped{cut}; the provider has {charges} charges")))
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Waits for Ctrl-C, or the signal of a service manager.
async fn signal_to_stop() -> Result<(), Exit> {
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| cannot("wait for signals", &error))?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// The settings of the shop: the same tables, with the API as the owner of its tokens.
fn settings(connection: &Connection) -> Settings {
    let mut settings = Settings::default();
    settings.owner = "orders/dev".to_owned();
    settings.shards = connection.settings.shards;
    settings.expect_within = EXPECT_WITHIN;
    settings
}

/// Purchases, whose rows have a separate table. Like every embedded table, it is created on first
/// use.
async fn purchases(
    connection: &Connection,
    orders_table: String,
    payments: Payments,
    router: MessageRouter,
) -> Result<Purchases, Exit> {
    if connection.is_embedded {
        rows::create(&connection.client, &orders_table).await?;
    }
    let mut limits = Limits::default();
    // Few and soon, so that a quarantined purchase shows while you wait.
    limits.attempts = 3;
    limits.retry_for = Duration::ZERO;
    limits.backoff_base = Duration::from_secs(1);
    let workflows = Workflows::builder(&connection.client, connection.workflows_table()?);
    let workflows =
        workflows.settings(settings(connection)).limits(limits).source(SOURCE).sending(router).build()?;
    let packed_within = Some(PACKED_WITHIN);
    let code = Purchase { payments, dynamodb: connection.client.clone(), orders_table, packed_within };
    Ok(Purchases { workflows, code })
}

fn packer(workflows: &Workflows, orders_table: &str) -> Result<Packer, Exit> {
    let inbox = workflows.inbox("packer").map_err(|error| cannot("name the packers", &error))?;
    Ok(Packer { workflows: workflows.clone(), inbox, orders_table: orders_table.to_owned(), queue: None })
}

/// The caller, from `X-User`. On AWS an authoriser names it.
fn caller(request: &Parts) -> Option<String> {
    let user = request.headers.get("x-user").map_or(Ok("you"), |user| user.to_str());
    user.ok().map(str::to_owned)
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
