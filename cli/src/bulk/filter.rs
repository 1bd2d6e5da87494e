//! The options that say which tokens and workflows are meant.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use locker::operator::Need;
use locker::{Class, operator};

use crate::options::{duration, moment};

#[derive(Debug, Args)]
pub(super) struct Filter {
    /// Of this group, as `locker status` shows it.
    #[arg(long, value_name = "ID", help_heading = "Which")]
    group: Option<String>,

    /// Keys that begin so.
    #[arg(long, value_name = "TEXT", help_heading = "Which", conflicts_with = "tenant")]
    prefix: Option<String>,

    /// Keys of this tenant or caller: @NAME/...
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    tenant: Option<String>,

    /// Workflows whose code has this name.
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    code: Option<String>,

    /// Messages of this topic, or of events of this type.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    topic: Option<String>,

    /// Messages that this consumer set aside.
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    consumer: Option<String>,

    /// What needs an operator for this reason: inDoubt, quarantined, dead, held, overdue, undriven, unsent or failing; or workflows that are due.
    #[arg(long, visible_alias = "state", value_name = "NEED", value_parser = asked, help_heading = "Which")]
    need: Option<Asked>,

    /// Tokens whose failure has this class: transient, permanent, needsOperator or inDoubt.
    #[arg(long, value_name = "CLASS", value_parser = class, help_heading = "Which")]
    class: Option<Class>,

    /// Causes that contain this.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    cause: Option<String>,

    /// Owners and drivers that contain this, such as a request id.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    owner: Option<String>,

    /// What was begun inside the work with this key.
    #[arg(long, value_name = "KEY", help_heading = "Which")]
    within: Option<String>,

    /// What contains this in its key, group, name, cause or owner.
    #[arg(id = "mentions", long = "text", value_name = "TEXT", help_heading = "Which")]
    text: Option<String>,

    /// For at least this long.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Which")]
    at_least_for: Option<Duration>,

    /// For at most this long.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Which")]
    at_most_for: Option<Duration>,

    /// Since this time or later: a day or a time in UTC, such as 2026-11-01 or 2026-11-01T08:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Which")]
    since: Option<DateTime<Utc>>,

    /// Since a time before this one.
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Which")]
    until: Option<DateTime<Utc>>,
}

/// A need, or the list of what is due.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Need(Need),
    Due,
}

/// Reads `inDoubt`, and also `in-doubt`.
fn asked(text: &str) -> Result<Asked, String> {
    let text = text.replace(['-', '_', ' '], "");
    let needs = Need::ALL.into_iter().map(|need| (need.as_str(), Asked::Need(need)));
    one_of(needs.chain([("due", Asked::Due)]), &text)
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
    Err(format!("it is one of {}", names.join(", ")))
}

impl Filter {
    pub(super) fn read(&self) -> operator::Filter {
        let filter = operator::Filter::new();
        let filter = self.group.iter().fold(filter, operator::Filter::group);
        let filter = self.prefix.iter().fold(filter, operator::Filter::prefix);
        let filter = self.tenant.iter().fold(filter, operator::Filter::tenant);
        let filter = self.code.iter().fold(filter, operator::Filter::workflow);
        let filter = self.topic.iter().fold(filter, operator::Filter::topic);
        let filter = self.consumer.iter().fold(filter, operator::Filter::consumer);
        let filter = self.need.into_iter().fold(filter, |filter, asked| match asked {
            Asked::Need(need) => filter.need(need),
            Asked::Due => filter.due(),
        });
        let filter = self.class.into_iter().fold(filter, operator::Filter::class);
        let filter = self.cause.iter().fold(filter, operator::Filter::cause);
        let filter = self.owner.iter().fold(filter, operator::Filter::owner);
        let filter = self.within.iter().fold(filter, operator::Filter::within);
        let filter = self.text.iter().fold(filter, operator::Filter::text);
        let filter = self.at_least_for.into_iter().fold(filter, operator::Filter::at_least_for);
        let filter = self.at_most_for.into_iter().fold(filter, operator::Filter::at_most_for);
        let filter = self.since.into_iter().fold(filter, operator::Filter::since);
        self.until.into_iter().fold(filter, operator::Filter::until)
    }
}
