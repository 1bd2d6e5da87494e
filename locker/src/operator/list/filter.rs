//! Which tokens, workflows and messages are meant.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::matched::Match;
use super::times;
use crate::core::class::Class;
use crate::core::token::work::Work;
use crate::core::{key, time};
use crate::operator::Need;

/// Which tokens, workflows and messages are meant: those that fit everything it says. A new one says nothing, and all fit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use = "a filter does nothing by itself"]
pub struct Filter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workflow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) consumer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) need: Option<Need>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<Class>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) within: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at_least_for: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at_most_for: Option<Duration>,
    #[serde(default, with = "times::optional", skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<DateTime<Utc>>,
    #[serde(default, with = "times::optional", skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) due: bool,
}

impl Filter {
    /// A filter that all fit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys that begin so, such as `order/create/`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The token or the workflow with this key, and the messages of that workflow: of all versions of the key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Keys of this tenant, as [`BeginBuilder::tenant`](crate::BeginBuilder::tenant) and the HTTP layer make them: they begin with
    /// `@tenant/`.
    pub fn tenant(mut self, tenant: impl std::fmt::Display) -> Self {
        self.tenant = Some(tenant.to_string());
        self
    }

    /// Workflows whose code has this name.
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Messages of this topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Messages that this consumer set aside.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = Some(name.into());
        self
    }

    /// The message with this [short id](crate::workflow::Message::short_id).
    pub fn message(mut self, short_id: impl Into<String>) -> Self {
        self.message = Some(short_id.into());
        self
    }

    /// What needs an operator for this reason.
    pub const fn need(mut self, need: Need) -> Self {
        self.need = Some(need);
        self
    }

    /// A group of [`Status`](crate::operator::Status).
    pub fn group(mut self, id: impl Into<String>) -> Self {
        self.group = Some(id.into());
        self
    }

    /// Tokens, and messages that were received, whose failure has this class.
    pub const fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Causes that contain this, whatever its case.
    pub fn cause(mut self, part: impl Into<String>) -> Self {
        self.cause = Some(part.into());
        self
    }

    /// Owners and drivers that contain this, such as a request id.
    pub fn owner(mut self, part: impl Into<String>) -> Self {
        self.owner = Some(part.into());
        self
    }

    /// What was begun inside the work with this key.
    pub fn within(mut self, key: impl Into<String>) -> Self {
        self.within = Some(key.into());
        self
    }

    /// What contains this text: in the key, group, name, topic, cause, owner, or in the key of what they were begun inside.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// What has needed an operator, or has been due, for at least this long.
    pub const fn at_least_for(mut self, time: Duration) -> Self {
        self.at_least_for = Some(time);
        self
    }

    /// What has needed an operator, or has been due, for at most this long.
    pub const fn at_most_for(mut self, time: Duration) -> Self {
        self.at_most_for = Some(time);
        self
    }

    /// What has needed an operator, or is due, from this time on. What has no such time is not meant.
    pub fn since(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// What needed an operator, or was due, before this time. What has no such time is not meant.
    pub fn until(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.until = Some(time.into());
        self
    }

    /// Unfinished workflows that are due, as in [`ListBuilder::due`](crate::ListBuilder::due).
    pub const fn due(mut self) -> Self {
        self.due = true;
        self
    }

    /// Whether it says nothing, so that all fit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this one is meant, at this time.
    #[must_use]
    pub fn fits(&self, it: &Match, now: DateTime<Utc>) -> bool {
        let is = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|asked| asked == has);
        let has = |asked: &Option<String>, text: Option<&str>| {
            asked.as_ref().is_none_or(|asked| text.is_some_and(|text| contains(text, asked)))
        };
        let within = it.within.as_ref().map(Work::key);
        // As keys have it: a tenant with a slash is another one than the part before it.
        let of_tenant =
            |tenant: &String| key::of_tenant(tenant).is_ok_and(|prefix| it.work.key().starts_with(&prefix));
        let since = it.since.unwrap_or(now);
        self.prefix.as_ref().is_none_or(|prefix| it.work.key().starts_with(prefix.as_str()))
            && self.key.as_ref().is_none_or(|key| it.is_of_key(key))
            && self.tenant.as_ref().is_none_or(of_tenant)
            && self.workflow.as_ref().is_none_or(|name| it.topic.is_none() && it.name.as_ref() == Some(name))
            && self.topic.as_ref().is_none_or(|topic| it.topic.as_ref() == Some(topic))
            && self.consumer.as_ref().is_none_or(|name| it.topic.is_some() && it.name.as_ref() == Some(name))
            && self.message.as_ref().is_none_or(|id| it.topic.is_some() && it.work.short_id() == *id)
            && self.need.is_none_or(|need| it.need == Some(need))
            && is(&self.group, &it.group)
            && self.class.is_none_or(|class| it.class == Some(class))
            && has(&self.cause, it.cause.as_deref())
            && has(&self.owner, it.owner.as_deref())
            && self.within.as_ref().is_none_or(|key| within == Some(key.as_str()))
            && self.text.as_ref().is_none_or(|text| mentions(it, text))
            && self.at_least_for.is_none_or(|time| since <= time::before(now, time))
            && self.at_most_for.is_none_or(|time| since >= time::before(now, time))
            && self.since.is_none_or(|from| it.since.is_some_and(|since| since >= from))
            && self.until.is_none_or(|until| it.since.is_some_and(|since| since < until))
            && (!self.due || it.is_due_workflow(now))
    }

    /// Whether workflows may fit.
    pub(crate) fn asks_for_workflows(&self) -> bool {
        self.class.is_none() && !self.asks_for_messages_only()
    }

    /// Whether tokens may fit.
    pub(crate) const fn asks_for_tokens(&self) -> bool {
        self.workflow.is_none() && !self.due && !self.asks_for_messages_only()
    }

    /// Whether messages may fit.
    pub(crate) const fn asks_for_messages(&self) -> bool {
        let of_messages = matches!(self.need, None | Some(Need::Dead | Need::Unsent));
        of_messages && self.workflow.is_none() && self.within.is_none() && !self.due
    }

    const fn asks_for_messages_only(&self) -> bool {
        let is_of_message = self.topic.is_some() || self.consumer.is_some() || self.message.is_some();
        is_of_message || matches!(self.need, Some(Need::Dead | Need::Unsent))
    }

    /// Whether it names one message.
    pub(crate) const fn is_for_one_message(&self) -> bool {
        self.message.is_some()
    }

    /// Whether only what needs an operator may fit.
    pub(crate) const fn asks_for_needs(&self) -> bool {
        self.need.is_some()
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

fn mentions(it: &Match, text: &str) -> bool {
    let within = it.within.as_ref().map(Work::key);
    let texts = [
        Some(it.work.key()),
        it.name.as_deref(),
        it.topic.as_deref(),
        it.cause.as_deref(),
        it.owner.as_deref(),
        within,
    ];
    // The key that a provider was given begins with the key of the token or the workflow.
    let of_provider = text.split(' ').next() == Some(it.work.key());
    it.group == text || of_provider || texts.into_iter().flatten().any(|has| contains(has, text))
}
