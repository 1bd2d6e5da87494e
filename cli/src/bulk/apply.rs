//! `locker apply`: runs a plan, or goes on with one.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use chrono::TimeDelta;
use clap::Args;
use locker::operator::{Acted, ApplyOptions, ApplyReport, Done, Plan};
use serde_json::json;

use super::file::{Kept, Results};
use super::plan::print;
use super::stop::on_interrupt;
use crate::connection::{Connection, quoted};
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

/// A plan that is older is run with a warning.
const OLD: TimeDelta = TimeDelta::hours(1);

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file of a plan that `locker plan` made.
    file: PathBuf,

    /// Records a second.
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
        let file = quoted(&self.file.display().to_string());
        let again = format!("locker{} apply {file}", connection.options);
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
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
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
            _ => Exit::say(Exit::CHANGED, format!("{said}; look at what changed, and plan anew")),
        })
    }
}

/// Says what is run, and whether it may be too old.
fn begin(plan: &Plan) {
    let (now, verb, count) = (output::now(), plan.act.verb, plan.items.len());
    let made = output::relative(plan.made, now);
    let (filter, reason) = (output::plain(&plan.filter.to_string()), output::plain(&plan.reason));
    eprintln!("locker: plan {} of {}, made {made}: {verb} {count} ({filter}): {reason}", plan.id, plan.by);
    if now - plan.made > OLD {
        eprintln!(
            "locker: warning: the plan was made {made}. What has changed since is left as it is, and what came since is not in it"
        );
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

/// How far it is, on a terminal only.
fn progress(told: usize, all: usize, outcome: &Acted) {
    let mut stderr = std::io::stderr();
    if !stderr.is_terminal() {
        if let (Done::Failed | Done::Unknown, Some(error)) = (outcome.done, &outcome.error) {
            eprintln!("locker: {}: {error}", output::plain(&outcome.work.to_text()));
        }
        return;
    }
    let filled = 30 * told / all.max(1);
    let _ = write!(stderr, "\rlocker: [{}{}] {told} of {all}", "#".repeat(filled), " ".repeat(30 - filled));
    let _ = stderr.flush();
}
