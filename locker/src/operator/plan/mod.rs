//! A plan: an act on all items that match, shown first and then applied.

mod act;
mod apply;
#[cfg(feature = "messages")]
mod follow;
mod report;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};

pub use act::Act;
pub use apply::ApplyOptions;
pub use report::{Acted, ApplyReport, Done};

use super::{Choice, Console, Filter, Match, Verb, times};
use crate::core::alike;
use crate::core::argument::InvalidSetting;
use crate::core::listed::MessageState;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::session::Operator;

/// Records that are read concurrently.
const CONCURRENCY: usize = 16;

/// An act on records, each as it was read.
///
/// A plan serializes: another operator can read it, a file can store it, and another process can
/// apply it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Eight hexadecimal digits, which are part of the reason in each audit record.
    pub id: String,
    /// The time at which the plan was made.
    #[serde(with = "times")]
    pub made: DateTime<Utc>,
    /// The act.
    pub act: Act,
    /// The operator's name.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// The filter that selected the records.
    pub filter: Filter,
    /// The number of records that fit the filter.
    pub found: usize,
    /// Whether all lists were read to their end. If not, more records may fit.
    pub complete: bool,
    /// The records, the oldest first.
    pub items: Vec<Planned>,
    /// The records that fit and are not changed.
    pub left_out: Vec<LeftOut>,
}

/// A record of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Planned {
    /// The token, the workflow or the message.
    pub work: Work,
    /// The revision as read. If the record has another revision later, it is not changed.
    pub revision: String,
    /// The time since which it needs an operator.
    #[serde(with = "times::optional")]
    pub since: Option<DateTime<Utc>>,
    /// The cause as stored.
    pub cause: Option<String>,
    /// The effect of the act on this record.
    pub effect: String,
}

/// A record that fits the filter and is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct LeftOut {
    /// The token, the workflow or the message.
    pub work: Work,
    /// The reason why it is left out.
    pub because: String,
}

impl Plan {
    /// Returns the least number of requests of an [`apply`](Console::apply): two for each record.
    #[must_use]
    pub const fn requests(&self) -> usize {
        2 * self.items.len()
    }

    /// Returns the least number of write units of an [`apply`](Console::apply).
    ///
    /// They are for the record, its audit record and their entries in the index. An answer in a
    /// separate item adds to them, and so does each step in doubt of a workflow that is closed.
    #[must_use]
    pub fn write_units(&self) -> usize {
        let of_step = if self.act.step.is_some() { 2 } else { 0 };
        let of_one = |work: &Work| match work {
            Work::Token(_) => 6,
            Work::Workflow(_) | Work::Message { .. } => 7 + of_step,
        };
        self.items.iter().map(|item| of_one(&item.work)).sum()
    }

