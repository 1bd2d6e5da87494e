//! Common parts of the pages of a token, a workflow and a message: finding the record, its
//! operator, its timeline, and related work.

use chrono::{DateTime, Utc};
use locker::operator::{Console, Part, Timeline};
use locker::{Intervention, Work};
use maud::{Markup, html};

use super::drawing::{Bar, Drawing};
use super::html::{badge, foreign, foreign_or, link, moment, named, table, when};
use super::{ABSENT, Asked, needed, token};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::output;
use crate::timeline::{INCOMPLETE, because, subject};

/// The record that an address names.
pub(super) fn work_of(asked: &Asked) -> Result<Work, Exit> {
    let text = needed(asked, "work")?;
    let read = serde_json::from_value(serde_json::Value::String(text.to_owned()));
    read.map_err(|error| Exit::say(Exit::USAGE, error.to_string()))
}

/// Reads a token, a workflow or a message.
pub(super) async fn read(desk: &Desk, console: &Console, work: &Work) -> Result<Part, Exit> {
    let absent = || Exit::say(Exit::NOT_FOUND, format!("There is no {}. {ABSENT}", named(work)));
    if let Work::Message { .. } = work {
        let found = desk.connection.workflows()?.message(work).await?;
        return found.map(|message| Part::Message(Box::new(message))).ok_or_else(absent);
    }
    if let Work::Workflow(_) = work {
        desk.connection.workflows_table()?;
    }
    console.get(work.key()).await?.into_iter().find(|part| part.work() == *work).ok_or_else(absent)
}

/// The operator who acted last.
pub(super) fn acted_on(operator: Option<&Intervention>) -> Option<(&'static str, Markup)> {
    let operator = operator?;
    let text = format!("{}: {}", operator.by, operator.reason);
    Some(("acted on", html! { (foreign(&text)) " " (moment(operator.at)) }))
}

/// Adds a row for each other token and workflow of the timeline.
pub(super) fn add_related(drawing: &mut Drawing, timeline: &Timeline, own: &Work, now: DateTime<Utc>) {
    for part in timeline.parts.iter().filter(|part| part.work() != *own) {
        let name = part.work().to_text();
        match part {
            Part::Token(record) => drawing.add(token::bar(&name, record, now)),
            Part::Workflow(view) => {
                drawing.add(Bar::new(&name, view.state().as_str(), view.created(), view.ended()));
            }
            _ => {}
        }
    }
}

/// The other work of the timeline: outer and inner tokens and workflows.
pub(super) fn related(timeline: &Timeline, own: &Work) -> Markup {
    let others: Vec<_> = timeline.parts.iter().filter(|part| part.work() != *own).collect();
    html! {
        @if !others.is_empty() {
            h2 { "Related work" }
            ul {
                @for part in others {
                    @let work = part.work();
                    li {
                        (link(&work, &work.to_text())) " " (badge(state_of(part)))
                        @if let Some(within) = part.within() { " begun inside " (link(within, &within.to_text())) }
                    }
                }
            }
        }
        @if !timeline.complete { p { (INCOMPLETE) } }
    }
}

/// The state of a part as a reader knows it.
pub(super) fn state_of(part: &Part) -> &'static str {
    match part {
        Part::Token(record) => token::state(record, output::now()),
        Part::Workflow(view) => view.state().as_str(),
        Part::Message(message) => message.state().as_str(),
        _ => "",
    }
}

/// The events of all parts, in order.
pub(super) fn events(timeline: &Timeline) -> Markup {
    let rows = timeline.events.iter().map(|event| {
        let of = subject(&event.of, event.step.as_deref());
        [when(event.at), html! { (event.what) }, link(&event.of, &of), foreign_or(Some(&because(event)))]
    });
    table("Timeline", ["At", "What", "Of", "By and why"], rows)
}
