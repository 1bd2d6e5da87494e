//! The verbs that change messages: what would be done is shown first, and done to what was shown
//! only.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use locker::operator::{Act, Acted, ApplyOptions, ApplyReport, Console, Done, Plan, Verb};
use serde_json::json;

use super::which::Which;
use crate::bulk::{on_interrupt, print};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{self, Output, duration};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    which: Which,

    /// Select every dead message; for `restore`, every archived one.
    #[arg(long, help_heading = "Selection", conflicts_with_all = ["message", "Selection"])]
    all: bool,

    #[command(flatten)]
    act: options::Act,

    /// Apply only if the selection still matches this id; without it, print a dry run.
    #[arg(long, value_name = "ID")]
    seen: Option<String>,

    /// Change at most N messages per second.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,

    /// Change at most N messages, oldest first.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    change: Change,

    /// Redrive N messages first; continue only if all succeed. 0 turns this off.
    #[arg(long, value_name = "N", default_value_t = 1)]
    canary: usize,

    /// Stop after N messages are dead again for the same cause, or if they cannot be read. 0 turns
    /// this off.
    #[arg(long, value_name = "N", default_value_t = 10)]
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
        let operator = self.act.operator()?;
        let console = Console::new().workflows(&connection.workflows()?);
        let mut plan = console.plan(self.which.filter(), act, &operator).await?;
        plan.items.truncate(self.limit);
        let shown = plan.digest();
        if output == Output::Table {
            print(&plan);
        }
        if plan.items.is_empty() {
            return Err(none(&plan));
        }
        match &self.seen {
            None => {
                if output == Output::Json {
                    output::json(&json!({ "place": connection.place, "seen": shown, "plan": plan }));
                }
                let verb = plan.act.verb;
                let these = match plan.items.len() {
                    1 => "this one".to_owned(),
                    count => format!("these {count}"),
                };
                let said =
                    format!("nothing was changed. To {verb} {these}, run the same again with --seen {shown}");
                Ok(Exit::say(Exit::OK, said))
            }
            Some(seen) if *seen != shown => Err(Exit::say(
                Exit::CHANGED,
                format!(
                    "this is not what was shown as {seen}; nothing was changed. Look at it, and say --seen {shown}"
                ),
            )),
            Some(_) => {
                let options = ApplyOptions { per_second: self.rate, ..options };
                run(&console, &plan, options, output).await
            }
        }
    }
}

async fn run(console: &Console, plan: &Plan, options: ApplyOptions, output: Output) -> Result<Exit, Exit> {
    let stop = on_interrupt("the same command, which finds the messages that are left".to_owned())?;
    let options = ApplyOptions { stop, ..options };
    let each = |acted: &Acted| {
        if let (Done::Failed | Done::Unknown, Some(error)) = (acted.done, &acted.error) {
            output::say(format_args!("{}: {error}", acted.work.short_id()));
        }
        ControlFlow::Continue(())
    };
    let report = console.apply(plan, &options, each).await?;
    if output == Output::Json {
        output::json(&json!({ "plan": plan.id, "report": report }));
    }
    let mut said = said(&report);
    if !plan.complete {
        said.push_str("; there may be more: the lists were not read to their end");
    }
    Ok(match report {
        ApplyReport { tripped: true, .. } => Exit::say(Exit::PROBLEMS, format!("stopped: {said}")),
        report if !report.is_finished() || !plan.complete => Exit::say(Exit::PROBLEMS, said),
        ApplyReport { dead_again: 1.., .. } => Exit::say(Exit::PROBLEMS, said),
        ApplyReport { changed: 0, not_possible: 0, .. } => Exit::say(Exit::OK, said),
        _ => Exit::say(Exit::CHANGED, said),
    })
}

/// There is nothing to do, as far as the lists were read.
fn none(plan: &Plan) -> Exit {
    let state = if plan.act.verb == Verb::Restore { "archived" } else { "dead" };
    if plan.complete {
        return Exit::say(
            Exit::NOT_FOUND,
            format!("no such message is {state}, so nothing would be changed"),
        );
    }
    let said = "no such message was found, and the lists were not read to their end: there may be some";
    Exit::say(Exit::PROBLEMS, format!("{said}; nothing was changed"))
}

fn said(report: &ApplyReport) -> String {
    let counts = [
        (report.gone, "of them sent or handled by now"),
        (report.dead_again, "of them dead again, or archived or discarded since"),
        (report.waiting, "of them not known to be sent or handled yet"),
        (report.changed, "changed meanwhile and left as they are"),
        (report.not_possible, "not possible"),
        (report.failed, "failed"),
        (report.unknown, "unknown"),
        (report.left, "not begun"),
    ];
    let mut parts = vec![format!("{} done", report.done)];
    parts
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_that_was_not_read_to_its_end_is_said_to_have_none() {
        let plan = |complete: bool| -> Plan {
            let plan = json!({
                "id": "0", "made": "2026-11-24T12:00:00.000Z", "act": { "verb": "discard" }, "by": "ada", "reason": "why",
                "filter": {}, "found": 0, "complete": complete, "items": [], "leftOut": [],
            });
            serde_json::from_value(plan).expect("a plan")
        };
        let said = format!("{:?}", none(&plan(true)));
        assert!(said.contains("code: 3") && said.contains("no such message is dead"), "{said}");
        let said = format!("{:?}", none(&plan(false)));
        assert!(said.contains("code: 5") && !said.contains("is dead"), "{said}");
        assert!(said.contains("not read to their end"), "{said}");
    }
}
