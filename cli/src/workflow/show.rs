//! `locker workflow show`: one workflow with its steps, its messages, its timeline, and the acts
//! that are possible now.

use chrono::{DateTime, Utc};
use clap::Args;
use locker::operator::{Part, Timeline};
use locker::workflow::{EventView, List, StepKind, StepView, View};
use locker::{Intervention, Work};
use serde_json::{Value, json};

use super::which::Which;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::{output, timeline};

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,

    /// Also print its input, its results and the bodies of its messages, which may be private.
    #[arg(long)]
    content: bool,
}

impl Show {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let stored = self.which.stored()?;
        let timeline = timeline::read(connection, &stored).await?;
        let is_it =
            |part: &Part| matches!(part, Part::Workflow(_)) && part.work() == Work::Workflow(stored.clone());
        match timeline.parts.iter().find(|part| is_it(part)) {
            Some(Part::Workflow(view)) => show(connection, view, &timeline, (self.content, output)).await,
            _ => Err(self.which.absent()),
        }
    }
}

/// Prints one workflow. `content`: whether to print content that may be private.
pub(crate) async fn show(
    connection: &Connection,
    view: &View,
    timeline: &Timeline,
    (content, output): (bool, Output),
) -> Result<Exit, Exit> {
    let input = if content { connection.workflows()?.input(view).await? } else { None };
    match output {
        Output::Json => {
            let mut shown = to_json(view, content);
            shown["input"] = json!(input.map(parsed));
            shown["timeline"] = json!(timeline);
            output::json(&shown);
        }
        Output::Table => {
            print(view, input.as_deref(), content);
            timeline::print(timeline, connection);
        }
    }
    Ok(Exit::quiet(Exit::OK))
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

/// `content`: whether to include content that may be private.
pub(super) fn to_json(view: &View, content: bool) -> Value {
    let shown = |json: Option<Value>| json.filter(|_| content);
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
            "idempotencyKey": step.idempotency_key(),
            "result": shown(step.result().map(parsed)),
            "operator": operator(step.intervention()),
        })
    };
    let event = |event: &EventView| {
        json!({
            "event": event.name(),
            "state": event.state().as_str(),
            "since": event.since().map(output::time),
            "until": event.until().map(output::time),
            "arrived": event.arrived().map(output::time),
            "id": event.id(),
            "cause": event.cause(),
            "compensation": event.compensation(),
            "value": shown(event.value().map(parsed)),
            "operator": operator(event.intervention()),
        })
    };
    let messages: Vec<_> = view
        .messages()
        .iter()
        .map(|message| {
            json!({
                "id": message.id(),
                "shortId": message.short_id(),
                "state": message.state().as_str(),
                "cause": message.cause(),
                "topic": message.topic(),
                "created": output::time(message.created()),
                "body": shown(Some(parsed(message.body()))),
            })
        })
        .collect();
    json!({
        "key": view.key().as_str(),
        "keyVersion": view.key_version(),
        "continuedAs": view.continued_as(),
        "name": view.name(),
        "state": view.state().as_str(),
        "listed": listed(view),
        "revision": view.revision(),
        "reason": view.reason(),
        "lockedBy": view.locked_by(),
        "attempts": view.attempts(),
        "failedRuns": view.failed_runs(),
        "created": output::time(view.created()),
        "due": output::time(view.due()),
        "ended": view.ended().map(output::time),
        "result": shown(view.result().map(parsed)),
        "redacted": view.is_redacted(),
        "within": view.within().map(Work::to_text),
        "operator": operator(view.intervention()),
        "waits": view.waits(),
        "steps": view.steps().iter().map(step).collect::<Vec<_>>(),
        "events": view.events().iter().map(event).collect::<Vec<_>>(),
        "messages": messages,
    })
}

