//! The options that select tokens, workflows and messages: one form for every verb.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use locker::Class;
use locker::operator::{Filter, Need};

use super::{duration, moment};

/// Options of tokens, workflows and messages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// Select records in this group (see `locker status`).
    #[arg(long, value_name = "ID")]
    group: Option<String>,

    /// Select the token or the workflow with this key, in all versions, and the messages of the
    /// workflow.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Select keys that begin with this text.
    #[arg(long, value_name = "TEXT", conflicts_with = "tenant")]
    prefix: Option<String>,

    /// Select keys of this tenant or caller: @NAME/...
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Select messages of this topic, or of events of this type.
    #[arg(long, value_name = "TEXT")]
    topic: Option<String>,

    /// Select messages that this consumer received.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    /// Select failures of this class: transient, permanent, needsOperator or inDoubt.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    class: Option<Class>,

    /// Select causes that contain this text.
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,

    /// Select owners and drivers that contain this text, such as a request id.
    #[arg(long, value_name = "TEXT")]
    by: Option<String>,

    /// Select records that contain this text in key, group, name, topic, cause or owner.
    #[arg(id = "mentions", long = "text", value_name = "TEXT")]
    text: Option<String>,

    /// Select records that have waited for at least this long, such as 30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    at_least_for: Option<Duration>,

    /// Select records that have waited for at most this long.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    at_most_for: Option<Duration>,

    /// Select records that have waited since this time or later: 2026-11-01 or
    /// 2026-11-01T08:30:00Z, in UTC.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<DateTime<Utc>>,

    /// Select records that have waited since a time before this one.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<DateTime<Utc>>,
}

/// Options of tokens and workflows; and of messages, the need.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Needs {
    /// Select records that need an operator for this reason: inDoubt, quarantined, dead, held,
    /// late, overdue, undriven, unsent or failing.
    #[arg(long, value_name = "NEED", value_parser = need)]
    pub(crate) need: Option<Need>,

    /// Select tokens and workflows past their due time: overdue, in doubt, or to be driven.
    #[arg(long, conflicts_with = "need")]
    pub(crate) due: bool,

    /// Select workflows whose code has this name.
    #[arg(long, value_name = "NAME")]
    code: Option<String>,

    /// Select work that was begun inside the work with this key.
    #[arg(long, value_name = "KEY")]
    within: Option<String>,
}

/// Reads `inDoubt`, and also `in-doubt`.
fn need(text: &str) -> Result<Need, String> {
    let text = text.replace(['-', '_', ' '], "");
    one_of(Need::ALL.into_iter().map(|need| (need.as_str(), need)), &text)
}

fn class(text: &str) -> Result<Class, String> {
    let classes = [Class::Transient, Class::Permanent, Class::NeedsOperator, Class::InDoubt];
    one_of(classes.into_iter().map(|class| (class.as_str(), class)), text)
}

fn one_of<T>(all: impl Iterator<Item = (&'static str, T)>, text: &str) -> Result<T, String> {
    let mut names = Vec::new();
    for (name, value) in all {
        if name.eq_ignore_ascii_case(text) {
            return Ok(value);
        }
        names.push(name);
    }
    Err(format!("expected one of {}", names.join(", ")))
}

impl Selection {
    /// The text that is searched for.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
    }

    pub(crate) fn filter(&self) -> Filter {
        let filter = self.group.iter().fold(Filter::new(), Filter::group);
        let filter = self.key.iter().fold(filter, Filter::key);
        let filter = self.prefix.iter().fold(filter, Filter::prefix);
        let filter = self.tenant.iter().fold(filter, Filter::tenant);
        let filter = self.topic.iter().fold(filter, Filter::topic);
        let filter = self.consumer.iter().fold(filter, Filter::consumer);
        let filter = self.class.into_iter().fold(filter, Filter::class);
        let filter = self.cause.iter().fold(filter, Filter::cause);
        let filter = self.by.iter().fold(filter, Filter::owner);
        let filter = self.text.iter().fold(filter, Filter::text);
        let filter = self.at_least_for.into_iter().fold(filter, Filter::at_least_for);
        let filter = self.at_most_for.into_iter().fold(filter, Filter::at_most_for);
        let filter = self.since.into_iter().fold(filter, Filter::since);
        self.until.into_iter().fold(filter, Filter::until)
    }

    /// The kinds of records that can fit, as each option limits them.
    fn limits(&self) -> [(bool, &'static str, &'static [Kind]); 3] {
        [
            (self.topic.is_some(), "--topic", &[Kind::Messages]),
            (self.consumer.is_some(), "--consumer", &[Kind::Messages]),
            (self.class.is_some(), "--class", &[Kind::Tokens, Kind::Messages]),
        ]
    }
}

impl Needs {
    pub(crate) fn add_to(&self, filter: Filter) -> Filter {
        let filter = self.need.into_iter().fold(filter, Filter::need);
        let filter = if self.due { filter.due() } else { filter };
        let filter = self.code.iter().fold(filter, Filter::workflow);
        self.within.iter().fold(filter, Filter::within)
    }

    fn limits(&self) -> [(bool, &'static str, &'static [Kind]); 4] {
        [
            (self.need.is_some(), "--need", Kind::of_need(self.need)),
            (self.due, "--due", &[Kind::Tokens, Kind::Workflows]),
            (self.code.is_some(), "--code", &[Kind::Workflows]),
            (self.within.is_some(), "--within", &[Kind::Tokens, Kind::Workflows]),
        ]
    }
}

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Lock tokens.
    #[value(help = None)]
    Tokens,
    /// Workflows.
    #[value(help = None)]
    Workflows,
    /// Messages to be sent, and messages that were received.
    #[value(help = None)]
    Messages,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Tokens, Self::Workflows, Self::Messages];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Workflows => "workflows",
            Self::Messages => "messages",
        }
    }

    const fn of_need(need: Option<Need>) -> &'static [Self] {
        match need {
            Some(Need::InDoubt | Need::Held | Need::Overdue) => &[Self::Tokens],
            Some(Need::Quarantined | Need::Undriven | Need::Failing | Need::Late) => &[Self::Workflows],
            Some(Need::Dead | Need::Unsent) => &[Self::Messages],
            _ => &Self::ALL,
        }
    }
}

/// The kinds that can fit all options. An error names the option that excludes the rest.
pub(crate) fn kinds(
    asked: Option<Kind>,
    selection: &Selection,
    needs: &Needs,
    more: &[(bool, &'static str, &'static [Kind])],
) -> Result<Vec<Kind>, String> {
    let mut kinds = asked.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let limits = selection.limits().into_iter().chain(needs.limits()).chain(more.iter().copied());
    for (_, option, limit) in limits.filter(|(is_set, ..)| *is_set) {
        kinds.retain(|kind| limit.contains(kind));
        if kinds.is_empty() {
            let names: Vec<_> = limit.iter().map(|kind| kind.as_str()).collect();
            return Err(format!("{option} selects {} only, so nothing can fit", names.join(" and ")));
        }
    }
    Ok(kinds)
}
