//! *Audit*: the acts of operators, with their reasons.

use locker::operator::AuditTrail;
use maud::{Markup, html};

use super::Asked;
use super::html::{foreign, foreign_or, link, moment_or, table};
use super::layout::Page;
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
            p { "No operator acted in this time." }
        } @else {
            (acts(&trail))
        }
        @if !trail.finished { p { "There may be more acts than these " (trail.acts.len()) "." } }
        @if let Some(error) = &trail.stopped_by { p role="alert" { (foreign(&error.to_string())) } }
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
