//! Inputs, results and bodies, which may be private: shown only on request, and each request is
//! logged with the operator who looked.

use locker::Work;
use locker::operator::Part;
use locker::workflow::View;
use maud::{Markup, html};
use serde_json::Value;

use super::html::{foreign, href, link as link_to, named};
use super::layout::Page;
use super::life::{read, work_of};
use super::{ABSENT, Asked, needed};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::output;

/// A link to the data of a record, which this field of the address names.
pub(super) fn link(desk: &Desk, path: &str, named: (&str, &str)) -> Markup {
    html! {
        @if desk.shows_data {
            p {
                a href=(href(path, &[named])) { "Show inputs, results and bodies" }
                " (they may be private: the console logs who looked)"
            }
        } @else {
            p { "Inputs, results and bodies are not shown: the console was started with --no-data." }
        }
    }
}

/// Logs that the viewer looks at the data of a record. An error if the console shows none.
pub(super) fn look(desk: &Desk, kind: &str, key: &str) -> Result<(), Exit> {
    if !desk.shows_data {
        let said = "inputs, results and bodies are not shown: the console was started with --no-data";
        return Err(Exit::say(Exit::SETUP, said));
    }
    tracing::info!(target: "locker::console", viewer = desk.viewer, kind, key, "data was shown");
    Ok(())
}

pub(in crate::console) async fn token_data(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let key = needed(asked, "key")?;
    look(desk, "token", key)?;
    let parts = desk.console().await?.get(key).await?;
    let record =
        parts.iter().find_map(|part| if let Part::Token(record) = part { Some(record) } else { None });
    let record =
        record.ok_or_else(|| Exit::say(Exit::NOT_FOUND, format!("There is no token {key}. {ABSENT}")))?;
    let answer = desk.connection.locker.answer(record).await?;
    Ok(page(&Work::Token(key.to_owned()), vec![("Result".to_owned(), answer)]))
}

pub(in crate::console) async fn workflow_data(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let key = needed(asked, "key")?;
    look(desk, "workflow", key)?;
    let workflows = desk.connection.workflows()?;
    let parts = desk.console().await?.get(key).await?;
    let view = parts.iter().find_map(|part| if let Part::Workflow(view) = part { Some(view) } else { None });
    let view =
        view.ok_or_else(|| Exit::say(Exit::NOT_FOUND, format!("There is no workflow {key}. {ABSENT}")))?;
    let input = workflows.input(view).await?;
    Ok(page(&Work::Workflow(key.to_owned()), of_workflow(view, input)))
}

pub(in crate::console) async fn message_data(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let work = work_of(asked)?;
    look(desk, "message", work.key())?;
    let Part::Message(message) = read(desk, &desk.console().await?, &work).await? else {
        return Err(Exit::say(Exit::USAGE, format!("{} is no message", work.to_text())));
    };
    Ok(page(&work, vec![("Body".to_owned(), Some(message.body().to_owned()))]))
}

fn of_workflow(view: &View, input: Option<String>) -> Vec<(String, Option<String>)> {
    let mut data = vec![("Input".to_owned(), input), ("Result".to_owned(), view.result().map(str::to_owned))];
    data.extend(view.steps().iter().map(|step| (format!("Result of {}", step.name()), step.result())));
    data.extend(view.events().iter().map(|event| (format!("Value of {}", event.name()), event.value())));
    let body = |message: &locker::workflow::Message| {
        (format!("Body of {} {}", message.topic(), message.short_id()), Some(message.body().to_owned()))
    };
    data.extend(view.messages().iter().map(body));
    data
}

fn page(work: &Work, data: Vec<(String, Option<String>)>) -> Page {
    let name = named(work);
    let body = html! {
        h1 { "Data of " (foreign(&name)) }
        p { (link_to(work, &name)) }
        @for (name, json) in &data { (shown(name, json.as_deref())) }
    };
    Page::new(format!("Data of {name}"), "", body)
}

/// One input, result or body.
pub(super) fn shown(name: &str, json: Option<&str>) -> Markup {
    html! {
        h2 { (foreign(name)) }
        @match json {
            Some(json) => { pre tabindex="0" { bdi { (indented(json)) } } },
            None => { p { "none is stored" } },
        }
    }
}

/// JSON on several lines, with its odd characters escaped. Another text as it is, but for them.
fn indented(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text);
    match value.and_then(|value| serde_json::to_string_pretty(&value)) {
        Ok(json) => output::escaped(&json),
        Err(_) => output::plain(text),
    }
}
