//! *In doubt*: effects that may or may not have happened. For each, the question for the provider,
//! and an act for each answer.

use chrono::{DateTime, Utc};
use locker::Work;
use locker::operator::{Filter, Match, Need, Part, Verb};
use maud::{Markup, html};

use super::act::address;
use super::html::{code, foreign, foreign_or, href_of, link, named, when};
use super::layout::Page;
use super::listed::Extent;
use super::workflow::is_in_doubt;
use crate::console::server::Desk;
use crate::exit::Exit;
use crate::output;

/// Tokens, and workflows in quarantine, that are read. Each costs a read.
const MOST: usize = 25;

/// An effect in doubt.
struct Effect {
    work: Work,
    step: Option<String>,
    /// The key under which the provider knows it.
    key: String,
    since: Option<DateTime<Utc>>,
    cause: Option<String>,
}

pub(in crate::console) async fn doubt(desk: &Desk) -> Result<Page, Exit> {
    let console = desk.console().await?.limit(MOST);
    let (mut effects, mut is_finished) = (Vec::new(), true);
    for need in [Need::InDoubt, Need::Quarantined] {
        let found = console.list(&Filter::new().need(need)).await?;
        if let Some(error) = found.stopped_by {
            return Err(error.into());
        }
        is_finished &= found.finished;
        for it in &found.matches {
            let parts = console.get(it.work.key()).await?;
            let part = parts.into_iter().find(|part| part.work() == it.work);
            effects.extend(part.iter().flat_map(|part| in_doubt(part, it)));
        }
    }
    let extent = Extent {
        count: effects.len(),
        most: MOST,
        finished: is_finished,
        stopped_by: None,
        only: desk.connection.only_read(),
    };
    let well = html! {
        p.sentence.well { "No token and no step of a workflow in quarantine is in doubt." }
    };
    let body = html! {
        h1 { "In doubt" }
        @if !effects.is_empty() {
            p { "It is unknown whether these effects happened. Ask the provider with the key, and record the answer." }
            @for effect in &effects { (card(desk, effect)) }
        }
        @if extent.is_whole() {
            (extent.end(well))
        } @else {
            p { "There may be more: the first " (MOST) " of each kind were read." }
            (extent.bounds())
        }
    };
    Ok(Page::new("In doubt", "/doubt", body))
}

/// The effects of a record that are in doubt.
fn in_doubt(part: &Part, it: &Match) -> Vec<Effect> {
    let now = output::now();
    match part {
        Part::Token(record) if record.is_in_doubt() => vec![Effect {
            work: part.work(),
            step: None,
            key: record.idempotency_key(),
            since: Some(record.expected_completion()),
            cause: record.cause().map(str::to_owned),
        }],
        Part::Workflow(view) => {
            let steps = view.steps().iter().filter(|step| is_in_doubt(step, now));
            let effect = |step: &locker::workflow::StepView| Effect {
                work: part.work(),
                step: Some(step.name()),
                key: step.idempotency_key(),
                since: Some(step.due()),
                cause: it.cause.clone(),
            };
            steps.map(effect).collect()
        }
        _ => Vec::new(),
    }
}

/// The question, and a button for each answer.
fn card(desk: &Desk, effect: &Effect) -> Markup {
    let Effect { work, step, .. } = effect;
    let name = named(work);
    let (happened, did_not) = match step {
        Some(_) => (Verb::Resolve, Verb::Retry),
        None => (Verb::Resolve, Verb::Release),
    };
    let address = |verb: Verb| address(work, verb, step.as_deref());
    let of_what = step.as_ref().map_or_else(|| name.clone(), |step| format!("{step} of {name}"));
    html! {
        section.card aria-label=(output::plain(&of_what)) {
            h2 {
                @if let Some(step) = step { (foreign(step)) " of " }
                (link(work, &name))
            }
            p { "Ask the provider: was there an operation with the idempotency key " (code(&effect.key)) "?" }
            p {
                @if let Some(since) = effect.since { "In doubt since " (when(since)) ". " }
                "Cause: " (foreign_or(effect.cause.as_deref()))
            }
            @if desk.may_change {
                p.buttons {
                    a.button href=(address(happened)) { "It happened" }
                    " " a.button href=(address(did_not)) { "It did not happen" }
                    " " a.button href=(format!("{}#acts", href_of(work))) { "I do not know" }
                }
            } @else {
                p { a href=(format!("{}#acts", href_of(work))) { "What may be done" } }
            }
        }
    }
}
