//! *Workflow*: one execution, on a time axis and as tables.

use chrono::{DateTime, Utc};
use locker::Work;
use locker::operator::{Part, Timeline};
use locker::workflow::{EventView, List, StepKind, StepState, StepView, View};
use maud::{Markup, html};

use super::acts::{acts, judge, of_step};
use super::drawing::{Bar, Drawing};
use super::html::{badge, code, foreign, foreign_or, link, moment, moment_or, table, when};
use super::layout::Page;
use super::life::{acted_on, add_related, events as timeline_events, related};
use super::{ABSENT, Asked, data, needed};
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::output;

pub(in crate::console) async fn workflow(desk: &Desk, asked: &Asked) -> Result<Page, Exit> {
    let key = needed(asked, "key")?;
    desk.connection.workflows_table()?;
    let console = desk.console().await?;
    let timeline = console.timeline(key).await?;
    let work = Work::Workflow(key.to_owned());
    let found = timeline.parts.iter().find(|part| part.work() == work);
    let Some(part @ Part::Workflow(view)) = found else {
        return Err(Exit::say(Exit::NOT_FOUND, format!("There is no workflow {key}. {ABSENT}")));
    };
    let judged = judge(&console, part, &timeline.choices);
    let acts_on = |step: &str| of_step(desk, &work, &judged, step);
    let body = html! {
        h1 { "Workflow " (foreign(key)) }
        (facts(view))
        (drawing(view, &work, &timeline, output::now()).svg("The steps of the workflow"))
        h2 #acts { "What may be done" }
        (acts(desk, part, &judged, Some(&timeline)))
        h2 { "Steps" }
        (steps(view, &acts_on))
        @if !view.events().is_empty() { h2 { "Events" } (events(view, &acts_on)) }
        @if !view.messages().is_empty() { h2 { "Messages" } (messages(view)) }
        @if !view.failed_runs().is_empty() { h2 { "Failed runs" } (failed_runs(view)) }
        (related(&timeline, &work))
        h2 { "Timeline" }
        (timeline_events(&timeline))
        h2 { "Data" }
        (data::link(desk, "/workflow/data", ("key", key)))
    };
    Ok(Page::new(format!("Workflow {key}"), "", body).refreshing())
}

fn facts(view: &View) -> Markup {
    let is_quarantined = view.listed() == Some(List::Quarantine);
    let state = html! {
        (badge(view.state().as_str())) @if is_quarantined { " " (badge("quarantine")) }
    };
    let mut rows = vec![("code", foreign(view.name())), ("state", state)];
    rows.extend(view.reason().map(|reason| ("reason", foreign(reason))));
    rows.extend(view.waits().iter().map(|on| {
        let text = on.to_string();
        ("waits for", html! { (foreign(&text)) " since " (moment(on.since)) ", until " (when(on.until)) })
    }));
    rows.push(("attempts", html! { (view.attempts()) }));
    rows.extend(view.locked_by().map(|driver| ("driven by", foreign(driver))));
    rows.push(("begun", when(view.created())));
    match view.ended() {
        Some(at) => rows.push(("ended", when(at))),
        None => rows.push((if is_quarantined { "in quarantine since" } else { "due" }, when(view.due()))),
    }
    rows.extend(view.continued_as().map(|version| {
        let next = Work::Workflow(format!("{} v{version}", view.key().as_str()));
        ("continues as", link(&next, next.key()))
    }));
    rows.extend(view.within().map(|work| ("begun inside", link(work, &work.to_text()))));
    rows.extend(acted_on(view.intervention()));
    rows.push(("id", code(&view.revision())));
    super::html::facts(rows)
}

/// Whether it is unknown if a step happened: it is a `once` step, and its driver is gone.
pub(super) fn is_in_doubt(step: &StepView, now: DateTime<Utc>) -> bool {
    step.kind() == StepKind::Once && step.state() == StepState::Started && step.due() < now
}

/// The state of a step as a reader knows it.
fn state(step: &StepView, now: DateTime<Utc>) -> &'static str {
    if is_in_doubt(step, now) { "in doubt" } else { step.state().as_str() }
}

