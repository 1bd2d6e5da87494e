//! Reading a story: the token and the workflow of a key, what they were begun inside, and what was begun inside them.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::choice::Choice;
use super::event::Event;
use super::{acts, of_message, of_token, of_workflow};
use crate::core::key::Key;
use crate::core::time;
use crate::core::token::record::Record;
use crate::core::token::work::Work;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::session::AuditRecord;
use crate::session::listing::{ListBuilder, Listed};
use crate::token::{Locker, TokenSummary};
use crate::workflow::{Message, Summary, View, Workflows};

/// Entries that are read of each list in search of what was begun inside.
const LIMIT: usize = 2_000;
/// Tokens and workflows of one story.
const MOST_PARTS: usize = 50;
/// How far back acts are looked for.
const ACTS_SINCE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Reads the story of a key.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until `read` is called"]
pub struct StoryBuilder {
    tokens: Option<Locker>,
    workflows: Option<Workflows>,
    acts_since: Duration,
    limit: usize,
    alone: bool,
}

impl Default for StoryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// A token, a workflow or a message as it was read: strongly consistent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Part {
    /// A token.
    Token(Box<Record>),
    /// A workflow.
    Workflow(Box<View>),
    /// A message. A story has none: what an operator may do about one is in the [list](crate::operator) of what needs one.
    Message(Box<Message>),
}

/// The story of a key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Story {
    /// The token and the workflow of the key, then what belongs to them. Empty if there is none.
    #[serde(skip)]
    pub parts: Vec<Part>,
    /// What happened and what is to happen, in order.
    pub events: Vec<Event>,
    /// What an operator may do now. Empty: nothing, or nothing is needed.
    pub choices: Vec<Choice>,
    /// Whether all that belongs to it was looked for to the end. If not, there may be more.
    pub complete: bool,
}

impl Part {
    /// Its name.
    #[must_use]
    pub fn work(&self) -> Work {
        match self {
            Self::Token(record) => Work::Token(record.key().as_str().to_owned()),
            Self::Workflow(view) => Work::Workflow(view.header.workflow.clone()),
            Self::Message(message) => message.work(),
        }
    }

    /// What it was begun inside.
    #[must_use]
    pub fn within(&self) -> Option<&Work> {
        match self {
            Self::Token(record) => record.within(),
            Self::Workflow(view) => view.within(),
            Self::Message(_) => None,
        }
    }
}

impl StoryBuilder {
    /// A story of nothing yet: add [`tokens`](Self::tokens), [`workflows`](Self::workflows), or both.
    pub const fn new() -> Self {
        Self { tokens: None, workflows: None, acts_since: ACTS_SINCE, limit: LIMIT, alone: false }
    }

    /// Look for tokens in this table.
    pub fn tokens(mut self, locker: &Locker) -> Self {
        self.tokens = Some(locker.clone());
        self
    }

    /// Look for workflows in this table.
    pub fn workflows(mut self, workflows: &Workflows) -> Self {
        self.workflows = Some(workflows.clone());
        self
    }

    /// How far back to look for what operators did, 90 days by default.
    pub const fn acts_since(mut self, time: Duration) -> Self {
        self.acts_since = time;
        self
    }

