//! An act on one record: a dry run with an id, or the act on the record with that id.

use locker::operator::{About, Act, Console, Meaning, Part, Refusal, Unless, Verb};
use locker::{Error, Intervened, Operator};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Differs, Output, Seen, compare};
use crate::output;
use crate::token::process;

/// An act on one record, as the command line names it.
pub(crate) struct One<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) output: Output,
    /// The record as the command line names it.
    pub(crate) said: &'a str,
    /// The command that shows the record.
    pub(crate) look: String,
    pub(crate) seen: &'a Seen,
    pub(crate) operator: &'a Operator,
}

/// The outcome of a call for an act on one record.
pub(crate) enum Called {
    /// Nothing was written. An operator who saw this id may act.
    DryRun { meaning: Meaning, id: String },
    /// The rule refuses the act.
    Refused(Refusal),
    /// The operator saw another record, or another act.
    Differs(Differs),
    /// A former version of the workflow has the event with this id. Nothing was written.
    GivenBefore,
    /// The act was written; or the record changed before the write.
    Ran { meaning: Meaning, intervened: Intervened },
}

/// The reason of a signal that was refused after its check.
pub(crate) const GIVEN_BEFORE: &str = "a former version of the workflow has an event with this id";

/// The protocol of an act on one record: without the id that the operator `saw`, a dry run.
///
/// `only_dry_run`: only the id of a dry run is accepted, and not the revision that `locker show`
/// prints. An act that [`needs_dry_run`] always requires that id.
pub(crate) async fn call(
    console: &Console,
    (part, act): (&Part, &Act),
    operator: &Operator,
    saw: Option<&str>,
    only_dry_run: bool,
) -> Result<Called, Error> {
    let meaning = match console.check(part, act) {
        Ok(meaning) => meaning,
        Err(refusal) => return Ok(Called::Refused(refusal)),
    };
    let id = act.id(&part.revision(), operator);
    match saw.map(|saw| compare(saw, &id, only_dry_run || needs_dry_run(act))) {
        None => Ok(Called::DryRun { meaning, id }),
        Some(Err(differs)) => Ok(Called::Differs(differs)),
        Some(Ok(())) => match (console.act(part, act, operator).await?, act.verb) {
            // The check allowed the signal. It does not read former versions.
            (Intervened::NotPossible, Verb::Signal) => Ok(Called::GivenBefore),
            (intervened, _) => Ok(Called::Ran { meaning, intervened }),
        },
    }
}

/// Whether an operator must have read the effect of the act, because it erases a result or has an
/// option that allows more than the verb alone.
const fn needs_dry_run(act: &Act) -> bool {
    matches!(act.verb, Verb::Redact) || act.running || act.completed || act.new_key
}

impl One<'_> {
    /// Acts on the record, or prints a dry run and returns its exit.
    ///
    /// # Errors
    ///
    /// [`Exit::CHANGED`], [`Exit::NOT_FOUND`] or [`Exit::USAGE`] if the rule refuses the act.
    /// [`Exit::CHANGED`] if the record is not as it was seen.
    pub(crate) async fn act(&self, part: &Part, act: &Act) -> Result<Acted, Exit> {
        let console = self.connection.console().await?;
        match call(&console, (part, act), self.operator, self.seen.id(), false).await? {
            Called::DryRun { meaning, id } => {
                Ok(Acted::DryRun(self.dry_run(act, &meaning.effect, &meaning.unknown, &id)))
            }
            Called::Refused(refusal) => Err(self.refused(part, act, &refusal)),
            Called::Differs(differs) => Err(self.seen.refused(differs, self.said, &self.look)),
            Called::GivenBefore => {
                Err(Exit::say(Exit::CHANGED, format!("{} was left as it is: {GIVEN_BEFORE}", self.said)))
            }
            Called::Ran { meaning, intervened } => {
                meaning.unknown.iter().for_each(output::say);
                Ok(Acted::Ran(intervened))
            }
        }
    }

    fn refused(&self, part: &Part, act: &Act, refusal: &Refusal) -> Exit {
        let option = match refusal.unless {
            Some(Unless::Running) => Some("--running"),
            Some(Unless::Completed) => Some("--completed"),
            Some(Unless::NotStarted) => Some("--not-started"),
            _ => None,
        };
        let verb = act.verb;
        // The option may need the id of another dry run.
        let again = if self.seen.id().is_some() { " and leave out --seen, to see the effect" } else { "" };
        // The options of a release that exclude each other.
        let excluded = match option {
            Some("--running") if act.new_key => Some("--new-key"),
            Some("--running") if act.completed => Some("--completed"),
            Some("--completed") if act.running => Some("--running"),
            _ => None,
        };
        let option = option.map(|option| match excluded {
            Some(other) => format!("; to {verb} it anyway, use {option} instead of {other}{again}"),
            None => format!("; to {verb} it anyway, add {option}{again}"),
        });
        let process = match part {
            Part::Token(record) if process::alive(record.locked_by()) == Some(true) => {
                let number = process::number(record.locked_by()).unwrap_or_default();
                format!(", as process {number} of this machine; wait for its end, or stop it")
            }
            _ => String::new(),
        };
        let (said, because) = (self.said, &refusal.because);
        let code = match refusal.about {
            About::Step => Exit::NOT_FOUND,
            About::Result => Exit::USAGE,
            _ => Exit::CHANGED,
        };
        Exit::say(code, format!("{said} was left as it is: {because}{process}{}", option.unwrap_or_default()))
    }

    /// Prints the effect of the act and its id.
    pub(crate) fn dry_run(&self, act: &Act, effect: &str, unknown: &[String], id: &str) -> Exit {
        let of = if act.verb == Verb::Signal { "to" } else { "of" };
        let step = output::part(act.step.as_deref());
        let step = if step.is_empty() { step } else { format!("{step} {of}") };
        match self.output {
            Output::Json => output::json(&json!({
                "seen": id,
                "verb": act.verb,
                "of": self.said,
                "step": act.step,
                "effect": effect,
                "unknown": unknown,
            })),
            Output::Table => {
                let (verb, said) = (act.verb, self.said);
                output::print(format_args!("would {verb}{step} {said}: {effect}"));
                unknown.iter().for_each(|unknown| output::print(format_args!("  unknown: {unknown}")));
            }
        }
        dry_run(id)
    }
}

/// The outcome of an act on one record.
pub(crate) enum Acted {
    /// Nothing was written; the exit names the id.
    DryRun(Exit),
    Ran(Intervened),
}

/// Returns the exit of a dry run, with its id.
pub(crate) fn dry_run(id: &str) -> Exit {
    Exit::say(
        Exit::DRY_RUN,
        format!("nothing was changed. To do this, run the same command with --seen {id}"),
    )
}
