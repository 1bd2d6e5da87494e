//! `locker dev`: the functions, a payment provider and the scanner in one process, on loopback.

use std::time::Duration;

use axum::http::request::Parts;
use locker::{Locker, Settings};
use locker_functions::orders::{Shop, router};
use locker_functions::payments::Payments;
use locker_functions::sandbox::Sandbox;
use tokio::net::TcpListener;

use crate::args::Dev;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

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
    let shop = Shop { expect_within: EXPECT_WITHIN, ..Shop::new(named(connection)?, payments) };
    output::print(what_to_try(&api_address, &books_address, place));

    let serve_api = axum::serve(api, router(shop, caller)).into_future();
    let serve_books = axum::serve(books, provider.router()).into_future();
    tokio::select! {
        served = serve_api => served.map_err(|error| cannot("serve the orders API", &error))?,
        served = serve_books => served.map_err(|error| cannot("serve the provider", &error))?,
        () = scan(&connection.locker, Duration::from_secs(dev.scan_every.max(1))) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    let charges = provider.entries().len();
    Ok(Exit::say(Exit::OK, format!("stopped; the provider's books have {charges} charges")))
}

/// The orders API's own locker: the same table, held under the function's name.
fn named(connection: &Connection) -> Result<Locker, Exit> {
    let mut settings = Settings::default();
    settings.owner = "orders/dev".to_owned();
    settings.shards = connection.shards;
    Ok(Locker::builder(&connection.client, &connection.table).settings(settings).build()?)
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

fn what_to_try(api: &str, books: &str, place: &str) -> String {
    let locker = if std::env::var_os("CARGO").is_some() { "cargo run -q --" } else { "locker" };
    let order = |key: &str, id: u32| {
        format!(
            "curl -s {api}/orders -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' -d '{{\"orderId\":\"{id}\",\"cents\":1000,\"currency\":\"EUR\"}}'"
        )
    };
    format!(
        "The orders API listens on {api}
Its payment provider listens on {books}
The log of both and of the scanner follows on standard error. Stop with Ctrl-C.

In another terminal, one order and one charge, however often it is sent:

  {first}
  seq 50 | xargs -P 50 -I@ {first} -o /dev/null -w '%{{http_code}} '
  curl -s {books}/books

A reply that is dropped after the charge: nobody knows, so nobody charges again, and the scanner tells of it:

  curl -s -X POST {books}/mood/dropping
  {second}
  curl -s -X POST {books}/mood/well
  {second}
  {locker} scan{place}
  curl -s {books}/books
  {locker} resolve{place} @you/order/create/2 --reason 'it is in the books' --result '{{\"orderId\":\"2\",\"charge\":\"ch_2\"}}'
  {second}
",
        first = order("k1", 1),
        second = order("k2", 2),
    )
}
