//! *Workflows*: the unfinished workflows, each with its wait.

use locker::operator::{Filter, IndexEntry, Match};
use locker::workflow::List;
use maud::html;

use super::html::{badge, foreign_or, link, moment_or, need_badge, table};
use super::layout::Page;
use super::listed::Extent;
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::ls::waits;

/// Workflows that the page shows.
const MOST: usize = 200;

pub(in crate::console) async fn workflows(desk: &Desk) -> Result<Page, Exit> {
    let filter = Filter::new().only_workflows([List::Quarantine, List::Failing, List::Unfinished]);
    let found = desk.console().await?.limit(MOST).list(&filter).await?;
    let extent = Extent::of(desk, &found, MOST);
    let rows = found.matches.iter().filter_map(|it: &Match| {
        let Some(IndexEntry::Workflow(_, summary)) = &it.entry else { return None };
        let awaited = summary.waits_for.as_ref().map(|on| waits(on, summary.other_waits));
        Some([
            link(&it.work, it.work.key()),
            foreign_or(summary.name.as_deref()),
            summary.state.map_or_else(|| html! { "–" }, |state| badge(state.as_str())),
            it.need.map_or_else(|| html! { "–" }, need_badge),
            foreign_or(awaited.as_deref()),
            moment_or(summary.created),
            moment_or(it.due),
            foreign_or(summary.reason.as_deref()),
        ])
    });
    let header = ["Workflow", "Code", "State", "Need", "Waits for", "Begun", "Due", "Reason"];
    let body = html! {
        h1 { "Workflows" }
        @if !found.matches.is_empty() {
            p { "Those that have not ended: first those in quarantine, then those whose runs fail." }
            (table("Workflows that have not ended", header, rows))
        }
        (extent.end(html! { p { "Each workflow has ended. Find opens one by its key." } }))
    };
    Ok(Page::new("Workflows", "/workflows", body))
}
