//! Starting a workflow, or resuming it under the same key.

use super::outcome::ended::Ended;
use super::versions::{MOST_VERSIONS, started_with};
use super::workflows::Workflows;
use crate::core::key::IntoKey;
use serde::Serialize;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::definition::Workflow;
use super::driver::claim::{Claimed, Claimer};
use super::driver::code::Drive;
use super::driver::drive::drive;
use super::driver::one::most_crashes;
use super::outcome::{Newer, Outcome, Waiting};
use crate::core::answer::{self, AnswerError, Body};
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::name;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::record::StoredFingerprint;
use crate::core::token::work::Work;
use crate::core::workflow::header::{Header, NewWorkflow};
use crate::error::Error;
use crate::metrics;
use crate::session;
use crate::session::polling::Polling;
use crate::settings;
use crate::store::{self, Guard, Written, header_item, header_of};
use crate::workflow::context::Context;
use crate::workflow::flow::{Flow, Span};
use crate::workflow::limits::Limits;

const VERB: &str = "start the workflow";

impl Workflows {
    /// Build a request to start or resume a workflow, from its code, key and input.
    ///
    /// Nothing is sent until you call [`run`](StartBuilder::run) or
    /// [`enqueue`](StartBuilder::enqueue), which also report a key or an input that is not allowed.
    pub fn start<'a, W: Workflow>(
        &self,
        code: &'a W,
        key: impl IntoKey,
        input: &W::Input,
    ) -> StartBuilder<'a, W> {
        let input = answer::to_json_and_back(input).map(|(json, _)| json);
        StartBuilder::new(self.context().clone(), code, key.into_key(), input)
    }
}

/// A request to start or resume a workflow. See [`Workflows::start`].
#[must_use = "nothing happens until it is run or enqueued"]
pub struct StartBuilder<'a, W> {
    context: Context,
    code: &'a W,
    key: Result<Key, InvalidArgument>,
    input: Result<String, AnswerError>,
    version: u32,
    owner: Option<String>,
    expected: Duration,
    retention: Retention,
    not_before: Option<DateTime<Utc>>,
    deadline: Option<DateTime<Utc>>,
    wait_for: Option<Duration>,
    fingerprint: Option<Result<Fingerprint, AnswerError>>,
    within: Option<Work>,
}

// Its input may be private.
impl<W: Workflow> std::fmt::Debug for StartBuilder<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartBuilder").field("name", &W::NAME).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The state of the workflow that a look of a call found.
struct Seen {
    ended: Ended,
    /// Whether an earlier call produced it.
    replayed: bool,
    /// Whether this call has started or driven the workflow.
    written: bool,
}

impl<'a, W: Workflow> StartBuilder<'a, W> {
    pub(crate) fn new(
        context: Context,
        code: &'a W,
        key: Result<Key, InvalidArgument>,
        input: Result<String, AnswerError>,
    ) -> Self {
        let settings = context.settings();
        let (expected, retention) = (settings.expect_within, settings.retention);
        Self {
            code,
            key,
            input,
            version: 1,
            owner: None,
            expected,
            retention,
            not_before: None,
            deadline: None,
            wait_for: None,
            fingerprint: None,
            within: None,
            context,
        }
    }

    /// Name the token or the workflow that this one is part of, so that an operator sees them
    /// together. What is started on the task of its work names it by itself; a task that you spawn
    /// does not.
    pub fn within(mut self, within: Work) -> Self {
        self.within = Some(within);
        self
    }

