//! Acts on all records that match: a dry run stores the plan under an id, and `--seen ID` applies
//! the plan. One protocol for `plan`, `apply` and the verbs of `dead`.

mod apply;
mod file;
mod plan;
pub(crate) mod print;
mod stop;

use std::path::PathBuf;

use locker::Operator;
use locker::operator::{Act, ApplyOptions, Console, Filter, Plan as Planned, Verb};
use serde_json::json;

pub(crate) use apply::Apply;
#[cfg(feature = "console")]
pub(crate) use apply::{Applied, applied_by, not_done, run, said, warning};
#[cfg(feature = "console")]
pub(crate) use file::results;
pub(crate) use file::{Kept, Store};
pub(crate) use plan::Plan;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::Output;
use crate::{act, output};
/// The mode of a plan for a second reader. The umask of the user may restrict it.
const SHARED: u32 = 0o644;

/// The default options of a plan.
pub(crate) struct Defaults {
    /// Records per second.
    pub(crate) rate: u32,
    pub(crate) canary: usize,
    pub(crate) breaker: usize,
}

pub(crate) const OF_MESSAGES: Defaults = Defaults { rate: 10, canary: 1, breaker: 10 };
pub(crate) const OF_OTHERS: Defaults = Defaults { rate: 100, canary: 0, breaker: 0 };
/// The default number of records of a plan.
pub(crate) const LIMIT: usize = 10_000;

/// An act on all records that match, with every argument that has an effect.
pub(crate) struct Request {
    pub(crate) filter: Filter,
    pub(crate) act: Act,
    pub(crate) operator: Operator,
    /// The largest number of records in the plan. The oldest records come first.
    pub(crate) limit: usize,
    pub(crate) options: ApplyOptions,
    /// The id of the dry run that the operator saw.
    pub(crate) seen: Option<String>,
    /// The file for the plan, chosen by the operator.
    pub(crate) out: Option<PathBuf>,
}

impl Request {
    /// Applies the plan that was seen, or makes one and stores it.
    pub(crate) async fn run(
        self,
        (connection, console): (&Connection, &Console),
        output: Output,
    ) -> Result<Exit, Exit> {
        match &self.seen {
            None => self.dry_run(connection, console, output).await,
            Some(id) => {
                let (path, kept) = Store::of_user()?.read(id)?;
                kept.is_for(connection)?;
                self.is_as_kept(&kept, id)?;
                apply::apply(console, &path, kept, &again(connection, &path), output).await
            }
        }
    }

    async fn dry_run(
        &self,
        connection: &Connection,
        console: &Console,
        output: Output,
    ) -> Result<Exit, Exit> {
        if let Some(path) = self.out.as_deref().filter(|path| path.exists()) {
            let said =
                format!("{} exists and may be a plan that was applied; name another file", path.display());
            return Err(Exit::say(Exit::USAGE, said));
        }
        let plan = self.plan(console).await?;
        // Only a token can be released.
        let with_unread = |exit| match self.act.verb {
            Verb::Release => exit,
            _ => connection.with_unread(exit),
        };
        if output == Output::Table {
            print::plan(&plan, &self.options);
        }
        if plan.items.is_empty() {
            if output == Output::Json {
                output::json(&json!({ "place": connection.place, "plan": plan }));
            }
            return Err(with_unread(nothing(&plan)));
        }
        let id = plan.id.clone();
        let kept = self.kept(connection, plan);
        let Some(path) = &self.out else {
            kept.keep()?;
            if output == Output::Json {
                output::json(&json!({ "seen": id, "place": kept.place, "plan": kept.plan }));
            }
            return Ok(with_unread(act::dry_run(&id)));
        };
        kept.write(path, SHARED)?;
        if output == Output::Json {
            output::json(&json!({ "place": kept.place, "plan": kept.plan }));
        }
        let line = again(connection, path);
        let exit = Exit::say(Exit::DRY_RUN, format!("nothing was changed. To do this, run {line}"));
        Ok(with_unread(exit))
    }

    /// Makes the plan. Nothing is written.
    pub(crate) async fn plan(&self, console: &Console) -> Result<Planned, Exit> {
        let mut plan = console.plan(self.filter.clone(), self.act.clone(), &self.operator).await?;
        plan.items.truncate(self.limit);
        Ok(plan)
    }

    /// The plan with its tables and options, as a file stores it.
    pub(crate) fn kept(&self, connection: &Connection, plan: Planned) -> Kept {
        Kept::new(connection, self.limit, self.options.clone(), plan)
    }

    /// Refuses an argument that differs from that of the dry run.
    fn is_as_kept(&self, kept: &Kept, id: &str) -> Result<(), Exit> {
        let plan = &kept.plan;
        let (options, before) = (json!(self.options), json!(kept.options));
        let arguments = [
            ("the act", plan.act == self.act),
            ("the selection", plan.filter == self.filter),
            ("--reason", plan.reason == self.operator.reason()),
            ("--as", plan.by == self.operator.by()),
            ("--limit", kept.limit == self.limit),
            ("--rate", options["perSecond"] == before["perSecond"]),
            ("--canary", options["canary"] == before["canary"]),
            ("--breaker", options["breaker"] == before["breaker"]),
            ("--patience", options["patience"] == before["patience"]),
        ];
        let changed: Vec<_> =
            arguments.iter().filter(|(_, is_same)| !is_same).map(|(name, _)| *name).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let said = format!(
            "the dry run {id} had another value for {}; nothing was changed. Run the command without --seen to see \
             what it would do",
            changed.join(", ")
        );
        Err(Exit::say(Exit::CHANGED, said))
    }
}

