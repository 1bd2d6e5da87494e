//! One token, workflow or message as read, and the verbs that an operator may apply to it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

#[cfg(feature = "messages")]
use super::subject::messages;
use super::subject::tokens;
#[cfg(feature = "workflow")]
use super::subject::workflows;
use super::{Console, Filter, Match};
use crate::core::key::Key;
use crate::core::token::record::{Intervention, Record};
use crate::core::token::work::Work;
use crate::error::Error;
#[cfg(feature = "messages")]
use crate::workflow::Message;
#[cfg(feature = "workflow")]
use crate::workflow::View;

/// A token, a workflow or a message as read: strongly consistent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Part {
    /// A token.
    Token(Box<Record>),
    /// A workflow.
    #[cfg(feature = "workflow")]
    Workflow(Box<View>),
    /// A message. A timeline contains no messages: [`Console::list`] lists them.
    #[cfg(feature = "messages")]
    Message(Box<Message>),
}

impl Part {
    /// Returns its name.
    #[must_use]
    pub fn work(&self) -> Work {
        match self {
            Self::Token(record) => Work::Token(record.key().as_str().to_owned()),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => Work::Workflow(view.header.workflow.clone()),
            #[cfg(feature = "messages")]
            Self::Message(message) => message.work(),
        }
    }

    /// Returns the work that it was begun inside.
    #[must_use]
    pub fn within(&self) -> Option<&Work> {
        match self {
            Self::Token(record) => record.within(),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => view.within(),
            #[cfg(feature = "messages")]
            Self::Message(_) => None,
        }
    }

    /// Returns the revision of the record. With this id an operator acts on the record as it was
    /// shown.
    ///
    /// Every later write of the record changes it.
    #[must_use]
    pub fn revision(&self) -> String {
        match self {
            Self::Token(record) => record.revision(),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => view.revision(),
            #[cfg(feature = "messages")]
            Self::Message(message) => message.revision(),
        }
    }

    /// The start of a workflow.
    pub(super) fn started(&self) -> Option<DateTime<Utc>> {
        match self {
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => Some(view.created()),
            _ => None,
        }
    }

    /// The last act of an operator on the record, or on this event of it.
    #[cfg_attr(not(feature = "workflow"), allow(unused_variables, reason = "workflows have events"))]
    pub(super) fn intervention(&self, step: Option<&str>) -> Option<&Intervention> {
        match self {
            Self::Token(record) => record.intervention(),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => match step.and_then(|step| view.event(step)) {
                Some(event) => event.intervention(),
                None => view.intervention(),
            },
            #[cfg(feature = "messages")]
            Self::Message(message) => message.intervention(),
        }
    }

    /// The record, or this event of it, in the form of a list that the filter reads. `None`: no
    /// such list contains it in its state.
    #[cfg_attr(not(feature = "workflow"), allow(unused_variables, reason = "workflows have events"))]
    pub(super) fn as_match(&self, event: Option<&str>, filter: &Filter, now: DateTime<Utc>) -> Option<Match> {
        match self {
            Self::Token(record) if filter.is_for_results() => tokens::with_result(record),
            Self::Token(record) => tokens::match_of(record, now),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => match event {
                Some(event) => workflows::match_of_event(view, event),
                None if filter.is_for_results() => workflows::with_result(view, now),
                None => workflows::match_of(view, now),
            },
            #[cfg(feature = "messages")]
            Self::Message(message) => Some(messages::match_of(message, now)),
        }
    }

    /// The state in words.
    pub(super) fn state(&self) -> String {
        match self {
            Self::Token(record) => format!("it is {}", record.state().as_str()),
            #[cfg(feature = "messages")]
            Self::Message(message) => format!("it is {}", message.state().as_str()),
            #[cfg(feature = "workflow")]
            Self::Workflow(view) => workflows::state(view),
        }
    }
}

