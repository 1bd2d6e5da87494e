//! The tokens, workflows and messages that a verb is about.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::lists::Lists;
use super::subject::tokens::TokenList;
use super::{Match, Need, times};
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::class::Class;
use crate::core::listed::List;
use crate::core::listed::MessageState;
use crate::core::token::record::TokenState;
use crate::core::token::work::Work;
use crate::core::{key, time};

/// Selects tokens, workflows and messages that fit all of its conditions.
///
/// A new filter has no condition and selects all. A condition with an empty text is refused when
/// the filter is used.
///
/// # Examples
///
/// ```
/// use locker::operator::{Filter, Need};
///
/// let filter = Filter::new().need(Need::Held).cause("relay");
/// assert_eq!(filter.to_string(), r#"held; cause contains "relay""#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use = "a filter does nothing by itself"]
pub struct Filter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consumer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    need: Option<Need>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<Class>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least_for: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most_for: Option<Duration>,
    #[serde(default, with = "times::optional", skip_serializing_if = "Option::is_none")]
    since: Option<DateTime<Utc>>,
    #[serde(default, with = "times::optional", skip_serializing_if = "Option::is_none")]
    until: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    due: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Vec<TokenState>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflows: Option<Vec<List>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    late_events: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<MessageState>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    with_result: bool,
}

impl Filter {
    /// Creates a filter that selects all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects keys that begin with this text, such as `order/create/`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Selects the token, the workflow and its messages with this key, in all versions.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Selects keys of this tenant: they begin with `@tenant/`.
    ///
    /// [`BeginBuilder::tenant`](crate::BeginBuilder::tenant) and the HTTP layer form such keys. A
    /// tenant that no key can have is refused when the filter is used.
    pub fn tenant(mut self, tenant: impl fmt::Display) -> Self {
        self.tenant = Some(tenant.to_string());
        self
    }

