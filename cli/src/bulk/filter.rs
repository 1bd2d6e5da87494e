//! The options that say which tokens and workflows are meant.

use std::time::Duration;

use clap::Args;
use locker::find;
use locker::status::Need;

use crate::options::duration;

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

    /// What needs an operator for this reason: inDoubt, quarantined, held, overdue, undriven or failing.
    #[arg(long, value_name = "NEED", value_parser = need, help_heading = "Which")]
    need: Option<Need>,

    /// Causes that contain this.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    cause: Option<String>,

    /// Owners and drivers that contain this, such as a request id.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    owner: Option<String>,

    /// What was begun inside the work with this key.
    #[arg(long, value_name = "KEY", help_heading = "Which")]
    within: Option<String>,

    /// For at least this long.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Which")]
    at_least_for: Option<Duration>,

    /// For at most this long.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Which")]
    at_most_for: Option<Duration>,
}

fn need(text: &str) -> Result<Need, String> {
    let named = |need: &Need| need.as_str().eq_ignore_ascii_case(text);
    Need::ALL.into_iter().find(named).ok_or_else(|| {
        let names: Vec<_> = Need::ALL.iter().map(|need| need.as_str()).collect();
        format!("it is one of {}", names.join(", "))
    })
}

impl Filter {
    pub(super) fn read(&self) -> find::Filter {
        let filter = find::Filter::new();
        let filter = self.group.iter().fold(filter, find::Filter::group);
        let filter = self.prefix.iter().fold(filter, find::Filter::prefix);
        let filter = self.tenant.iter().fold(filter, find::Filter::tenant);
        let filter = self.code.iter().fold(filter, find::Filter::workflow);
        let filter = self.need.into_iter().fold(filter, find::Filter::need);
        let filter = self.cause.iter().fold(filter, find::Filter::cause);
        let filter = self.owner.iter().fold(filter, find::Filter::owner);
        let filter = self.within.iter().fold(filter, find::Filter::within);
        let filter = self.at_least_for.into_iter().fold(filter, find::Filter::at_least_for);
        self.at_most_for.into_iter().fold(filter, find::Filter::at_most_for)
    }
}
