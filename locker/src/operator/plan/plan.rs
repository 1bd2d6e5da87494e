//! A plan: what would be done, to what, and what is left out.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::list::times;
use super::act::Act;
use crate::core::alike;
use crate::core::token::work::Work;
use crate::operator::Filter;

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
    /// The token, the workflow or the message.
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
    /// The token, the workflow or the message.
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

    /// The write units that running it takes, at least: the record and its audit record in a transaction, and their entries in the index. An
    /// answer in a separate item, and each step in doubt of a workflow that is closed, add to it.
    #[must_use]
    pub fn write_units(&self) -> usize {
        let of_step = if self.act.step.is_some() { 2 } else { 0 };
        let of_one = |work: &Work| match work {
            Work::Token(_) => 6,
            Work::Workflow(_) | Work::Message { .. } => 7 + of_step,
        };
        self.items.iter().map(|item| of_one(&item.work)).sum()
    }

    /// The reason in each audit record: the operator's, and the plan.
    #[must_use]
    pub fn stored_reason(&self) -> String {
        format!("{} {}", self.reason, self.mark())
    }

    /// Names what the plan would do, to what, as it was read: a plan that is made again for the same has the same. Eight hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let items = self.items.iter().flat_map(|item| [item.work.to_text(), item.revision.clone()]);
        let parts: Vec<_> = std::iter::once(self.act.verb.to_string()).chain(items).collect();
        alike::id_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(super) fn mark(&self) -> String {
        format!("(plan {})", self.id)
    }
}
