//! What an operator may do about a message.

use super::choice::{Choice, Verb};
use crate::core::class::Class;
use crate::core::message::letter::MessageState;
use crate::core::time;
use crate::workflow::Message;

impl Message {
    /// Returns the verbs that an operator may apply now, each with its effect. Empty if none is needed.
    #[must_use]
    pub fn choices(&self) -> Vec<(Verb, String)> {
        choices(self).into_iter().map(|choice| (choice.verb, choice.effect)).collect()
    }
}

pub(super) fn choices(message: &Message) -> Vec<Choice> {
    let choice = |verb, effect: String| Choice::new(verb, message.work(), message.revision(), effect);
    let (who, whose, ended) = match message.consumer() {
        None => ("it is sent".to_owned(), "subject", "sent any more"),
        Some(consumer) => (format!("{consumer} handles it"), "group", "handled any more"),
    };
    let unsaid = message.held_until().map_or_else(String::new, |until| {
        let until = time::to_text(until);
        format!(" (from {until} on: until then code decides about it, which may have compensated it if it did not come back)")
    });
    // Whether there are such is not known here.
    let turn = format!("once those of its {whose} before it are dealt with, and those behind it wait for it");
    let again = format!("{who} again {turn}{unsaid}");
    let doubt = match message.class() {
        Some(Class::InDoubt) => " (its handler may have done it, or a part)",
        None if message.consumer().is_none() => " (an attempt without a response may have arrived)",
        _ => "",
    };
    let discard =
        || choice(Verb::Discard, format!("it is deleted and not {ended}{doubt}; it holds nothing up"));
    let note = || choice(Verb::Note, "the reason stands beside it until the next act".to_owned());
    match message.state() {
        MessageState::Dead => {
            let archive = "it is kept, in no count and no list of what is dead; it holds nothing up";
            vec![choice(Verb::Redrive, again), choice(Verb::Archive, archive.to_owned()), discard(), note()]
        }
        MessageState::Archived => {
            let restore = "it is dead again, and holds up those behind it";
            vec![choice(Verb::Restore, restore.to_owned()), discard(), note()]
        }
        MessageState::Unsent | MessageState::Waiting => Vec::new(),
    }
}
