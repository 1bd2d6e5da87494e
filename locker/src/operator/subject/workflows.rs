//! Workflows: their lists, events and choices, and acts on them.

use chrono::{DateTime, Utc};

use crate::core::listed::List;
use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::header::State;
use crate::core::workflow::step::{StepKind, StepState};
use crate::error::Error;
use crate::operator::lists::{Lists, Reading};
use crate::operator::part::{Choice, Verb};
use crate::operator::timeline::{Event, Happening};
use crate::operator::{Act, IndexEntry, Match, Need};
use crate::session::{Intervened, Operator};
use crate::workflow::{StepView, Summary, View, Workflows};

pub(in crate::operator) async fn read(
    workflows: &Workflows,
    asked: &Lists,
    reading: &mut Reading<'_>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let now = workflows.context().now();
    for list in asked.workflows.iter().copied() {
        let mut listed = workflows.list(list);
        if let (List::Unfinished, Some(time)) = (list, asked.unfinished_due_for) {
            listed = listed.due_for(time);
        }
        reading.matches(listed, now, |workflow| listed_workflow(workflow, list, now), &mut take).await?;
    }
    Ok(())
}

fn listed_workflow(workflow: Summary, list: List, now: DateTime<Utc>) -> Match {
    let (need, since) = match list {
        List::Quarantine => (Some(Need::Quarantined), workflow.due),
        List::Failing => (Some(Need::Failing), workflow.since),
        List::Unfinished => {
            let undriven = |due: DateTime<Utc>| due < time::before(now, Need::UNDRIVEN_AFTER);
            (workflow.due.is_none_or(undriven).then_some(Need::Undriven), workflow.due)
        }
        List::Finished => (None, workflow.due),
    };
    let entry = Some(IndexEntry::Workflow(list, workflow.clone()));
    Match {
        entry,
        name: Some(workflow.name.unwrap_or_default()),
        need,
        cause: workflow.reason,
        since,
        due: workflow.due.filter(|_| matches!(list, List::Failing | List::Unfinished)),
        owner: workflow.locked_by,
        within: workflow.within,
        ..Match::of(Work::Workflow(workflow.workflow))
    }
    .grouped()
}

pub(in crate::operator) async fn act(
    workflows: &Workflows,
    view: &View,
    act: &Act,
    operator: &Operator,
) -> Result<Intervened, Error> {
    match (act.verb, &act.step) {
        (Verb::Retry, None) => workflows.retry(view, operator).await,
        (Verb::Compensate | Verb::Cancel, None) => workflows.compensate(view, operator).await,
        (Verb::Close, None) => workflows.close(view, operator).await,
        (Verb::Retry, Some(step)) if act.new_key => {
            workflows.retry_step_with_new_key(view, step, operator).await
        }
        (Verb::Retry, Some(step)) => workflows.retry_step(view, step, operator).await,
        (Verb::Skip, Some(step)) => workflows.skip_step(view, step, operator).await,
        (Verb::Resolve, Some(step)) => {
            let result = act.result.clone().unwrap_or_default();
            workflows.resolve_step(view, step, &result, operator).await
        }
        _ => Ok(Intervened::NotPossible),
    }
}

fn work(view: &View) -> Work {
    Work::Workflow(view.header.workflow.clone())
}

/// The events of a workflow and its steps, in no order.
pub(in crate::operator) fn events(view: &View, now: DateTime<Utc>) -> Vec<Event> {
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

/// `None`: the step has not ended.
fn happening(step: &StepView) -> Option<Happening> {
    Some(match step.state() {
        StepState::Started => return None,
        StepState::Completed | StepState::Late => Happening::Completed,
        StepState::Failed => Happening::Failed,
        StepState::Held => Happening::Held,
        _ => Happening::Ended,
    })
}

pub(in crate::operator) fn choices(view: &View) -> Vec<Choice> {
    let of = work(view);
    let choice = |verb, effect: &str| Choice::new(verb, of.clone(), view.revision(), effect.to_owned());
    if view.state().is_final() {
        return Vec::new();
    }
    let compensates = view.state() == State::Compensating;
    let undone = match view.steps().iter().any(StepView::is_pivot) {
        false => "the compensations of what its steps did, or may have done, run in reverse",
        true => {
            "the compensations of what its steps did, or may have done, run in reverse, down to its pivot: if that happened, \
             what came before it stays, and an operator ends the workflow"
        }
    };
    if view.listed() != Some(List::Quarantine) {
        return if compensates { Vec::new() } else { vec![choice(Verb::Compensate, undone)] };
    }
    let mut choices = Vec::new();
    for step in view.steps() {
        let of_step = of_step(view, step).into_iter();
        choices.extend(of_step.map(|(verb, effect)| choice(verb, &effect).at_step(&step.name())));
    }
    let again = match compensates {
        false => "its cause is gone: a completer drives it again",
        true => "its cause is gone: a completer goes on to compensate it",
    };
    choices.push(choice(Verb::Retry, again));
    if !compensates {
        choices.push(choice(Verb::Compensate, undone));
    }
    choices.push(choice(
        Verb::Close,
        "it was repaired by hand: it ends as it is, and nothing more is done or undone",
    ));
    choices
}

/// The decisions about a step that a workflow in quarantine may wait for.
fn of_step(view: &View, step: &StepView) -> Vec<(Verb, String)> {
    let compensates = view.state() == State::Compensating;
    let is_compensation = step.kind() == StepKind::Compensation;
    match step.state() {
        StepState::Late if step.placed.is_of(&view.header.run_id()) => vec![(
            Verb::Skip,
            "it happened, and was undone by hand or is no effect of its own: no compensation of it runs"
                .to_owned(),
        )],
        StepState::Completed if is_correctable(view, step) => {
            vec![(Verb::Correct, "it happened, and came to this result: the code reads this one".to_owned())]
        }
        // A failed step is the reason why the other steps are compensated.
        StepState::Started | StepState::Held | StepState::Failed
            if is_compensation || (step.kind() != StepKind::Step && !compensates) =>
        {
            let key = match step.state() {
                StepState::Failed => "the next key".to_owned(),
                _ => format!("the key {} as before", step.idempotency_key()),
            };
            let (resolve, skip) = if is_compensation {
                (
                    "it happened: \"done\" says that nothing is left to compensate, \"nothing\" that nothing was found",
                    "nothing is to be compensated: it is not run",
                )
            } else {
                (
                    "it happened: the workflow goes on with this result",
                    "the workflow goes on without it, with null as its result",
                )
            };
            vec![
                (Verb::Resolve, resolve.to_owned()),
                (Verb::Retry, format!("it did not happen: it runs again, and gives the provider {key}")),
                (Verb::Skip, skip.to_owned()),
            ]
        }
        _ => Vec::new(),
    }
}

/// Whether the code cannot read the result of the step, or an operator set it.
fn is_correctable(view: &View, step: &StepView) -> bool {
    let record = &step.placed.record;
    let is_named = view.header.waits_for.as_deref() == Some(record.id.reference().as_str());
    is_named || (view.state() == State::Running && record.intervention.is_some())
}
