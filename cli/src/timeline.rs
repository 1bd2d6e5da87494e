//! The timeline of a token or a workflow, and the possible acts.

use locker::operator::{Choice, Part, Timeline, TimelineEvent, Verb};
use locker::{Form, Work};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::output;

/// The note on a timeline that is not complete.
pub(crate) const INCOMPLETE: &str = "More may belong to it: the lists were not read to their end, or a related record \
    cannot be read; the log (--verbose) then names the record.";

/// Reads the timeline of a key, in all tables that exist.
pub(crate) async fn read(connection: &Connection, key: &str) -> Result<Timeline, Exit> {
    Ok(connection.console().await?.timeline(key).await?)
}

/// Prints the events and the choices, below the token or the workflow itself.
pub(crate) fn print(timeline: &Timeline, connection: &Connection) {
    let now = output::now();
    let rows = timeline.events.iter().map(|event| {
        [
            output::time(event.at),
            output::relative(event.at, now),
            event.what.to_string(),
            subject(&event.of, event.step.as_deref()),
            because(event),
        ]
    });
    output::print("");
    output::print(output::table(Some(["AT", "", "WHAT", "OF", "BY AND WHY"]), rows));
    if !timeline.complete {
        output::print("");
        output::print(INCOMPLETE);
    }
    if let Some(unread) = connection.unread() {
        output::print("");
        output::print(format_args!("A workflow that was begun inside it may be missing: {unread}."));
    }
    if timeline.choices.is_empty() {
        return;
    }
    output::print("");
    output::print("What may be done now:");
    for Choice { verb, of, step, revision, effect, .. } in &timeline.choices {
        let line = line(timeline, *verb, (of, step.as_deref(), revision), connection);
        output::print_choice(&line, effect);
    }
}

/// The token or the workflow, and the step, of an event.
pub(crate) fn subject(of: &Work, step: Option<&str>) -> String {
    format!("{}{}", of.to_text(), output::part(step))
}

/// Who caused an event, and why.
pub(crate) fn because(event: &TimelineEvent) -> String {
    let parts = [event.by.as_deref(), event.cause.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// The line that acts, to be pasted when the reason and the result are filled in.
pub(crate) fn line(
    timeline: &Timeline,
    verb: Verb,
    (of, step, revision): (&Work, Option<&str>, &str),
    connection: &Connection,
) -> String {
    let form = verb.takes_result().then(|| form(timeline, of));
    Hint::Act { verb, of, step, revision, form: form.as_deref() }.on(connection)
}

/// The form of a result. Its placeholders are no JSON, so that they cannot be stored by mistake.
fn form(timeline: &Timeline, of: &Work) -> String {
    let form = match timeline.parts.iter().find(|part| part.work() == *of) {
        Some(Part::Token(record)) => record.form(),
        _ => None,
    };
    match form.and_then(Form::example) {
        Some(example) if example.starts_with('{') => format!("'{}'", example.replace("\"...\"", "JSON")),
        _ => "JSON".to_owned(),
    }
}
