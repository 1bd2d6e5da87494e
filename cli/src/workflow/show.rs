//! `locker workflow show`: one workflow, with its steps and messages.

use clap::Args;
use locker::Intervention;
use locker::workflow::{List, StepView, View, Workflows};
use serde_json::{Value, json};

use super::which::Which;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

impl Show {
    pub(super) async fn run(&self, workflows: &Workflows, output: Output) -> Result<Exit, Exit> {
        let view = self.which.read(workflows).await?;
        match output {
            Output::Json => output::print(format_args!("{:#}", to_json(&view))),
            Output::Table => print(&view),
        }
        Ok(Exit::quiet(Exit::OK))
    }
}

fn listed(view: &View) -> Option<&'static str> {
    view.listed().map(List::as_str)
}

fn parsed(json: impl AsRef<str>) -> Value {
    serde_json::from_str(json.as_ref()).unwrap_or_else(|_| Value::String(json.as_ref().to_owned()))
}

fn operator(intervention: Option<&Intervention>) -> Value {
    intervention.map_or(
        Value::Null,
        |operator| json!({ "by": operator.by, "reason": operator.reason, "at": output::time(operator.at) }),
    )
}

pub(super) fn to_json(view: &View) -> Value {
    let step = |step: &StepView| {
        json!({
            "step": step.name(),
            "kind": step.kind().as_str(),
            "state": step.state().as_str(),
            "started": output::time(step.started()),
            "ended": step.ended().map(output::time),
            "keyVersion": step.key_version(),
            "compensation": step.compensation(),
            "pivot": step.is_pivot(),
            "result": step.result().map(parsed),
            "operator": operator(step.intervention()),
        })
    };
    let messages: Vec<_> = view
        .messages()
        .iter()
        .map(|message| {
            json!({
                "id": message.id(),
                "topic": message.topic(),
                "created": output::time(message.created()),
                "body": parsed(message.body()),
            })
        })
        .collect();
    json!({
        "key": view.key().as_str(),
        "keyVersion": view.key_version(),
        "name": view.name(),
        "state": view.state().as_str(),
        "listed": listed(view),
        "revision": view.revision(),
        "reason": view.reason(),
        "lockedBy": view.locked_by(),
        "attempts": view.attempts(),
        "created": output::time(view.created()),
        "due": output::time(view.due()),
        "ended": view.ended().map(output::time),
        "result": view.result().map(parsed),
        "operator": operator(view.intervention()),
        "steps": view.steps().iter().map(step).collect::<Vec<_>>(),
        "messages": messages,
    })
}

fn print(view: &View) {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let place = listed(view).filter(|place| *place == "quarantine").map(|_| "  IN QUARANTINE");
    let mut rows = vec![
        ("workflow", output::plain(view.key().as_str())),
        ("code", output::plain(view.name())),
        ("state", format!("{}{}", view.state().as_str(), place.unwrap_or_default())),
        ("revision", view.revision()),
        ("attempts", view.attempts().to_string()),
        ("created", when(view.created())),
        ("due", when(view.due())),
    ];
    if view.key_version() > 1 {
        rows.insert(1, ("key version", view.key_version().to_string()));
    }
    rows.extend(view.locked_by().map(|owner| ("driven by", output::plain(owner))));
    rows.extend(view.reason().map(|reason| ("reason", output::plain(reason))));
    rows.extend(view.ended().map(|at| ("ended", when(at))));
    rows.extend(view.result().map(|json| ("result", output::plain(&output::shortened(json, 500)))));
    if let Some(operator) = view.intervention() {
        rows.push(("acted on by", format!("{}  {}", output::plain(&operator.by), when(operator.at))));
        rows.push(("for this reason", output::plain(&operator.reason)));
    }
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
    if !view.steps().is_empty() {
        output::print("");
        let header = ["STEP", "KIND", "STATE", "STARTED", "ENDED", "COMPENSATION", "RESULT"];
        output::print(output::table(Some(header), view.steps().iter().map(row)));
    }
    if !view.messages().is_empty() {
        output::print("");
        let rows = view.messages().iter().map(|message| {
            [
                output::plain(message.topic()),
                output::relative(message.created(), now),
                output::plain(&output::shortened(message.body(), 80)),
            ]
        });
        output::print(output::table(Some(["UNSENT MESSAGE", "SINCE", "BODY"]), rows));
    }
}

fn row(step: &StepView) -> [String; 7] {
    let now = output::now();
    let compensation = match (step.compensation(), step.is_pivot()) {
        (_, true) => "pivot",
        (name, false) => name.unwrap_or("-"),
    };
    let version = (step.key_version() > 1).then(|| format!(" v{}", step.key_version()));
    [
        output::plain(&step.name()),
        step.kind().as_str().to_owned(),
        format!("{}{}", step.state().as_str(), version.unwrap_or_default()),
        output::relative(step.started(), now),
        step.ended().map_or_else(|| "-".to_owned(), |at| output::relative(at, now)),
        output::plain(compensation),
        output::plain(&output::shortened(&step.result().unwrap_or_default(), 80)),
    ]
}
