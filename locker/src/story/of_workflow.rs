//! What happened to a workflow and its steps, and what an operator may do about it.

use chrono::{DateTime, Utc};

use super::choice::{Choice, Verb};
use super::event::{Event, Happening};
use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::header::{List, State};
use crate::core::workflow::step::{StepKind, StepState};
use crate::workflow::{StepView, View};

fn work(view: &View) -> Work {
    Work::Workflow(view.header.workflow.clone())
}

/// In no order.
pub(super) fn events(view: &View, now: DateTime<Utc>) -> Vec<Event> {
    let of = work(view);
    let event = |at, what| Event::new(at, of.clone(), what);
    let mut events =
        vec![event(view.created(), Happening::Begun).because(Some(format!("as {}", view.name())))];
    for step in view.steps() {
        let at = |at, what| event(at, what).at_step(step.name());
        events.push(at(step.started(), Happening::Begun).by(step.started_by()));
        let driver_is_gone = step.due() < now;
        match (step.ended(), happening(step)) {
            (Some(ended), Some(what)) => events.push(at(ended, what).because(Some(step.state().as_str()))),
            (None, None) if step.kind() == StepKind::Once && driver_is_gone => {
                let asked = format!("the provider was given the key {}", step.idempotency_key());
                events.push(at(step.due(), Happening::InDoubt).because(Some(asked)));
            }
            _ => {}
        }
    }
    for failed in view.failed_runs() {
        let why = match failed.runs {
            1 => failed.cause.clone(),
            runs => format!("{} ({runs} runs since {})", failed.cause, time::to_text(failed.first)),
        };
        events.push(event(failed.last, Happening::RunFailed).by(&failed.by).because(Some(why)));
    }
    let is_final = view.state().is_final();
    if view.since() > view.created() && !is_final {
        events.push(event(view.since(), Happening::Progressed));
    }
    match (is_final, view.listed()) {
        (false, Some(List::Quarantine)) => {
            events.push(event(view.due(), Happening::Quarantined).because(view.reason()));
        }
        (false, _) => {
            let attempts = format!("attempt {}", view.attempts() + 1);
            let why = view.reason().map_or(attempts.clone(), |reason| format!("{attempts}; {reason}"));
            let next = event(view.due(), Happening::Driven).because(Some(why));
            events.push(view.locked_by().map_or_else(|| next.clone(), |driver| next.clone().by(driver)));
        }
        (true, _) => {
            if let Some(ended) = view.ended() {
                let what = match view.state() {
                    State::Completed => Happening::Completed,
                    State::Failed => Happening::Failed,
                    _ => Happening::Ended,
                };
                let why = view.reason().unwrap_or_else(|| view.state().as_str());
                events.push(event(ended, what).because(Some(why)));
            }
            if view.listed() == Some(List::Finished) {
                events.push(event(view.due(), Happening::Forgotten));
            }
        }
    }
    events
}

/// `None`: it is still to end.
fn happening(step: &StepView) -> Option<Happening> {
    Some(match step.state() {
        StepState::Started => return None,
        StepState::Completed | StepState::Late => Happening::Completed,
        StepState::Failed => Happening::Failed,
        StepState::Held => Happening::Held,
        _ => Happening::Ended,
    })
}

pub(super) fn choices(view: &View) -> Vec<Choice> {
    let of = work(view);
    let choice = |verb, effect: &str| Choice::new(verb, of.clone(), view.revision(), effect.to_owned());
    if view.state().is_final() {
        return Vec::new();
    }
    let compensates = view.state() == State::Compensating;
    if view.listed() != Some(List::Quarantine) {
        return match compensates {
            false => vec![choice(
                Verb::Compensate,
                "what its steps did is undone, in reverse, and it ends as cancelled",
            )],
            true => Vec::new(),
        };
    }
    let mut choices = Vec::new();
    for step in view.steps().iter().filter(|step| waits(view, step)) {
        let (name, key) = (step.name(), step.idempotency_key());
        let at = |verb, effect: String| choice(verb, &effect).at_step(&name);
        choices.push(at(Verb::Resolve, "it happened: the workflow goes on with this result".to_owned()));
        let again = match step.state() {
            StepState::Failed => {
                "it did not happen: it runs again, and gives the provider the next key".to_owned()
            }
            _ => format!("it did not happen: it runs again, and gives the provider the key {key} as before"),
        };
        choices.push(at(Verb::Retry, again));
        choices.push(at(Verb::Skip, "the workflow goes on without it, with null as its result".to_owned()));
    }
    choices.push(choice(Verb::Retry, "its cause is gone: a completer drives it again"));
    if !compensates {
        choices.push(choice(Verb::Compensate, "what its steps did is undone, in reverse"));
    }
    choices.push(choice(
        Verb::Close,
        "it was repaired by hand: it ends as it is, and nothing more is done or undone",
    ));
    choices
}

/// Whether a decision about the step is what a workflow in quarantine may wait for.
fn waits(view: &View, step: &StepView) -> bool {
    let is_named = view.header.waits_for.as_deref() == Some(step.placed.record.id.place().as_str());
    let (state, kind) = (step.state(), step.kind());
    let is_open = match view.state() {
        // What failed is why the others are compensated.
        State::Compensating => {
            state == StepState::Late
                || (kind == StepKind::Compensation
                    && matches!(state, StepState::Started | StepState::Held | StepState::Failed))
        }
        _ => matches!(state, StepState::Started | StepState::Held | StepState::Failed | StepState::Late),
    };
    is_named || (is_open && kind != StepKind::Step)
}