    /// Returns eight hexadecimal digits that name the act and the records with their revisions.
    ///
    /// A plan for the same act on the same records has the same digest.
    #[must_use]
    pub fn digest(&self) -> String {
        let items = self.items.iter().flat_map(|item| [item.work.to_text(), item.revision.clone()]);
        let parts: Vec<_> = std::iter::once(self.act.verb.to_string()).chain(items).collect();
        alike::id_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The reason in each audit record: the operator's, and the plan.
    pub(super) fn stored_reason(&self) -> String {
        format!("{} {}", self.reason, self.mark())
    }

    pub(super) fn mark(&self) -> String {
        format!("(plan {})", self.id)
    }
}

/// A record that fits, and whether the act is possible.
enum Look {
    Possible(Planned),
    LeftOut(LeftOut),
}

impl Console {
    /// Plans an act on all items that fit a filter. Nothing is changed.
    ///
    /// The plan contains the effect on each record. Records that need no operator are left out,
    /// with their state as the reason: work that runs, has ended, or waits by itself. An act on
    /// messages reads dead messages only; a restore reads archived messages, and a filter for [one
    /// message](Filter::message) reads it in every state.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the act is not valid; then nothing was read. Otherwise the same as
    /// [`list`](Console::list), and [`Error::Expired`] at the [deadline](Console::deadline).
    ///
    /// # Cost
    ///
    /// Same as [`list`](Console::list), and 1 strongly consistent read for each record that fits.
    /// Up to 16 records are read concurrently.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: locker::Locker) -> Result<(), Box<dyn std::error::Error>> {
    /// use locker::Operator;
    /// use locker::operator::{Act, Console, Filter, Need};
    ///
    /// let console = Console::new().tokens(&locker);
    /// let operator = Operator::new("ada", "the mail relay is repaired")?;
    /// let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &operator).await?;
    /// for item in &plan.items {
    ///     println!("{}: {}", item.work.to_text(), item.effect);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn plan(&self, filter: Filter, act: Act, operator: &Operator) -> Result<Plan, Error> {
        act.check().map_err(InvalidSetting::Act)?;
        let session = self.session().ok_or(InvalidSetting::Act("name the tables to act in"))?;
        let states = states_for(act.verb, filter.is_for_one_message());
        let listing = match states {
            Some(states) => self.list(&filter.for_messages(states)).await?,
            None => self.list(&filter).await?,
        };
        if let Some(error) = listing.stopped_by {
            return Err(error);
        }
        let (id, made) = (session.new_id(), session.now());
        let mut plan = Plan {
            id: alike::id_of(&[&id]),
            made,
            act,
            by: operator.by().to_owned(),
            reason: operator.reason().to_owned(),
            filter,
            found: listing.matches.len(),
            complete: listing.finished,
            items: Vec::new(),
            left_out: Vec::new(),
        };
        // The stored reason needs room for the id of the plan.
        Operator::new(plan.by.clone(), plan.stored_reason())?;
        let looks = stream::iter(listing.matches).map(|it| self.look(it, &plan.act)).buffered(CONCURRENCY);
        let looks: Vec<_> = looks.collect().await;
        for look in looks {
            match look? {
                Look::Possible(planned) => plan.items.push(planned),
                Look::LeftOut(left_out) => plan.left_out.push(left_out),
            }
        }
        plan.items.sort_by_key(|it| it.since);
        Ok(plan)
    }

    async fn look(&self, it: Match, act: &Act) -> Result<Look, Error> {
        let left_out = |because: String| Look::LeftOut(LeftOut { work: it.work.clone(), because });
        let Some(part) = self.part(&it.work).await? else { return Ok(left_out("it is gone".to_owned())) };
        // A compensation of a workflow that is well needs a decision about this one workflow. A
        // cancel is that decision.
        let is_workflow = matches!(part.work(), Work::Workflow(_));
        if is_workflow && it.need.is_none() && act.verb != Verb::Cancel {
            return Ok(left_out(part.state()));
        }
        let verb = if act.verb == Verb::Cancel { Verb::Compensate } else { act.verb };
        let fits = |choice: &&Choice| choice.verb == verb && choice.step == act.step;
        let choices = self.choices(&part);
        Ok(match choices.iter().find(fits) {
            None => left_out(part.state()),
            Some(choice) => Look::Possible(Planned {
                work: it.work,
                revision: choice.revision.clone(),
                since: it.since,
                cause: it.cause,
                effect: if act.verb == Verb::Cancel {
                    format!("{}, whatever it does meanwhile", choice.effect)
                } else if act.new_key {
                    "it did not happen: it runs again, and gives the provider another key".to_owned()
                } else {
                    choice.effect.clone()
                },
            }),
        })
    }
}

/// The states of the messages that a verb may act on. `None`: it acts on tokens or workflows.
fn states_for(verb: Verb, is_for_one: bool) -> Option<Vec<MessageState>> {
    use MessageState::{Archived, Dead, Unsent, Waiting};
    match verb {
        _ if !verb.is_for_messages() => None,
        // If the act is not possible for a named message, the plan shows its state.
        _ if is_for_one => Some(vec![Dead, Waiting, Unsent, Archived]),
        Verb::Restore => Some(vec![Archived]),
        // Archived messages are in no "all": they are restored first, or named one by one.
        _ => Some(vec![Dead]),
    }
}
