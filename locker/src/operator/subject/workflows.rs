//! Workflows: their lists, events and choices, and acts on them.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::events;
use crate::core::answer::AnswerError;
use crate::core::listed::List;
use crate::core::name::EVENT_PREFIX;
use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::compensation::{awaits_repair, is_undeclared};
use crate::core::workflow::header::State;
use crate::core::workflow::step::{StepKind, StepState};
use crate::error::Error;
use crate::operator::lists::{Lists, Reading, fits};
use crate::operator::part::{Choice, Verb};
use crate::operator::rule::{About, ERASED, Meaning, Refusal, Scope, Unless};
use crate::operator::timeline::{Happening, TimelineEvent};
use crate::operator::{Act, Filter, IndexEntry, Match, Need};
use crate::session::listing::{Cursor, ListBuilder};
use crate::session::{Intervened, Operator};
use crate::workflow::{
    Compensated, EventState, LateEvent, NewEvent, StepView, Summary, View, WorkflowAct, Workflows, is_event,
    late_events,
};

pub(in crate::operator) async fn read(
    workflows: &Workflows,
    asked: &Lists,
    reading: &mut Reading<'_>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let now = workflows.context().now();
    for list in asked.workflows.iter().copied() {
        if reading.filter.is_some_and(Filter::is_for_results) {
            read_results(workflows, reading, now, &mut take).await?;
            continue;
        }
        let mut listed = workflows.list(list);
        if let (List::Unfinished, Some(time)) = (list, asked.unfinished_due_for) {
            listed = listed.due_for(time);
        }
        reading.matches(listed, now, |workflow| listed_workflow(workflow, list, now), &mut take).await?;
    }
    if asked.late_events {
        reading.matches(late_events(workflows.context()), now, listed_event, &mut take).await?;
    }
    Ok(())
}

/// Reads the workflows that have ended with data to erase. The list has no time of their begin, and
/// does not show whether the data was erased before. So each header is read.
async fn read_results(
    workflows: &Workflows,
    reading: &mut Reading<'_>,
    now: DateTime<Utc>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let context = workflows.context();
    let list = reading.deadline.into_iter().fold(workflows.list(List::Finished), ListBuilder::deadline);
    let (filter, at_any_time) = (reading.filter, reading.filter.map(Filter::at_any_time));
    let mut from = None::<Cursor>;
    // An error of a former list is a part of the result.
    while reading.stopped_by.is_none() {
        let page = from.take().into_iter().fold(list.clone(), ListBuilder::from).fetch().await;
        let Some(page) = reading.value(page)? else { return Ok(()) };
        reading.rows_read += page.rows_read;
        for listed in page.items {
            let unread = listed_workflow(listed.clone(), List::Finished, now);
            if !fits(at_any_time.as_ref(), &unread, now) {
                continue;
            }
            let read = context.store().read_header(&listed.workflow, context.until(reading.deadline)).await;
            let fitting = match read {
                Err(Error::Record { .. }) => {
                    reading.name_unread(unread, now, &mut take);
                    None
                }
                read => {
                    let Some(header) = reading.value(read)? else { return Ok(()) };
                    let header = header.filter(|header| header.may_redact());
                    let found = header.map(|header| listed_result(listed, header.created, now));
                    found.filter(|it| fits(filter, it, now))
                }
            };
            if !reading.keep(fitting, &mut take) {
                return Ok(());
            }
        }
        reading.finished &= page.stopped_by.is_none();
        reading.stopped_by = page.stopped_by;
        if page.next.is_none() {
            break;
        }
        from = page.next;
    }
    Ok(())
}

/// A workflow with data to erase, in the form of a list.
fn listed_result(workflow: Summary, begun: DateTime<Utc>, now: DateTime<Utc>) -> Match {
    Match { since: Some(begun), ..listed_workflow(workflow, List::Finished, now) }
}

/// A workflow as it was read, if it has data to erase.
pub(in crate::operator) fn with_result(view: &View, now: DateTime<Utc>) -> Option<Match> {
    let has_result = view.header.may_redact();
    has_result.then(|| listed_result(Summary::of_view(view), view.created(), now))
}

fn listed_event(late: LateEvent) -> Match {
    Match {
        name: Some(late.name.unwrap_or_default()),
        event: Some(late.event),
        need: Some(Need::Late),
        cause: late.cause,
        since: late.arrived,
        ..Match::of(Work::Workflow(late.workflow))
    }
    .grouped()
}

