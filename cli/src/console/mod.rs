//! `locker console`: a web page for an operator, on loopback and with the operator's credentials.
//!
//! | file | content |
//! |---|---|
//! | `access.rs` | access: secret, cookie, host, origin, headers |
//! | `server.rs` | where it listens, its routes, and what each page reads |
//! | `runs.rs` | the plans that it applies, with their progress |
//! | `pages/` | the pages: each calls the library's [`Console`](locker::operator::Console) and draws HTML |
//! | `assets/` | one style sheet and one script |
//!
//! A page is complete without the script. The script copies keys, and replaces the page with a
//! newer one.

mod access;
mod pages;
mod runs;
mod server;
mod used;

use std::collections::HashMap;

use axum::http::Uri;
use clap::Args;
use serde_json::json;
pub use server::WebConsole;

use crate::bulk::{self, Store};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{By, Output};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Port on 127.0.0.1; 0 takes any free port.
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Never show inputs, results and bodies, which may be private.
    #[arg(long)]
    no_data: bool,

    /// Add acts to the pages: each as a dry run first, with your reason.
    #[arg(long)]
    allow_changes: bool,

    #[command(flatten)]
    by: By,
}

impl Serve {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let web = WebConsole::open(connection, self.port).await?.shown_to(self.by.name(), !self.no_data);
        let web = if self.allow_changes { web.allow_changes() } else { web };
        let (address, runs) = (web.address()?, web.runs());
        match output {
            Output::Json => drop(output::json_line(&json!({ "address": address }))),
            Output::Table => output::print(format_args!("open {address}")),
        }
        let may = if self.allow_changes { "its pages have acts" } else { "the console only reads" };
        output::say(format_args!(
            "the address is valid once, and for five minutes; {may}; stop it with Ctrl-C"
        ));
        tokio::select! {
            served = web.serve() => served?,
            _ = tokio::signal::ctrl_c() => output::end_line(),
        }
        for (id, _) in runs.under_way() {
            let again = bulk::again(connection, &Store::of_user()?.path(&id)?);
            output::say(format_args!(
                "the plan {id} is stopped when the acts under way have ended; to continue it: {again}"
            ));
        }
        tokio::select! {
            () = runs.stop() => Ok(Exit::quiet(Exit::OK)),
            _ = tokio::signal::ctrl_c() => {
                let said = "ended at once; acts under way may be done: look at their records, or run the plan again";
                Ok(Exit::say(Exit::UNKNOWN, said))
            }
        }
    }
}

/// The parameters of an address. Of several with one name the last is used.
fn params(uri: &Uri) -> HashMap<String, String> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
}