fn print(view: &View, input: Option<&str>, content: bool) {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let place = listed(view).filter(|place| *place == "quarantine").map(|_| "  IN QUARANTINE");
    let mut rows = vec![
        ("workflow", view.key().as_str().to_owned()),
        ("code", view.name().to_owned()),
        ("state", format!("{}{}", view.state().as_str(), place.unwrap_or_default())),
        ("id", view.revision()),
        ("attempts", view.attempts().to_string()),
        ("created", when(view.created())),
        ("due", when(view.due())),
    ];
    if view.key_version() > 1 {
        rows.insert(1, ("key version", view.key_version().to_string()));
    }
    rows.extend(view.continued_as().map(|version| ("continues as", format!("key version {version}"))));
    rows.extend(view.locked_by().map(|owner| ("driven by", owner.to_owned())));
    rows.extend(view.reason().map(|reason| ("reason", reason.to_owned())));
    rows.extend(view.waits().iter().map(|on| {
        let (since, until) = (output::relative(on.since, now), when(on.until));
        ("waits for", format!("{on} since {since}, until {until}"))
    }));
    rows.extend(view.ended().map(|at| ("ended", when(at))));
    rows.extend(view.within().map(|work| ("begun inside", work.to_text())));
    let long = |json: &str| output::shortened(json, 500);
    rows.extend(input.map(|json| ("input", long(json))));
    if view.is_redacted() {
        rows.push(("result", output::NOT_KEPT.to_owned()));
    }
    rows.extend(view.result().filter(|_| content).map(|json| ("result", long(json))));
    if let Some(operator) = view.intervention() {
        rows.push(("acted on by", format!("{}  {}", operator.by.clone(), when(operator.at))));
        rows.push(("for this reason", operator.reason.clone()));
    }
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
    if !view.steps().is_empty() {
        output::print("");
        let last = if content { "RESULT" } else { "PROVIDER'S KEY" };
        let header = ["STEP", "KIND", "STATE", "STARTED", "ENDED", "COMPENSATION", last];
        output::print(output::table(Some(header), view.steps().iter().map(|step| row(step, content))));
    }
    if !view.events().is_empty() {
        output::print("");
        let last = if content { "VALUE" } else { "ID" };
        let header = ["EVENT", "STATE", "SINCE", "UNTIL", "CAME", "CAUSE", "COMPENSATION", last];
        output::print(output::table(
            Some(header),
            view.events().iter().map(|event| of_event(event, content)),
        ));
    }
    if !view.messages().is_empty() {
        output::print("");
        let rows = view.messages().iter().map(|message| {
            [
                message.topic().to_owned(),
                message.short_id(),
                message.state().as_str().to_owned(),
                output::relative(message.created(), now),
                if content { output::shortened(message.body(), 80) } else { "-".to_owned() },
            ]
        });
        output::print(output::table(Some(["MESSAGE", "ID", "STATE", "COMMITTED", "BODY"]), rows));
    }
}

fn of_event(event: &EventView, content: bool) -> [String; 8] {
    let now = output::now();
    let when = |at: Option<DateTime<Utc>>| at.map_or_else(|| "-".to_owned(), |at| output::relative(at, now));
    let or = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let value = || output::shortened(&event.value().unwrap_or_default(), 80);
    [
        event.name(),
        event.state().as_str().to_owned(),
        when(event.since()),
        when(event.until()),
        when(event.arrived()),
        or(event.cause()),
        or(event.compensation()),
        if content { value() } else { or(event.id()) },
    ]
}

fn row(step: &StepView, content: bool) -> [String; 7] {
    let now = output::now();
    let compensation = match (step.compensation(), step.is_pivot()) {
        (_, true) => "pivot",
        (name, false) => name.unwrap_or("-"),
    };
    let version = (step.key_version() > 1).then(|| format!(" v{}", step.key_version()));
    [
        step.name(),
        step.kind().as_str().to_owned(),
        format!("{}{}", step.state().as_str(), version.unwrap_or_default()),
        output::relative(step.started(), now),
        step.ended().map_or_else(|| "-".to_owned(), |at| output::relative(at, now)),
        compensation.to_owned(),
        if content {
            output::shortened(&step.result().unwrap_or_default(), 80)
        } else {
            match step.kind() {
                StepKind::Atomic => "-".to_owned(),
                StepKind::Timer => step.recorded_time().map_or_else(|| "-".to_owned(), output::time),
                _ => step.idempotency_key(),
            }
        },
    ]
}
