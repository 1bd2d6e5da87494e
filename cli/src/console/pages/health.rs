//! *Health*: tables, scheduled functions, and the age of waiting work.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use locker::operator::{Need, Status, TableHealth};
use maud::{Markup, html};

use super::attention::runs;
use super::html::{badge, foreign, moment_or, need_badge, table, words};
use super::layout::Page;
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::status;

pub(in crate::console) async fn health(desk: &Desk) -> Result<Page, Exit> {
    let console = desk.console().await?;
    let health = console.health().await?;
    let read = status::read(&desk.connection, console).await?;
    let body = html! {
        h1 { "Health" }
        h2 { "Scheduled functions" }
        (runs(&read.status))
        h2 { "Backlog" }
        (backlog(&read.status))
        @for (name, checked) in [("Table of tokens", &health.tokens), ("Table of workflows", &health.workflows)] {
            h2 { (name) }
            @match checked {
                Some(checked) => { (checks(name, checked)) },
                None => { p { "not read: there is none, or none was named" } },
            }
        }
        p { "Permissions to write and the clock are checked by " code { "locker doctor" } ", which writes a token." }
    };
    Ok(Page::new("Health", "/health", body))
}

/// The count and the oldest of each need.
fn backlog(status: &Status) -> Markup {
    let mut by_need: BTreeMap<Need, (usize, Option<DateTime<Utc>>)> = BTreeMap::new();
    for group in &status.groups {
        let (count, oldest) = by_need.entry(group.need).or_default();
        *count += group.count;
        *oldest = oldest.iter().chain(&group.first).min().copied();
    }
    let rows = Need::ALL.iter().map(|need| {
        let (count, oldest) = by_need.get(need).copied().unwrap_or_default();
        let name = if count == 0 {
            html! { (words(need.as_str())) }
        } else {
            need_badge(*need)
        };
        [name, html! { (count) }, moment_or(oldest)]
    });
    html! {
        (table("Backlog", ["Need", "Count", "Oldest"], rows))
        @if let Some(waiting) = status::waiting(status) { p { (waiting) ": they need no operator." } }
        @if !status.finished { p { "The lists were not read to their end: there may be more." } }
    }
}

fn checks(name: &str, table_health: &TableHealth) -> Markup {
    let rows = table_health.checks.iter().map(|check| {
        let problems = html! { @for problem in &check.problems { p { (foreign(problem)) } } };
        let verdict = if check.problems.is_empty() {
            badge("ok")
        } else {
            html! { span class="badge urgent" { "wrong" } }
        };
        [html! { (check.what) }, verdict, problems]
    });
    table(name, ["Check", "Result", "What to change"], rows)
}
