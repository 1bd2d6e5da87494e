//! Costs of a call: Locker compared with the bare SDK making the same requests.
//!
//! ```sh
//! cargo run --release -p locker-benches --bin per_call
//! cargo run --release -p locker-benches --bin per_call -- --quick
//! cargo run -p locker-benches --features count --bin per_call
//! ```
//!
//! Prints tables and one line `ratios: {...}`. A build with the feature `count` counts allocations,
//! too, and measures no time. Fails if the library makes more requests or allocations than
//! [`limits`] allows; it never fails because of a time.

#![allow(clippy::expect_used, clippy::panic)]

mod again;
mod limits;
mod measure;
mod near;
mod processors;
mod report;
mod server;
mod side;
mod workflows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use measure::{Plan, Setting};
use report::Report;
use server::Server;
use side::{Operation, Side, Size};

/// Measure the costs of a Locker call, compared with the bare SDK.
#[derive(Debug, Parser)]
struct Arguments {
    /// Measure with one caller and fewer rounds, in under a minute.
    #[arg(long)]
    quick: bool,
    /// Measure only the operation with this name, such as `replay`, or `workflows`.
    #[arg(long)]
    only: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve canned replies until standard input ends. The bench starts this command itself.
    Serve,
    /// Repeat one operation with a small answer, or one workflow, for a profiler.
    Repeat {
        /// Side that performs the operation: `Locker` or `bare SDK`.
        side: String,
        /// Name of the operation, such as `replay`, or of the workflow, such as "one `step`".
        operation: String,
        times: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if matches!(arguments.command, Some(Command::Serve)) {
        server::serve();
        return ExitCode::SUCCESS;
    }
    if let Some(Command::Repeat { side, operation, times }) = &arguments.command
        && let Some(repeated) = workflows::repeat(side, operation, *times)
    {
        return repeated;
    }
    let server = Server::start();
    if let Some(Command::Repeat { side, operation, times }) = arguments.command {
        return measure::repeat(&Side::of(&server, Size::Small), &side, &operation, times);
    }
    let mut report = Report::default();
    let chosen = |operation: Operation| arguments.only.as_deref().is_none_or(|only| only == operation.name());
    for (operation, size) in Operation::ALL.into_iter().filter(|(operation, _)| chosen(*operation)) {
        let sides = Side::of(&server, size);
        report.counted(operation, size, &sides, &server);
    }
    println!("{}", report.counted_table());
    if measure::COUNTS {
        return worst(report.verdict(), workflows::report(None));
    }
    if arguments.only.as_deref() == Some("workflows") {
        return workflows::report(Some(150));
    }
    println!("{}", report::HEADER);
    for setting in settings(arguments.quick).into_iter().filter(|setting| chosen(setting.operation)) {
        let rounds = if setting.callers == 1 { 150 } else { 30 };
        let measured = Plan { rounds, setting }.run(&Side::of(&server, setting.size));
        print!("{}", report.measured(setting, &measured));
    }
    println!("\n{}", measure::compression());
    println!("{}", report.ratios());
    worst(
        report.verdict(),
        if arguments.only.is_none() { workflows::report(Some(150)) } else { ExitCode::SUCCESS },
    )
}

fn worst(one: ExitCode, other: ExitCode) -> ExitCode {
    if one == ExitCode::SUCCESS { other } else { one }
}

fn settings(quick: bool) -> Vec<Setting> {
    let mut settings = Vec::new();
    for threads in [1, 2] {
        for callers in [1, 16, 64] {
            for (operation, size) in Operation::ALL {
                settings.push(Setting { operation, size, threads, callers });
            }
        }
    }
    if quick {
        settings
            .retain(|setting| setting.callers == 1 && (setting.threads == 1 || setting.size == Size::Small));
    }
    settings
}
