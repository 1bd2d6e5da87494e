//! The verbs by which an operator changes a workflow or a step.

use clap::Args;
use locker::Intervened;
use locker::workflow::{List, View};

use super::act::{Acting, Change, Step, recorded};
use crate::exit::Exit;
use crate::options;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    change: Change,

    /// Run this step again, which failed, or is in doubt and did not happen.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Give the provider another key: if the step did happen, the provider no longer recognises it.
    #[arg(long, requires = "step")]
    new_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Skip {
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    step: Step,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    step: Step,

    /// Result of the step, as JSON.
    #[arg(long, value_name = "JSON")]
    result: String,
}

#[derive(Debug, Args)]
pub(crate) struct Correct {
    #[command(flatten)]
    change: Change,

    /// Name of the step.
    #[arg(long, value_name = "STEP")]
    step: String,

    /// Result of the step, as JSON.
    #[arg(long, value_name = "JSON")]
    result: String,
}

#[derive(Debug, Args)]
pub(crate) struct Compensate {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    change: Change,

    /// Block this step, which has not started.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Block a workflow that has not started.
    #[arg(long, conflicts_with = "step")]
    not_started: bool,
}

impl Retry {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let change = &self.change;
        let Some(step) = &self.step else {
            // That it is driven sooner changes nothing about one that waits for its next run.
            let waits = |seen: &View| seen.locked_by().is_none();
            let (operator, seen) = acting.read_for(change, "retry", waits).await?;
            let done = acting.workflows.retry(&seen, &operator).await?;
            return acting.done(change, "retried", &seen, done).await;
        };
        let (operator, seen) = acting.read(change, "retry").await?;
        recorded(&change.which, &seen, step, "")?;
        let workflows = &acting.workflows;
        let done = if self.new_key {
            workflows.retry_step_with_new_key(&seen, step, &operator).await?
        } else {
            workflows.retry_step(&seen, step, &operator).await?
        };
        acting.done_to(change, "reset", &seen, step, done).await
    }
}

impl Skip {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let step = &self.step.name;
        let (operator, seen) = acting.read_step(&self.change, &self.step, "skip").await?;
        let done = acting.workflows.skip_step(&seen, step, &operator).await?;
        acting.done_to(&self.change, "skipped", &seen, step, done).await
    }
}

impl Resolve {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let step = &self.step.name;
        let result = options::result(&self.result)?;
        let (operator, seen) = acting.read_step(&self.change, &self.step, "resolve").await?;
        let done = acting.workflows.resolve_step(&seen, step, &result, &operator).await?;
        acting.done_to(&self.change, "resolved", &seen, step, done).await
    }
}

impl Correct {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let result = options::result(&self.result)?;
        let (operator, seen) = acting.read(&self.change, "correct").await?;
        recorded(&self.change.which, &seen, &self.step, "")?;
        let done = acting.workflows.correct_step(&seen, &self.step, &result, &operator).await?;
        acting.done_to(&self.change, "corrected", &seen, &self.step, done).await
    }
}

impl Compensate {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let (operator, seen) = acting.read(&self.change, "compensate").await?;
        let done = acting.workflows.compensate(&seen, &operator).await?;
        acting.done(&self.change, "began to compensate", &seen, done).await
    }
}

impl Close {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let (operator, seen) = acting.read(&self.change, "close").await?;
        let said = self.change.which.said();
        if !seen.state().is_final() && seen.listed() != Some(List::Quarantine) {
            let why = format!("{said} is not in quarantine; only a workflow in quarantine can be closed");
            return Err(Exit::say(Exit::CHANGED, why));
        }
        match acting.workflows.close(&seen, &operator).await? {
            Intervened::Done => acting.told(&self.change, format!("closed {said} as it is")).await,
            other => acting.done(&self.change, "closed", &seen, other).await,
        }
    }
}

impl Cancel {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        if self.not_started {
            return self.block(acting).await;
        }
        let (operator, seen) = acting.read(&self.change, "cancel").await?;
        if let Some(step) = &self.step {
            let done = acting.workflows.cancel_step(&seen, step, &operator).await?;
            return acting.done_to(&self.change, "blocked", &seen, step, done).await;
        }
        let done = acting.workflows.compensate(&seen, &operator).await?;
        acting.done(&self.change, "cancelled", &seen, done).await
    }

    /// Blocks a workflow that has not started, by a record in its place.
    async fn block(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let which = &self.change.which;
        let operator = self.change.act.operator()?;
        let said = which.said();
        if which.find(acting.workflows).await?.is_some() {
            let started = format!("{said} has already started; cancel it without --not-started");
            return Err(Exit::say(Exit::CHANGED, started));
        }
        match acting.workflows.cancel(which.key()?, which.key_version, &operator).await? {
            Intervened::Done => {
                // It may have started since it was looked for.
                let started = acting.workflows.get(which.key()?, which.key_version).await;
                let said = match started {
                    Ok(Some(view)) if view.ended() == Some(view.created()) => {
                        format!("blocked {said}; it is rejected if it is started later")
                    }
                    Ok(_) => format!(
                        "{said} had started meanwhile, and is cancelled: what its steps did is undone"
                    ),
                    Err(_) => {
                        format!("cancelled {said}; whether it had started meanwhile is not known, look at it")
                    }
                };
                acting.told(&self.change, said).await
            }
            _ => Err(Exit::say(Exit::CHANGED, format!("{said} started meanwhile; look again"))),
        }
    }
}