    /// Use this version of the key, from 1. After an expected failure, the same request can run
    /// anew under the next version: its steps start from the beginning; completed steps with a key
    /// of their own stay done.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Name the owner, such as the id of the message or the request. **The same owner resumes
    /// immediately**, even before the workflow is due, so use a name that only one driver has at a
    /// time.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long this run is expected to take; past it, other drivers may take the workflow over.
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = time;
        self
    }

    /// Do not run the workflow before this time. A completer begins it then, so both
    /// [`run`](Self::run) and [`enqueue`](Self::enqueue) only start it and return
    /// [`Outcome::InProgress`]. If the workflow exists, this changes nothing.
    pub const fn not_before(mut self, time: DateTime<Utc>) -> Self {
        self.not_before = Some(time);
        self
    }

    /// Override the retention of the finished workflow (default:
    /// [`Settings::retention`](crate::Settings::retention)).
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Identify the request by this, and not by the whole input, so that the same key with another
    /// request is [`Outcome::Mismatch`]. Choose what stays the same when the type of the input gets
    /// another field, such as the order's number and amount: otherwise a client that repeats its
    /// request across a deployment is refused.
    ///
    /// The workflow runs with the input of its first start. Use the same form from the first
    /// deployment on: a workflow that was started without it does not match.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, request: &T) -> Self {
        self.fingerprint = Some(Fingerprint::of_json(request));
        self
    }

    /// If the workflow runs elsewhere, or waits for its next attempt, wait up to this long for its
    /// outcome, from 1 millisecond to a day, instead of returning [`Outcome::InProgress`] at once.
    /// [`run`](Self::run) drives it if it becomes due meanwhile; [`enqueue`](Self::enqueue) waits
    /// for the completer. Each look is a read of 1 unit, about once a second; the
    /// [`deadline`](Self::deadline) ends it earlier.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Send no more requests to DynamoDB after this time, such as shortly before the end of a
    /// Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Start the workflow, or resume it if no driver runs it, and drive it as far as possible now.
    ///
    /// # Crash window
    ///
    /// Wherever a crash happens, recorded steps stay recorded, and the completer resumes the
    /// workflow.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the same as a crash: the workflow stays claimed until it is overdue,
    /// unless the same [`owner`](Self::owner) resumes it.
    ///
    /// # Errors
    ///
    /// [`Error`]. After [`Error::Unknown`], the workflow may have been started or ended; call again
    /// with the same key.
    ///
    /// # Cost
    ///
    /// New: 2 requests beside those of its steps (3 with an answer, which is an item of its own),
    /// and 5 write units including the index. Resumed: 1 refused put, 1 write, 1 query; after a
    /// lost driver 1 more query, and 1 read for each keyed step that it began. Replay: 1 refused
    /// put and 1 read. An input of more than 400 bytes is a separate item, which is written first:
    /// 1 more put, and 1 delete if the key is in use.
    pub async fn run(self) -> Result<Outcome<W::Output>, Error> {
        self.started(true).await
    }

    /// Start the workflow without driving it; the completer drives it. If it exists, return its
    /// present state.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units including the index; 2 requests if the input has an item of its
    /// own.
    pub async fn enqueue(self) -> Result<Outcome<W::Output>, Error> {
        self.started(false).await
    }

    /// `driven`: drive it; otherwise only start it.
    async fn started(self, driven: bool) -> Result<Outcome<W::Output>, Error> {
        let print = self.check()?;
        let context = &self.context;
        let driven = driven && self.not_before.is_none_or(|at| at <= context.now());
        let mut polling = Polling::new(self.wait_for.map(|longest| context.bounded(longest, self.deadline)));
        let first = self.go_on(self.begin(&print, driven).await?, driven, false).await?;
        let (this, print) = (&self, &print);
        let look = |Seen { written, ended, .. }: Seen| async move {
            let started = match ended {
                Ended::Continued(next, _) => this.look_at(&next, driven).await,
                _ => this.look_again(print, driven).await,
            };
            this.go_on(started.map_err(|error| error.unsure_if(written))?, driven, written).await
        };
        let mut first = first;
        for _ in 1..MOST_VERSIONS {
            if !driven || !matches!(first.ended, Ended::Continued(..)) {
                break;
            }
            first = look(first).await?;
        }
        let waits = |state: &Seen| matches!(state.ended, Ended::Waiting(_) | Ended::Continued(..));
        let last = polling.look_while(|| context.jitter(), first, waits, look).await?;
        Ok(last.ended.outcome(last.replayed)?)
    }

    /// Drive what was claimed. `written`: an earlier look of this call has driven it.
    async fn go_on(&self, started: Started, driven: bool, written: bool) -> Result<Seen, Error> {
        Ok(match started {
            Started::Ended(ended) => Seen { ended, replayed: true, written },
            // From here on something may have been done, whatever DynamoDB says next.
            Started::Flow(flow) if driven => {
                let ended = drive(self.code, &flow).await.map_err(Error::unsure)?;
                Seen { ended, replayed: false, written: true }
            }
            Started::Flow(_) => {
                let now = self.context.now();
                let ended = Ended::Waiting(Waiting::enqueued(now, self.not_before.unwrap_or(now)));
                Seen { ended, replayed: false, written: true }
            }
        })
    }

    /// Check every option before anything is sent. Return the fingerprint of the request.
    fn check(&self) -> Result<Fingerprint, Error> {
        name::check(W::NAME).map_err(InvalidSetting::Name)?;
        self.limits()?;
        settings::check_expect_within(self.expected)?;
        settings::check_retention(self.retention)?;
        if let Some(owner) = &self.owner {
            settings::check_owner(owner)?;
        }
        if self.version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        if let Some(longest) = self.wait_for {
            settings::check_wait(longest)?;
        }
        self.context.check_deadline(VERB, self.deadline)?;
        if let Some(given) = &self.fingerprint {
            return Ok(given.clone()?);
        }
        Ok(started_with(W::NAME, self.input.as_ref().map_err(Clone::clone)?)?)
    }

    fn limits(&self) -> Result<Limits, InvalidSetting> {
        Drive::limits(self.code, self.context.limits())
    }

    fn workflow(&self) -> Result<String, Error> {
        Ok(name::partition(self.key.as_ref().map_err(Clone::clone)?, self.version))
    }

    async fn begin(&self, fingerprint: &Fingerprint, driven: bool) -> Result<Started, Error> {
        let workflow = self.workflow()?;
        let input = self.input.clone()?;
        let context = &self.context;
        let header = self.new_header(&workflow, input, fingerprint, driven).await?;
        let item = || header_item(&header, context.settings().shards);
        let until = context.until(self.deadline);
        let put = context.store().put_item(VERB, &item, Some(&header.revision), Guard::Absent, until);
        match put.await? {
            Written::Done => {
                metrics::count_workflow(metrics::WORKFLOWS_STARTED, W::NAME);
                let (limits, span) = (self.limits()?, Span::of_caller(self.deadline));
                let flow = Flow::new(context.clone(), header, limits, (Vec::new(), Vec::new()), &[], span);
                Ok(Started::Flow(flow))
            }
            Written::Refused { found: None, .. } => Err(Error::Contended { verb: VERB, tries: 1 }),
            Written::Refused { found: Some(item), after_silence } => {
                let stored = store::found(header_of(&item), (VERB, 1), after_silence)?;
                // It may be our own, written by a request whose response was lost, and claimed
                // since.
                if !same_input(&stored, &header) {
                    context.drop_input(&workflow, header.input.as_ref(), until).await;
                }
                let found = self.found(stored, fingerprint, driven).await;
                // An earlier request of this call may have started it, and another driver claimed
                // it since.
                found.map_err(|error| error.unsure_if(after_silence))
            }
        }
    }

    /// Look whether a workflow that runs elsewhere has come further.
    async fn look_again(&self, fingerprint: &Fingerprint, driven: bool) -> Result<Started, Error> {
        let until = self.context.until(self.deadline);
        let read = Box::pin(self.context.store().read_header(&self.workflow()?, until)).await?;
        self.found(read.ok_or(Error::Gone { verb: VERB })?, fingerprint, driven).await
    }

    /// Drive the version as which a version that this call drove continues.
    async fn look_at(&self, next: &str, driven: bool) -> Result<Started, Error> {
        let until = self.context.until(self.deadline);
        let read = Box::pin(self.context.store().read_header(next, until)).await?;
        self.latest(read.ok_or(Error::Gone { verb: VERB })?, driven).await
    }

    /// A header with this key exists.
    async fn found(&self, stored: Header, print: &Fingerprint, driven: bool) -> Result<Started, Error> {
        let context = &self.context;
        let keys = context.fingerprint_keys();
        let same = match &stored.fingerprint {
            // Cancelled before it was started.
            None => true,
            Some(known) => {
                stored.name == W::NAME && print.matches(&StoredFingerprint::unchecked(known), keys)?
            }
        };
        if !same {
            metrics::count_workflow(metrics::WORKFLOWS_MISMATCHED, W::NAME);
            return Ok(Started::Ended(Ended::Mismatch));
        }
        self.latest(stored, driven).await
    }

    /// Drive the latest version of a workflow.
    async fn latest(&self, stored: Header, driven: bool) -> Result<Started, Error> {
        let context = &self.context;
        let until = context.until(self.deadline);
        let stored = context.latest(stored, until).await?.ok_or(Error::Gone { verb: VERB })?;
        // Of a workflow that has ended, a completer compensates what came late.
        if !driven || stored.stands {
            let standing = context.standing(&stored);
            return Ok(Started::Ended(context.present(VERB, standing, &stored, self.deadline).await?));
        }
        let limits = self.limits()?;
        let claimer = Claimer {
            context,
            name: W::NAME,
            version: W::VERSION,
            owner: self.owner.as_deref(),
            expected: Some(self.expected),
            may_take: Duration::ZERO,
            span: Span::of_caller(self.deadline),
            most_crashes: most_crashes(self.code, &limits, &stored),
            limits,
        };
        Ok(match Box::pin(claimer.claim(stored)).await? {
            Claimed::Flow(flow) => Started::Flow(flow),
            Claimed::Ended(ended) => Started::Ended(ended),
            Claimed::Newer(stored) => Started::Ended(Ended::Newer(Newer { stored, own: W::VERSION })),
            // It ended and was deleted, and its key was used again, since it was read.
            Claimed::Other => return Err(Error::Contended { verb: VERB, tries: 1 }),
        })
    }

    async fn new_header(
        &self,
        workflow: &str,
        input: String,
        fingerprint: &Fingerprint,
        driven: bool,
    ) -> Result<Header, Error> {
        let context = &self.context;
        let input =
            context.store_input(workflow, input, || context.new_id(), context.until(self.deadline)).await?;
        let owner = self.owner.clone().unwrap_or_else(|| context.settings().owner.clone());
        let new = NewWorkflow {
            workflow: workflow.to_owned(),
            name: W::NAME.to_owned(),
            code: W::VERSION,
            key_version: self.version,
            owner: driven.then_some(owner),
            not_before: self.not_before.map(time::stored),
            fingerprint: Some(fingerprint.stored(context.fingerprint_keys()).text),
            input: Some(input),
            expected: self.expected,
            retention: self.retention,
            within: self.within.clone().or_else(session::within),
            continues: None,
        };
        Ok(Header::started(new, context.stamp()))
    }
}

fn same_input(one: &Header, other: &Header) -> bool {
    match (&one.input, &other.input) {
        (Some(Body::Beside { id: one, .. }), Some(Body::Beside { id: other, .. })) => one == other,
        _ => false,
    }
}

enum Started {
    Flow(super::Flow),
    Ended(Ended),
}
