//! `locker apply`: applies a plan, or continues it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use clap::Args;
use locker::Operator;
use locker::operator::{Acted, ApplyOptions, ApplyReport, Console, Done, Plan};
use serde_json::json;

use super::file::{Kept, Results};
use super::print;
use super::stop::on_interrupt;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{By, Output};
use crate::output;

/// The age from which a plan is applied with a warning.
const OLD: TimeDelta = TimeDelta::hours(1);
/// The largest number of unchanged records that standard error names.
const NAMED: usize = 100;
/// The largest number of distinct errors that are printed below a bar.
const ERRORS: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Apply the plan in this file (see `locker plan --out FILE`).
    file: PathBuf,
    #[command(flatten)]
    by: By,
}

impl Apply {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let mut kept = Kept::read(&self.file)?;
        kept.is_for(connection)?;
        let console = connection.console().await?;
        if output == Output::Table {
            print::plan(&kept.plan, &kept.options);
        }
        kept.plan = applied_by(kept.plan, self.by.name());
        apply(&console, &self.file, kept, &super::again(connection, &self.file), output).await
    }
}

/// The plan as the audit shows it: with the operator who applies it. If another operator made
/// it, the reason names the maker.
///
/// A reason without room for the name of the maker is cut. Otherwise only the maker could apply
/// such a plan.
pub(crate) fn applied_by(mut plan: Plan, by: String) -> Plan {
    if plan.by != by {
        // The library adds the mark of the plan to the reason.
        let room = Operator::MAX_BYTES.saturating_sub(format!(" (plan {})", plan.id).len());
        let maker = format!("; planned by {}", plan.by);
        let reason = cut(&plan.reason, room.saturating_sub(maker.len()));
        plan.reason = cut(&format!("{reason}{maker}"), room);
        plan.by = by;
    }
    plan
}

/// A text of at most this many bytes.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

/// The outcome of a plan.
pub(crate) struct Applied {
    pub(crate) report: ApplyReport,
    /// The file that has a line for each result.
    pub(crate) results: PathBuf,
    /// The error because of which a result is not in the file.
    pub(crate) unwritten: Option<Exit>,
}

