//! Plays the seven scenarios under faults.
//!
//! ```sh
//! cargo run --release -p locker-tests --bin scenarios -- sweep
//! cargo run --release -p locker-tests --bin scenarios -- random --plans 10000 --seed 7
//! cargo run -p locker-tests --bin scenarios -- play purchase/bought,d5=DiesAfter,undo
//! cargo run -p locker-tests --bin scenarios -- kill --minutes 2
//! ```

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../kill/engine.rs"]
mod engine;
mod kill;
#[allow(dead_code, reason = "the other kill test uses the rest")]
#[path = "../kill/process.rs"]
mod process;
#[path = "../kill/proxy.rs"]
mod proxy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use locker_tests::scenarios::{Case, Plan, Rig, Swept, random, singles, sweep};
use tokio::time::Instant;

/// Play the seven scenarios under faults, and check their books.
#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One fault at every exchange and every call.
    Sweep {
        /// Play only every n-th plan.
        #[arg(long, default_value_t = 1)]
        every: usize,
        /// Play only the plans of this case, such as `room/booked`.
        #[arg(long)]
        case: Option<Case>,
    },
    /// Several random faults.
    Random {
        /// Number of plans.
        #[arg(long, default_value_t = 1000)]
        plans: u64,
        /// Seed of the first plan; each next plan uses the next seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Play this plan, and print what happens in it.
    Play {
        /// Such as `purchase/bought,d5=DiesAfter`.
        plan: Plan,
    },
    /// Kill real processes at random, and check the books.
    Kill(kill::Storm),
    /// Serve an engine over a file.
    #[command(hide = true)]
    Engine { file: PathBuf, port: u16 },
    /// Start a range of workflows.
    #[command(hide = true)]
    Worker {
        #[command(flatten)]
        place: kill::Place,
        #[arg(long)]
        first: u64,
    },
    /// Run completers.
    #[command(hide = true)]
    Completer {
        #[command(flatten)]
        place: kill::Place,
    },
    /// Relay messages.
    #[command(hide = true)]
    Relay {
        #[command(flatten)]
        place: kill::Place,
    },
    /// Receive messages.
    #[command(hide = true)]
    Receiver {
        #[command(flatten)]
        place: kill::Place,
    },
}

fn main() -> ExitCode {
    let began = Instant::now();
    let swept = match Line::parse().command {
        Command::Sweep { every, case } => {
            let plans = singles(&mut Rig::new(), every).into_iter();
            sweep(plans.filter(|plan| case.is_none_or(|case| plan.case == case)).collect())
        }
        Command::Random { plans, seed } => sweep((seed..seed.saturating_add(plans)).map(random).collect()),
        Command::Play { plan } => return play(&plan),
        Command::Kill(storm) => return in_runtime(kill::run(storm)),
        Command::Engine { file, port } => return in_runtime(async move { engine::serve(&file, port).await }),
        Command::Worker { place, first } => {
            return in_runtime(async move { kill::work(&place, first).await });
        }
        Command::Completer { place } => return in_runtime(async move { kill::complete(&place).await }),
        Command::Relay { place } => return in_runtime(async move { kill::relay(&place).await }),
        Command::Receiver { place } => return in_runtime(async move { kill::receive(&place).await }),
    };
    let Swept { plays, exchanges, calls, ended: [completed, failed, cancelled, quarantined], wrong } = swept;
    for (plan, wrong) in wrong.iter().take(40) {
        println!("WRONG {wrong}\n  play it again: scenarios play {plan}");
    }
    println!(
        "{plays} plays, {exchanges} exchanges, {calls} calls to providers: {completed} completed, {failed} failed and \
         compensated, {cancelled} cancelled, {quarantined} quarantined; {} wrong; {} s",
        wrong.len(),
        began.elapsed().as_secs()
    );
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_runtime(role: impl Future<Output = ExitCode>) -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(Box::pin(role))
}

fn play(plan: &Plan) -> ExitCode {
    let played = Rig::new().play(plan);
    played.trace.iter().for_each(|line| println!("{line}"));
    println!("{:?}, quarantined: {}", played.answer, played.quarantined);
    played.wrong.iter().for_each(|wrong| println!("WRONG {wrong}"));
    if played.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
