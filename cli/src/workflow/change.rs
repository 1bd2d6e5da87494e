//! The verbs by which an operator changes a workflow or a step.

use clap::Args;
use locker::operator::Act;
use locker::workflow::View;
use locker::{Intervened, Work};

use super::act::{Acting, Change, Step};
use crate::exit::Exit;
use crate::{options, output};

/// The start of the revision of a workflow that does not exist. The digest of its key follows.
const ABSENT: &str = "absent-";

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    change: Change,

    /// Run this step again, which failed, or is in doubt and did not happen.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Give the provider another key: if the step did happen, the provider no longer recognises it.
    /// --seen then accepts only the id of the dry run.
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
pub(crate) struct Signal {
    #[command(flatten)]
    change: Change,

    /// Name of the event, such as paid, or paid#7.
    #[arg(long, value_name = "EVENT")]
    event: String,

    /// Value of the event, as JSON.
    #[arg(long, value_name = "JSON")]
    value: String,

    /// Id by which the sender knows the event: if the sender sends it, too, it is not a second
    /// event.
    #[arg(long = "id", value_name = "ID")]
    event_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Correct {
    #[command(flatten)]
    change: Change,

    /// Name of the step, or event:NAME.
    #[arg(long, value_name = "STEP")]
    step: String,

    /// Result of the step or value of the event, as JSON.
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
pub(crate) struct Redact {
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
        let Some(step) = &self.step else {
            return acting.act(&self.change, Act::retry(), "retried").await;
        };
        let act = Act::retry().step(step);
        let act = if self.new_key { act.new_key() } else { act };
        acting.act(&self.change, act, "reset").await
    }
}

impl Skip {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        acting.act(&self.change, self.step.of(Act::skip()), "skipped").await
    }
}

impl Resolve {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let act = self.step.of(Act::resolve(options::result(&self.result)?));
        acting.act(&self.change, act, "resolved").await
    }
}

impl Signal {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let act = Act::signal(&self.event, options::value(&self.value)?);
        let act = self.event_id.iter().fold(act, Act::event_id);
        acting.act(&self.change, act, "gave").await
    }
}

impl Correct {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let act = Act::correct(options::result(&self.result)?).step(&self.step);
        acting.act(&self.change, act, "corrected").await
    }
}

impl Compensate {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        acting.act(&self.change, Act::compensate(), "began to compensate").await
    }
}

impl Close {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        acting.act(&self.change, Act::close(), "closed").await
    }
}

impl Redact {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        acting.act(&self.change, Act::redact(), "redacted").await
    }
}

impl Cancel {
    pub(super) async fn run(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        match &self.step {
            _ if self.not_started => self.block(acting).await,
            Some(step) => acting.act(&self.change, Act::cancel().step(step), "blocked").await,
            None => acting.act(&self.change, Act::cancel(), "cancelled").await,
        }
    }

    /// Blocks a workflow that has not started, by a record in its place.
    async fn block(&self, acting: &Acting<'_>) -> Result<Exit, Exit> {
        let which = &self.change.which;
        let operator = self.change.act.operator()?;
        let said = which.said();
        if let Some(view) = which.find(acting.workflows).await? {
            return Err(Exit::say(Exit::CHANGED, not_blocked(&view, &said)));
        }
        let (act, one) = (Act::cancel().not_started(), acting.one(&self.change, &said, &operator)?);
        let stored = Work::Workflow(which.stored()?);
        let id = act.id(&format!("{ABSENT}{}", stored.short_id()), &operator);
        if !self.change.seen.is(&id, &said, &one.look)? {
            let effect = "it has not started, and is blocked: a later start is rejected";
            return Ok(one.dry_run(&act, effect, &[], &id));
        }
        match acting.workflows.block(which.key()?, which.key_version, &operator).await? {
            Intervened::Done => {
                acting
                    .told(&self.change, format!("blocked {said}; it is rejected if it is started later"))
                    .await
            }
            _ => Err(Exit::say(
                Exit::CHANGED,
                format!("{said} started meanwhile; nothing was written, look again"),
            )),
        }
    }
}

/// The reason why a workflow with a record is not blocked.
fn not_blocked(view: &View, said: &str) -> String {
    if !view.state().is_final() {
        return format!("{said} has already started; cancel it without --not-started");
    }
    let state = view.state().as_str();
    let since = view.ended().map(|at| format!(" (ended {})", output::time(at))).unwrap_or_default();
    let act = view.intervention().map(|act| format!("; the last act on it is by {}: {}", act.by, act.reason));
    format!("{said} is {state}{since}{}; nothing was written", act.unwrap_or_default())
}