    /// Read at most this many entries of each list in search of what was begun inside, 2,000 by default.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    /// Read only the token and the workflow of the key, and nothing of what belongs to them.
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Read the story of a key: of a token, of a workflow (of its second version under `KEY v2`), or of both.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], and [`Error::Record`] if an item of it cannot be read.
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read for each token, and 1 query for each workflow; 1 request for each shard and 100 entries of
    /// the audits and of the lists of what is overdue, held, unfinished, failing or in quarantine, up to the limit.
    pub async fn read(&self, key: &str) -> Result<Story, Error> {
        let mut telling = Telling { complete: true, ..Telling::default() };
        let mut asked = VecDeque::from([Work::Token(key.to_owned()), Work::Workflow(key.to_owned())]);
        self.visit(&mut asked, &mut telling).await?;
        if !telling.parts.is_empty() {
            self.acts(&mut telling).await?;
        }
        if !self.alone && !telling.parts.is_empty() {
            self.lists(&mut telling).await?;
            while telling.asks_for_more(&mut asked) {
                self.visit(&mut asked, &mut telling).await?;
            }
        }
        if !telling.complete {
            self.own_acts(&mut telling).await?;
        }
        Ok(self.told(telling))
    }

    /// The acts on the parts, where the audit of all was too long to be read: of tokens, since the first of them was begun.
    async fn own_acts(&self, telling: &mut Telling) -> Result<(), Error> {
        let mut own = Vec::new();
        let mut begun: Option<DateTime<Utc>> = None;
        for part in &telling.parts {
            match (part, &self.workflows) {
                (Part::Workflow(view), Some(workflows)) => {
                    own.extend(workflows.acts(&view.header.workflow).await?);
                }
                (Part::Token(record), _) => {
                    begun = Some(begun.map_or(record.created, |begun| begun.min(record.created)));
                }
                _ => {}
            }
        }
        if let (Some(begun), Some(locker)) = (begun, &self.tokens) {
            own.extend(locker.audit(begun).limit(self.limit).fetch().await?.items);
        }
        own.retain(|act| !telling.acts.iter().any(|known| (&known.key, &known.id) == (&act.key, &act.id)));
        telling.acts.extend(own);
        Ok(())
    }

    /// Read what is asked for, and what that was begun inside.
    async fn visit(&self, asked: &mut VecDeque<Work>, telling: &mut Telling) -> Result<(), Error> {
        while let Some(work) = asked.pop_front() {
            if telling.seen.contains(&work) {
                continue;
            }
            telling.seen.push(work.clone());
            if telling.parts.len() >= MOST_PARTS {
                telling.complete = false;
                continue;
            }
            let Some(part) = self.part(&work).await? else { continue };
            if !self.alone {
                asked.extend(part.within().cloned());
            }
            telling.parts.push(part);
        }
        Ok(())
    }

    async fn part(&self, work: &Work) -> Result<Option<Part>, Error> {
        Ok(match (work, &self.tokens, &self.workflows) {
            (Work::Token(key), Some(locker), _) => {
                locker.get(Key::existing(key.as_str())?).await?.map(|record| Part::Token(Box::new(record)))
            }
            (Work::Workflow(key), _, Some(workflows)) => {
                workflows.get_listed(key).await?.map(|view| Part::Workflow(Box::new(view)))
            }
            _ => None,
        })
    }

    /// Look for what was begun inside another's work.
    async fn lists(&self, telling: &mut Telling) -> Result<(), Error> {
        if let Some(locker) = &self.tokens {
            let of = |token: &TokenSummary| (Work::Token(token.token.clone()), token.within.clone());
            self.list(locker.overdue(), of, telling).await?;
            self.list(locker.held(), of, telling).await?;
        }
        if let Some(workflows) = &self.workflows {
            let of =
                |workflow: &Summary| (Work::Workflow(workflow.workflow.clone()), workflow.within.clone());
            for list in [List::Quarantine, List::Failing, List::Unfinished] {
                self.list(workflows.list(list), of, telling).await?;
            }
        }
        Ok(())
    }

    async fn list<T: Listed>(
        &self,
        list: ListBuilder<T>,
        of: impl Fn(&T) -> (Work, Option<Work>),
        telling: &mut Telling,
    ) -> Result<(), Error> {
        let page = list.limit(self.limit).fetch().await?;
        telling.complete &= page.is_complete();
        telling.listed.extend(page.items.iter().filter_map(|item| {
            let (work, within) = of(item);
            Some((work, within?))
        }));
        Ok(())
    }

    /// What operators did, in which what was begun inside is found after it has ended.
    async fn acts(&self, telling: &mut Telling) -> Result<(), Error> {
        let Some(now) = self.now() else { return Ok(()) };
        let since = time::before(now, self.acts_since);
        let of_tokens = self.tokens.as_ref().map(|locker| locker.audit(since));
        let of_workflows = self.workflows.as_ref().map(|workflows| workflows.audit(since));
        for audit in of_tokens.into_iter().chain(of_workflows) {
            let page = audit.limit(self.limit).fetch().await?;
            telling.complete &= page.is_complete();
            telling.acts.extend(page.items);
        }
        let inside = |act: &AuditRecord| Some((act.work(), act.within.clone()?));
        telling.listed.extend(telling.acts.iter().filter_map(inside));
        Ok(())
    }

    fn told(&self, telling: Telling) -> Story {
        let Some(now) = self.now() else {
            return Story { parts: Vec::new(), events: Vec::new(), choices: Vec::new(), complete: true };
        };
        let parts: Vec<_> = telling.parts.iter().map(Part::work).collect();
        let acts = telling.acts.iter().filter(|act| parts.contains(&act.work()));
        let mut events: Vec<_> = acts.filter_map(acts::event).collect();
        let mut choices = Vec::new();
        for part in &telling.parts {
            match part {
                Part::Token(record) => {
                    events.extend(of_token::events(record, now));
                    if let (Some(by), Some(done)) = (record.intervention(), record.resolution()) {
                        let act = acts::of_record(part.work(), done, by);
                        if !events.contains(&act) {
                            events.push(act);
                        }
                    }
                    choices.extend(choices_of(part, self.tokens.as_ref()));
                }
                Part::Workflow(view) => {
                    events.extend(of_workflow::events(view, now));
                    choices.extend(choices_of(part, None));
                }
                Part::Message(_) => {}
            }
        }
        events.sort_by_key(|event| event.at);
        Story { parts: telling.parts, events, choices, complete: telling.complete }
    }

    fn now(&self) -> Option<DateTime<Utc>> {
        let of_tokens = self.tokens.as_ref().map(|locker| locker.session().now());
        of_tokens.or_else(|| self.workflows.as_ref().map(|workflows| workflows.context().now()))
    }
}

/// What an operator may do about it now.
pub(crate) fn choices_of(part: &Part, locker: Option<&Locker>) -> Vec<Choice> {
    match part {
        Part::Token(record) => {
            of_token::choices(record, locker.is_some_and(|locker| locker.needs_operator(record)))
        }
        Part::Workflow(view) => of_workflow::choices(view),
        Part::Message(message) => of_message::choices(message),
    }
}

/// A story under construction.
#[derive(Debug, Default)]
struct Telling {
    parts: Vec<Part>,
    seen: Vec<Work>,
    acts: Vec<AuditRecord>,
    /// What the lists have, with what it was begun inside.
    listed: Vec<(Work, Work)>,
    complete: bool,
}

impl Telling {
    /// Whether something that was begun inside a part was not yet read.
    fn asks_for_more(&self, asked: &mut VecDeque<Work>) -> bool {
        let parts: Vec<_> = self.parts.iter().map(Part::work).collect();
        let inside = self.listed.iter().filter(|(_, within)| parts.contains(within)).map(|(work, _)| work);
        asked.extend(inside.filter(|work| !self.seen.contains(work)).cloned());
        !asked.is_empty()
    }
}
