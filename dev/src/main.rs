//! `locker` with the code of the sample shop, and `locker dev`: what `cargo run` runs in this
//! workspace.

mod demo;
mod dev;
mod rounds;
mod rows;
mod server;
mod shop;
mod store;

use std::process::ExitCode;

use locker_cli::Registry;
use locker_functions::purchase::SOURCE;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let registry = Registry::new()
        .register_with(shop::register)
        .source(SOURCE)
        .verb::<dev::Dev>()
        .log("locker_functions")
        .log("locker_dev")
        // Each logs every round. `dev` logs only rounds that found something.
        .log_less("locker::token::scan=error")
        .log_less("locker::workflow::driver::completer=warn")
        .log_less("locker::workflow::driver::reaper=warn")
        .log_less("locker::relay=warn");
    locker_cli::run(registry).await
}
