//! The kill test: real processes over a real engine, killed, frozen and lied to; then the
//! provider's books and the history of every call are compared with what is promised.
//!
//! ```sh
//! cargo run -p locker-tests --bin kill -- --minutes 2
//! cargo run --release -p locker-tests --bin kill -- --tokens 100000 --kills 1000
//! ```
//!
//! The processes that it starts are the functions and the command as they are shipped, and itself
//! in other roles: the engine, a worker that takes over, and the child of `locker once`.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

mod actors;
mod args;
mod asks;
mod charge;
mod engine;
mod process;
mod provider;
mod proxy;
mod storm;
mod taker;
mod verdict;
mod world;

use std::process::ExitCode;

use args::{Args, Role};

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Args::parse().role {
        Role::Test(test) => storm::run(test).await,
        Role::Engine { file, port } => engine::serve(&file, port).await,
        Role::Taker(taker) => taker::run(taker).await,
        Role::Charge { provider, token } => charge::run(&provider, &token).await,
    }
}
