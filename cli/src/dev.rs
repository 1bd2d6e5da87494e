//! `locker dev`: the functions and a payment provider in one process, on loopback.

use std::time::Duration;

use axum::http::request::Parts;
use locker::workflow::{Completer, Limits, Reaper, Workflows};
use locker::{Locker, Settings};
use locker_functions::orders::{Shop, router};
use locker_functions::payments::Payments;
use locker_functions::purchase::{self, Purchase, Purchases};
use locker_functions::sandbox::Sandbox;
use locker_functions::workflows;
use tokio::net::TcpListener;

use crate::args::Dev;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::{engine, output, try_out, workflow};

/// Soon enough to be seen while one waits.
const EXPECT_WITHIN: Duration = Duration::from_secs(5);
/// How long the API waits for the provider.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(connection: &Connection, dev: &Dev, place: &str) -> Result<Exit, Exit> {
    let (api, api_address) = listen(dev.port, "--port").await?;
    let (books, books_address) = listen(dev.provider_port, "--provider-port").await?;
    let provider = Sandbox::default();
    let payments =
        Payments::new(&books_address, PATIENCE).map_err(|error| cannot("reach the provider", &*error))?;
    let purchases = purchases(connection, dev, payments.clone()).await?;
    let completer = workflows::completer(&purchases.workflows, purchases.code.clone());
    let shop = Shop { expect_within: EXPECT_WITHIN, ..Shop::new(named(connection)?, payments) };
    let app = router(shop, caller).merge(purchase::router(purchases, caller));
    output::print(try_out::what_to_try(&api_address, &books_address, place));

    let every = Duration::from_secs(dev.scan_every.max(1));
    let serve_api = axum::serve(api, app).into_future();
    let serve_books = axum::serve(books, provider.router()).into_future();
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

/// The functions' own settings: the same tables, held under the API's name.
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

/// Purchases, whose rows lie in a table of their own. Like every embedded table, it is made when it is first used.
async fn purchases(connection: &Connection, dev: &Dev, payments: Payments) -> Result<Purchases, Exit> {
    let orders_table = workflow::orders_table(connection, dev.orders_table.as_deref())?;
    if connection.is_embedded {
        engine::create_rows(&connection.client, &orders_table).await?;
    }
    let mut limits = Limits::default();
    // Soon enough to be seen while one waits.
    limits.attempts = 3;
    limits.backoff_base = Duration::from_secs(1);
    let workflows = Workflows::builder(&connection.client, connection.workflows_table()?);
    let workflows = workflows.settings(settings(connection)).limits(limits).build()?;
    let code = Purchase { payments, dynamodb: connection.client.clone(), orders_table };
    Ok(Purchases { workflows, code })
}

/// On AWS an authoriser says who calls. Here you say it, in `X-User`.
fn caller(request: &Parts) -> Option<String> {
    let user = request.headers.get("x-user").map_or(Ok("you"), |user| user.to_str());
    user.ok().map(str::to_owned)
}

async fn scan(locker: &Locker, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        if let Err(error) = locker.scan().run().await {
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

async fn listen(port: u16, option: &str) -> Result<(TcpListener, String), Exit> {
    let busy = |error| {
        Exit::say(
            Exit::SETUP,
            format!("cannot listen on 127.0.0.1:{port}: {error}; choose another port with {option}"),
        )
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(busy)?;
    let address = listener.local_addr().map_err(busy)?;
    Ok((listener, format!("http://{address}")))
}

fn cannot(what: &str, error: &dyn std::error::Error) -> Exit {
    Exit::say(Exit::FAILED, format!("cannot {what}: {error}"))
}
