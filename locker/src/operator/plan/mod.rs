//! A plan: an act on all items that match, shown first and then applied.

mod act;
mod apply;
#[cfg(feature = "messages")]
mod follow;
mod report;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};

pub use act::Act;
pub use apply::ApplyOptions;
pub use report::{Acted, ApplyReport, Done};

use super::rule::Scope;
use super::{Console, Filter, Match, Verb, times};
use crate::core::alike;
use crate::core::argument::InvalidSetting;
use crate::core::listed::MessageState;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::session::{Operator, Session};

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
    /// The start of the workflow. A later workflow may have the same key. `None` for a token and a
    /// message.
    #[serde(default, with = "times::optional", skip_serializing_if = "Option::is_none")]
    pub started: Option<DateTime<Utc>>,
    /// The time since which it needs an operator.
    #[serde(with = "times::optional")]
    pub since: Option<DateTime<Utc>>,
    /// The cause as stored.
    pub cause: Option<String>,
    /// The effect of the act on this record.
    pub effect: String,
    /// Facts that the act depends on and that were unknown when the plan was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
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
            Work::Workflow(_) if self.act.is_on_event() => 6,
            Work::Workflow(_) | Work::Message { .. } => 7 + of_step,
        };
        self.items.iter().map(|item| of_one(&item.work)).sum()
    }

    /// Returns each cause as stored, with the number of its records, the most frequent first.
    ///
    /// The text is empty for records without a cause.
    #[must_use]
    pub fn causes(&self) -> Vec<(String, usize)> {
        self.counted(str::to_owned)
    }

    /// Returns each kind of cause, with `#` for ids, and the number of its records.
    #[must_use]
    pub fn causes_without_ids(&self) -> Vec<(String, usize)> {
        self.counted(alike::alike)
    }

    fn counted(&self, shown: impl Fn(&str) -> String) -> Vec<(String, usize)> {
        let mut counts = BTreeMap::<String, usize>::new();
        for item in &self.items {
            *counts.entry(shown(item.cause.as_deref().unwrap_or_default())).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// The reason in each audit record: the operator's, and the plan.
    pub(super) fn stored_reason(&self) -> String {
        format!("{} {}", self.reason, self.mark())
    }

    /// Returns whether a reason is that of an act of this plan.
    fn is_reason_of(&self, reason: &str) -> bool {
        reason.ends_with(&self.mark())
    }

    fn mark(&self) -> String {
        format!("(plan {})", self.id)
    }
}

/// The reason why a plan leaves out an overdue token without a cause.
const UNKNOWN_WORK: &str = "it has no cause, and other tokens without a cause may be other work: select them by their \
                            keys, their owner or a text as well";

/// A record that fits, and whether the act is possible.
enum Look {
    Possible(Planned),
    LeftOut(LeftOut),
}

impl Console {
    /// Plans an act on all items that fit a filter. Nothing is changed.
    ///
    /// The plan contains the effect on each record. Records on which the act is not possible are
    /// left out, with the reason: work that runs, has ended, or waits by itself. A record is also
    /// left out if it has changed since it was listed, or cannot be read. All overdue tokens
    /// without a cause are one group, whatever their work is. So they are left out if the filter
    /// has no condition on the key, the owner, the outer work or a text. An act on
    /// messages reads dead messages only; a restore reads archived messages, and a filter for [one
    /// message](Filter::message) reads it in every state. A redact reads work [with a
    /// result](Filter::with_result), and so the whole table of tokens.
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
        act.check(Scope::Many).map_err(InvalidSetting::Act)?;
        let session = self.session().ok_or(InvalidSetting::Act("name the tables to act in"))?;
        let states = states_for(act.verb, filter.is_for_one_message());
        let asked = match states {
            Some(states) => filter.for_messages(states),
            None if act.verb == Verb::Redact => filter.for_results(),
            None if act.is_on_event() => filter.for_late_events(),
            None => filter.clone(),
        };
        let listing = self.list(&asked).await?;
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
        let looks =
            stream::iter(listing.matches).map(|it| self.look(it, &asked, &plan.act)).buffered(CONCURRENCY);
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

    /// Reads a record that was listed, and applies the rule to it as it is now.
    ///
    /// The index is eventually consistent, and a long list takes minutes. The plan contains the
    /// cause and the revision of one strongly consistent read. The filter is applied to that read.
    /// So an operator who selected one cause does not decide about another cause.
    async fn look(&self, listed: Match, filter: &Filter, act: &Act) -> Result<Look, Error> {
        let is_past = |until| self.session().is_some_and(|session| session.now() >= until);
        if self.deadline.is_some_and(is_past) {
            return Err(Error::Expired { verb: "plan the act" });
        }
        let left_out = |because: String| Ok(Look::LeftOut(LeftOut { work: listed.work.clone(), because }));
        let part = match self.part(&listed.work).await {
            Ok(Some(part)) => part,
            Ok(None) => return left_out("it is gone".to_owned()),
            Err(error @ (Error::Record { .. } | Error::Answer(_))) => {
                return left_out(format!("it cannot be read: {error}"));
            }
            Err(error) => return Err(error),
        };
        let Some(now) = self.session().map(Session::now) else { return left_out(part.state()) };
        if let Some(event) = listed.event.as_ref().filter(|event| act.step.as_ref() != Some(event)) {
            return left_out(format!("it is listed for {event}: only a skip of the step {event} is for it"));
        }
        let Some(it) = part.as_match(listed.event.as_deref(), filter, now) else {
            return left_out(part.state());
        };
        if !it.is_same_entry(&listed) || !filter.fits(&it, now) {
            return left_out("it has changed since it was listed; plan again".to_owned());
        }
        Ok(match self.judge(&part, act, Scope::Many) {
            Err(refusal) => return left_out(refusal.because),
            Ok(_) if it.is_of_unknown_work() && !filter.selects_the_work_of(&it) => {
                return left_out(UNKNOWN_WORK.to_owned());
            }
            Ok(meaning) => Look::Possible(Planned {
                revision: part.revision(),
                started: part.started(),
                since: it.since,
                cause: it.cause,
                effect: match act.verb {
                    Verb::Cancel => format!("{}, even if it has progressed since", meaning.effect),
                    _ => meaning.effect,
                },
                unknown: meaning.unknown,
                work: listed.work,
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
