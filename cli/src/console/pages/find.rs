//! *Find*: any pasted text.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use locker::Work;
use locker::operator::{Filter, Listing, Match, Need, Part};
use maud::{Markup, html};

use super::html::{foreign, href, link, words};
use super::layout::Page;
use super::listed::{self, Extent};
use super::{Asked, needed, plan};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::ls::exact_keys;

/// Items that one page shows.
const MOST: usize = 200;

/// Looks for the text as a key, and in everything that needs an operator. The lists of work in
/// progress may be long, so they are read only on request.
pub(in crate::console) async fn find(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let text = needed(asked, "text")?.trim();
    let reads_all = asked.contains_key("all");
    let console = desk.console().await?.limit(MOST);
    let mut exact: Vec<Work> = Vec::new();
    for key in exact_keys(text) {
        exact.extend(console.get(key).await?.iter().map(Part::work));
    }
    let filter = Filter::new().text(text);
    let filters = match reads_all {
        true => vec![filter],
        false => Need::ALL.map(|need| filter.clone().need(need)).to_vec(),
    };
    let (mut matches, mut is_finished, mut stopped_by) = (Vec::new(), true, None);
    for filter in &filters {
        let Listing { matches: more, finished, stopped_by: stopped, .. } = console.list(filter).await?;
        matches.extend(more);
        is_finished &= finished;
        stopped_by = stopped_by.or(stopped);
    }
    exact.retain(|work| !matches.iter().any(|it: &Match| it.work == *work));
    is_finished &= matches.len() <= MOST;
    matches.truncate(MOST);
    let extent = Extent {
        count: exact.len() + matches.len(),
        most: MOST,
        finished: is_finished,
        stopped_by: stopped_by.as_ref(),
        only: desk.connection.only_read(),
    };
    let body = html! {
        h1 { "Find " (foreign(text)) }
        @if !exact.is_empty() {
            h2 { "With this key" }
            ul { @for work in &exact { li { (link(work, &work.to_text())) } } }
        }
        @if !matches.is_empty() {
            h2 { "In the lists" }
            (listed::table_of(&matches))
            (act_on_all(desk, text, &matches))
        }
        (extent.end(html! {
            p { "Nothing was found. A token with a result is in no list: its whole key finds it." }
        }))
        @if !reads_all {
            p {
                "Searched: the key, and everything that needs an operator. "
                a href=(href("/find", &[("text", text), ("all", "yes")])) { "Search everything that is in progress, too" }
                " (half a read unit for each 10 to 20 of its tokens, workflows and messages)."
            }
        }
    };
    let page = Page::new(format!("Find {text}"), "", body).found_by(text);
    let is_absent = extent.count == 0 && extent.is_whole();
    Ok(if is_absent { page.with_status(StatusCode::NOT_FOUND) } else { page })
}

/// A link to a plan for each need of the matches.
fn act_on_all(desk: &Desk, text: &str, matches: &[Match]) -> Markup {
    let needs: BTreeSet<_> = matches.iter().filter_map(|it| it.need).collect();
    let plans =
        needs.into_iter().filter_map(|need| Some((need, plan::address(Some(need), &[("text", text)])?)));
    html! {
        @if desk.may_change {
            ul { @for (need, address) in plans { li { a href=(address) { "Act on all that are " (words(need.as_str())) } } } }
        }
    }
}