/// Applies a stored plan. Each result is added to the file of results, and then passed to `each`.
pub(crate) async fn run(
    console: &Console,
    path: &Path,
    (plan, options): (&Plan, &ApplyOptions),
    mut each: impl FnMut(&Acted),
) -> Result<Applied, Exit> {
    let mut results = Results::beside(path, plan)?;
    let mut unwritten = None;
    let each = |outcome: &Acted| {
        unwritten = unwritten.take().or(results.add(outcome).err());
        each(outcome);
        if unwritten.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = console.apply(plan, options, each).await?;
    let unwritten = unwritten.or(results.sync().err());
    Ok(Applied { report, results: results.path().to_owned(), unwritten })
}

/// Applies a plan that was stored. `again`: the command that continues it.
pub(super) async fn apply(
    console: &Console,
    path: &Path,
    kept: Kept,
    again: &str,
    output: Output,
) -> Result<Exit, Exit> {
    let Kept { plan, options, .. } = kept;
    let stop = on_interrupt(again.to_owned())?;
    begin(&plan);
    let (all, mut told, mut left) = (plan.items.len(), 0, Vec::new());
    let (mut errors, mut has_bar) = (BTreeMap::<String, usize>::new(), false);
    let each = |outcome: &Acted| {
        told += 1;
        left.extend(as_it_is(outcome));
        error_of(outcome).into_iter().for_each(|error| *errors.entry(error).or_default() += 1);
        has_bar = progress(told, all, outcome);
    };
    let options = ApplyOptions { stop, ..options };
    let Applied { report, results, unwritten } = run(console, path, (&plan, &options), each).await?;
    output::end_line();
    let errors = most_frequent(errors);
    if has_bar {
        lines_of(&errors, &results).iter().for_each(output::say);
    }
    left.iter().take(NAMED).for_each(output::say);
    if left.len() > NAMED {
        let more = left.len() - NAMED;
        output::say(format_args!("and {more} more: see {}", results.display()));
    }
    if output == Output::Json {
        let errors: Vec<_> =
            errors.iter().map(|(error, count)| json!({ "error": error, "count": count })).collect();
        output::json(&json!({ "plan": plan.id, "report": report, "errors": errors }));
    }
    if let Some(error) = unwritten {
        let counts = said(&report);
        return Err(error.below(if report.is_finished() { counts } else { to_continue(&counts, again) }));
    }
    let mut said = format!("{} ({})", said(&report), results.display());
    if !plan.complete {
        said.push_str("; there may be more: the lists were not read to their end");
    }
    Ok(match report {
        ApplyReport { tripped: true, .. } => Exit::say(Exit::PROBLEMS, format!("stopped: {said}")),
        report if !report.is_finished() => Exit::say(Exit::PROBLEMS, to_continue(&said, again)),
        ApplyReport { dead_again: 1.., .. } => Exit::say(Exit::PROBLEMS, said),
        _ if !plan.complete => Exit::say(Exit::PROBLEMS, said),
        ApplyReport { changed: 0, not_possible: 0, .. } => Exit::say(Exit::OK, said),
        _ => Exit::say(Exit::CHANGED, format!("{said}; look at the records that changed, and plan again")),
    })
}

/// The sentence about a plan with acts that are not done. `again`: the command that continues it.
fn to_continue(said: &str, again: &str) -> String {
    format!("{said}; run it again to continue, nothing is done twice: {again}")
}

/// Prints the plan that is applied, and a warning if it may be too old.
fn begin(plan: &Plan) {
    let (now, verb, count) = (output::now(), plan.act.verb, plan.items.len());
    let made = output::relative(plan.made, now);
    let (filter, reason) = (&plan.filter, &plan.reason);
    let (id, by) = (&plan.id, &plan.by);
    output::say(format_args!("plan {id}, made {made}, applied by {by}: {verb} {count} ({filter}): {reason}"));
    warning(plan).iter().for_each(output::say);
}

/// A warning about a plan that may be too old.
pub(crate) fn warning(plan: &Plan) -> Option<String> {
    let now = output::now();
    let made = output::relative(plan.made, now);
    (now - plan.made > OLD).then(|| {
        format!(
            "warning: the plan was made {made}; records that changed since stay as they are, and newer ones are not \
             included"
        )
    })
}

/// The name of a record that is left as it is, and the reason.
fn as_it_is(outcome: &Acted) -> Option<String> {
    let work = print::name(&outcome.work);
    match outcome.done {
        Done::Changed => Some(format!("{work} has changed since the plan, and was left as it is")),
        Done::NotPossible => {
            let because = outcome.because.as_deref().unwrap_or("the act is not possible");
            Some(format!("{work} was left as it is: {}", because))
        }
        _ => None,
    }
}

/// The error of an act that failed or is unknown.
fn error_of(outcome: &Acted) -> Option<String> {
    let error = outcome.error.as_ref()?;
    matches!(outcome.done, Done::Failed | Done::Unknown).then(|| error.to_string())
}

/// The name of a record whose act failed or is unknown, and the error.
fn failure(outcome: &Acted) -> Option<String> {
    Some(format!("{}: {}", print::name(&outcome.work), error_of(outcome)?))
}

/// The distinct errors, each with its count, the most frequent first.
fn most_frequent(errors: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut errors: Vec<_> = errors.into_iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    errors
}

/// A line for each of the most frequent errors.
fn lines_of(errors: &[(String, usize)], results: &Path) -> Vec<String> {
    let line = |(error, count): &(String, usize)| match count {
        1 => format!("1 act: {error}"),
        count => format!("{count} acts: {error}"),
    };
    let mut lines: Vec<_> = errors.iter().take(ERRORS).map(line).collect();
    if errors.len() > ERRORS {
        lines.push(format!("and {} more errors: see {}", errors.len() - ERRORS, results.display()));
    }
    lines
}

/// Why the act on a record is not done.
#[cfg(feature = "console")]
pub(crate) fn not_done(outcome: &Acted) -> Option<String> {
    as_it_is(outcome).or_else(|| failure(outcome))
}

pub(crate) fn said(report: &ApplyReport) -> String {
    let mut parts = vec![format!("{} done", report.done)];
    let counts = [
        (report.done_before, "of them before"),
        (report.gone, "of them sent, handled or expired by now"),
        (report.dead_again, "of them dead again, or archived or discarded since"),
        (report.waiting, "of them not known to be sent or handled yet"),
        (report.changed, "changed meanwhile and left as they are"),
        (report.not_possible, "not possible"),
        (report.failed, "failed"),
        (report.unknown, "unknown"),
        (report.left, "not begun"),
    ];
    parts
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

/// Draws a bar on a terminal. Elsewhere, prints each failure. Returns whether it drew the bar.
fn progress(told: usize, all: usize, outcome: &Acted) -> bool {
    let has_bar = output::bar(told, all);
    if !has_bar {
        failure(outcome).iter().for_each(output::say);
    }
    has_bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_and_the_most_frequent_come_first() {
        let errors = (0..12).map(|number| (format!("error {number:02}"), if number == 7 { 3 } else { 1 }));
        let lines = lines_of(&most_frequent(errors.collect()), Path::new("plan.results"));
        assert_eq!(lines.len(), ERRORS + 1);
        assert_eq!((lines[0].as_str(), lines[1].as_str()), ("3 acts: error 07", "1 act: error 00"));
        assert_eq!(lines[ERRORS], "and 2 more errors: see plan.results");
    }
}