    /// Selects workflows whose code has this name.
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Selects messages of this topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Selects messages that this consumer received.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = Some(name.into());
        self
    }

    /// Selects the message with this [short id](crate::workflow::Message::short_id).
    pub fn message(mut self, short_id: impl Into<String>) -> Self {
        self.message = Some(short_id.into());
        self
    }

    /// Selects items that need an operator for this reason.
    pub const fn need(mut self, need: Need) -> Self {
        self.need = Some(need);
        self
    }

    /// Selects the items of a group of a [`Status`](super::Status). For a plan, overdue tokens
    /// without a cause need [one more condition](super::Console::plan).
    pub fn group(mut self, id: impl Into<String>) -> Self {
        self.group = Some(id.into());
        self
    }

    /// Selects tokens, and messages that were received, whose failure has this class.
    pub const fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Selects causes that contain this text in any case.
    pub fn cause(mut self, part: impl Into<String>) -> Self {
        self.cause = Some(part.into());
        self
    }

    /// Selects owners and drivers that contain this text, such as a request id.
    pub fn owner(mut self, part: impl Into<String>) -> Self {
        self.owner = Some(part.into());
        self
    }

    /// Selects work that was begun inside the work with this key.
    pub fn within(mut self, key: impl Into<String>) -> Self {
        self.within = Some(key.into());
        self
    }

    /// Selects items that contain this text in their key, group, name, event, topic, cause or
    /// owner, and the message with this [short id](crate::workflow::Message::short_id).
    ///
    /// If an item was begun inside other work, the key of that work is searched, too.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Selects items that have needed an operator, or have been due, for at least this long.
    pub const fn at_least_for(mut self, time: Duration) -> Self {
        self.at_least_for = Some(time);
        self
    }

    /// Selects items that have needed an operator, or have been due, for at most this long.
    pub const fn at_most_for(mut self, time: Duration) -> Self {
        self.at_most_for = Some(time);
        self
    }

    /// Selects items that have needed an operator, or are due, since this time or later.
    ///
    /// Items without such a time do not fit.
    pub fn since(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// Selects items that have needed an operator, or were due, since a time before this one.
    ///
    /// Items without such a time do not fit.
    pub fn until(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.until = Some(time.into());
        self
    }

    /// Selects tokens in progress and unfinished workflows that are past their due time.
    pub const fn due(mut self) -> Self {
        self.due = true;
        self
    }

    /// Selects only tokens in these states: in progress or held.
    ///
    /// The `only_` options add up. Lists that none of them names are not read, and do not count
    /// against the [limit](super::Console::limit). Without such an option, all lists are read
    /// except those of finished workflows and archived messages.
    pub fn only_tokens(mut self, states: impl IntoIterator<Item = TokenState>) -> Self {
        self.tokens = Some(states.into_iter().collect());
        self
    }

    /// Selects only workflows in these lists: see [`only_tokens`](Self::only_tokens).
    pub fn only_workflows(mut self, lists: impl IntoIterator<Item = List>) -> Self {
        self.workflows = Some(lists.into_iter().collect());
        self
    }

    /// Selects only late events: see [`only_tokens`](Self::only_tokens).
    pub const fn only_late_events(mut self) -> Self {
        self.late_events = true;
        self
    }

    /// Selects only messages in these states: see [`only_tokens`](Self::only_tokens).
    pub fn only_messages(mut self, states: impl IntoIterator<Item = MessageState>) -> Self {
        self.messages = Some(states.into_iter().collect());
        self
    }

    /// Selects only tokens and workflows that have ended and whose result is kept. Conditions that
    /// select no such work, such as [`need`](Self::need), are refused. A [`group`](Self::group) is
    /// refused too: the results of all tokens are one group.
    ///
    /// The time of [`since`](Self::since) and [`until`](Self::until) is the time when the work was
    /// begun. A [`cause`](Self::cause) selects only workflows: the failure of a token that has
    /// ended is its answer, which is not searched. A record that cannot be read is listed if its
    /// key fits.
    ///
    /// **No index contains such tokens, so the whole table of tokens is read:** half a read unit
    /// for each 4 KB of the table, with the permission `dynamodb:Scan`. For workflows, Locker reads
    /// the list of finished workflows. Each workflow that fits costs 1 more strongly consistent
    /// read. The list has no workflow that is kept forever. The other reads are eventually
    /// consistent, so work that ended within the last seconds may be missing.
    pub const fn with_result(mut self) -> Self {
        self.with_result = true;
        self
    }

    /// Returns whether the filter has no condition, so that it selects all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses a condition with an empty text: an unset variable of a shell is no selection.
    /// Refuses conditions that select no result. Refuses a group of results: the results of all
    /// tokens are one group, and a redact cannot be undone. Refuses a tenant that no key can have:
    /// it would match no record, and no error would show the reason.
    pub(super) fn check(&self) -> Result<(), InvalidArgument> {
        let not_for_results = [
            ("only_tokens", self.tokens.is_some()),
            ("only_workflows", self.workflows.is_some()),
            ("only_late_events", self.late_events),
            ("only_messages", self.messages.is_some()),
            ("need", self.need.is_some()),
            ("class", self.class.is_some()),
            ("due", self.due),
            // The results of all tokens are one group, and so are all tokens that need no operator.
            ("group", self.group.is_some()),
            ("topic", self.topic.is_some()),
            ("consumer", self.consumer.is_some()),
            ("message", self.message.is_some()),
        ];
        if let Some((name, _)) = not_for_results.into_iter().find(|(_, given)| self.with_result && *given) {
            return Err(InvalidSetting::NotForResults { name }.into());
        }
        let texts = [
            ("prefix", &self.prefix),
            ("key", &self.key),
            ("tenant", &self.tenant),
            ("workflow", &self.workflow),
            ("topic", &self.topic),
            ("consumer", &self.consumer),
            ("message", &self.message),
            ("group", &self.group),
            ("cause", &self.cause),
            ("owner", &self.owner),
            ("within", &self.within),
            ("text", &self.text),
        ];
        if let Some((name, _)) =
            texts.into_iter().find(|(_, text)| text.as_ref().is_some_and(|text| text.is_empty()))
        {
            return Err(InvalidSetting::EmptyCondition { name }.into());
        }
        if let Some(tenant) = &self.tenant {
            key::of_tenant(tenant)?;
        }
        Ok(())
    }

    /// Whether a condition on the key, the owner, the outer work or a text selects the item. The id
    /// of its group is no such text.
    pub(super) fn selects_the_work_of(&self, it: &Match) -> bool {
        let others = [&self.prefix, &self.key, &self.tenant, &self.owner, &self.within];
        self.text.as_ref().is_some_and(|text| !self.is_group(it, text))
            || others.into_iter().any(Option::is_some)
    }

    /// The same filter, but only for messages in these states.
    pub(super) fn for_messages(&self, states: Vec<MessageState>) -> Self {
        Self { tokens: None, workflows: None, late_events: false, messages: Some(states), ..self.clone() }
    }

    /// Whether only work with a result is selected.
    pub(super) const fn is_for_results(&self) -> bool {
        self.with_result
    }

    /// The first part of each key that the filter selects. `None`: the filter does not decide it.
    pub(super) fn begin_of_key(&self) -> Option<String> {
        let of_tenant = || key::of_tenant(self.tenant.as_ref()?).ok();
        self.key.clone().or_else(|| self.prefix.clone()).or_else(of_tenant)
    }

    /// The same filter with its conditions on keys only.
    pub(super) fn for_keys(&self) -> Self {
        Self {
            prefix: self.prefix.clone(),
            key: self.key.clone(),
            tenant: self.tenant.clone(),
            ..Self::default()
        }
    }

    /// The same filter without its conditions on times.
    #[cfg(feature = "workflow")]
    pub(super) fn at_any_time(&self) -> Self {
        Self { at_least_for: None, at_most_for: None, since: None, until: None, ..self.clone() }
    }

    /// The same filter, but only for work with a result.
    pub(super) fn for_results(&self) -> Self {
        self.clone().with_result()
    }

    /// The same filter, but only for late events.
    pub(super) fn for_late_events(&self) -> Self {
        Self { tokens: None, workflows: None, late_events: true, messages: None, ..self.clone() }
    }

    /// Returns whether an item fits at this time.
    pub(super) fn fits(&self, it: &Match, now: DateTime<Utc>) -> bool {
        let is = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|asked| asked == has);
        let has = |asked: &Option<String>, text: Option<&str>| {
            asked.as_ref().is_none_or(|asked| text.is_some_and(|text| contains(text, asked)))
        };
        let within = it.within.as_ref().map(Work::key);
        // The prefix as keys have it: a tenant with a slash differs from the part before the slash.
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
            && self.text.as_ref().is_none_or(|text| mentions(it, text) || self.is_group(it, text))
            && self.at_least_for.is_none_or(|time| since <= time::before(now, time))
            && self.at_most_for.is_none_or(|time| since >= time::before(now, time))
            && self.since.is_none_or(|from| it.since.is_some_and(|since| since >= from))
            && self.until.is_none_or(|until| it.since.is_some_and(|since| since < until))
            && (!self.due || it.is_due(now))
    }

    /// Whether the text is the group of the item. The results of all tokens are one group.
    fn is_group(&self, it: &Match, text: &str) -> bool {
        !self.with_result && it.group == text
    }

    /// The lists that contain everything that may fit.
    pub(super) fn lists(&self) -> Lists {
        if self.with_result {
            let tokens = self.may_fit_tokens().then_some(TokenList::WithResult);
            let workflows = self.may_fit_workflows().then_some(List::Finished);
            return Lists {
                tokens: tokens.into_iter().collect(),
                workflows: workflows.into_iter().collect(),
                ..Lists::default()
            };
        }
        let names_lists =
            self.tokens.is_some() || self.workflows.is_some() || self.messages.is_some() || self.late_events;
        let tokens = match &self.tokens {
            _ if !self.may_fit_tokens() => Vec::new(),
            Some(states) => states.clone(),
            None if names_lists => Vec::new(),
            None => vec![TokenState::InProgress, TokenState::Held],
        };
        let workflows = match &self.workflows {
            _ if !self.may_fit_workflows() => Vec::new(),
            Some(lists) => lists.clone(),
            None if names_lists => Vec::new(),
            None => vec![List::Quarantine, List::Failing, List::Unfinished],
        };
        let messages = match &self.messages {
            _ if !self.may_fit_messages() => Vec::new(),
            Some(states) => states.clone(),
            None if names_lists => Vec::new(),
            None => vec![MessageState::Dead, MessageState::Waiting, MessageState::Unsent],
        };
        let is_need = matches!(self.need, None | Some(Need::Late));
        let late_events =
            self.may_fit_workflows() && is_need && !self.due && (self.late_events || !names_lists);
        Lists {
            tokens: tokens.into_iter().filter_map(|state| self.list_of(state)).collect(),
            workflows: workflows.into_iter().filter(|list| self.may_be_in(*list)).collect(),
            unfinished_due_for: (self.need == Some(Need::Undriven)).then_some(Need::UNDRIVEN_AFTER),
            late_events,
            messages: messages.into_iter().filter(|state| self.may_be(*state)).collect(),
            ..Lists::default()
        }
    }

    const fn list_of(&self, state: TokenState) -> Option<TokenList> {
        match (state, self.need) {
            // Only an overdue token needs an operator, and only such a token is due.
            (TokenState::InProgress, Some(Need::InDoubt | Need::Overdue)) => Some(TokenList::Overdue),
            (TokenState::InProgress, None) if self.due => Some(TokenList::Overdue),
            (TokenState::InProgress, None) => Some(TokenList::InProgress),
            (TokenState::Held, Some(Need::Held) | None) if !self.due => Some(TokenList::Held),
            _ => None,
        }
    }

    /// Whether a list of workflows may contain an item with the need.
    const fn may_be_in(&self, list: List) -> bool {
        match self.need {
            None => true,
            Some(Need::Quarantined) => matches!(list, List::Quarantine),
            Some(Need::Failing) => matches!(list, List::Failing),
            Some(Need::Undriven) => matches!(list, List::Unfinished),
            Some(_) => false,
        }
    }

    /// Whether a message in this state may have the need.
    const fn may_be(&self, state: MessageState) -> bool {
        match self.need {
            None => true,
            Some(Need::Dead) => matches!(state, MessageState::Dead),
            Some(Need::Unsent) => matches!(state, MessageState::Waiting | MessageState::Unsent),
            Some(_) => false,
        }
    }

    fn may_fit_workflows(&self) -> bool {
        self.class.is_none() && !self.is_of_messages()
    }

    const fn may_fit_tokens(&self) -> bool {
        self.workflow.is_none() && !self.is_of_messages()
    }

    const fn may_fit_messages(&self) -> bool {
        let is_need = matches!(self.need, None | Some(Need::Dead | Need::Unsent));
        is_need && self.workflow.is_none() && self.within.is_none() && !self.due
    }

    /// Whether only messages may fit.
    const fn is_of_messages(&self) -> bool {
        let is_need = matches!(self.need, Some(Need::Dead | Need::Unsent));
        is_need || self.topic.is_some() || self.consumer.is_some() || self.message.is_some()
    }

    /// Whether the filter names one message.
    pub(super) const fn is_for_one_message(&self) -> bool {
        self.message.is_some()
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
        it.event.as_deref(),
        it.topic.as_deref(),
        it.cause.as_deref(),
        it.owner.as_deref(),
        within,
    ];
    // The key that a provider received begins with the key of the token or the workflow.
    let of_provider = text.split(' ').next() == Some(it.work.key());
    let of_message = it.topic.is_some() && it.work.short_id() == text;
    of_message || of_provider || texts.into_iter().flatten().any(|has| contains(has, text))
}

