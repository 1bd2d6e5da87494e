//! The verbs that change messages. A dry run prints the effect, and the act applies only to the
//! messages of the dry run.

use std::time::Duration;

use clap::Args;
use locker::operator::{Act, ApplyOptions, Console};

use super::which::Which;
use crate::bulk::{self, Request};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{self, Output, duration};

/// The least number of messages to list, so that a smaller plan says how many more fit.
const LISTED: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    which: Which,

    /// Select every dead message; for `restore`, every archived one.
    #[arg(long, help_heading = "Selection", conflicts_with_all = ["message", "Selection"])]
    all: bool,

    #[command(flatten)]
    act: options::Act,

    /// Apply the plan that was shown under this id; without it, print a dry run and exit with 6.
    #[arg(long, value_name = "ID")]
    seen: Option<String>,

    /// Change at most N messages per second.
    #[arg(long, value_name = "N", default_value_t = bulk::OF_MESSAGES.rate, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,

    /// Change at most N messages, oldest first.
    #[arg(long, value_name = "N", default_value_t = bulk::LIMIT)]
    limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    change: Change,

    /// Redrive N messages first; continue only if all succeed. 0 turns this off.
    #[arg(long, value_name = "N", default_value_t = bulk::OF_MESSAGES.canary)]
    canary: usize,

    /// Stop after N messages are dead again for the same cause, or if they cannot be read. 0 turns
    /// this off.
    #[arg(long, value_name = "N", default_value_t = bulk::OF_MESSAGES.breaker)]
    breaker: usize,

    /// Wait up to this long for the canary.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    patience: Duration,
}

impl Redrive {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let (canary, breaker, patience) = (self.canary, self.breaker, self.patience);
        let options = ApplyOptions { canary, breaker, patience, ..ApplyOptions::default() };
        self.change.plan_or_run(connection, Act::redrive(), options, output).await
    }
}

impl Change {
    pub(super) async fn run(&self, connection: &Connection, act: Act, output: Output) -> Result<Exit, Exit> {
        self.plan_or_run(connection, act, ApplyOptions::default(), output).await
    }

    async fn plan_or_run(
        &self,
        connection: &Connection,
        act: Act,
        options: ApplyOptions,
        output: Output,
    ) -> Result<Exit, Exit> {
        if self.which.is_empty() && !self.all {
            let which = "select messages: an id, --group, --topic, --consumer, --cause, --key or --all";
            return Err(Exit::say(Exit::USAGE, which));
        }
        let console = Console::new().workflows(&connection.workflows()?).limit(self.limit.max(LISTED));
        let request = Request {
            filter: self.which.filter(),
            act,
            operator: self.act.operator()?,
            limit: self.limit,
            options: ApplyOptions { per_second: self.rate, ..options },
            seen: self.seen.clone(),
            out: None,
        };
        request.run((connection, &console), output).await
    }
}