/// A late event as it was read, in the form of a list. `None`: it is not late, or is handled.
pub(in crate::operator) fn match_of_event(view: &View, event: &str) -> Option<Match> {
    let event = view.event(event).filter(|event| event.state() == EventState::Late)?;
    Some(listed_event(LateEvent {
        workflow: view.header.workflow.clone(),
        name: Some(event.record.workflow_name.clone()),
        event: event.name(),
        cause: event.cause().map(str::to_owned),
        arrived: event.arrived(),
    }))
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

/// A workflow as it was read, in the form of a list. `None`: no list contains it.
pub(in crate::operator) fn match_of(view: &View, now: DateTime<Utc>) -> Option<Match> {
    let list = view.listed()?;
    Some(listed_workflow(Summary::of_view(view), list, now))
}

/// The act of the library that an act stands for. `None`: workflows have no such act.
fn act_of(act: &Act) -> Option<WorkflowAct<'_>> {
    Some(match (act.verb, act.step.as_deref(), act.result.as_ref()) {
        (Verb::Retry, None, None) => WorkflowAct::Retry,
        (Verb::Compensate | Verb::Cancel, None, None) => WorkflowAct::Compensate,
        (Verb::Close, None, None) => WorkflowAct::Close,
        (Verb::Redact, None, None) => WorkflowAct::Redact,
        (Verb::Retry, Some(step), None) => WorkflowAct::RetryStep { step, new_key: act.new_key },
        (Verb::Skip, Some(step), None) => WorkflowAct::SkipStep { step },
        (Verb::Cancel, Some(step), None) => WorkflowAct::BlockStep { step },
        (Verb::Resolve, Some(step), Some(result)) => WorkflowAct::ResolveStep { step, result },
        (Verb::Signal, Some(step), Some(value)) => {
            let name = step.strip_prefix(EVENT_PREFIX)?;
            WorkflowAct::Signal(NewEvent { name, value, id: act.event_id.as_deref() })
        }
        (Verb::Correct, Some(step), Some(result)) => WorkflowAct::CorrectStep { step, result },
        _ => return None,
    })
}

/// The effect of an act on a workflow, its step or its event, or the reason why it is not possible.
/// `reads`: whether the code can read the value of the event, if that is known.
pub(in crate::operator) fn judge(
    workflows: &Workflows,
    view: &View,
    act: &Act,
    scope: Scope,
    reads: Option<Result<(), AnswerError>>,
) -> Result<Meaning, Refusal> {
    let is_named = act.verb == Verb::Resolve && act.step.is_none();
    let Some(possible) = act_of(act) else {
        return Err(Refusal::of(match is_named {
            true => "a resolve of a workflow is for a step: name the step".to_owned(),
            false => format!("a workflow has no verb {}", act.verb),
        }));
    };
    let step = act.step.as_deref().filter(|_| act.verb != Verb::Signal);
    match step {
        Some(step) if is_event(step) => events::check(view, step, act)?,
        Some(step) if !act.not_started && act.verb != Verb::Cancel && view.step(step).is_none() => {
            return Err(unrecorded(view, step, act.verb));
        }
        _ => {}
    }
    if act.verb == Verb::Cancel && step.is_none() && view.header.was_closed() && !view.state().is_final() {
        let because = "an operator closed it, and may have repaired its effects by hand: if all of them must be undone, \
                       compensate it";
        return Err(Refusal::of(because.to_owned()));
    }
    if scope == Scope::Many && !may_be_one_of_many(workflows, view, act) {
        return Err(Refusal::of(state(view)));
    }
    let prepared = match workflows.prepare(view, possible, &Operator::nobody()) {
        Ok(Some(prepared)) => prepared,
        Ok(None) if act.is_on_event() => return Err(Refusal::of(events::refused(view, act))),
        Ok(None) => return Err(Refusal::of(refused(view, act))),
        Err(error) => return Err(Refusal::of(error.to_string()).about(About::Result)),
    };
    if act.is_on_event() {
        return events::meaning(view, act, prepared.answer(), reads);
    }
    let mut meaning = Meaning::of(effect(view, act));
    if view.listed() != Some(List::Quarantine) && view.locked_by().is_some() {
        let until = time::to_text(view.due());
        meaning.unknown.push(format!(
            "it is unknown whether a driver runs it now, with time until {until}; that driver loses the workflow, and \
             its step may then be in doubt"
        ));
    }
    if act.result.is_some() && act.step.as_deref().is_none_or(|step| !is_compensation(view, step)) {
        let unchecked = "the code of the workflow reads the result, and it is not checked whether it can";
        meaning.unknown.push(unchecked.to_owned());
    }
    Ok(meaning)
}

/// Whether a plan may contain the workflow.
///
/// A plan contains a workflow that needs no operator only if its act is a cancel.
fn may_be_one_of_many(workflows: &Workflows, view: &View, act: &Act) -> bool {
    let needs_operator = || {
        let it = match_of(view, workflows.context().now());
        it.is_some_and(|it| it.need.is_some())
    };
    match act.verb {
        // The event itself needs an operator.
        Verb::Skip if act.is_on_event() => true,
        Verb::Cancel | Verb::Redact => true,
        Verb::Compensate => needs_operator(),
        _ => view.listed() == Some(List::Quarantine),
    }
}

