//! Starting a workflow, or going on with it under the same key.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::claim::{Claimed, Claimer};
use super::definition::Workflow;
use super::drive::{Ended, drive};
use super::outcome::{Failed, Outcome, Replayed, Waiting};
use super::workflows::Workflows;
use crate::core::answer::{self, AnswerError, Body};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{InvalidKey, Key};
use crate::core::time;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::name;
use crate::core::workflow::record::{INPUT, MOST_BYTES};
use crate::error::Error;
use crate::metrics;
use crate::settings::{self, InvalidSetting, Retention};
use crate::store::workflow::{Guard, Put, beside_item, header_item, header_of};

/// An input of so many bytes lies in the header; a larger one in an item of its own, written first.
const MOST_INLINE: usize = 400;

/// A workflow about to be started or gone on with.
#[must_use = "nothing happens until it is run or enqueued"]
pub struct Start<'a, W> {
    workflows: Workflows,
    code: &'a W,
    key: Result<Key, InvalidKey>,
    input: Result<String, AnswerError>,
    version: u32,
    owner: Option<String>,
    expected: Duration,
    retention: Retention,
    deadline: Option<DateTime<Utc>>,
}

// Its input may be private.
impl<W: Workflow> std::fmt::Debug for Start<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").field("name", &W::NAME).field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'a, W: Workflow> Start<'a, W> {
    pub(super) fn new(
        workflows: Workflows,
        code: &'a W,
        key: Result<Key, InvalidKey>,
        input: Result<String, AnswerError>,
    ) -> Self {
        let settings = workflows.settings();
        let (expected, retention) = (settings.expect_within, settings.retention);
        Self { code, key, input, version: 1, owner: None, expected, retention, deadline: None, workflows }
    }

    /// Ask under this version of the key, from 1: after an expected failure, the same request may be tried anew
    /// under the next one. Its steps start from the beginning; those with a key of their own stay done.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Who drives it, such as the id of the message or the request. **The same owner goes on at once** where
    /// it left off, even before it is due: name something that only one is at a time.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long this drive should take; past it, others may take the workflow over.
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = time;
        self
    }

    /// How long it is kept once it is finished, unless the settings are to hold.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Stop asking DynamoDB at this time, such as a little before the end of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Start it, or go on with it if nobody drives it, and drive it as far as it goes now.
    ///
    /// **Crash window:** wherever it ends, what is recorded stays, and the completer goes on.
    ///
    /// # Errors
    ///
    /// [`Error`]. After [`Error::Unknown`] it may have been started or ended; ask again with the same key.
    ///
    /// # Cost
    ///
    /// New: 2 requests beside its steps (3 with an answer, which is an item of its own), and 5 write units with
    /// the index. Going on: 1 refused put, 1 write, 1 query. Its answer again: 1 refused put and 1 read.
    pub async fn run(self) -> Result<Outcome<W::Output>, Error> {
        let begun = self.begin(true).await?;
        match begun {
            Begun::Flow(flow) => {
                // From here on something may have been done, whatever DynamoDB says next.
                let ended = Box::pin(drive(self.code, &flow)).await.map_err(unsure)?;
                self.outcome(ended, false)
            }
            Begun::Ended(ended) => self.outcome(ended, true),
        }
    }

    /// Start it without driving it: the completer does. If it exists, this tells how far it is.
    ///
    /// # Errors
    ///
    /// As of [`run`](Self::run).
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units with the index; 2 requests if the input lies beside.
    pub async fn enqueue(self) -> Result<Outcome<W::Output>, Error> {
        match self.begin(false).await? {
            // Without a drive, none of it is claimed.
            Begun::Flow(_) => Ok(Outcome::InProgress(Waiting {
                locked_by: None,
                due: self.workflows.now(),
                after: Duration::from_secs(1),
                reason: None,
            })),
            Begun::Ended(ended) => self.outcome(ended, true),
        }
    }

    fn check(&self) -> Result<(), Error> {
        name::check(W::NAME).map_err(|error| Error::Setting(InvalidSetting::Name(error)))?;
        settings::check_expect_within(self.expected)?;
        settings::check_retention(self.retention)?;
        if let Some(owner) = &self.owner {
            settings::check_owner(owner)?;
        }
        if self.version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        if self.workflows.is_past(self.deadline) {
            return Err(InvalidSetting::Deadline.into());
        }
        Ok(())
    }

    async fn begin(&self, driven: bool) -> Result<Begun, Error> {
        self.check()?;
        let key = self.key.clone()?;
        let input = self.input.clone()?;
        let workflows = &self.workflows;
        let workflow = name::partition(&key, self.version);
        // Canonical: a map may be written in another order each time.
        let value: serde_json::Value = answer::from_json(&input)?;
        let fingerprint = Fingerprint::of_json(&(W::NAME, value))?;
        let header = self.new_header(&workflow, input, &fingerprint, driven).await?;
        let item = header_item(&header, workflows.settings().shards);
        let until = workflows.until(self.deadline);
        match Box::pin(workflows.store().put_item("start the workflow", &item, Guard::Absent, until)).await? {
            Put::Done => {
                metrics::count_workflow(metrics::WORKFLOWS_STARTED, W::NAME);
                let flow = super::Flow::new(workflows.clone(), header, Vec::new(), self.deadline);
                Ok(Begun::Flow(flow))
            }
            Put::Refused { item: None, .. } => Err(Error::Unavailable {
                verb: "start the workflow",
                tries: 1,
                source: "the workflow changed while it was started".into(),
            }),
            Put::Refused { item: Some(item), after_silence } => {
                let stored = header_of(&item)?;
                // It may be our own, started by a request that nobody heard, and taken since.
                if !same_input(&stored, &header) {
                    self.drop_input(&header).await;
                }
                let found = self.found(stored, &fingerprint, driven).await;
                // An earlier request of this call may have started it, and another has gone on since.
                found.map_err(|error| if after_silence { unsure(error) } else { error })
            }
        }
    }

    /// A header of that key is there.
    async fn found(&self, stored: Header, print: &Fingerprint, driven: bool) -> Result<Begun, Error> {
        let workflows = &self.workflows;
        let keys = workflows.fingerprint_keys();
        let same = match &stored.fingerprint {
            // Cancelled before it was started.
            None => true,
            Some(known) => stored.name == W::NAME && print.matches(known, keys)?,
        };
        if !same {
            metrics::count_workflow(metrics::WORKFLOWS_MISMATCHED, W::NAME);
            return Ok(Begun::Ended(Ended::Mismatch));
        }
        let claimer = Claimer {
            workflows,
            owner: self.owner.as_deref(),
            expected: Some(self.expected),
            deadline: self.deadline,
            claims: driven,
            anyway: false,
        };
        Ok(match Box::pin(claimer.claim(stored)).await? {
            Claimed::Flow(flow) => Begun::Flow(flow),
            Claimed::Ended(ended) => Begun::Ended(ended),
        })
    }

    async fn new_header(
        &self,
        workflow: &str,
        input: String,
        fingerprint: &Fingerprint,
        driven: bool,
    ) -> Result<Header, Error> {
        let workflows = &self.workflows;
        let now = workflows.now();
        let (encoded, inline) = answer::encode(input, MOST_INLINE, MOST_BYTES)?;
        let input = if inline {
            Body::Inline(encoded)
        } else {
            let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), workflows.new_id());
            let item = beside_item(workflow, &format!("{INPUT}{id}"), &encoded);
            let until = workflows.until(self.deadline);
            Box::pin(workflows.store().put_item("store the input", &item, Guard::None, until)).await?;
            Body::Beside { codec, id, bytes }
        };
        let owner = self.owner.clone().unwrap_or_else(|| workflows.settings().owner.clone());
        Ok(Header {
            workflow: workflow.to_owned(),
            name: W::NAME.to_owned(),
            state: WorkflowState::Running,
            listed: Some(Listed::Unfinished),
            next_due: if driven { time::after(now, self.expected) } else { now },
            revision: workflows.new_id(),
            attempt: workflows.new_id(),
            locked_by: driven.then_some(owner),
            attempts: u32::from(driven),
            created: now,
            ended: None,
            fingerprint: Some(fingerprint.stored(workflows.fingerprint_keys())),
            input: Some(input),
            result: None,
            ending: None,
            reason: None,
            expected: self.expected,
            retention: self.retention,
            key_version: self.version,
            intervention: None,
        })
    }

    /// An input that no header came to point to.
    async fn drop_input(&self, header: &Header) {
        let Some(Body::Beside { id, .. }) = &header.input else { return };
        let workflows = &self.workflows;
        let item = format!("{INPUT}{id}");
        let until = workflows.until(self.deadline);
        let dropped =
            workflows.store().delete_item("drop the input", &header.workflow, &item, Guard::None, until);
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused input stays behind");
        }
    }

    fn outcome(&self, ended: Ended, replayed: bool) -> Result<Outcome<W::Output>, Error> {
        Ok(match ended {
            Ended::Completed(json) => {
                Outcome::Completed(Replayed { answer: answer::from_json(&json)?, replayed })
            }
            Ended::Failed(failure) => Outcome::Failed(Failed { failure, replayed }),
            Ended::Cancelled => Outcome::Cancelled,
            Ended::Quarantined(reason) => Outcome::Quarantined(reason),
            Ended::Waiting(waiting) => Outcome::InProgress(waiting),
            Ended::Mismatch => Outcome::Mismatch,
        })
    }
}

fn same_input(one: &Header, other: &Header) -> bool {
    match (&one.input, &other.input) {
        (Some(Body::Beside { id: one, .. }), Some(Body::Beside { id: other, .. })) => one == other,
        _ => false,
    }
}

/// A write of this call may have been applied, so no error may say that none was.
pub(super) fn unsure(error: Error) -> Error {
    match error {
        Error::Unavailable { verb, tries, source } => Error::Unknown { verb, tries, source },
        Error::Denied { verb, advice, source, .. } => {
            Error::Unknown { verb, tries: 1, source: format!("{advice}: {source}").into() }
        }
        error => error,
    }
}

enum Begun {
    Flow(super::Flow),
    Ended(Ended),
}
