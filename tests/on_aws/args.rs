//! The command line of the program and of its roles.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Run the parts of `tests/on-aws` on tables and queues that exist.
#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Run the parts, and print a row for each.
    Run(Run),
    /// Begin the keys, one after the other.
    #[command(hide = true)]
    Keys { table: String, keys: u32 },
    /// Begin a key, and complete it after a line of standard input.
    #[command(hide = true)]
    Holder { table: String, key: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Keys,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Run {
    /// The table of tokens.
    #[arg(long)]
    pub(crate) table: String,
    /// The table of workflows.
    #[arg(long)]
    pub(crate) workflows: String,
    /// A table of rows with the partition key `id`.
    #[arg(long)]
    pub(crate) rows: String,
    /// The URL of a FIFO queue.
    #[arg(long)]
    pub(crate) queue: String,
    /// The ARN of a FIFO topic.
    #[arg(long)]
    pub(crate) topic: String,
    /// The URL of the queue that subscribes the topic.
    #[arg(long)]
    pub(crate) topic_queue: String,
    /// The name of an event bus.
    #[arg(long)]
    pub(crate) bus: String,
    /// The URL of the queue that receives the events of the bus.
    #[arg(long)]
    pub(crate) bus_queue: String,
    /// The keys that each of the 20 processes begins.
    #[arg(long, default_value_t = 200)]
    pub(crate) keys: u32,
    /// The expected runs of the work of each key. Another number than 1 must make the row wrong.
    #[arg(long, default_value_t = 1)]
    pub(crate) runs_per_key: u32,
    /// The messages to each of the three targets, a multiple of 10.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) messages: u32,
    /// The minutes to wait for the deletion of an expired token.
    #[arg(long, default_value_t = 0)]
    pub(crate) ttl_minutes: u64,
    /// Stop if the requests cost more than this.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) limit_usd: f64,
    /// The account is simulated by Moto: some rows do not apply.
    #[arg(long)]
    pub(crate) moto: bool,
    /// Run this part only.
    #[arg(long)]
    pub(crate) only: Option<Part>,
}

pub(crate) fn role() -> Role {
    Line::parse().role
}