/// The conditions in words, such as `held; cause contains "relay"`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |words: &str, text: &Option<String>| text.as_ref().map(|text| format!("{words} {text:?}"));
        fn only<T>(kind: &str, lists: Option<&Vec<T>>, name: impl Fn(&T) -> &'static str) -> Option<String> {
            let names: Vec<_> = lists?.iter().map(name).collect();
            Some(format!("{kind} in {}", names.join(" or ")))
        }
        let words = [
            self.need.map(|need| need.to_string()),
            self.due.then(|| "due".to_owned()),
            only("tokens", self.tokens.as_ref(), |state| state.as_str()),
            only("workflows", self.workflows.as_ref(), |list| list.as_str()),
            self.late_events.then(|| "late events".to_owned()),
            only("messages", self.messages.as_ref(), |state| state.as_str()),
            self.with_result.then(|| "with a result".to_owned()),
            text("group", &self.group),
            text("workflows named", &self.workflow),
            text("messages of topic", &self.topic),
            text("received by", &self.consumer),
            text("message", &self.message),
            text("key begins with", &self.prefix),
            text("key", &self.key),
            text("tenant", &self.tenant),
            self.class.map(|class| format!("class {}", class.as_str())),
            text("cause contains", &self.cause),
            text("owner contains", &self.owner),
            text("begun inside", &self.within),
            text("mentions", &self.text),
            self.at_least_for.map(|time| format!("for at least {time:?}")),
            self.at_most_for.map(|time| format!("for at most {time:?}")),
            self.since.map(|from| format!("since {} or later", time::to_text(from))),
            self.until.map(|until| format!("since before {}", time::to_text(until))),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        f.pad(&if words.is_empty() { "all".to_owned() } else { words.join("; ") })
    }
}