fn drawing(view: &View, own: &Work, timeline: &Timeline, now: DateTime<Utc>) -> Drawing {
    let mut drawing = Drawing::new(now);
    drawing.add(Bar::new("workflow", view.state().as_str(), view.created(), view.ended()));
    for step in view.steps() {
        let until = match (step.ended(), step.kind()) {
            (None, StepKind::Timer) => step.recorded_time(),
            (ended, _) => ended,
        };
        let bar =
            Bar::new(&step.name(), state(step, now), step.started(), until).of_kind(step.kind().as_str());
        drawing.add(if step.is_pivot() { bar.pivot() } else { bar });
    }
    for event in view.events() {
        let Some(from) = event.since().or(event.arrived()) else { continue };
        let until = event.arrived().or(event.until());
        drawing.add(Bar::new(&event.name(), event.state().as_str(), from, until).of_kind("event"));
    }
    for message in view.messages() {
        let name = format!("message {}", message.topic());
        drawing.extend(Bar::points(&name, message.state().as_str(), vec![message.created()]));
    }
    let failed = view.failed_runs().iter().flat_map(|failed| [failed.first, failed.last]);
    drawing.extend(Bar::points("failed runs", "run failed", failed.collect()));
    add_related(&mut drawing, timeline, own, now);
    drawing
}

fn steps(view: &View, acts_on: &impl Fn(&str) -> Markup) -> Markup {
    let now = output::now();
    let rows = view.steps().iter().map(|step| {
        let key = match step.kind() {
            StepKind::Atomic => html! { "–" },
            StepKind::Timer => moment_or(step.recorded_time()),
            _ => code(&step.idempotency_key()),
        };
        let state = html! {
            (badge(state(step, now)))
            @if step.key_version() > 1 { " key version " (step.key_version()) }
            @if let Some(operator) = step.intervention() {
                " by " (foreign(&operator.by)) ": " (foreign(&operator.reason))
            }
        };
        let compensation = match step.is_pivot() {
            true => html! { "pivot: never undone" },
            false => foreign_or(step.compensation()),
        };
        [
            foreign(&step.name()),
            html! { (step.kind().as_str()) },
            state,
            moment(step.started()),
            moment_or(step.ended()),
            key,
            compensation,
            foreign(step.started_by()),
            acts_on(&step.name()),
        ]
    });
    let header =
        ["Step", "Kind", "State", "Started", "Ended", "Provider's key", "Compensation", "Started by", "Acts"];
    table("Steps", header, rows)
}

fn events(view: &View, acts_on: &impl Fn(&str) -> Markup) -> Markup {
    let row = |event: &EventView| {
        [
            foreign(&event.name()),
            badge(event.state().as_str()),
            moment_or(event.since()),
            moment_or(event.until()),
            moment_or(event.arrived()),
            foreign_or(event.cause()),
            foreign_or(event.compensation()),
            foreign_or(event.id()),
            acts_on(&event.name()),
        ]
    };
    let header = ["Event", "State", "Awaited since", "Until", "Came", "Cause", "Compensation", "Id", "Acts"];
    table("Events", header, view.events().iter().map(row))
}

fn messages(view: &View) -> Markup {
    let rows = view.messages().iter().map(|message| {
        [
            link(&message.work(), &message.short_id()),
            foreign(message.topic()),
            badge(message.state().as_str()),
            moment(message.created()),
            html! { (message.attempts()) },
            foreign_or(message.cause()),
        ]
    });
    table("Messages", ["Message", "Topic", "State", "Committed", "Attempts", "Cause"], rows)
}

fn failed_runs(view: &View) -> Markup {
    let rows = view.failed_runs().iter().map(|failed| {
        [
            moment(failed.last),
            html! { (failed.runs) },
            moment(failed.first),
            foreign(&failed.by),
            foreign(&failed.cause),
        ]
    });
    table("Failed runs", ["Last", "Runs", "First", "By", "Cause"], rows)
}
