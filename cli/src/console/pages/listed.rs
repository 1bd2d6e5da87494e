//! Items of the index as a table.

use locker::operator::{Listing, Match};
use locker::{Error, Work};
use maud::{Markup, html};

use super::html::{foreign, foreign_or, href_of_group, link, moment_or, need_badge, table};
use crate::console::server::Desk;

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

/// How much of the lists of a page was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent<'a> {
    /// Items that were found.
    pub(super) count: usize,
    /// The largest number of items.
    pub(super) most: usize,
    pub(super) finished: bool,
    pub(super) stopped_by: Option<&'a Error>,
    /// The records that were read, if the table of workflows was not named.
    pub(super) only: Option<&'static str>,
}

impl<'a> Extent<'a> {
    pub(super) fn of(desk: &Desk, found: &'a Listing, most: usize) -> Self {
        Self {
            count: found.matches.len(),
            most,
            finished: found.finished,
            stopped_by: found.stopped_by.as_ref(),
            only: desk.connection.only_read(),
        }
    }

    /// Whether the lists were read to their end. If not, there may be more items.
    pub(super) const fn is_whole(&self) -> bool {
        self.finished && self.stopped_by.is_none()
    }

    /// Returns the end of a list. `none`: the sentence if no table contains an item.
    pub(super) fn end(&self, none: Markup) -> Markup {
        let Self { count, most, only, .. } = *self;
        html! {
            @match (self.is_whole(), count) {
                (true, 0) if only.is_none() => { (none) },
                (true, 0) => { p { "Nothing was found." } },
                (true, _) => { p { (count) " listed, and there are no more." } },
                (false, _) if count >= most => { p { "The first " (count) " are listed. There may be more." } },
                (false, _) => { p { (count) " found. The lists were not read to their end: there may be more." } },
            }
            (self.bounds())
        }
    }

    /// Returns the tables that were read, if not all, and the error that stopped the reading.
    pub(super) fn bounds(&self) -> Markup {
        html! {
            @if let Some(only) = self.only { p { "This console reads only " (only) "." } }
            @if let Some(error) = self.stopped_by { p role="alert" { (foreign(&error.to_string())) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_reading_of_all_tables_has_the_sentence() {
        let expired = Error::Expired { verb: "list" };
        let whole = Extent { count: 0, most: 200, finished: true, stopped_by: None, only: None };
        let partial = "0 found. The lists were not read to their end: there may be more.";
        let only = "tokens; no table of workflows was named";
        for (extent, said) in [
            (whole, "There is none."),
            (Extent { finished: false, ..whole }, partial),
            (Extent { stopped_by: Some(&expired), ..whole }, partial),
            (Extent { finished: false, stopped_by: Some(&expired), ..whole }, partial),
            (Extent { finished: false, only: Some(only), ..whole }, partial),
            (Extent { only: Some(only), ..whole }, "Nothing was found."),
            (Extent { count: 3, ..whole }, "3 listed, and there are no more."),
            (Extent { count: 200, finished: false, ..whole }, "The first 200 are listed. There may be more."),
        ] {
            let end = extent.end(html! { p { "There is none." } }).into_string();
            assert!(end.contains(said), "{said:?} is not in {end}");
            assert_eq!(end.contains("There is none."), said == "There is none.", "{end}");
            assert_eq!(end.contains("role=\"alert\""), extent.stopped_by.is_some(), "{end}");
            assert_eq!(end.contains(&format!("reads only {only}.")), extent.only.is_some(), "{end}");
        }
    }
}
