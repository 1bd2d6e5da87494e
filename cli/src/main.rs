//! `locker`: the stock command, which knows no workflow code.

use std::process::ExitCode;

use locker_cli::Registry;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    locker_cli::run(Registry::new()).await
}
