//! The shop's workflow code, for `locker complete` and `locker reap`.

use std::time::Duration;

use clap::Args;
use locker::workflow::Completer;
use locker_cli::{Connection, Exit};
use locker_functions::payments::Payments;
use locker_functions::purchase::{PACKED_WITHIN, Purchase};
use locker_functions::workflows;

use crate::rows::Rows;

/// The provider of `locker dev` on its default port.
const DEV_PROVIDER: &str = "http://127.0.0.1:4001";
/// The functions' own default.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rows: Rows,

    /// Address of the payment provider [default: that of locker dev, if the tables are embedded].
    #[arg(long, value_name = "URL", env = "PAYMENTS_URL")]
    payments_url: Option<String>,

    /// URL of the queue of the packers. Without it, purchases wait for no parcel [default: the
    /// queue of locker dev, if the tables are embedded].
    #[arg(long, value_name = "URL", env = "PACKING_QUEUE_URL")]
    packing_queue_url: Option<String>,
}

pub(crate) fn register(
    completer: Completer,
    connection: &Connection,
    options: Options,
) -> Result<Completer, Exit> {
    let default = connection.is_embedded.then_some(DEV_PROVIDER);
    let Some(url) = options.payments_url.as_deref().or(default) else {
        let missing = "name the payment provider, too: --payments-url URL, or PAYMENTS_URL";
        return Err(Exit::say(Exit::USAGE, missing));
    };
    let payments = Payments::new(url, PATIENCE)
        .map_err(|error| Exit::say(Exit::USAGE, format!("--payments-url: {error}")))?;
    let orders_table = options.rows.table(connection)?;
    let packs = connection.is_embedded || options.packing_queue_url.is_some();
    let packed_within = packs.then_some(PACKED_WITHIN);
    Ok(workflows::register(
        completer,
        Purchase { payments, dynamodb: connection.client.clone(), orders_table, packed_within },
    ))
}
