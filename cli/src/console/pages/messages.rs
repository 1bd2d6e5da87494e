//! *Messages*: dead and unsent messages by topic and cause, archived messages, and the page of a
//! message.

use locker::Work;
use locker::message::MessageState;
use locker::operator::{Filter, Need, Part};
use maud::{Markup, html};

use super::acts::{acts, of_message};
use super::attention::groups;
use super::html::{badge, facts, foreign, foreign_or, link, moment_or, table};
use super::layout::Page;
use super::life::{acted_on, read, work_of};
use super::listed::Extent;
use super::{Asked, data, plan};
use crate::console::server::Desk;
use crate::dead;
use crate::exit::Exit;
use crate::ls::place;

/// Archived messages that the page shows.
const MOST: usize = 200;

pub(in crate::console) async fn messages(desk: &Desk) -> Result<Page, Exit> {
    let console = desk.console().await?;
    let status = console.status().await?;
    let of_messages = |need: Need| matches!(need, Need::Dead | Need::Unsent);
    let failing: Vec<_> = status.groups.into_iter().filter(|group| of_messages(group.need)).collect();
    let of_status = Extent {
        count: failing.iter().map(|group| group.count).sum(),
        most: usize::MAX,
        finished: status.finished,
        stopped_by: status.stopped_by.as_ref(),
        only: desk.connection.only_read(),
    };
    let archived = Filter::new().only_messages([MessageState::Archived]);
    let archived = console.limit(MOST).list(&archived).await?;
    let of_archived = Extent::of(desk, &archived, MOST);
    let rows = archived.matches.iter().map(|it| {
        [
            link(&it.work, &it.work.short_id()),
            foreign_or(it.topic.as_deref()),
            foreign(&it.name.clone().unwrap_or_else(|| place(it))),
            moment_or(it.since),
            foreign_or(it.cause.as_deref()),
            foreign_or(it.note.as_deref()),
        ]
    });
    let body = html! {
        h1 { "Messages" }
        h2 { "Dead or unsent" }
        @if !failing.is_empty() {
            p { "A dead message waits for an operator. A group opens its messages, and the acts on all of them." }
            (groups(&failing))
        }
        @if failing.is_empty() || !of_status.is_whole() {
            (of_status.end(html! { p { "No message is dead, and none waits for longer than it should." } }))
        }
        h2 { "Archived" }
        @if !archived.matches.is_empty() {
            (table("Archived messages", ["Message", "Topic", "From", "Since", "Cause", "Note"], rows))
        }
        (of_archived.end(html! { p { "No message is archived." } }))
        @if let (false, true, Some(address)) =
            (archived.matches.is_empty(), desk.may_change, plan::address(None, &[]))
        {
            p { a href=(address) { "Restore all archived messages" } ": they are dead again, and can be redriven." }
        }
    };
    Ok(Page::new("Messages", "/messages", body))
}

/// One message.
pub(in crate::console) async fn message(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let work = work_of(asked)?;
    let console = desk.console().await?;
    let part = read(desk, &console, &work).await?;
    let Part::Message(message) = &part else {
        return Err(Exit::say(Exit::USAGE, format!("{} is no message", work.to_text())));
    };
    let mut rows: Vec<(&str, Markup)> = Vec::new();
    for (name, value) in dead::facts(message) {
        rows.push((name, if name == "state" { badge(&value) } else { foreign(&value) }));
    }
    // The heading and the links below have the others.
    rows.retain(|(name, _)| !["message", "committed in", "acted on by", "who said"].contains(name));
    rows.extend(acted_on(message.intervention()));
    let judged = of_message(&console, &part, message);
    let id = message.short_id();
    let body = html! {
        h1 { "Message " (foreign(&id)) }
        (facts(rows))
        @if message.consumer().is_none() {
            p { "Committed in " (link(&Work::Workflow(work.key().to_owned()), work.key())) "." }
        }
        h2 #acts { "What may be done" }
        (acts(desk, &part, &judged, None))
        h2 { "Body" }
        @match dead::body_elsewhere(message) {
            Some(place) => { p { "It is " (foreign(&place)) "." } },
            None => {
                p { (message.body().len()) " bytes" }
                (data::link(desk, "/message/data", ("work", &work.to_text())))
            },
        }
    };
    Ok(Page::new(format!("Message {id}"), "/messages", body).refreshing())
}
