//! The act of an operator.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::alike;
use crate::core::name::EVENT_PREFIX;
#[cfg(feature = "workflow")]
use crate::core::workflow::place::shown_event;
use crate::operator::Verb;
use crate::operator::rule::Scope;
use crate::session::Operator;

/// The act of an operator on a token, a workflow or a message.
///
/// A [plan](super::Plan) applies it to each record that it contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Act {
    /// The verb.
    pub verb: Verb,
    /// The step or the event of each workflow, if the act is for one. Events have names such as
    /// `event:paid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The result of each record, or the value of an event.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub result: Option<Value>,
    /// The id by which the sender knows an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the provider receives another key. The provider then does not recognise earlier
    /// attempts.
    #[serde(default)]
    pub new_key: bool,
    /// Whether it acts on work that may still be running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// Whether it acts on a token that has a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completed: bool,
    /// Whether it acts on a step that has no record yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_started: bool,
}

/// A present `null` is a result; an absent field is none.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Act {
    const fn of(verb: Verb) -> Self {
        Self {
            verb,
            step: None,
            result: None,
            event_id: None,
            new_key: false,
            running: false,
            completed: false,
            not_started: false,
        }
    }

    /// Releases tokens: their work did not happen, and the next caller does it.
    #[must_use]
    pub const fn release() -> Self {
        Self::of(Verb::Release)
    }

    /// Closes held tokens with their failure as the answer, or workflows in quarantine as they are.
    #[must_use]
    pub const fn close() -> Self {
        Self::of(Verb::Close)
    }

    /// Resolves tokens with this result: their work happened.
    #[must_use]
    pub fn resolve(result: Value) -> Self {
        Self { result: Some(result), ..Self::of(Verb::Resolve) }
    }

    /// Replaces the result that an operator gave a token, or a [step](Self::step), the value of an
    /// event that the code cannot read, or the body of a dead message.
    ///
    /// For a message, `result` is a string: the text of the corrected body.
    #[must_use]
    pub fn correct(result: Value) -> Self {
        Self { result: Some(result), ..Self::of(Verb::Correct) }
    }

    /// Lets completers drive workflows again.
    #[must_use]
    pub const fn retry() -> Self {
        Self::of(Verb::Retry)
    }

    /// Compensates workflows.
    #[must_use]
    pub const fn compensate() -> Self {
        Self::of(Verb::Compensate)
    }

    /// Cancels workflows: compensates their steps and ends them.
    ///
    /// Same as [`compensate`](Self::compensate), but also for a workflow that has progressed since
    /// the plan was made: its driver reads it before the next step. A workflow that ended or was
    /// started again after the plan was made is not changed.
    #[must_use]
    pub const fn cancel() -> Self {
        Self::of(Verb::Cancel)
    }

    /// Continues workflows without the [step](Self::step); or handles a late event, by the
    /// [step](Self::step) `event:NAME`, without its compensation.
    #[must_use]
    pub const fn skip() -> Self {
        Self::of(Verb::Skip)
    }

    /// Gives this event to a workflow, as a sender does by
    /// [`Workflows::signal`](crate::workflow::Workflows::signal).
    ///
    /// `event` is its name, such as `paid`.
    #[cfg(feature = "workflow")]
    #[must_use]
    pub fn signal(event: impl AsRef<str>, value: Value) -> Self {
        Self { step: Some(shown_event(event.as_ref())), result: Some(value), ..Self::of(Verb::Signal) }
    }

    /// Sets the id by which the sender knows the event of a [signal](Self::signal).
    ///
    /// If the sender also sends an event with this id, the two count as one event.
    #[must_use]
    pub fn event_id(mut self, id: impl Into<String>) -> Self {
        self.event_id = Some(id.into());
        self
    }

    /// Sends dead messages, or lets their consumers process them, again.
    #[must_use]
    pub const fn redrive() -> Self {
        Self::of(Verb::Redrive)
    }

    /// Archives dead messages.
    #[must_use]
    pub const fn archive() -> Self {
        Self::of(Verb::Archive)
    }

    /// Makes archived messages dead again.
    #[must_use]
    pub const fn restore() -> Self {
        Self::of(Verb::Restore)
    }

    /// Deletes dead or archived messages: they are not sent or processed.
    #[must_use]
    pub const fn discard() -> Self {
        Self::of(Verb::Discard)
    }

    /// Writes the reason as a note on dead or archived messages.
    #[must_use]
    pub const fn note() -> Self {
        Self::of(Verb::Note)
    }

    /// Erases the results of tokens and workflows that ended.
    #[must_use]
    pub const fn redact() -> Self {
        Self::of(Verb::Redact)
    }

    /// Applies the act to this step, or this event, of each workflow.
    #[must_use]
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// Gives the provider another key in a [retry](Self::retry) of a step, or in a
    /// [release](Self::release) of one token.
    ///
    /// **If the work did happen, it happens twice.**
    #[must_use]
    pub const fn new_key(mut self) -> Self {
        self.new_key = true;
        self
    }

    /// Acts on one token whose work may still be running.
    ///
    /// **The work is not stopped. After a [release](Self::release) it may be done twice.**
    #[must_use]
    pub const fn running(mut self) -> Self {
        self.running = true;
        self
    }

    /// [Releases](Self::release) one token that has a result: its work is done again.
    #[must_use]
    pub const fn completed(mut self) -> Self {
        self.completed = true;
        self
    }

    /// Acts on a [step](Self::step) that has no record yet, of one workflow.
    #[must_use]
    pub const fn not_started(mut self) -> Self {
        self.not_started = true;
        self
    }

    /// Returns the id of a dry run of this act on one record: the revision, a point, and eight
    /// hexadecimal digits of the act and the operator.
    ///
    /// An operator who saw a dry run passes its id to the act. It matches only if the record, the
    /// verb, every argument, the name and the reason are the same.
    #[must_use]
    pub fn id(&self, revision: &str, operator: &Operator) -> String {
        let act = serde_json::to_string(self).unwrap_or_default();
        format!("{revision}.{}", alike::id_of(&[&act, operator.by(), operator.reason()]))
    }

    /// Whether it is for an event of a workflow.
    pub(in crate::operator) fn is_on_event(&self) -> bool {
        self.step.as_deref().is_some_and(|step| step.starts_with(EVENT_PREFIX))
    }

    /// The reason why the act is not valid, and what to do.
    pub(in crate::operator) fn check(&self, scope: Scope) -> Result<(), &'static str> {
        let many = scope == Scope::Many;
        let new_key_of_step = self.verb == Verb::Retry && self.step.is_some();
        let new_key_of_token = self.verb == Verb::Release && !many;
        match self.verb {
            Verb::Signal if many => Err("a plan contains no signal: give each workflow its event by itself"),
            Verb::Signal if !self.is_on_event() => Err("name the event to give"),
            _ if self.event_id.is_some() && self.verb != Verb::Signal => Err("event_id is for a signal"),
            Verb::Correct if many => Err("a plan contains no correction: correct each record by itself"),
            _ if many && (self.running || self.completed || self.not_started) => {
                Err("a plan cannot set running, completed or not_started: act on one record")
            }
            _ if self.step.as_deref() == Some("") => Err("the name of the step is empty"),
            verb if self.running
                && (self.step.is_some() || !matches!(verb, Verb::Release | Verb::Resolve)) =>
            {
                Err("running is for the release or the resolve of a token")
            }
            _ if self.running && self.new_key => {
                Err("the work may be running, and its provider would not recognise another key")
            }
            verb if self.completed && verb != Verb::Release => Err("completed is for the release of a token"),
            verb if self.not_started
                && (self.step.is_none() || !matches!(verb, Verb::Skip | Verb::Resolve)) =>
            {
                Err("not_started is for a step to skip or to resolve")
            }
            Verb::Skip if self.step.is_none() => Err("name the step to skip"),
            verb if verb.is_only_for_messages() && self.step.is_some() => {
                Err("a message has no step: name no step")
            }
            Verb::Cancel if many && self.step.is_some() => {
                Err("a cancel is for whole workflows: name no step")
            }
            verb if verb.takes_result() != self.result.is_some() => {
                Err("a resolve, a correction and a signal take a result, and no other act does")
            }
            _ if self.new_key && !new_key_of_step && !new_key_of_token => {
                Err("another key is for the retry of a step: name the step, or release a single token")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_argument_with_an_effect_is_in_the_id() {
        let acts = [
            Act::release(),
            Act::release().running(),
            Act::release().completed(),
            Act::release().new_key(),
            Act::close(),
            Act::redact(),
            Act::resolve(json!(1)),
            Act::resolve(json!(2)),
            Act::resolve(json!(null)),
            Act::correct(json!(1)),
            Act::resolve(json!(1)).running(),
            Act::resolve(json!(1)).step("pay"),
            Act::resolve(json!(1)).step("book"),
            Act::resolve(json!(1)).step("book").not_started(),
            #[cfg(feature = "workflow")]
            Act::signal("paid", json!(1)),
            #[cfg(feature = "workflow")]
            Act::signal("paid", json!(1)).event_id("e-1"),
            #[cfg(feature = "workflow")]
            Act::signal("refunded", json!(1)),
        ];
        let by = |name, reason| Operator::new(name, reason).unwrap();
        let operators = [by("ada", "repaired"), by("ada", "repaired it"), by("ben", "repaired")];
        let ids = acts.iter().flat_map(|act| operators.iter().map(|by| act.id("0f3a9c51d2", by)));
        let different: std::collections::BTreeSet<_> = ids.collect();
        assert_eq!(different.len(), acts.len() * operators.len());
        assert!(different.iter().all(|id| id.starts_with("0f3a9c51d2.") && id.len() == 19));
    }
}
