//! *Token*: one token, and the records that belong to it.

use chrono::{DateTime, Utc};
use locker::operator::{Part, Timeline};
use locker::{Form, Record, TokenState, Work};
use maud::{Markup, html};

use super::acts::{acts, judge};
use super::drawing::{Bar, Drawing};
use super::html::{badge, code, foreign, link, when};
use super::layout::Page;
use super::life::{acted_on, add_related, events, related};
use super::{ABSENT, Asked, data, needed};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::output;

pub(in crate::console) async fn token(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let key = needed(asked, "key")?;
    let console = desk.console().await?;
    let timeline = console.timeline(key).await?;
    let work = Work::Token(key.to_owned());
    let found = timeline.parts.iter().find(|part| part.work() == work);
    let Some(part @ Part::Token(record)) = found else {
        return Err(Exit::say(Exit::NOT_FOUND, format!("There is no token {key}. {ABSENT}")));
    };
    let now = output::now();
    let body = html! {
        h1 { "Token " (foreign(key)) }
        (facts(record, now))
        (drawing(record, &timeline, now).svg("The life of the token"))
        h2 #acts { "What may be done" }
        (acts(desk, part, &judge(&console, part, &timeline.choices), Some(&timeline)))
        (related(&timeline, &work))
        h2 { "Timeline" }
        (events(&timeline))
        h2 { "Data" }
        (data::link(desk, "/token/data", ("key", key)))
    };
    Ok(Page::new(format!("Token {key}"), "", body).refreshing())
}

/// The state as a reader knows it.
pub(super) fn state(record: &Record, now: DateTime<Utc>) -> &'static str {
    match (record.is_in_doubt(), record.is_overdue(now)) {
        (true, _) => "in doubt",
        (_, true) => "overdue",
        _ => record.state().as_str(),
    }
}

fn facts(record: &Record, now: DateTime<Utc>) -> Markup {
    let mut rows = vec![("state", badge(state(record, now)))];
    rows.extend(record.cause().map(|cause| ("cause", foreign(cause))));
    rows.extend(record.class().map(|class| ("class of the failure", html! { (class.as_str()) })));
    rows.extend([
        ("provider's key", code(&record.idempotency_key())),
        ("locked by", foreign(record.locked_by())),
        ("begun", when(record.created())),
    ]);
    rows.extend(record.attempt().map(|attempt| ("attempt", code(attempt))));
    rows.extend(record.taken_over_from().map(|before| ("taken over from", code(before))));
    match record.actual_completion() {
        Some(at) => rows.push(("ended", when(at))),
        None if record.is_in_doubt() => rows.push(("in doubt since", when(record.expected_completion()))),
        None => rows.push(("due", when(record.expected_completion()))),
    }
    rows.extend(record.expires().map(|at| ("kept until", when(at))));
    rows.extend(record.form().map(Form::as_str).map(|form| ("form of the result", foreign(form))));
    rows.extend(record.within().map(|work| ("begun inside", link(work, &work.to_text()))));
    rows.extend(acted_on(record.intervention()));
    rows.push(("id", code(&record.revision())));
    super::html::facts(rows)
}

fn drawing(record: &Record, timeline: &Timeline, now: DateTime<Utc>) -> Drawing {
    let mut drawing = Drawing::new(now);
    drawing.add(bar("attempt", record, now));
    if record.state() == TokenState::InProgress && !record.is_in_doubt() {
        drawing.extend(Bar::points("due", "expected", vec![record.expected_completion()]));
    }
    if let Some(operator) = record.intervention() {
        let done = record.resolution().map_or("acted", |it| it.as_str());
        drawing.extend(Bar::points("operator", done, vec![operator.at]));
    }
    add_related(&mut drawing, timeline, &Work::Token(record.key().as_str().to_owned()), now);
    drawing
}

/// The time that a token took. An attempt in doubt ended without an outcome.
pub(super) fn bar(name: &str, record: &Record, now: DateTime<Utc>) -> Bar {
    let in_doubt = record.is_in_doubt().then(|| record.expected_completion());
    let until = record.actual_completion().or(in_doubt);
    Bar::new(name, state(record, now), record.created(), until).of_kind("once")
}
