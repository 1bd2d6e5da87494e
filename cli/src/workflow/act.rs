//! What the verbs that change a workflow share: each is one conditional write that depends on what
//! was just shown.

use clap::Args;
use locker::workflow::{List, StepState, StepView, View, Workflows};
use locker::{Intervened, Operator};
use serde_json::json;

use super::show;
use super::which::Which;
use crate::exit::Exit;
use crate::options::{Act, Output, Seen};
use crate::output::{self, UNREAD};

/// The workflow, the operator and the reason.
#[derive(Debug, Args)]
pub(super) struct Change {
    #[command(flatten)]
    pub(super) which: Which,

    #[command(flatten)]
    pub(super) act: Act,

    #[command(flatten)]
    seen: Seen,
}

/// The step of a verb that needs one.
#[derive(Debug, Args)]
pub(super) struct Step {
    /// Name of the step.
    #[arg(long = "step", value_name = "STEP")]
    pub(super) name: String,

    /// The step has no record yet; decide about it before it starts.
    #[arg(long)]
    not_started: bool,
}

/// Where a verb reads and writes, and how it prints what it did.
pub(super) struct Acting<'a> {
    pub(super) workflows: &'a Workflows,
    pub(super) output: Output,
}

impl Acting<'_> {
    /// Reads and shows the workflow that the decision depends on, and checks that the operator may
    /// make it.
    pub(super) async fn read(&self, change: &Change, verb: &str) -> Result<(Operator, View), Exit> {
        self.read_for(change, verb, |_| false).await
    }

    /// `is_harmless`: whether the verb may act on a workflow that is not in quarantine without a
    /// word about what was seen.
    pub(super) async fn read_for(
        &self,
        change: &Change,
        verb: &str,
        is_harmless: fn(&View) -> bool,
    ) -> Result<(Operator, View), Exit> {
        let operator = change.act.operator()?;
        let seen = change.which.read(self.workflows).await?;
        let (state, since) = (seen.state().as_str(), output::relative(seen.created(), output::now()));
        let why = seen.reason().map(|reason| format!(": {reason}"));
        let (said, why) = (change.which.said(), why.unwrap_or_default());
        output::say(format_args!("{said} is {state}, begun {since}{why}"));
        self.check(change, &seen, verb, is_harmless(&seen))?;
        Ok((operator, seen))
    }

    /// A workflow in quarantine waits for an operator. Any other may be on its way, so what was
    /// seen has to be said.
    fn check(&self, change: &Change, seen: &View, verb: &str, is_harmless: bool) -> Result<(), Exit> {
        let (said, revision) = (change.which.said(), seen.revision());
        change.seen.unchanged(&said, &revision, &format!("locker workflow show {said}"))?;
        if is_harmless {
            return Ok(());
        }
        if !seen.state().is_final() && seen.listed() != Some(List::Quarantine) && !change.seen.is_sure() {
            let why = format!(
                "{said} was left as it is: it is not in quarantine, and may be running; to {verb} it all the same, say that you \
                 saw it as it is: add --seen {revision}"
            );
            return Err(Exit::say(Exit::CHANGED, why));
        }
        change.seen.confirmed(&said, verb)
    }

    /// The same for a step, which has to have a record unless the operator says that it has none.
    pub(super) async fn read_step(
        &self,
        change: &Change,
        step: &Step,
        verb: &str,
    ) -> Result<(Operator, View), Exit> {
        let (operator, seen) = self.read(change, verb).await?;
        if !step.not_started {
            recorded(&change.which, &seen, &step.name, "; if it has not started yet, add --not-started")?;
        }
        Ok((operator, seen))
    }

    pub(super) async fn done(
        &self,
        change: &Change,
        verb: &str,
        seen: &View,
        done: Intervened,
    ) -> Result<Exit, Exit> {
        let said = change.which.said();
        match done {
            Intervened::Done => self.told(change, format!("{verb} {said}; a completer continues it")).await,
            Intervened::Changed => Err(changed(&said)),
            _ => Err(ended(&said, seen)),
        }
    }

    pub(super) async fn done_to(
        &self,
        change: &Change,
        verb: &str,
        seen: &View,
        step: &str,
        done: Intervened,
    ) -> Result<Exit, Exit> {
        let said = change.which.said();
        match done {
            Intervened::Done => {
                self.told(change, format!("{verb} {step} of {said}; a completer continues it")).await
            }
            Intervened::Changed => Err(changed(&said)),
            _ => match state_of(seen, step) {
                Some(state) if !seen.state().is_final() => {
                    let state = state.as_str();
                    let why = format!("step {step} of {said} is {state}, which this verb cannot change");
                    Err(Exit::say(Exit::CHANGED, why))
                }
                _ => Err(ended(&said, seen)),
            },
        }
    }

    /// Says what was done; for programs, prints the workflow as it is now.
    pub(super) async fn told(&self, change: &Change, mut sentence: String) -> Result<Exit, Exit> {
        if self.output == Output::Json {
            let now = match change.which.find(self.workflows).await {
                Ok(now) => now.map_or(json!(null), |now| show::to_json(&now, false)),
                // It is done, whatever comes of a look at it: an error would say that nothing was.
                Err(_) => {
                    sentence = format!("{sentence}; {UNREAD}");
                    json!({ "key": change.which.key()?.as_str() })
                }
            };
            output::json(&now);
        }
        Ok(Exit::say(Exit::OK, sentence))
    }
}

fn state_of(seen: &View, step: &str) -> Option<StepState> {
    seen.steps().iter().find(|recorded| recorded.name() == step).map(StepView::state)
}

/// Refuses a step without a record: a mistyped name would become a record that no driver reads.
pub(super) fn recorded(which: &Which, seen: &View, step: &str, hint: &str) -> Result<(), Exit> {
    if state_of(seen, step).is_some() {
        return Ok(());
    }
    let names: Vec<_> = seen.steps().iter().map(StepView::name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let said = which.said();
    Err(Exit::say(Exit::NOT_FOUND, format!("{said} has no record of step {step}; recorded: {names}{hint}")))
}

fn changed(said: &str) -> Exit {
    Exit::say(Exit::CHANGED, format!("{said} changed meanwhile; nothing was written, look again"))
}

fn ended(said: &str, seen: &View) -> Exit {
    let state = seen.state().as_str();
    Exit::say(Exit::CHANGED, format!("{said} is already {state}; nothing was written"))
}