/// The command that applies the plan in a file, or continues it.
pub(crate) fn again(connection: &Connection, path: &std::path::Path) -> String {
    Hint::Apply(&path.display().to_string()).on(connection)
}

/// Returns the exit of a plan without records. Lists that were not read to their end may contain
/// records.
pub(crate) fn nothing(plan: &Planned) -> Exit {
    let (found, verb) = (plan.left_out.len(), plan.act.verb);
    let found = match found {
        0 => "no record was found".to_owned(),
        1 => format!("1 record was found, and {verb} cannot change it"),
        _ => format!("{found} records were found, and {verb} can change none of them"),
    };
    if !plan.complete {
        let said = format!("{found}; the lists were not read to their end: there may be others");
        return Exit::say(Exit::PROBLEMS, format!("{said}; nothing was changed"));
    }
    let said = "nothing would be changed, so there is no plan";
    if plan.left_out.is_empty() {
        return Exit::say(Exit::NOT_FOUND, said);
    }
    let why = "see the reason for which each is left out, and select other records";
    Exit::say(Exit::NOT_FOUND, format!("{said}: {found}; {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(complete: bool) -> Planned {
        plan_without(&json!([]), complete)
    }

    /// A plan without records, from which these are left out.
    fn plan_without(left_out: &serde_json::Value, complete: bool) -> Planned {
        let plan = json!({
            "id": "9a8fac0a", "made": "2026-11-24T12:00:00.000Z", "act": { "verb": "redrive" }, "by": "ada",
            "reason": "why", "filter": { "topic": "order" }, "found": 0, "complete": complete, "items": [],
            "leftOut": left_out,
        });
        serde_json::from_value(plan).expect("a plan")
    }

    #[test]
    fn unread_list_is_not_reported_as_empty() {
        let exit = nothing(&plan(true));
        assert_eq!((exit.code(), exit.said().contains("nothing would be changed")), (3, true));
        let exit = nothing(&plan(false));
        assert_eq!((exit.code(), exit.said().contains("not read to their end")), (5, true));
    }

    #[test]
    fn records_that_are_left_out_are_not_reported_as_absent() {
        let one = json!({ "work": "token a", "because": "a token has no verb redrive" });
        for (left_out, found) in [
            (json!([one]), "1 record was found, and redrive cannot change it"),
            (json!([one, one]), "2 records were found, and redrive can change none of them"),
        ] {
            for (complete, code) in [(true, Exit::NOT_FOUND), (false, Exit::PROBLEMS)] {
                let exit = nothing(&plan_without(&left_out, complete));
                assert_eq!((exit.code(), exit.said().contains(found)), (code, true), "{}", exit.said());
            }
        }
    }

    #[test]
    fn changed_argument_between_dry_run_and_act_is_refused() {
        let options = ApplyOptions { per_second: 10, canary: 1, ..ApplyOptions::default() };
        let kept = Kept {
            place: "here".to_owned(),
            shards: 1,
            limit: 100,
            options: options.clone(),
            plan: plan(true),
        };
        let same = || Request {
            filter: Filter::new().topic("order"),
            act: Act::redrive(),
            operator: Operator::new("ada", "why").expect("ada"),
            limit: 100,
            options: options.clone(),
            seen: None,
            out: None,
        };
        assert!(same().is_as_kept(&kept, "9a8fac0a").is_ok());
        let by = |name, reason| Operator::new(name, reason).expect("an operator");
        let with = |change: &dyn Fn(&mut ApplyOptions)| {
            let mut options = options.clone();
            change(&mut options);
            Request { options, ..same() }
        };
        for (argument, other) in [
            ("the act", Request { act: Act::archive(), ..same() }),
            ("the selection", Request { filter: Filter::new().topic("orders"), ..same() }),
            ("the selection", Request { filter: Filter::new().topic("order").cause("x"), ..same() }),
            ("--reason", Request { operator: by("ada", "because"), ..same() }),
            ("--as", Request { operator: by("ben", "why"), ..same() }),
            ("--limit", Request { limit: 99, ..same() }),
            ("--rate", with(&|options| options.per_second = 11)),
            ("--canary", with(&|options| options.canary = 0)),
            ("--breaker", with(&|options| options.breaker = 3)),
            ("--patience", with(&|options| options.patience = std::time::Duration::from_secs(1))),
        ] {
            let refused = other.is_as_kept(&kept, "9a8fac0a").expect_err(argument);
            assert_eq!(refused.code(), Exit::CHANGED, "{argument}");
            assert!(refused.said().contains(&format!("for {argument};")), "{argument}: {}", refused.said());
        }
    }
}