#[cfg(all(test, feature = "messages"))]
mod tests {
    use super::*;

    /// Work with a need is in one list, so no other list is read.
    #[test]
    fn need_reads_only_its_lists() {
        for (need, lists) in [
            (Need::InDoubt, "[Overdue] [] false []"),
            (Need::Overdue, "[Overdue] [] false []"),
            (Need::Held, "[Held] [] false []"),
            (Need::Quarantined, "[] [Quarantine] false []"),
            (Need::Failing, "[] [Failing] false []"),
            (Need::Undriven, "[] [Unfinished] false []"),
            (Need::Late, "[] [] true []"),
            (Need::Dead, "[] [] false [Dead]"),
            (Need::Unsent, "[] [] false [Waiting, Unsent]"),
        ] {
            let own = Filter::new().need(need);
            let all = own.clone().only_tokens([TokenState::InProgress, TokenState::Held]).only_late_events();
            let all = all.only_workflows([List::Quarantine, List::Failing, List::Unfinished]);
            let all = all.only_messages([MessageState::Dead, MessageState::Waiting, MessageState::Unsent]);
            for filter in [own, all] {
                let read = filter.lists();
                assert_eq!(read.unfinished_due_for.is_some(), need == Need::Undriven);
                let Lists { tokens, workflows, late_events, messages, .. } = read;
                assert_eq!(format!("{tokens:?} {workflows:?} {late_events} {messages:?}"), lists, "{need}");
            }
        }
    }
}
