//! Items of the index as a table.

use locker::operator::Match;
use locker::{Error, Work};
use maud::{Markup, html};

use super::html::{foreign, foreign_or, href_of_group, link, moment_or, need_badge, table};

/// A row for each item, which opens its page.
pub(super) fn table_of(matches: &[Match]) -> Markup {
    let rows = matches.iter().map(|it| {
        let need = it.need.map(|need| {
            html! { a href=(href_of_group(&it.group, need)) { (need_badge(need)) } }
        });
        [
            item(it),
            foreign(kind(it)),
            foreign_or(it.topic.as_deref().or(it.name.as_deref())),
            need.unwrap_or_else(|| html! { "–" }),
            moment_or(it.since),
            foreign_or(it.owner.as_deref()),
            foreign_or(it.cause.as_deref()),
        ]
    });
    table("Items", ["Item", "Kind", "Name or topic", "Need", "Since", "By", "Cause"], rows)
}

fn kind(it: &Match) -> &'static str {
    match &it.work {
        _ if it.event.is_some() => "late event",
        Work::Token(_) => "token",
        Work::Workflow(_) => "workflow",
        _ => "message",
    }
}

fn item(it: &Match) -> Markup {
    match (&it.work, &it.event) {
        (work @ Work::Workflow(key), Some(event)) => link(work, &format!("{event} of {key}")),
        (work @ (Work::Token(key) | Work::Workflow(key)), _) => link(work, key),
        (work, _) => link(work, &work.short_id()),
    }
}

/// Whether there may be more.
pub(super) fn end(count: usize, is_finished: bool, stopped_by: Option<&Error>, most: usize) -> Markup {
    html! {
        p {
            @match (is_finished, count >= most) {
                (true, _) => { (count) " listed, and there are no more." },
                (false, true) => { "The first " (count) " are listed. There may be more." },
                (false, false) => { (count) " found. The lists were not read to their end: there may be more." },
            }
        }
        @if let Some(error) = stopped_by {
            p role="alert" { (foreign(&error.to_string())) }
        }
    }
}
