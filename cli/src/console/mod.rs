//! `locker console`: a web page for an operator, on loopback and with the operator's credentials.
//!
//! | file | content |
//! |---|---|
//! | `access.rs` | who may use it: secret, cookie, host, origin, headers |
//! | `server.rs` | where it listens, its routes, and what each page reads |
//! | `pages/` | the pages: each calls the library's [`Console`](locker::operator::Console) and draws HTML |
//! | `assets/` | one style sheet and one script |
//!
//! A page is complete without the script. The script copies keys, and replaces the page with a
//! newer one.

mod access;
mod pages;
mod server;
mod used;

use std::collections::HashMap;

use axum::http::Uri;
use clap::Args;
use serde_json::json;
pub use server::WebConsole;

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

    #[command(flatten)]
    by: By,
}

impl Serve {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let web = WebConsole::open(connection, self.port).await?.shown_to(self.by.name(), !self.no_data);
        let address = web.address()?;
        match output {
            Output::Json => drop(output::json_line(&json!({ "address": address }))),
            Output::Table => output::print(format_args!("open {address}")),
        }
        output::say(
            "the address is valid once, and for five minutes; the console only reads; stop it with Ctrl-C",
        );
        tokio::select! {
            served = web.serve() => served?,
            _ = tokio::signal::ctrl_c() => output::end_line(),
        }
        Ok(Exit::quiet(Exit::OK))
    }
}

/// The parameters of an address. Of several with one name the last is used.
fn params(uri: &Uri) -> HashMap<String, String> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
}