impl Console {
    /// Reads the token and the workflow with a key, in whatever state they are.
    ///
    /// The workflow's second version has the key `KEY v2`. Empty if there is neither.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], and [`Error::Record`] if a stored item cannot be
    /// read.
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read for the token, and 1 query for the workflow, or 2 if a run has
    /// failed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: locker::Locker) -> Result<(), locker::Error> {
    /// use locker::operator::Console;
    ///
    /// for part in Console::new().tokens(&locker).get("order/7").await? {
    ///     println!("{}", part.work().to_text());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn get(&self, key: &str) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for work in [Work::Token(key.to_owned()), Work::Workflow(key.to_owned())] {
            parts.extend(self.whole_part(&work).await?);
        }
        Ok(parts)
    }

    /// The token, the message, or the workflow with the causes of its failed runs, as it is now.
    pub(super) async fn whole_part(&self, work: &Work) -> Result<Option<Part>, Error> {
        match self.part(work).await? {
            #[cfg(feature = "workflow")]
            Some(Part::Workflow(view)) => {
                let Some(workflows) = &self.workflows else { return Ok(None) };
                Ok(Some(Part::Workflow(Box::new(workflows.with_causes(*view).await?))))
            }
            part => Ok(part),
        }
    }

    /// The token, the workflow or the message as it is now.
    pub(super) async fn part(&self, work: &Work) -> Result<Option<Part>, Error> {
        match work {
            Work::Token(key) => {
                let Some(locker) = &self.tokens else { return Ok(None) };
                let record = locker.get(Key::existing(key.as_str())?).await?;
                Ok(record.map(|record| Part::Token(Box::new(record))))
            }
            #[cfg(feature = "workflow")]
            Work::Workflow(key) => {
                let Some(workflows) = &self.workflows else { return Ok(None) };
                Ok(workflows.view(key).await?.map(|view| Part::Workflow(Box::new(view))))
            }
            #[cfg(feature = "messages")]
            Work::Message { .. } => {
                let Some(workflows) = &self.workflows else { return Ok(None) };
                Ok(workflows.message(work).await?.map(|message| Part::Message(Box::new(message))))
            }
            #[cfg(not(feature = "messages"))]
            _ => Ok(None),
        }
    }

    /// The verbs that an operator may apply now.
    pub(super) fn choices(&self, part: &Part) -> Vec<Choice> {
        match part {
            Part::Token(record) => {
                let runs = self.runs_of(record);
                self.tokens.iter().flat_map(|locker| tokens::choices(locker, record, runs)).collect()
            }
            #[cfg(feature = "workflow")]
            Part::Workflow(view) => {
                self.workflows.iter().flat_map(|workflows| workflows::choices(workflows, view)).collect()
            }
            #[cfg(feature = "messages")]
            Part::Message(message) => {
                let workflows = self.workflows.iter();
                workflows.flat_map(|it| messages::choices(message, it.context().now())).collect()
            }
        }
    }
}

/// A verb of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Verb {
    /// States that the work happened, with its result.
    Resolve,
    /// States that the work did not happen.
    Release,
    /// Lets a workflow, or its step, run again.
    Retry,
    /// Continues without the step, or handles a late event.
    Skip,
    /// Replaces a result that an operator set, the value of an event that the code cannot read, or
    /// the body of a dead message.
    Correct,
    /// Compensates the steps of a workflow.
    Compensate,
    /// Compensates a workflow that may run meanwhile: see [`Act::cancel`](super::Act::cancel).
    Cancel,
    /// Ends a token or a workflow as it is.
    Close,
    /// Gives an event to a workflow.
    Signal,
    /// Sends or processes a dead message again.
    Redrive,
    /// Archives a dead message.
    Archive,
    /// Makes an archived message dead again.
    Restore,
    /// Deletes a message: it is not sent or processed.
    Discard,
    /// Writes a note on a message.
    Note,
    /// Erases the result of a token or a workflow that ended.
    Redact,
}

impl Verb {
    /// Returns the verb of the command `locker`, `locker workflow` or `locker dead`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Release => "release",
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Correct => "correct",
            Self::Compensate => "compensate",
            Self::Cancel => "cancel",
            Self::Close => "close",
            Self::Signal => "signal",
            Self::Redrive => "redrive",
            Self::Archive => "archive",
            Self::Restore => "restore",
            Self::Discard => "discard",
            Self::Note => "note",
            Self::Redact => "redact",
        }
    }

    /// Returns whether the verb is for messages and for nothing else.
    pub(super) const fn is_only_for_messages(self) -> bool {
        matches!(self, Self::Redrive | Self::Archive | Self::Restore | Self::Discard | Self::Note)
    }

    /// Returns whether the verb is for messages.
    pub(super) const fn is_for_messages(self) -> bool {
        self.is_only_for_messages() || matches!(self, Self::Correct)
    }

    /// Returns whether the verb takes a result, or the value of an event.
    #[must_use]
    pub const fn takes_result(self) -> bool {
        matches!(self, Self::Resolve | Self::Correct | Self::Signal)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verb that an operator may apply now, and its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Choice {
    /// The verb.
    pub verb: Verb,
    /// The token, the workflow or the message.
    pub of: Work,
    /// The step or the event, if the verb is for one.
    pub step: Option<String>,
    /// The revision as read. The act is to depend on it.
    pub revision: String,
    /// The meaning of the verb and its effect.
    pub effect: String,
}

impl Choice {
    pub(super) const fn new(verb: Verb, of: Work, revision: String, effect: String) -> Self {
        Self { verb, of, step: None, revision, effect }
    }

    #[cfg(feature = "workflow")]
    pub(super) fn at_step(mut self, step: &str) -> Self {
        self.step = Some(step.to_owned());
        self
    }
}
