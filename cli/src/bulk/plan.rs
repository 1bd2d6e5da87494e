//! `locker plan`: the effect of an act on all selected records. Nothing is changed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use locker::operator::{Act, Plan as Planned};
use serde_json::json;

use super::file::Kept;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::{self, Needs, Output, Selection};
use crate::output;

/// Records of a plan that are shown.
const SHOWN: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Act on each selected record.
    #[arg(value_enum)]
    verb: Verb,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    needs: Needs,

    #[command(flatten)]
    act: options::Act,

    /// Act on this step of each workflow.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Record this result for each, as JSON.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,

    /// Retry the step under a new key: if the step did happen, the provider no longer recognises
    /// it.
    #[arg(long, requires = "step")]
    new_key: bool,

    /// Write the plan to this new file (see `locker apply`).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Plan at most N records.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Tokens: the work did not happen; the next caller does it.
    Release,
    /// Tokens, or a step of workflows: record --result as the outcome.
    Resolve,
    /// Held tokens: keep the failure as the result. Workflows in quarantine: end them as they are.
    Close,
    /// Workflows in quarantine, or a step of them: run again.
    Retry,
    /// A step of workflows: continue without it.
    Skip,
    /// Workflows: compensate their steps.
    Compensate,
    /// Workflows: compensate their steps, even if they continued since the plan was made.
    Cancel,
}

impl Plan {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let mut act = match self.verb {
            Verb::Release => Act::release(),
            Verb::Resolve => Act::resolve(options::result(self.result.as_deref().unwrap_or_default())?),
            Verb::Close => Act::close(),
            Verb::Retry => Act::retry(),
            Verb::Skip => Act::skip(),
            Verb::Compensate => Act::compensate(),
            Verb::Cancel => Act::cancel(),
        };
        if self.result.is_some() && self.verb != Verb::Resolve {
            return Err(Exit::say(Exit::USAGE, "--result is for resolve only"));
        }
        act = self.step.iter().fold(act, Act::step);
        if self.new_key {
            act = act.new_key();
        }
        let filter = self.needs.add_to(self.selection.filter());
        if filter.is_empty() {
            let all = "select tokens or workflows: add --group, --need, --prefix or another selection (see `locker plan --help`)";
            return Err(Exit::say(Exit::USAGE, all));
        }
        if let Some(path) = self.out.as_deref().filter(|path| path.exists()) {
            let said = format!(
                "{} exists; name another file, since this one may be a plan that was run",
                path.display()
            );
            return Err(Exit::say(Exit::USAGE, said));
        }
        let console = connection.console().await?.limit(self.limit);
        let plan = console.plan(filter, act, &self.act.operator()?).await?;
        match output {
            Output::Json => output::json(&json!({ "place": connection.place, "plan": plan })),
            Output::Table => print(&plan),
        }
        self.keep(connection, plan)
    }

    fn keep(&self, connection: &Connection, plan: Planned) -> Result<Exit, Exit> {
        let (count, id) = (plan.items.len(), plan.id.clone());
        if count == 0 {
            return Err(Exit::say(Exit::NOT_FOUND, "nothing would be changed, so there is no plan"));
        }
        let Some(path) = &self.out else {
            let said = format!(
                "{count} would be changed; nothing was. Add --out FILE to keep the plan, and run it with `locker apply FILE`"
            );
            return Ok(Exit::say(Exit::OK, said));
        };
        Kept { place: connection.place.clone(), plan }.write(path)?;
        let file = path.display().to_string();
        let line = Hint::Apply(&file).on(connection);
        Ok(Exit::say(Exit::OK, format!("plan {id} of {count} is kept; nothing was changed. Run it: {line}")))
    }
}

/// Prints the records of a plan, and the effect on each.
pub(crate) fn print(plan: &Planned) {
    let now = output::now();
    let step = plan.act.step.as_ref().map(|step| format!(" step {step}")).unwrap_or_default();
    output::print(format_args!(
        "{}{step}: {} of {} found, {} left out; at least {} requests and {} write units",
        plan.act.verb,
        plan.items.len(),
        plan.found,
        plan.left_out.len(),
        plan.requests(),
        plan.write_units(),
    ));
    output::print(format_args!("found by: {}", plan.filter));
    output::print("");
    let rows = plan.items.iter().take(SHOWN).map(|item| {
        [
            output::plain(&item.work.to_text()),
            item.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, now)),
            output::plain(item.cause.as_deref().unwrap_or_default()),
        ]
    });
    output::print(output::table(Some(["WOULD BE CHANGED", "SINCE", "CAUSE"]), rows));
    if let Some(last) = plan.items.last().filter(|_| plan.items.len() > SHOWN) {
        let newest = last.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, now));
        let more = plan.items.len() - SHOWN;
        output::print(format_args!(
            "and {more} more, the newest {} since {newest}",
            output::plain(&last.work.to_text())
        ));
    }
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    plan.items.iter().for_each(|item| *effects.entry(shape(&item.effect)).or_default() += 1);
    output::print("");
    output::print("Each of them:");
    for (effect, count) in effects {
        output::print(format_args!("  {count}  {}", output::plain(effect)));
    }
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    plan.left_out.iter().for_each(|it| *left_out.entry(&it.because).or_default() += 1);
    for (because, count) in left_out {
        output::print(format_args!("  {count} left out: {because}"));
    }
    if !plan.complete {
        output::print("");
        output::print("More may fit: the lists were not read to their end.");
    }
}

/// An effect without the key in it, which is another one for each.
fn shape(effect: &str) -> &str {
    effect.split(", and gives the provider the key").next().unwrap_or(effect)
}
