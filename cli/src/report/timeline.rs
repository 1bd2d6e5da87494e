//! What happened to a token or a workflow, what belongs to it, and what may be done now.

use locker::operator::{Choice, Event, Part, Timeline};
use locker::{Form, Work};

use crate::connection::{Connection, quoted};
use crate::exit::Exit;
use crate::output;

/// Reads the timeline of a key in all tables that exist.
pub(crate) async fn read(connection: &Connection, key: &str) -> Result<Timeline, Exit> {
    Ok(connection.console().await?.timeline(key).await?)
}

/// Prints what happened and what may be done, below what is shown of the token or the workflow itself.
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
        output::print("\nMore may belong to it: the lists were not read to their end.");
    }
    if timeline.choices.is_empty() {
        return;
    }
    output::print("\nWhat may be done now:");
    for choice in &timeline.choices {
        output::print(format_args!(
            "\n  {}\n      {}",
            line(timeline, choice, connection),
            output::plain(&choice.effect)
        ));
    }
}

fn subject(of: &Work, step: Option<&str>) -> String {
    let step = step.map(|step| format!(" step {step}")).unwrap_or_default();
    output::plain(&format!("{}{step}", of.to_text()))
}

fn because(event: &Event) -> String {
    let parts = [event.by.as_deref(), event.cause.as_deref()];
    output::plain(&parts.into_iter().flatten().collect::<Vec<_>>().join(": "))
}

/// The line that does it, to be pasted when the reason and the result are filled in.
fn line(timeline: &Timeline, choice: &Choice, connection: &Connection) -> String {
    let (group, key) = match &choice.of {
        Work::Workflow(stored) => ("workflow ", stored.as_str()),
        _ => ("", choice.of.key()),
    };
    let (key, version) = key.split_once(" v").map_or((key, None), |(key, version)| (key, Some(version)));
    let version = version.map(|version| format!(" --key-version {version}")).unwrap_or_default();
    let step = choice.step.as_ref().map(|step| format!(" --step {}", quoted(step))).unwrap_or_default();
    let result = if choice.verb.takes_result() {
        format!(" --result {}", form(timeline, choice))
    } else {
        String::new()
    };
    let (options, verb, revision) = (&connection.options, choice.verb, &choice.revision);
    let key = quoted(&output::plain(key));
    format!("locker{options} {group}{verb} {key}{version}{step} --seen {revision} --reason TEXT{result}")
}

/// What a result has to look like.
fn form(timeline: &Timeline, choice: &Choice) -> String {
    let of_choice = |part: &&Part| part.work() == choice.of;
    let form = match timeline.parts.iter().find(of_choice) {
        Some(Part::Token(record)) => record.form(),
        _ => None,
    };
    match form.and_then(Form::example) {
        Some(example) if example.starts_with('{') => format!("'{example}'"),
        _ => "JSON".to_owned(),
    }
}
