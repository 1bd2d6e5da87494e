//! Events from outside of a workflow: what operators may do about them.

use serde_json::Value;

use crate::core::answer::AnswerError;
use crate::core::time;
use crate::core::token::work::Work;
use crate::core::workflow::place::shown_event;
use crate::operator::Act;
use crate::operator::part::Verb;
use crate::operator::rule::{About, Meaning, Refusal};
use crate::operator::timeline::{Happening, TimelineEvent};
use crate::workflow::{EventState, EventView, Signalled, State, View};

/// Whether the workflow has the event of a skip or a correction.
pub(super) fn check(view: &View, event: &str, act: &Act) -> Result<(), Refusal> {
    if !matches!(act.verb, Verb::Skip | Verb::Correct) || act.not_started {
        let possible =
            "a signal gives it, a skip handles it if it is late, and a correction replaces its value";
        return Err(Refusal::of(format!("{event} is an event: {possible}")).about(About::Step));
    }
    if view.event(event).is_some() {
        return Ok(());
    }
    let names: Vec<_> = view.events().iter().map(EventView::name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Refusal::of(format!("it has no {event}; stored: {names}")).about(About::Step))
}

/// Why an act on an event is not possible.
pub(super) fn refused(view: &View, act: &Act) -> String {
    let name = act.step.as_deref().unwrap_or_default();
    let event = view.event(name);
    match (act.verb, event) {
        (Verb::Signal, _) if view.state() == State::Reaping => {
            "it is being deleted: nothing would be stored".to_owned()
        }
        (Verb::Signal, _) if view.continued_as().is_some() => {
            let version = view.continued_as().unwrap_or_default();
            format!("it continues as key version {version}: give the event to that version")
        }
        (Verb::Signal, event) => {
            let stored = event.map_or("stored", |event| event.state().as_str());
            format!("it has this event already, which is {stored}: nothing would be written")
        }
        (Verb::Skip, Some(event)) if event.state() == EventState::Late => {
            match (view.open_compensation(event), view.locked_by()) {
                (Some(step), _) => {
                    format!("the compensation of {name} has begun: decide about the step {step}")
                }
                (None, Some(_)) => {
                    let until = time::to_text(view.due());
                    format!("a driver may be running the compensation of {name} until {until}")
                }
                (None, None) => format!("it is {}, which skip cannot change", view.state().as_str()),
            }
        }
        (Verb::Correct, Some(event)) if event.state() == EventState::Given => {
            format!("its {name} is given, and its code has not stopped since it cannot read the value")
        }
        (_, event) => {
            let state = event.map_or("absent", |event| event.state().as_str());
            format!("its {name} is {state}, which {} cannot change", act.verb)
        }
    }
}

/// The effect of a possible act on an event, and the facts that the records do not show.
pub(super) fn meaning(
    view: &View,
    act: &Act,
    answer: Option<Signalled>,
    reads: Option<Result<(), AnswerError>>,
) -> Result<Meaning, Refusal> {
    let name = act.step.as_deref().unwrap_or_default();
    let event = view.event(name);
    let compensation = event.and_then(EventView::compensation);
    let mut meaning = Meaning::of(match (act.verb, answer) {
        (Verb::Signal, Some(answer)) => of_signal(view, event, answer),
        (Verb::Skip, _) => match compensation.filter(|_| event.is_some_and(|event| event.is_owed())) {
            Some(compensation) => {
                format!(
                    "it was dealt with by hand: its compensation {compensation} does not run, and it is listed no more"
                )
            }
            None => "it was dealt with by hand: it is listed no more".to_owned(),
        },
        _ => "from now on the code reads this value".to_owned(),
    });
    if act.verb == Verb::Signal && act.event_id.is_some() && view.header.continues.is_some() {
        let unread = "a former version may have an event with this id; if so, nothing is written";
        meaning.unknown.push(unread.to_owned());
    }
    match reads {
        Some(Err(error)) => {
            let because = format!("the value is not of the type of {name}: {error}");
            return Err(Refusal::of(because).about(About::Result));
        }
        None if act.verb.takes_result() => {
            let unchecked = format!("the type of {name} is not registered here, so the value is not checked");
            meaning.unknown.push(unchecked);
        }
        _ => {}
    }
    Ok(meaning)
}

fn of_signal(view: &View, event: Option<&EventView>, answer: Signalled) -> String {
    let compensation = event.and_then(EventView::compensation).unwrap_or_default();
    match answer {
        Signalled::AlreadyGiven => {
            "its name has another event: this one is listed as late until it is skipped, and changes nothing"
                .to_owned()
        }
        Signalled::Late { compensates: true } => format!(
            "the event is late and changes no outcome: it is listed until its compensation {compensation} is complete"
        ),
        Signalled::Late { .. } => {
            "the event is late and changes no outcome: it is listed until it is skipped".to_owned()
        }
        _ if event.is_some_and(|event| event.awaited(&view.header).is_some()) => {
            "the code waits for the event: a completer resumes the workflow with it".to_owned()
        }
        _ => "the event is kept for the code, which does not wait for it yet: it is late if the workflow ends before that"
            .to_owned(),
    }
}

/// The history of an event, and the end of a wait.
pub(super) fn happenings(view: &View, event: &EventView, of: &Work) -> Vec<TimelineEvent> {
    let at = |at, what| TimelineEvent::new(at, of.clone(), what).at_step(event.name());
    let mut events = Vec::new();
    events.extend(event.since().map(|since| at(since, Happening::Begun)));
    events.extend(event.arrived().map(|arrived| {
        let why = event.cause().unwrap_or(event.state().as_str());
        at(arrived, Happening::Signalled).because(Some(why))
    }));
    let awaited = event.awaited(&view.header);
    events.extend(awaited.map(|awaited| at(awaited.until, Happening::Due)));
    events
}

/// The acts on events that may be needed: of an event that the code waits for, that is late, or
/// that the code cannot read.
pub(super) fn choices(view: &View) -> Vec<Act> {
    let of = |event: &EventView| {
        let name = event.name();
        match event.state() {
            EventState::Late => Some(Act::skip()),
            EventState::Given if view.cannot_read(event) => Some(Act::correct(Value::Null)),
            _ if event.awaited(&view.header).is_some() => {
                let event = name.strip_prefix(&shown_event("")).unwrap_or(&name);
                Some(Act::signal(event, Value::Null))
            }
            _ => None,
        }
        .map(|act| act.step(name))
    };
    view.events().iter().filter_map(of).collect()
}
