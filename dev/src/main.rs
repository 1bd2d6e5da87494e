//! `locker` with the code of the sample shop, and `locker dev`: what `cargo run` runs in this workspace.

mod dev;
mod loopback;
mod rows;
mod shop;
mod try_out;

use std::process::ExitCode;

use locker_cli::Registry;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let registry = Registry::new()
        .register_with(shop::register)
        .verb::<dev::Dev>()
        .log("locker_functions")
        .log("locker_dev");
    locker_cli::run(registry).await
}
