//! `locker show`.

use locker::{Error, Key, Record, State};
use serde_json::{Value, json};

use crate::args::Output;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(connection: &Connection, key: &str, output: Output) -> Result<Exit, Exit> {
    let record = read(connection, key).await?;
    let (answer, problem) = match connection.locker.answer(&record).await {
        Ok(json) => (json.map(|json| serde_json::from_str(&json).unwrap_or(Value::String(json))), None),
        Err(error) => (None, Some(error)),
    };
    match output {
        Output::Json => output::print(format_args!("{:#}", to_json(&record, answer.as_ref()))),
        Output::Table => print_table(&record, answer.as_ref()),
    }
    problem.map_or(Ok(Exit::quiet(Exit::OK)), |error| Err(error.into()))
}

/// The token as it is now, or why there is none to act on.
pub(crate) async fn read(connection: &Connection, key: &str) -> Result<Record, Exit> {
    let existing = Key::existing(key).map_err(Error::from)?;
    let record = connection.locker.get(existing).await?;
    record.ok_or_else(|| {
        Exit::say(Exit::NOT_FOUND, format!("there is no token {key}; `locker ls` lists what is unfinished"))
    })
}

fn to_json(record: &Record, answer: Option<&Value>) -> Value {
    json!({
        "lockToken": record.key().as_str(),
        "status": record.state().as_str(),
        "lockedBy": record.locked_by(),
        "attempt": record.attempt(),
        "created": output::time(record.created()),
        "expectedCompletion": output::time(record.expected_completion()),
        "actualCompletion": record.actual_completion().map(output::time),
        "expires": record.expires().map(output::time),
        "takenOverFrom": record.taken_over_from(),
        "resolvedBy": record.intervention().map(|person| &person.by),
        "resolvedReason": record.intervention().map(|person| &person.reason),
        "resolvedAt": record.intervention().map(|person| output::time(person.at)),
        "result": answer,
    })
}

fn print_table(record: &Record, answer: Option<&Value>) {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let overdue = if record.is_overdue(now) { "  OVERDUE" } else { "" };
    let mut rows = vec![
        ("token", output::plain(record.key().as_str())),
        ("status", format!("{}{overdue}", record.state().as_str())),
        ("locked by", output::plain(record.locked_by())),
        ("created", when(record.created())),
        ("due", when(record.expected_completion())),
    ];
    rows.extend(record.actual_completion().map(|at| ("ended", when(at))));
    rows.extend(record.expires().map(|at| ("kept until", when(at))));
    rows.extend(record.attempt().map(|attempt| ("attempt", output::plain(attempt))));
    rows.extend(record.taken_over_from().map(|attempt| ("took over from", output::plain(attempt))));
    if let Some(person) = record.intervention() {
        let verb = if record.state() == State::Released { "released by" } else { "resolved by" };
        rows.push((verb, format!("{}  {}", output::plain(&person.by), when(person.at))));
        rows.push(("because", output::plain(&person.reason)));
    }
    rows.extend(answer.map(|answer| ("result", output::shortened(&answer.to_string(), 500))));
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
}