fn unrecorded(view: &View, step: &str, verb: Verb) -> Refusal {
    let names: Vec<_> = view.steps().iter().map(StepView::name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let because = format!("it has no record of step {step}; recorded: {names}");
    let refusal = match verb {
        Verb::Skip | Verb::Resolve => Refusal::unless(because, Unless::NotStarted),
        _ => Refusal::of(because),
    };
    refusal.about(About::Step)
}

/// The state of a workflow in words.
pub(in crate::operator) fn state(view: &View) -> String {
    let listed = view.listed().map_or("", |list| list.as_str());
    format!("it is {}, in the list {listed}", view.state().as_str())
}

fn refused(view: &View, act: &Act) -> String {
    let step = act.step.as_deref().and_then(|step| view.step(step));
    match step {
        Some(step) if !view.state().is_final() => {
            let (name, state) = (step.name(), step.state().as_str());
            let driver = match step.state() {
                StepState::Started => {
                    format!(": a driver may be running it until {}", time::to_text(step.due()))
                }
                _ => String::new(),
            };
            format!("its step {name} is {state}, which {} cannot change{driver}", act.verb)
        }
        _ if act.verb == Verb::Close && !view.state().is_final() => {
            "it is not in quarantine, and only a workflow in quarantine can be closed".to_owned()
        }
        _ if act.verb == Verb::Redact && view.is_redacted() => ERASED.to_owned(),
        _ if act.verb == Verb::Redact && view.state().is_kept() => {
            "it has no input and no result to erase".to_owned()
        }
        _ if act.verb == Verb::Redact => {
            format!(
                "it is {}, and only a workflow that has ended has a result to erase",
                view.state().as_str()
            )
        }
        _ => format!("it is {}, which {} cannot change", view.state().as_str(), act.verb),
    }
}

fn is_compensation(view: &View, step: &str) -> bool {
    view.step(step).is_some_and(|step| step.kind() == StepKind::Compensation)
}

/// Whether a step that an operator recorded prevents the compensations of this act.
fn blocks(view: &View, act: &Act, step: &StepView) -> bool {
    match act.verb {
        // It compensates all steps, and not only those that are late.
        Verb::Compensate | Verb::Cancel => is_undeclared(&step.placed.record),
        Verb::Retry => {
            view.state() == State::Compensating && awaits_repair(&step.placed.record, &view.header)
        }
        _ => false,
    }
}

/// The effect of an act that is possible.
fn effect(view: &View, act: &Act) -> String {
    let compensates = view.state() == State::Compensating;
    let Some(step) = act.step.as_deref() else {
        return match act.verb {
            _ if view.steps().iter().any(|step| blocks(view, act, step)) => {
                "nothing is compensated yet: its code has not reached a step that an operator recorded; repair that step by hand, \
                 then skip it"
            }
            Verb::Retry if view.header.closed => {
                "a completer compensates all its late steps and late events: first skip those that you repaired manually"
            }
            Verb::Retry if compensates => "its cause is gone: a completer continues to compensate it",
            Verb::Retry => "its cause is gone: a completer drives it again",
            Verb::Close => "it was repaired by hand: it ends as it is, and nothing more is done or undone",
            Verb::Redact if view.state() == State::Continued => {
                "its input is erased for ever; later versions of its key keep their data: redact each version with \
                 --key-version; results of steps, events and messages stay"
            }
            Verb::Redact => {
                "its input and its result are erased for ever: later callers learn that it has ended and its result is not \
                 kept; results of steps, events and messages stay"
            }
            _ if view.header.was_closed() => {
                "its compensations run in reverse, down to its pivot if it has one: they may repeat repairs that were made by hand \
                 before it was closed"
            }
            _ if view.steps().iter().any(StepView::is_pivot) => {
                "the compensations of what its steps did, or may have done, run in reverse, down to its pivot: if that happened, \
                 what came before it stays, and an operator ends the workflow"
            }
            _ => "the compensations of what its steps did, or may have done, run in reverse",
        }
        .to_owned();
    };
    let recorded = view.step(step);
    let is_late = recorded.is_some_and(|step| {
        step.state() == StepState::Late || (compensates && is_undeclared(&step.placed.record))
    });
    match act.verb {
        Verb::Retry if compensates && !is_compensation(view, step) => {
            "it did not happen: it does not run, and the steps before it are compensated".to_owned()
        }
        Verb::Retry if act.new_key => {
            "it did not happen: it runs again, and gives the provider another key".to_owned()
        }
        Verb::Retry => {
            let key = match recorded {
                Some(step) if step.state() != StepState::Failed => {
                    format!("the key {} as before", step.idempotency_key())
                }
                _ => "the next key".to_owned(),
            };
            format!("it did not happen: it runs again, and gives the provider {key}")
        }
        Verb::Resolve if compensates && recorded.is_none() => {
            "it happened: nothing more is compensated until its effect is repaired by hand and it is skipped".to_owned()
        }
        Verb::Skip if is_late => {
            "it happened, and was undone by hand or is no effect of its own: no compensation of it runs".to_owned()
        }
        Verb::Skip if is_compensation(view, step) => {
            "nothing is to be compensated: it is not run".to_owned()
        }
        Verb::Skip => "the workflow continues without it, with null as its result".to_owned(),
        Verb::Correct => "it happened: from now on the code reads this result".to_owned(),
        Verb::Cancel => "it has not started, and is blocked: its code does not run if it is reached".to_owned(),
        _ if is_compensation(view, step) => {
            "it happened: the result \"done\" means that it is compensated, \"nothing\" that there was nothing to compensate".to_owned()
        }
        _ if recorded.is_some_and(|step| step.is_cancelled_in_doubt(&view.header.run_id())) => {
            let when = if view.header.closed { "after a retry of the workflow " } else { "" };
            format!("it happened: {when}it is compensated, also if an earlier compensation found nothing")
        }
        _ => "it happened: the workflow continues with this result".to_owned(),
    }
}

/// Writes an act that [`judge`] allows.
pub(in crate::operator) async fn act(
    workflows: &Workflows,
    view: &View,
    act: &Act,
    operator: &Operator,
) -> Result<Intervened, Error> {
    match act_of(act) {
        Some(act) => workflows.intervene(view, act, operator).await,
        None => Ok(Intervened::NotPossible),
    }
}

fn work(view: &View) -> Work {
    Work::Workflow(view.header.workflow.clone())
}

/// The events of a workflow, its steps and the events from outside, in no order.
pub(in crate::operator) fn events(view: &View, now: DateTime<Utc>) -> Vec<TimelineEvent> {
    let of = work(view);
    let event = |at, what| TimelineEvent::new(at, of.clone(), what);
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
    events.extend(view.events().iter().flat_map(|event| events::happenings(view, event, &of)));
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

/// The acts that are offered to an operator now.
///
/// Each act in the list is possible. Not each possible act is in the list: the retry of a workflow
/// that a completer drives anyway is not.
pub(in crate::operator) fn choices(workflows: &Workflows, view: &View) -> Vec<Choice> {
    let mut acts = events::choices(view);
    let is_quarantined = view.listed() == Some(List::Quarantine);
    if !view.state().is_final() {
        acts.extend(of_workflow(view, is_quarantined));
    }
    let possible = |act: &Act| {
        // The operator chooses the result later. Any result shows whether the act is possible.
        let result = act.verb.takes_result().then(|| json!(Compensated::Done));
        let asked = Act { result, ..act.clone() };
        judge(workflows, view, &asked, Scope::One, None)
    };
    let choice = |act: Act| {
        let effect = possible(&act).ok()?.effect;
        let choice = Choice::new(act.verb, work(view), view.revision(), effect);
        Some(act.step.iter().fold(choice, |choice, step| choice.at_step(step)))
    };
    acts.into_iter().filter_map(choice).collect()
}

/// The acts on the workflow itself and its steps that it may need.
fn of_workflow(view: &View, is_quarantined: bool) -> Vec<Act> {
    let mut acts = Vec::new();
    for step in view.steps().iter().filter(|_| is_quarantined) {
        acts.extend(of_step(view, step).into_iter().map(|act| act.step(step.name())));
    }
    acts.extend(is_quarantined.then(Act::retry));
    acts.extend((view.state() != State::Compensating).then(Act::compensate));
    acts.extend(is_quarantined.then(Act::close));
    acts
}

/// The decisions about a step that a workflow in quarantine may wait for.
fn of_step(view: &View, step: &StepView) -> Vec<Act> {
    let compensates = view.state() == State::Compensating;
    let is_compensation = step.kind() == StepKind::Compensation;
    match step.state() {
        StepState::Late if step.placed.is_of(&view.header.run_id()) => vec![Act::skip()],
        StepState::Completed if compensates && is_undeclared(&step.placed.record) => vec![Act::skip()],
        StepState::Completed if is_correctable(view, step) => vec![Act::correct(Value::Null)],
        // A failed step is the reason why the other steps are compensated.
        StepState::Started | StepState::Held | StepState::Failed
            if is_compensation
                || (!matches!(step.kind(), StepKind::Step | StepKind::Timer) && !compensates) =>
        {
            vec![Act::resolve(Value::Null), Act::retry(), Act::skip()]
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
