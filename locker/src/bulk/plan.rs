//! A plan: what would be done, to what, and what is left out.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::act::Act;
use super::times;
use crate::core::token::work::Work;
use crate::find::Filter;

/// A plan. It serializes, so that it can be read by another operator, kept in a file, and run by another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Eight hexadecimal digits, which are part of the reason in each audit record.
    pub id: String,
    /// When it was made.
    #[serde(with = "times")]
    pub made: DateTime<Utc>,
    /// What is to be done.
    pub act: Act,
    /// The operator's name.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// What was looked for.
    pub filter: Filter,
    /// How many records fit the filter.
    pub found: usize,
    /// Whether all lists were read to their end. If not, more may fit.
    pub complete: bool,
    /// The records, the oldest first.
    pub items: Vec<Planned>,
    /// What fits, and is left as it is.
    pub left_out: Vec<LeftOut>,
}

/// A record of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Planned {
    /// The token or the workflow.
    pub work: Work,
    /// Its revision as it was read. If it has another one when the plan is run, it is left as it is.
    pub revision: String,
    /// Since when it needs an operator.
    #[serde(with = "times::optional")]
    pub since: Option<DateTime<Utc>>,
    /// The cause, as it is stored.
    pub cause: Option<String>,
    /// What the act will do to it.
    pub effect: String,
}

/// A record that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct LeftOut {
    /// The token or the workflow.
    pub work: Work,
    /// Why it is left out.
    pub because: String,
}

impl Plan {
    /// The requests that running it takes, at least: a strongly consistent read and a transaction for each record.
    #[must_use]
    pub const fn requests(&self) -> usize {
        2 * self.items.len()
    }

    /// The reason in each audit record: the operator's, and the plan.
    #[must_use]
    pub fn stored_reason(&self) -> String {
        format!("{} {}", self.reason, self.mark())
    }

    pub(super) fn mark(&self) -> String {
        format!("(plan {})", self.id)
    }
}
