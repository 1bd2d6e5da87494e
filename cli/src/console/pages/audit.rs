//! *Audit*: the acts of operators, with their reasons.

use locker::operator::AuditTrail;
use maud::{Markup, html};

use super::Asked;
use super::html::{foreign_or, link, moment_or, table};
use super::layout::Page;
use super::listed::Extent;
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::options::duration;
use crate::output;
use crate::token::subject;

/// Acts that are read of each table.
const MOST: usize = 1_000;
const SINCE: [(&str, &str); 4] = [
    ("1d", "the last day"),
    ("7d", "the last 7 days"),
    ("30d", "the last 30 days"),
    ("90d", "the last 90 days"),
];

pub(in crate::console) async fn audit(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let since = asked.get("since").map_or("7d", String::as_str);
    let span = duration(since).map_err(|why| Exit::say(Exit::USAGE, format!("since: {why}")))?;
    let trail = desk.console().await?.limit(MOST).audit(output::now() - span).await?;
    let extent = Extent {
        count: trail.acts.len(),
        most: MOST,
        finished: trail.finished,
        stopped_by: trail.stopped_by.as_ref(),
        only: desk.connection.only_read(),
    };
    let body = html! {
        h1 { "Audit" }
        form.row action="/audit" method="get" {
            label for="since" { "Acts of " }
            select #since name="since" {
                @for (value, name) in SINCE { option value=(value) selected[value == since] { (name) } }
            }
            button { "Show" }
        }
        @if trail.acts.is_empty() {
            (extent.end(html! { p { "No operator acted in this time." } }))
        } @else {
            (acts(&trail))
            @if !extent.is_whole() { p { "There may be more acts than these " (extent.count) "." } }
            (extent.bounds())
        }
    };
    Ok(Page::new("Audit", "/audit", body))
}

/// The latest act first.
fn acts(trail: &AuditTrail) -> Markup {
    let rows = trail.acts.iter().rev().map(|act| {
        [
            moment_or(act.at),
            foreign_or(act.by.as_deref()),
            html! { (act.resolution.map_or("?", |done| done.as_str())) },
            link(&act.work(), &subject(act)),
            foreign_or(act.reason.as_deref()),
        ]
    });
    table("Acts of operators", ["At", "Operator", "Did", "To", "Reason"], rows)
}
