//! The command line, of the test and of its roles.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Kill, freeze and lie to processes that work on tokens, and check what they did.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Line {
    #[command(flatten)]
    test: Test,
    #[command(subcommand)]
    role: Option<RoleLine>,
}

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) role: Role,
}

#[derive(Debug)]
pub(crate) enum Role {
    Test(Test),
    Engine { file: PathBuf, port: u16 },
    Taker(Taker),
    Charge { provider: String, token: String },
}

impl Args {
    pub(crate) fn parse() -> Self {
        let line = Line::parse();
        let role = match line.role {
            None => Role::Test(line.test),
            Some(RoleLine::Engine { file, port }) => Role::Engine { file, port },
            Some(RoleLine::Taker(taker)) => Role::Taker(taker),
            Some(RoleLine::Charge { provider, token }) => Role::Charge { provider, token },
        };
        Self { role }
    }
}

/// The duration and the intensity of the test.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Test {
    /// The number of tokens.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tokens: u32,
    /// The number of kills and freezes.
    #[arg(long, default_value_t = 60)]
    pub(crate) kills: u32,
    /// Ask for no new token after this many minutes.
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,
    /// The seed that decides on faults and victims.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Faults on the wire, out of 1,000 requests.
    #[arg(long, default_value_t = 30)]
    pub(crate) faults: u32,
    /// Keep the history and the provider's books in this directory, whatever the verdict.
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Taker {
    #[arg(long)]
    pub(crate) endpoint: String,
    #[arg(long)]
    pub(crate) table: String,
    #[arg(long)]
    pub(crate) provider: String,
    #[arg(long)]
    pub(crate) history: PathBuf,
}

#[derive(Debug, Subcommand)]
enum RoleLine {
    /// Serve an engine over a file.
    #[command(hide = true)]
    Engine { file: PathBuf, port: u16 },
    /// Work on the tokens of standard input, and take over what is overdue.
    #[command(hide = true)]
    Taker(Taker),
    /// Charge, as the child of `locker once`.
    #[command(hide = true)]
    Charge { provider: String, token: String },
}
