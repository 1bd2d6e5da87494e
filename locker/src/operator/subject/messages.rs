//! Messages: their lists and choices, and acts on them.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::core::class::Class;
use crate::core::listed::MessageState;
use crate::core::time;
use crate::dead_letters::{MessageSummary, corrected};
use crate::error::Error;
use crate::operator::lists::{Lists, Reading};
use crate::operator::part::{Choice, Verb};
use crate::operator::rule::{About, Meaning, Refusal};
use crate::operator::{Act, IndexEntry, Match, Need};
use crate::session::{Intervened, Operator};
use crate::workflow::{Message, Workflows};

pub(in crate::operator) async fn read(
    workflows: &Workflows,
    asked: &Lists,
    reading: &mut Reading<'_>,
    mut take: impl FnMut(Match),
) -> Result<(), Error> {
    let now = workflows.context().now();
    for state in asked.messages.iter().copied() {
        let listed = workflows.messages(state);
        reading.matches(listed, now, |message| listed_message(message, state, now), &mut take).await?;
    }
    Ok(())
}

fn listed_message(message: MessageSummary, state: MessageState, now: DateTime<Utc>) -> Match {
    let is_old = |since: Option<DateTime<Utc>>| {
        since.is_none_or(|since| since < time::before(now, Need::UNSENT_AFTER))
    };
    let (need, since) = match state {
        MessageState::Dead => (Some(Need::Dead), message.due),
        MessageState::Unsent => (is_old(message.created).then_some(Need::Unsent), message.created),
        MessageState::Waiting => (is_old(message.due).then_some(Need::Unsent), message.due),
        MessageState::Archived => (None, message.due),
    };
    let entry = Some(IndexEntry::Message(message.clone()));
    Match {
        entry,
        name: message.consumer,
        topic: Some(message.topic.unwrap_or_default()),
        state: Some(state),
        note: message.note,
        need,
        class: message.class,
        cause: message.cause,
        since,
        owner: message.locked_by,
        ..Match::of(message.work)
    }
    .grouped()
}

/// A message as it was read, in the form of a list.
pub(in crate::operator) fn match_of(message: &Message, now: DateTime<Utc>) -> Match {
    listed_message(MessageSummary::of_message(message), message.state(), now)
}

/// The effect of an act on a message, or the reason why it is not possible.
pub(in crate::operator) fn judge(
    message: &Message,
    act: &Act,
    now: DateTime<Utc>,
) -> Result<Meaning, Refusal> {
    if !act.verb.is_for_messages() {
        return Err(Refusal::of(format!("a message has no verb {}", act.verb)));
    }
    if act.step.is_some() {
        return Err(Refusal::of("a message has no step: name no step"));
    }
    if act.verb == Verb::Correct && message.state() == MessageState::Dead {
        let corrected = body_of(act).map(|body| corrected(&message.stored, body));
        let because = match corrected {
            None => Some("the corrected body of a message is a JSON string: the text of the body".to_owned()),
            Some(checked) => checked.err().map(|error| error.to_string()),
        };
        if let Some(because) = because {
            return Err(Refusal::of(because).about(About::Result));
        }
    }
    match choices(message, now).into_iter().find(|choice| choice.verb == act.verb) {
        Some(choice) => Ok(Meaning::of(choice.effect)),
        None if message.stored.is_held(now) => {
            let until = message.held_until().map(time::to_text).unwrap_or_default();
            Err(Refusal::of(format!("until {until} code decides about it")))
        }
        None if message.stored.is_in_queue() && NEEDS_BODY.contains(&act.verb) => {
            Err(Refusal::of("its body is left to its queue: redrive or discard it, or set a claim check"))
        }
        None => Err(Refusal::of(format!("it is {}", message.state().as_str()))),
    }
}

/// The verbs for dead letters whose body is not left to its queue.
const NEEDS_BODY: [Verb; 2] = [Verb::Correct, Verb::Archive];

/// The corrected body.
fn body_of(act: &Act) -> Option<&str> {
    act.result.as_ref().and_then(Value::as_str)
}

/// Writes an act that [`judge`] allows.
pub(in crate::operator) async fn act(
    workflows: &Workflows,
    message: &Message,
    act: &Act,
    operator: &Operator,
) -> Result<Intervened, Error> {
    match act.verb {
        Verb::Redrive => workflows.redrive(message, operator).await,
        Verb::Archive => workflows.archive(message, operator).await,
        Verb::Restore => workflows.restore(message, operator).await,
        Verb::Discard => workflows.discard(message, operator).await,
        Verb::Note => workflows.annotate(message, operator).await,
        Verb::Correct => match body_of(act) {
            Some(body) => workflows.correct(message, body, operator).await,
            None => Ok(Intervened::NotPossible),
        },
        _ => Ok(Intervened::NotPossible),
    }
}

impl Message {
    /// Returns the verbs that an operator may apply at this time, each with its effect.
    ///
    /// Empty if no verb is needed, and [while code decides](Self::held_until) about the message.
    #[must_use]
    pub fn choices(&self, now: DateTime<Utc>) -> Vec<(Verb, String)> {
        choices(self, now).into_iter().map(|choice| (choice.verb, choice.effect)).collect()
    }
}

pub(in crate::operator) fn choices(message: &Message, now: DateTime<Utc>) -> Vec<Choice> {
    if message.stored.is_held(now) {
        return Vec::new();
    }
    let choice = |verb, effect: String| Choice::new(verb, message.work(), message.revision(), effect);
    let (who, whose, ended) = match message.consumer() {
        None => ("it is sent".to_owned(), "subject", "sent any more"),
        Some(consumer) => (format!("{consumer} handles it"), "group", "handled any more"),
    };
    let unsaid = message.held_until().map_or_else(String::new, |until| {
        let until = time::to_text(until);
        format!(" (code held it until {until} and did not return: it may have compensated it)")
    });
    let doubt = match message.class() {
        _ if message.consumer().is_none() => " (an attempt without a response may have arrived)",
        Some(Class::InDoubt) => " (its handler may have done it, or a part)",
        _ => "",
    };
    // The record does not contain whether there are earlier or later messages.
    let turn = format!("after the earlier messages of its {whose}, and later messages wait for it");
    let again = match message.expires().filter(|_| message.stored.has_expired(now)) {
        None => format!("{who} again{doubt} {turn}{unsaid}"),
        Some(at) => {
            format!("it expired at {}: a relay deletes it, and does not send it{unsaid}", time::to_text(at))
        }
    };
    let discard =
        || choice(Verb::Discard, format!("it is deleted and not {ended}{doubt}; it blocks no message"));
    let note = || choice(Verb::Note, "lists show the reason until the next act".to_owned());
    match message.state() {
        MessageState::Dead => {
            let archive = "it is kept, but not listed or counted as dead; it blocks no message";
            let correct = "its body is replaced, and it stays dead until it is redriven";
            let mut choices = vec![
                choice(Verb::Redrive, again),
                choice(Verb::Correct, correct.to_owned()),
                choice(Verb::Archive, archive.to_owned()),
                discard(),
                note(),
            ];
            choices.retain(|choice| !(message.stored.is_in_queue() && NEEDS_BODY.contains(&choice.verb)));
            choices
        }
        MessageState::Archived => {
            let restore = format!("it is dead again, and blocks the later messages of its {whose}");
            vec![choice(Verb::Restore, restore), discard(), note()]
        }
        MessageState::Unsent | MessageState::Waiting => Vec::new(),
    }
}
