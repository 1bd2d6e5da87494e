//! `locker apply`: runs a plan, or goes on with one.

use std::ops::ControlFlow;
use std::path::PathBuf;

use chrono::TimeDelta;
use clap::Args;
use locker::operator::{Acted, ApplyOptions, ApplyReport, Done, Plan};
use serde_json::json;

use super::file::{Kept, Results};
use super::plan::print;
use super::stop::on_interrupt;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::Output;
use crate::output;

/// A plan that is older is run with a warning.
const OLD: TimeDelta = TimeDelta::hours(1);

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Run the plan in this file (see `locker plan`).
    file: PathBuf,

    /// Change at most N records per second.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
}

impl Apply {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let Kept { place, plan } = Kept::read(&self.file)?;
        if place != connection.place {
            let said =
                format!("the plan is for {place}, and this is {}; nothing was changed", connection.place);
            return Err(Exit::say(Exit::USAGE, said));
        }
        let again = Hint::Apply(&self.file.display().to_string()).on(connection);
        let stop = on_interrupt(again.clone())?;
        begin(&plan);
        if output == Output::Table {
            print(&plan);
        }
        let mut results = Results::beside(&self.file, &plan)?;
        let (all, mut told, mut unwritten) = (plan.items.len(), 0, None);
        let each = |outcome: &Acted| {
            told += 1;
            unwritten = unwritten.take().or(results.add(outcome).err());
            progress(told, all, outcome);
            if unwritten.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ApplyOptions { per_second: self.rate, stop, ..ApplyOptions::default() };
        let report = connection.console().await?.apply(&plan, &options, each).await?;
        output::end_line();
        if output == Output::Json {
            output::json(&json!({ "plan": plan.id, "report": report }));
        }
        if let Some(error) = unwritten.or(results.sync().err()) {
            return Err(error);
        }
        let said = said(&report, &results);
        Ok(match report {
            report if !report.is_finished() => Exit::say(
                Exit::PROBLEMS,
                format!("{said}; run it again to go on, nothing is done twice: {again}"),
            ),
            ApplyReport { changed: 0, not_possible: 0, .. } => Exit::say(Exit::OK, said),
            _ => {
                Exit::say(Exit::CHANGED, format!("{said}; look at the records that changed, and plan again"))
            }
        })
    }
}

/// Says what is run, and whether it may be too old.
fn begin(plan: &Plan) {
    let (now, verb, count) = (output::now(), plan.act.verb, plan.items.len());
    let made = output::relative(plan.made, now);
    let (filter, reason) = (output::plain(&plan.filter.to_string()), output::plain(&plan.reason));
    let (id, by) = (&plan.id, output::plain(&plan.by));
    output::say(format_args!("plan {id} of {by}, made {made}: {verb} {count} ({filter}): {reason}"));
    if now - plan.made > OLD {
        output::say(format_args!(
            "warning: the plan was made {made}; records that changed since stay as they are, and newer \
             ones are not included"
        ));
    }
}

fn said(report: &ApplyReport, results: &Results) -> String {
    let mut parts = vec![format!("{} done", report.done)];
    let counts = [
        (report.done_before, "of them before"),
        (report.changed, "changed meanwhile and left as they are"),
        (report.not_possible, "not possible"),
        (report.failed, "failed"),
        (report.unknown, "unknown"),
        (report.left, "not begun"),
    ];
    parts
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    format!("{} ({})", parts.join(", "), results.path().display())
}

/// Draws a bar on a terminal. Elsewhere, prints each failure.
fn progress(told: usize, all: usize, outcome: &Acted) {
    if !output::bar(told, all)
        && let (Done::Failed | Done::Unknown, Some(error)) = (outcome.done, &outcome.error)
    {
        output::say(format_args!("{}: {error}", output::plain(&outcome.work.to_text())));
    }
}
