//! The timeline of one key: its token and workflow, related work, and their events in order.

mod event;

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

pub use event::{Happening, TimelineEvent};

use super::lists::{Lists, Reading};
use super::subject::tokens;
use super::subject::tokens::TokenList;
#[cfg(feature = "workflow")]
use super::subject::workflows;
use super::{Choice, Console, Part};
use crate::core::listed::List;
use crate::core::time;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::session::AuditRecord;

/// Entries that are read of each list in search of work that was begun inside.
const LIMIT: usize = 2_000;
/// Tokens and workflows of one timeline.
const MOST_PARTS: usize = 50;
/// How far back acts are read.
const ACTS_SINCE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The timeline of a key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Timeline {
    /// The token and the workflow of the key, then related work. Empty if there is none.
    #[serde(skip)]
    pub parts: Vec<Part>,
    /// The past and the expected events, in order.
    pub events: Vec<TimelineEvent>,
    /// The verbs that an operator may apply now. Empty if none is possible or needed.
    pub choices: Vec<Choice>,
    /// Whether all lists were read to their end, and all related work could be read. If not, there
    /// may be more related work.
    pub complete: bool,
}

impl Console {
    /// Reads the timeline of a key: of its token, its workflow, or both.
    ///
    /// The second version of a workflow has the key `KEY v2`. Related work is the
    /// [`Work`](crate::Work) that the key's work was begun inside, and work that was begun inside
    /// the key's work. The latter is included if it is overdue, in doubt, held or unfinished, or if
    /// an operator acted on it in the last 90 days. Work that ended by itself is not listed
    /// anywhere.
    ///
    /// A timeline contains no input and no result. [`Locker::answer`](crate::Locker::answer),
    /// [`View::result`](crate::workflow::View::result) and
    /// [`Workflows::input`](crate::workflow::Workflows::input) read them.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], and [`Error::Record`] if the stored item of the
    /// key cannot be read. If only related work cannot be read, the timeline is not complete, and
    /// the log contains the key of that work. After the [deadline](Console::deadline) no list is
    /// read: the timeline is not complete, or [`Error::Expired`] if no list was read before.
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read for each token, and 1 query for each workflow. 1 request for each
    /// shard and 100 entries of the audits and of the lists of overdue, held, unfinished, failing
    /// and quarantined work, up to the limit.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     locker: locker::Locker,
    /// #     workflows: locker::workflow::Workflows,
    /// # ) -> Result<(), locker::Error> {
    /// use locker::operator::Console;
    ///
    /// let console = Console::new().tokens(&locker).workflows(&workflows);
    /// let timeline = console.timeline("@you/orders/7").await?;
    /// for event in &timeline.events {
    ///     println!("{} {}: {} {:?}", event.at, event.of.to_text(), event.what, event.cause);
    /// }
    /// for choice in &timeline.choices {
    ///     println!("{}: {}", choice.verb, choice.effect);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn timeline(&self, key: &str) -> Result<Timeline, Error> {
        let mut draft = Draft { complete: true, ..Draft::default() };
        let mut asked = VecDeque::from([Work::Token(key.to_owned()), Work::Workflow(key.to_owned())]);
        self.visit(key, &mut asked, &mut draft).await?;
        let now = self.session().map(crate::session::Session::now);
        let (false, Some(now)) = (draft.parts.is_empty(), now) else {
            let complete = draft.complete;
            return Ok(Timeline { parts: Vec::new(), events: Vec::new(), choices: Vec::new(), complete });
        };
        let expired = self.read_lists(now, &mut draft).await?;
        while draft.asks_for_more(&mut asked) {
            self.visit(key, &mut asked, &mut draft).await?;
        }
        if !draft.complete && !expired {
            self.own_acts(&mut draft).await?;
        }
        Ok(self.drawn(draft, now))
    }

    /// Reads the requested work, and the work that it was begun inside.
    async fn visit(&self, key: &str, asked: &mut VecDeque<Work>, draft: &mut Draft) -> Result<(), Error> {
        while let Some(work) = asked.pop_front() {
            if draft.seen.contains(&work) {
                continue;
            }
            draft.seen.push(work.clone());
            if draft.parts.len() >= MOST_PARTS {
                draft.complete = false;
                continue;
            }
            let part = match self.whole_part(&work).await {
                // An operator needs the timeline most if a record is damaged.
                Err(error @ (Error::Record { .. } | Error::Answer(_))) if work.key() != key => {
                    self.log_unread(&work, &error);
                    draft.complete = false;
                    continue;
                }
                read => read?,
            };
            let Some(part) = part else { continue };
            asked.extend(part.within().cloned());
            draft.parts.push(part);
        }
        Ok(())
    }

    fn log_unread(&self, work: &Work, error: &Error) {
        let key = self.session().map(|session| session.shown(work.key())).unwrap_or_default();
        match work {
            Work::Token(_) => tracing::error!(lock.token = key, %error, "related work cannot be read"),
            _ => tracing::error!(workflow.key = key, %error, "related work cannot be read"),
        }
    }

    /// Reads the acts and the lists in search of work that was begun inside other work.
    ///
    /// The audit finds such work after it has ended. Returns whether the deadline has passed.
    async fn read_lists(&self, now: DateTime<Utc>, draft: &mut Draft) -> Result<bool, Error> {
        let lists = Lists {
            tokens: vec![TokenList::Overdue, TokenList::Held],
            workflows: vec![List::Quarantine, List::Failing, List::Unfinished],
            ..Lists::default()
        };
        let mut reading = Reading { entries: self.limit_or(LIMIT), ..self.reading() };
        draft.acts = self.acts(time::before(now, ACTS_SINCE), &mut reading).await?;
        let of_acts = draft.acts.iter().filter_map(|act| Some((act.work(), act.within.clone()?)));
        draft.listed.extend(of_acts);
        let take = |it: super::Match| draft.listed.extend(it.within.map(|within| (it.work, within)));
        self.read(&lists, &mut reading, take).await?;
        draft.complete &= reading.finished;
        match reading.stopped_by {
            None => Ok(false),
            Some(Error::Expired { .. }) => Ok(true),
            Some(error) => Err(error),
        }
    }

    /// Reads the acts on the parts, if the audit of all work is too long.
    ///
    /// For tokens it reads the audit since the first of them began.
    async fn own_acts(&self, draft: &mut Draft) -> Result<(), Error> {
        let mut own = Vec::new();
        let mut begun: Option<DateTime<Utc>> = None;
        for part in &draft.parts {
            match part {
                Part::Token(record) => {
                    begun = Some(begun.map_or(record.created, |begun| begun.min(record.created)));
                }
                #[cfg(feature = "workflow")]
                Part::Workflow(view) => {
                    if let Some(workflows) = &self.workflows {
                        own.extend(workflows.acts(&view.header.workflow).await?);
                    }
                }
                #[cfg(feature = "messages")]
                Part::Message(_) => {}
            }
        }
        if let (Some(begun), Some(locker)) = (begun, &self.tokens) {
            own.extend(locker.audit(begun).limit(self.limit_or(LIMIT)).fetch().await?.items);
        }
        own.retain(|act| !draft.acts.iter().any(|known| (&known.key, &known.id) == (&act.key, &act.id)));
        draft.acts.extend(own);
        Ok(())
    }

    fn drawn(&self, draft: Draft, now: DateTime<Utc>) -> Timeline {
        let parts: Vec<_> = draft.parts.iter().map(Part::work).collect();
        let acts = draft.acts.iter().filter(|act| parts.contains(&act.work()));
        let mut events: Vec<_> = acts.filter_map(TimelineEvent::of_act).collect();
        let mut choices = Vec::new();
        for part in &draft.parts {
            match part {
                Part::Token(record) => {
                    events.extend(tokens::events(record, now));
                    // The record keeps its last act longer than the audit does.
                    if let (Some(by), Some(done)) = (record.intervention(), record.resolution()) {
                        let act = TimelineEvent::of_intervention(part.work(), done, by);
                        if !events.contains(&act) {
                            events.push(act);
                        }
                    }
                }
                #[cfg(feature = "workflow")]
                Part::Workflow(view) => events.extend(workflows::events(view, now)),
                #[cfg(feature = "messages")]
                Part::Message(_) => continue,
            }
            choices.extend(self.choices(part));
        }
        events.sort_by_key(|event| event.at);
        Timeline { parts: draft.parts, events, choices, complete: draft.complete }
    }
}

/// A timeline under construction.
#[derive(Debug, Default)]
struct Draft {
    parts: Vec<Part>,
    seen: Vec<Work>,
    acts: Vec<AuditRecord>,
    /// The work in the lists, with the work that it was begun inside.
    listed: Vec<(Work, Work)>,
    complete: bool,
}

impl Draft {
    /// Whether work that was begun inside a part was not yet read.
    fn asks_for_more(&self, asked: &mut VecDeque<Work>) -> bool {
        let parts: Vec<_> = self.parts.iter().map(Part::work).collect();
        let inside = self.listed.iter().filter(|(_, within)| parts.contains(within)).map(|(work, _)| work);
        asked.extend(inside.filter(|work| !self.seen.contains(work)).cloned());
        !asked.is_empty()
    }
}
