//! *Needs attention*: groups of items with the same cause, and the items of one group.

use locker::operator::{Filter, Group, Listing, Status};
use maud::{Markup, html};

use super::html::{code, foreign, foreign_or, href, href_of_group, moment_or, need_badge, table};
use super::layout::Page;
use super::listed::{self, Extent};
use super::{Asked, given, need_named, needed, plan};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::status;

/// Items of a group that one page shows.
const MOST: usize = 200;

pub(in crate::console) async fn attention(desk: &Desk) -> Result<Page, Exit> {
    let read = status::read(&desk.connection, desk.console().await?).await?;
    let status = &read.status;
    let class = if status.is_well() { "sentence well" } else { "sentence" };
    let body = html! {
        h1 { "Needs attention" }
        p class=(class) { (foreign(&read.sentence(&desk.connection))) "." }
        @if let Some(error) = &status.stopped_by {
            p role="alert" { (foreign(&error.to_string())) }
        }
        (under_way(desk))
        @if !status.groups.is_empty() {
            (groups(&status.groups))
        }
        h2 { "Scheduled functions" }
        (runs(status))
        @if let Some(waiting) = status::waiting(status) { p { (waiting) "." } }
    };
    Ok(Page::new("Needs attention", "/", body).refreshing())
}

/// The plans that this console applies now.
fn under_way(desk: &Desk) -> Markup {
    let runs = desk.runs.under_way();
    html! {
        @for (id, progress) in &runs {
            p { a href=(href("/plan", &[("id", id)])) { "Plan " (id) } " is being applied: " (progress.told) " records so far." }
        }
    }
}

pub(super) fn groups(groups: &[Group]) -> Markup {
    let rows = groups.iter().map(|group| {
        let address = href_of_group(&group.id, group.need);
        let cause = if group.cause.is_empty() { "no cause is stored" } else { &group.cause };
        [
            html! { (group.count) },
            need_badge(group.need),
            foreign(&status::subject(&group.subject)),
            moment_or(group.first),
            html! { a href=(address) { (foreign(cause)) } },
            html! { code { (group.id) } },
        ]
    });
    table("Groups", ["Count", "Need", "Of", "Oldest", "Cause", "Group"], rows)
}

/// When each scheduled function ran last.
pub(super) fn runs(status: &Status) -> Markup {
    let rows = status.runs.iter().map(|run| {
        let [name, ran, how, by] = status::last_run(run);
        [html! { (name) }, html! { (ran) }, badge_or(&how), foreign_or(Some(&by))]
    });
    table("Scheduled functions", ["Function", "Last run", "Problem", "By"], rows)
}

fn badge_or(word: &str) -> Markup {
    html! { @if !word.is_empty() { span class="badge urgent" { (word) } } }
}

/// The items of a group.
pub(in crate::console) async fn group(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let id = needed(asked, "id")?;
    let console = desk.console().await?.limit(MOST);
    let named = given(asked, "need").and_then(need_named);
    let filter = match named {
        // Only the lists of the need are read.
        Some(need) => Filter::new().group(id).need(need),
        None => Filter::new().group(id),
    };
    let found = console.list(&filter).await?;
    let Some(first) = found.matches.first() else {
        return Err(without_items(id, found, desk.connection.only_read()));
    };
    let extent = Extent::of(desk, &found, MOST);
    let hint = Hint::ListGroup(id).on(&desk.connection);
    let body = html! {
        h1 { "Group " code { (foreign(id)) } }
        p { @if let Some(need) = first.need { (need_badge(need)) " " } (foreign_or(first.cause.as_deref())) }
        (listed::table_of(&found.matches))
        (extent.end(Markup::default()))
        @if let (true, Some(address)) = (desk.may_change, plan::address(first.need, &[("group", id)])) {
            h2 { "Act on all of them" }
            @if first.is_of_unknown_work() {
                p {
                    "These tokens have no cause and may be different work. To act on some of them, "
                    a href="/find" { "find" } " a part of their keys."
                }
            } @else {
                p { a.button href=(address) { "Plan an act on the whole group" } }
            }
        }
        h2 { "In a terminal" }
        p { (code(&hint)) }
    };
    Ok(Page::new(format!("Group {id}"), "/", body))
}

/// The exit of a group in which no item was found. `only`: the records that were read, if the table
/// of workflows was not named.
fn without_items(id: &str, found: Listing, only: Option<&str>) -> Exit {
    match (found.stopped_by, found.finished, only) {
        (Some(error), ..) => error.into(),
        (None, false, _) => {
            let unread = "the lists were not read to their end: there may be some";
            Exit::say(Exit::PROBLEMS, format!("no item of the group {id} was found, and {unread}"))
        }
        (None, true, Some(only)) => {
            let said = format!("no item of the group {id} was found: this console reads only {only}");
            Exit::say(Exit::NOT_FOUND, said)
        }
        (None, true, None) => {
            let said = format!(
                "no item is in the group {id} now: its items were handled, or have another cause; look at Needs attention"
            );
            Exit::say(Exit::NOT_FOUND, said)
        }
    }
}

#[cfg(test)]
mod tests {
    use locker::Error;

    use super::*;

    #[test]
    fn only_a_whole_reading_denies_items_of_a_group() {
        let exit = |finished: bool, stopped_by: Option<Error>, only: Option<&str>| {
            let mut found = Listing::default();
            (found.finished, found.stopped_by) = (finished, stopped_by);
            without_items("9a8fac0a", found, only)
        };
        let expired = || Some(Error::Expired { verb: "list" });
        let unnamed = Some("tokens; no table of workflows was named");
        let denial = "no item is in the group";
        for (exit, code, said) in [
            (exit(true, None, None), Exit::NOT_FOUND, denial),
            (exit(false, None, None), Exit::PROBLEMS, "there may be some"),
            (exit(false, None, unnamed), Exit::PROBLEMS, "there may be some"),
            (exit(false, expired(), None), Exit::UNAVAILABLE, ""),
            (exit(true, None, unnamed), Exit::NOT_FOUND, "reads only tokens; no table"),
        ] {
            assert_eq!(exit.code(), code, "{}", exit.said());
            assert!(exit.said().contains(said), "{said:?} is not in {}", exit.said());
            assert_eq!(exit.said().contains(denial), said == denial, "{}", exit.said());
        }
    }
}
