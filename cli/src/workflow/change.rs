//! What a person does to a workflow: one conditional write, guarded by what was just read, with a reason.

use clap::Args as ClapArgs;
use locker::Person;
use locker::workflow::{Intervened, Listed, StepState, WorkflowView, Workflows};
use serde_json::json;

use super::{Verb, Which, show};
use crate::args::Output;
use crate::exit::Exit;
use crate::{change, output};

#[derive(Debug, ClapArgs)]
pub(crate) struct Change {
    #[command(flatten)]
    which: Which,

    /// Why; it is kept on the record.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// Who; it is kept on the record [default: USER@HOST].
    #[arg(long = "as", value_name = "NAME")]
    person: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Step {
    /// The step.
    #[arg(long, value_name = "STEP")]
    step: String,

    /// It has no record yet: speak for it before it starts.
    #[arg(long)]
    not_started: bool,
}

pub(super) async fn run(workflows: &Workflows, verb: Verb, output: Output) -> Result<Exit, Exit> {
    let act = Act { workflows, output };
    match verb {
        Verb::Retry { change, step: None } => {
            let (person, seen) = act.read(&change).await?;
            act.done(&change, "retried", &seen, workflows.retry(&seen, &person).await?).await
        }
        Verb::Retry { change, step: Some(step) } => {
            let (person, seen) = act.read(&change).await?;
            recorded(&change.which, &seen, &step, "")?;
            let done = workflows.retry_step(&seen, &step, &person).await?;
            act.done_to(&change, "freed", &seen, &step, done).await
        }
        Verb::Skip { change, step } => {
            let (person, seen) = act.read_step(&change, &step).await?;
            let done = workflows.skip_step(&seen, &step.step, &person).await?;
            act.done_to(&change, "skipped", &seen, &step.step, done).await
        }
        Verb::Resolve { change, step, result } => {
            let result = change::json(&result)?;
            let (person, seen) = act.read_step(&change, &step).await?;
            let done = workflows.resolve_step(&seen, &step.step, &result, &person).await?;
            act.done_to(&change, "resolved", &seen, &step.step, done).await
        }
        Verb::Compensate(change) => {
            let (person, seen) = act.read(&change).await?;
            act.done(&change, "is being undone:", &seen, workflows.compensate(&seen, &person).await?).await
        }
        Verb::Close(change) => {
            let (person, seen) = act.read(&change).await?;
            if !seen.state().is_final() && seen.listed() != Some(Listed::Quarantine) {
                let said = change.which.said();
                let why = format!("{said} is not in quarantine; only what stands still is closed as it is");
                return Err(Exit::say(Exit::CHANGED, why));
            }
            match workflows.close(&seen, &person).await? {
                Intervened::Done => {
                    act.told(&change, format!("closed {} as it is", change.which.said())).await
                }
                other => act.done(&change, "closed", &seen, other).await,
            }
        }
        Verb::Cancel { change, step: Some(step), .. } => {
            let (person, seen) = act.read(&change).await?;
            let done = workflows.cancel_step(&seen, &step, &person).await?;
            act.done_to(&change, "refused from now on:", &seen, &step, done).await
        }
        Verb::Cancel { change, not_started: true, .. } => act.refuse(&change).await,
        Verb::Cancel { change, .. } => {
            let (person, seen) = act.read(&change).await?;
            act.done(&change, "cancelled", &seen, workflows.compensate(&seen, &person).await?).await
        }
        Verb::Ls(_) | Verb::Show(_) | Verb::Table { .. } => Ok(Exit::quiet(Exit::OK)),
    }
}

struct Act<'a> {
    workflows: &'a Workflows,
    output: Output,
}

