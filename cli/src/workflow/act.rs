//! Shared code of the verbs that change a workflow. Each act is one conditional write that depends
//! on the workflow as it was shown.

use clap::Args;
use locker::operator::{Act, Part, Verb};
use locker::workflow::{View, Workflows};
use locker::{Intervened, Operator};
use serde_json::json;

use super::show;
use super::which::Which;
use crate::act::{Acted, One};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::{self, Output, Seen};
use crate::output::{self, UNREAD};

/// The workflow, the operator and the reason.
#[derive(Debug, Args)]
pub(super) struct Change {
    #[command(flatten)]
    pub(super) which: Which,

    #[command(flatten)]
    pub(super) act: options::Act,

    #[command(flatten)]
    pub(super) seen: Seen,
}

/// The step of a verb that needs one.
#[derive(Debug, Args)]
pub(super) struct Step {
    /// Name of the step; or event:NAME of a late event to skip.
    #[arg(long = "step", value_name = "STEP")]
    name: String,

    /// The step has no record yet; decide about it before it starts.
    #[arg(long)]
    not_started: bool,
}

impl Step {
    /// The act on this step.
    pub(super) fn of(&self, act: Act) -> Act {
        let act = act.step(&self.name);
        if self.not_started { act.not_started() } else { act }
    }
}

/// The tables of a verb, and the format of its output.
pub(super) struct Acting<'a> {
    pub(super) connection: &'a Connection,
    pub(super) workflows: &'a Workflows,
    pub(super) output: Output,
}

impl Acting<'_> {
    /// Acts on the workflow, or prints the effect of the act. `past`: the words for the message
    /// after the act.
    pub(super) async fn act(&self, change: &Change, act: Act, past: &str) -> Result<Exit, Exit> {
        let operator = change.act.operator()?;
        let view = change.which.read(self.workflows).await?;
        let said = change.which.said();
        describe(&view, &said);
        let one = self.one(change, &said, &operator)?;
        let part = Part::Workflow(Box::new(view));
        match one.act(&part, &act).await? {
            Acted::DryRun(exit) => Ok(exit),
            Acted::Ran(Intervened::Done) => {
                let step = act.step.map(|step| format!(" {step} of")).unwrap_or_default();
                let sentence = match (past, act.verb) {
                    ("closed", _) => format!("closed {said} as it is"),
                    ("redacted", _) => format!("redacted {said}"),
                    (_, Verb::Signal) => format!("gave{} to {said}", step.trim_end_matches(" of")),
                    _ if step.starts_with(" event:") => format!("{past}{step} {said}"),
                    // A decision about a step does not open a workflow of a restored table.
                    _ if !step.is_empty() && self.connection.settings.restored.is_some() => format!(
                        "{past}{step} {said}; a completer continues it, or quarantines it again: then retry the \
                         workflow without --step"
                    ),
                    _ => format!("{past}{step} {said}; a completer continues it"),
                };
                self.told(change, sentence).await
            }
            Acted::Ran(_) => Err(Exit::say(
                Exit::CHANGED,
                format!("{said} changed meanwhile; nothing was written, look again"),
            )),
        }
    }

    pub(super) fn one<'b>(
        &'b self,
        change: &'b Change,
        said: &'b str,
        operator: &'b Operator,
    ) -> Result<One<'b>, Exit> {
        let look = Hint::ShowWorkflow(&change.which.stored()?).on(self.connection);
        let (connection, output) = (self.connection, self.output);
        Ok(One { connection, output, said, look, seen: &change.seen, operator })
    }

    /// Reports the act. With `--output json`, prints the workflow as it is now.
    pub(super) async fn told(&self, change: &Change, mut sentence: String) -> Result<Exit, Exit> {
        if self.output == Output::Json {
            let now = match change.which.find(self.workflows).await {
                Ok(now) => now.map_or(json!(null), |now| show::to_json(&now, false)),
                // The act is done even if the workflow cannot be read again. An error would claim
                // that nothing was done.
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

/// Prints the facts that the decision depends on.
fn describe(view: &View, said: &str) {
    let (state, since) = (view.state().as_str(), output::relative(view.created(), output::now()));
    let why = view.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    output::say(format_args!("{said} is {state}, begun {since}{why}"));
}
