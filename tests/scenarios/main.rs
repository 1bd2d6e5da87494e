//! Plays the five scenarios under faults.
//!
//! ```sh
//! cargo run --release -p locker-tests --bin scenarios -- sweep
//! cargo run --release -p locker-tests --bin scenarios -- random --plans 10000 --seed 7
//! cargo run -p locker-tests --bin scenarios -- play purchase/bought,d5=CrashAfter,undo
//! ```

#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use locker_tests::scenarios::{Plan, Rig, Swept, random, singles, sweep};
use tokio::time::Instant;

/// Play the five scenarios under faults, and check their books.
#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One fault at every exchange and every call.
    Sweep {
        /// Only each so-many-th plan.
        #[arg(long, default_value_t = 1)]
        every: usize,
    },
    /// Several faults by chance.
    Random {
        /// How many plans.
        #[arg(long, default_value_t = 1000)]
        plans: u64,
        /// The seed of the first; each next one has the next.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Play this plan, and say what happens in it.
    Play {
        /// Such as `purchase/bought,d5=CrashAfter`.
        plan: Plan,
    },
}

fn main() -> ExitCode {
    let began = Instant::now();
    let swept = match Line::parse().command {
        Command::Sweep { every } => sweep(singles(&mut Rig::new(), every)),
        Command::Random { plans, seed } => sweep((seed..seed.saturating_add(plans)).map(random).collect()),
        Command::Play { plan } => return play(&plan),
    };
    let Swept { plays, exchanges, calls, ended: [completed, failed, cancelled, parked], wrong } = swept;
    for (plan, wrong) in wrong.iter().take(40) {
        println!("WRONG {wrong}\n  play it again: scenarios play {plan}");
    }
    println!(
        "{plays} plays, {exchanges} exchanges, {calls} calls to providers: {completed} completed, {failed} failed and \
         undone, {cancelled} cancelled, {parked} parked in view; {} wrong; {} s",
        wrong.len(),
        began.elapsed().as_secs()
    );
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn play(plan: &Plan) -> ExitCode {
    let played = Rig::new().play(plan);
    played.trace.iter().for_each(|line| println!("{line}"));
    println!("{:?}, parked: {}", played.answer, played.parked);
    played.wrong.iter().for_each(|wrong| println!("WRONG {wrong}"));
    if played.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