impl Act<'_> {
    /// The person, and the workflow as the decision rests on it.
    async fn read(&self, change: &Change) -> Result<(Person, WorkflowView), Exit> {
        let person = change::person(change.person.as_deref(), &change.reason)?;
        let seen = change.which.read(self.workflows).await?;
        let (state, since) = (seen.state().as_str(), output::relative(seen.created(), output::now()));
        let why = seen.reason().map(|reason| format!(": {}", output::plain(reason)));
        eprintln!("locker: {} is {state}, begun {since}{}", change.which.said(), why.unwrap_or_default());
        Ok((person, seen))
    }

    /// The same for a step, which is recorded unless it was said that it is not.
    async fn read_step(&self, change: &Change, step: &Step) -> Result<(Person, WorkflowView), Exit> {
        let (person, seen) = self.read(change).await?;
        if !step.not_started {
            recorded(&change.which, &seen, &step.step, "; if it has yet to start, add --not-started")?;
        }
        Ok((person, seen))
    }

    /// A workflow that nobody has started: leave what refuses it.
    async fn refuse(&self, change: &Change) -> Result<Exit, Exit> {
        let person = change::person(change.person.as_deref(), &change.reason)?;
        let said = change.which.said();
        if change.which.find(self.workflows).await?.is_some() {
            let started = format!("{said} has been started; cancel it without --not-started");
            return Err(Exit::say(Exit::CHANGED, started));
        }
        let (key, version) = (change.which.key()?, change.which.key_version);
        match self.workflows.cancel(key, version, &person).await? {
            Intervened::Done => self.told(change, format!("{said} is refused, should it come")).await,
            _ => Err(Exit::say(Exit::CHANGED, format!("{said} was started meanwhile; look again"))),
        }
    }

    async fn done(
        &self,
        change: &Change,
        verb: &str,
        seen: &WorkflowView,
        done: Intervened,
    ) -> Result<Exit, Exit> {
        let said = change.which.said();
        match done {
            Intervened::Done => {
                self.told(change, format!("{verb} {said}; a completer goes on with it")).await
            }
            Intervened::Changed => Err(changed(&said)),
            _ => Err(ended(&said, seen)),
        }
    }

    async fn done_to(
        &self,
        change: &Change,
        verb: &str,
        seen: &WorkflowView,
        step: &str,
        done: Intervened,
    ) -> Result<Exit, Exit> {
        let said = change.which.said();
        match done {
            Intervened::Done => {
                self.told(change, format!("{verb} {step} of {said}; a completer goes on with it")).await
            }
            Intervened::Changed => Err(changed(&said)),
            _ => match state_of(seen, step) {
                Some(state) if !seen.state().is_final() => {
                    let state = state.as_str();
                    let why = format!("the step {step} of {said} is {state}, and cannot be changed so");
                    Err(Exit::say(Exit::CHANGED, why))
                }
                _ => Err(ended(&said, seen)),
            },
        }
    }

    /// For programs, the workflow as it is now.
    async fn told(&self, change: &Change, sentence: String) -> Result<Exit, Exit> {
        if self.output == Output::Json {
            let now = change.which.find(self.workflows).await?;
            output::print(format_args!("{:#}", now.map_or(json!(null), |now| show::to_json(&now))));
        }
        Ok(Exit::say(Exit::OK, sentence))
    }
}

fn state_of(seen: &WorkflowView, step: &str) -> Option<StepState> {
    seen.steps().iter().find(|recorded| recorded.name() == step).map(locker::workflow::StepView::state)
}

/// A name that was mistyped would be a record that nobody ever reads.
fn recorded(which: &Which, seen: &WorkflowView, step: &str, hint: &str) -> Result<(), Exit> {
    if state_of(seen, step).is_some() {
        return Ok(());
    }
    let names: Vec<_> = seen.steps().iter().map(locker::workflow::StepView::name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let said = which.said();
    Err(Exit::say(Exit::NOT_FOUND, format!("{said} has no record of a step {step}, but of: {names}{hint}")))
}

fn changed(said: &str) -> Exit {
    Exit::say(Exit::CHANGED, format!("{said} changed meanwhile; nothing was written, look again"))
}

fn ended(said: &str, seen: &WorkflowView) -> Exit {
    let state = seen.state().as_str();
    Exit::say(Exit::CHANGED, format!("{said} has ended already, as {state}; nothing was written"))
}
