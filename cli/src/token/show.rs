//! `locker show`: one token, its timeline, and the possible acts.

use clap::Args;
use locker::operator::Part;
use locker::{Error, Form, Key, Record, TokenState, Work};
use serde_json::{Value, json};

use super::process;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::Output;
use crate::{output, timeline, workflow};

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Key of the token or the workflow.
    key: String,

    /// Print the result too, which may be private.
    #[arg(long)]
    content: bool,
}

impl Show {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let timeline = timeline::read(connection, &self.key).await?;
        let record = match timeline.parts.first() {
            None => return Err(absent(connection, &self.key)),
            Some(Part::Workflow(view)) => {
                return workflow::show(connection, view, &timeline, (self.content, output)).await;
            }
            Some(Part::Token(record)) => record,
            Some(_) => return Err(absent(connection, &self.key)),
        };
        let answer = if self.content && !record.is_redacted() {
            connection.locker.answer(record).await
        } else {
            Ok(None)
        };
        let (answer, problem) = match answer {
            Ok(json) => (json.map(|json| serde_json::from_str(&json).unwrap_or(Value::String(json))), None),
            Err(error) => (None, Some(error)),
        };
        match output {
            Output::Json => {
                let mut shown = to_json(record, answer.as_ref());
                shown["timeline"] = json!(timeline);
                output::json(&shown);
            }
            Output::Table => {
                print_table(record, answer.as_ref());
                timeline::print(&timeline, connection);
            }
        }
        problem.map_or(Ok(Exit::quiet(Exit::OK)), |error| Err(error.into()))
    }
}

/// Reads the token as it is now. An error if there is none.
pub(super) async fn read(connection: &Connection, key: &str) -> Result<Record, Exit> {
    let existing = Key::existing(key).map_err(Error::from)?;
    let record = connection.locker.get(existing).await?;
    record.ok_or_else(|| absent(connection, key))
}

fn absent(connection: &Connection, key: &str) -> Exit {
    let ls = Hint::List("tokens").on(connection);
    let said = format!("there is no token {key}; `{ls}` lists unfinished tokens");
    connection.with_unread(Exit::say(Exit::NOT_FOUND, said))
}

pub(super) fn to_json(record: &Record, answer: Option<&Value>) -> Value {
    json!({
        "lockToken": record.key().as_str(),
        "state": record.state().as_str(),
        "revision": record.revision(),
        "class": record.class().map(|class| class.as_str()),
        "cause": record.cause(),
        "form": record.form().map(Form::as_str),
        "lockedBy": record.locked_by(),
        "commandRuns": command_runs(record),
        "attempt": record.attempt(),
        "created": output::time(record.created()),
        "expectedCompletion": output::time(record.expected_completion()),
        "actualCompletion": record.actual_completion().map(output::time),
        "expires": record.expires().map(output::time),
        "takenOverFrom": record.taken_over_from(),
        "within": record.within().map(Work::to_text),
        "idempotencyKey": record.idempotency_key(),
        "resolution": record.resolution().map(|done| done.as_str()),
        "resolvedBy": record.intervention().map(|operator| &operator.by),
        "resolvedReason": record.intervention().map(|operator| &operator.reason),
        "resolvedAt": record.intervention().map(|operator| output::time(operator.at)),
        "result": answer,
        "redacted": record.is_redacted(),
    })
}

/// Whether the command of a token in progress is running on this machine. `None` if that is
/// unknown.
fn command_runs(record: &Record) -> Option<bool> {
    (record.state() == TokenState::InProgress).then(|| process::alive(record.locked_by())).flatten()
}

fn print_table(record: &Record, answer: Option<&Value>) {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let overdue = match (record.is_in_doubt(), record.is_overdue(now)) {
        (true, _) => "  IN DOUBT",
        (_, true) => "  OVERDUE",
        _ => "",
    };
    let mut rows = vec![
        ("token", record.key().as_str().to_owned()),
        ("state", format!("{}{overdue}", record.state().as_str())),
        ("id", record.revision()),
        ("locked by", record.locked_by().to_owned()),
        ("created", when(record.created())),
    ];
    rows.extend(
        command_runs(record).map(|runs| {
            ("command", if runs { "is running on this machine" } else { "has ended" }.to_owned())
        }),
    );
    rows.extend(record.cause().map(|cause| ("cause", cause.to_owned())));
    if record.actual_completion().is_none() {
        let label = if record.is_in_doubt() { "in doubt since" } else { "due" };
        rows.push((label, when(record.expected_completion())));
    }
    rows.extend(record.form().map(|form| ("form", form.as_str().to_owned())));
    rows.extend(record.actual_completion().map(|at| ("ended", when(at))));
    rows.extend(record.expires().map(|at| ("kept until", when(at))));
    rows.extend(record.attempt().map(|attempt| ("attempt", attempt.to_owned())));
    rows.extend(record.taken_over_from().map(|attempt| ("took over from", attempt.to_owned())));
    rows.extend(record.within().map(|work| ("begun inside", work.to_text())));
    if record.actual_completion().is_none() {
        rows.push(("provider's key", record.idempotency_key()));
    }
    if let Some(operator) = record.intervention() {
        let done = record.resolution().map_or("resolved", |done| done.as_str());
        rows.push(("operator", format!("{done} by {}", operator.by.clone())));
        rows.push(("acted", when(operator.at)));
        rows.push(("reason", operator.reason.clone()));
    }
    if record.is_redacted() {
        rows.push(("result", output::NOT_KEPT.to_owned()));
    }
    rows.extend(answer.map(|answer| ("result", output::shortened(&answer.to_string(), 500))));
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
}
