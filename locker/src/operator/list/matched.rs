//! A token, a workflow or a message as a list has it.

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::core::class::Class;
use crate::core::message::letter::MessageState;
use crate::core::token::work::Work;
use crate::core::workflow::header::List;
use crate::core::workflow::place::Partition;
use crate::core::{alike, time};
use crate::dead_letters::MessageSummary;
use crate::operator::{Need, Subject};
use crate::token::TokenSummary;
use crate::workflow::Summary;

/// A token, a workflow or a message as a list has it: a moment behind the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Match {
    /// The token, the workflow or the message.
    pub work: Work,
    /// The name of the workflow's code; of a message that was received, its consumer. `None`: it is a token, or a message to be sent.
    pub name: Option<String>,
    /// The topic of a message. `None`: it is a token or a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The state of a message. `None`: it is a token or a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<MessageState>,
    /// What the operator who acted last on a message said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why it needs an operator. `None`: it does not.
    pub need: Option<Need>,
    /// The id of its group, the same as in [`Status`](crate::operator::Status): of need, subject, class and cause.
    pub group: String,
    /// The class of its failure, if there was one and it is a token or a message that was received.
    pub class: Option<Class>,
    /// The cause as it is stored.
    pub cause: Option<String>,
    /// Since when it needs an operator, or when it is due: see [`Group::first`](crate::operator::Group::first).
    #[serde(serialize_with = "as_text")]
    pub since: Option<DateTime<Utc>>,
    /// When it is due, unless it is held, in quarantine, finished, or a message.
    #[serde(serialize_with = "as_text")]
    pub due: Option<DateTime<Utc>>,
    /// Its owner or its driver.
    pub owner: Option<String>,
    /// What it was begun inside.
    pub within: Option<Work>,
}

fn as_text<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time::to_text).serialize(serializer)
}

impl Match {
    pub(crate) fn of_token(token: TokenSummary, is_held: bool, now: DateTime<Utc>) -> Self {
        let is_overdue = token.expected_completion.is_none_or(|due| due < now);
        let need = match token.class {
            _ if is_held => Some(Need::Held),
            _ if !is_overdue => None,
            Some(Class::InDoubt) => Some(Need::InDoubt),
            _ => Some(Need::Overdue),
        };
        Self {
            work: Work::Token(token.token),
            name: None,
            topic: None,
            state: None,
            note: None,
            need,
            group: String::new(),
            class: token.class,
            cause: token.cause,
            // The index does not have when it failed, and its due time may be ahead.
            since: if is_held { token.created } else { token.expected_completion },
            due: token.expected_completion.filter(|_| !is_held),
            owner: token.locked_by,
            within: token.within,
        }
        .grouped()
    }

    pub(crate) fn of_workflow(workflow: Summary, list: List, now: DateTime<Utc>) -> Self {
        let (need, since) = match list {
            List::Quarantine => (Some(Need::Quarantined), workflow.due),
            List::Failing => (Some(Need::Failing), workflow.since),
            List::Unfinished => {
                let undriven = |due: DateTime<Utc>| due < time::before(now, Need::UNDRIVEN_AFTER);
                (workflow.due.is_none_or(undriven).then_some(Need::Undriven), workflow.due)
            }
            List::Finished => (None, workflow.due),
        };
        Self {
            work: Work::Workflow(workflow.workflow),
            name: Some(workflow.name.unwrap_or_default()),
            topic: None,
            state: None,
            note: None,
            need,
            group: String::new(),
            class: None,
            cause: workflow.reason,
            since,
            due: workflow.due.filter(|_| matches!(list, List::Failing | List::Unfinished)),
            owner: workflow.locked_by,
            within: workflow.within,
        }
        .grouped()
    }

    pub(crate) fn of_message(message: MessageSummary, state: MessageState, now: DateTime<Utc>) -> Self {
        let is_old = |since: Option<DateTime<Utc>>| {
            since.is_none_or(|since| since < time::before(now, Need::UNSENT_AFTER))
        };
        let (need, since) = match state {
            MessageState::Dead => (Some(Need::Dead), message.due),
            MessageState::Unsent => (is_old(message.created).then_some(Need::Unsent), message.created),
            MessageState::Waiting => (is_old(message.due).then_some(Need::Unsent), message.due),
            MessageState::Archived => (None, message.due),
        };
        Self {
            work: message.work,
            name: message.consumer,
            topic: Some(message.topic.unwrap_or_default()),
            state: Some(state),
            note: message.note,
            need,
            group: String::new(),
            class: message.class,
            cause: message.cause,
            since,
            due: None,
            owner: message.locked_by,
            within: None,
        }
        .grouped()
    }

    fn grouped(mut self) -> Self {
        let (kind, name, topic) = match (&self.topic, &self.name) {
            (Some(topic), None) => ("messages", "", topic.as_str()),
            (Some(topic), Some(consumer)) => ("received", consumer.as_str(), topic.as_str()),
            (None, None) => ("tokens", "", ""),
            (None, Some(name)) => ("workflows", name.as_str(), ""),
        };
        let need = self.need.map_or("", Need::as_str);
        let class = self.class.map_or("", Class::as_str);
        self.group = alike::id_of(&[need, kind, name, topic, class, &self.alike()]);
        self
    }

    /// Whether it has this key, or was committed by the workflow with it, under any version.
    pub(super) fn is_of_key(&self, key: &str) -> bool {
        is_of_key(self.work.key(), key)
    }

    pub(super) fn is_due_workflow(&self, now: DateTime<Utc>) -> bool {
        matches!(self.work, Work::Workflow(_)) && self.due.is_some_and(|due| due <= now)
    }

    /// The cause, with `#` for what differs.
    pub(crate) fn alike(&self) -> String {
        self.cause.as_deref().map_or_else(String::new, alike::alike)
    }

    pub(crate) fn subject(&self) -> Subject {
        match (&self.topic, &self.name) {
            (Some(topic), None) => Subject::Messages(topic.clone()),
            (Some(topic), Some(consumer)) => {
                Subject::Received { consumer: consumer.clone(), topic: topic.clone() }
            }
            (None, None) => Subject::Tokens,
            (None, Some(name)) => Subject::Workflows(name.clone()),
        }
    }
}

/// Whether this is a key as it is stored: alone, or with a version behind it.
fn is_of_key(stored: &str, key: &str) -> bool {
    matches!(Partition::parse(stored), Ok(Partition::Workflow { key: found, .. }) if found == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_all_its_versions_and_is_no_prefix() {
        let all = [
            "order/1",
            "order/1 v2",
            "order/10",
            "order/10 v2",
            "order",
            "locker outbox order/1",
            "locker dead order/1 7",
        ];
        let of = |key| all.into_iter().filter(|stored| is_of_key(stored, key)).collect::<Vec<_>>();
        assert_eq!(of("order/1"), ["order/1", "order/1 v2"]);
        assert_eq!(of("order/10"), ["order/10", "order/10 v2"]);
        assert_eq!(of("order"), ["order"]);
        assert!(of("locker").is_empty() && of("order/").is_empty());
    }
}
