//! Starts a workflow, or resumes it under the same key.

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
    /// Returns a request to start or resume a workflow, from its code, key and input.
    ///
    /// Nothing is sent until you call [`run`](StartBuilder::run) or
    /// [`enqueue`](StartBuilder::enqueue). They also return the error if the key or the input is
    /// invalid.
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
    requested: Option<DateTime<Utc>>,
}

// The input may be private, so it is not printed.
impl<W: Workflow> std::fmt::Debug for StartBuilder<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartBuilder").field("name", &W::NAME).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The state of the workflow after one look of a call.
struct Seen {
    ended: Ended,
    /// Whether an earlier call or another driver produced this state.
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
            requested: None,
            context,
        }
    }

    /// Sets the token or the workflow whose work starts this workflow. An operator sees both
    /// together.
    ///
    /// A start in the task of that work sets this itself. A start in a task that you spawn does
    /// not.
    pub fn within(mut self, within: Work) -> Self {
        self.within = Some(within);
        self
    }

    /// Sets when the caller made this request first, for a table that was restored: see
    /// [`BeginBuilder::requested_at`](crate::BeginBuilder::requested_at).
    ///
    /// While a restored table is closed, an older start stores the workflow in quarantine and
    /// returns [`Outcome::Quarantined`]. It runs once an operator retries it.
    pub fn requested_at(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.requested = Some(time.into());
        self
    }

    /// Sets the version of the key, from 1 (default: 1).
    ///
    /// After an expected failure, the same request can run again under the next version. All steps
    /// run again, except completed steps with their own keys.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the owner, such as the id of the message or the request: 1 to 256 bytes.
    ///
    /// **The same owner resumes immediately** a workflow that it still holds, such as after a
    /// crash, even before the workflow is due. So use a name that only one driver has at the same
    /// time.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the expected time of this run, from 1 second to 366 days. After it, other drivers may
    /// take the workflow over.
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = time;
        self
    }

    /// Sets the earliest time of the first run.
    ///
    /// While this time is in the future, both [`run`](Self::run) and [`enqueue`](Self::enqueue)
    /// only store the workflow and return [`Outcome::InProgress`]. A completer runs it after this
    /// time. If the workflow exists, this changes nothing.
    pub fn not_before(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.not_before = Some(time.into());
        self
    }

    /// Sets the retention of the finished workflow (default:
    /// [`Settings::retention`](crate::Settings::retention)).
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the value that identifies the request (default: the whole input).
    ///
    /// The same key with another request is [`Outcome::Mismatch`]. By default, adding a field to
    /// the input also changes the request: a client that repeats its request across the deployment
    /// is refused. So pass the fields that identify the request, such as the number and the amount
    /// of the order.
    ///
    /// The workflow runs with the input of its first start. Set the same fields from the first
    /// deployment on: a workflow that was started without them does not match.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, request: &T) -> Self {
        self.fingerprint = Some(Fingerprint::of_json(request));
        self
    }

    /// Sets how long the call waits for the outcome, from 1 millisecond to a day.
    ///
    /// By default, the call returns [`Outcome::InProgress`] at once if another driver runs the
    /// workflow or if it waits for its next attempt. If the workflow becomes due during the wait,
    /// [`run`](Self::run) drives it, and [`enqueue`](Self::enqueue) waits for the completer. The
    /// wait costs a read of 1 unit about once a second. The [`deadline`](Self::deadline) may end it
    /// earlier.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Sets the time after which no more requests are sent to DynamoDB, such as a second before the
    /// end of a Lambda invocation. A step begins only if enough time is left before it. Without a
    /// deadline, Lambda may end the invocation during a step, which is then in doubt. Only the
    /// outcome of work that has run is still written after
    /// this time, in one try of at most 250 milliseconds.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Starts the workflow, or resumes it if no driver runs it. Drives it until it ends or has to
    /// wait.
    ///
    /// # Crash window
    ///
    /// After a crash at any point, recorded steps stay recorded, and the completer resumes the
    /// workflow.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the same as a crash: the workflow stays claimed until it is overdue,
    /// unless the same [`owner`](Self::owner) resumes it.
    ///
    /// # Errors
    ///
    /// [`Error`]. After [`Error::Unknown`], the workflow may have been started or ended: call again
    /// with the same key.
    ///
    /// # Cost
    ///
    /// - A new workflow: 2 requests and 5 write units including the index, in addition to its
    ///   steps. An answer is a separate item: 1 more request.
    /// - A resumed workflow: 1 refused put, 1 write, 1 query. After a lost driver: 1 more query. If
    ///   the query shows no progress, up to 1 read for each step with its own key.
    /// - A workflow that has ended: 1 refused put and 1 read.
    /// - An input of more than 400 bytes is a separate item, which is written first: 1 more put,
    ///   and 1 delete if the key is in use.
    pub async fn run(self) -> Result<Outcome<W::Output>, Error> {
        self.started(true).await
    }

    /// Stores the workflow for the completer, which drives it. If the workflow exists, returns its
    /// present state.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units including the index. 2 requests if the input has more than 400
    /// bytes.
    pub async fn enqueue(self) -> Result<Outcome<W::Output>, Error> {
        self.started(false).await
    }

    /// Sends the request. `driven`: this call also drives the workflow.
    async fn started(self, driven: bool) -> Result<Outcome<W::Output>, Error> {
        let print = self.check()?;
        let context = &self.context;
        let mut polling = Polling::new(self.wait_for.map(|longest| context.bounded(longest, self.deadline)));
        let first = self.go_on(self.begin(&print, driven).await?, false).await?;
        let (this, print) = (&self, &print);
        let look = |Seen { written, ended, .. }: Seen| async move {
            let started = match ended {
                Ended::Continued(next, _) => this.look_at(&next, driven).await,
                _ => this.look_again(print, driven).await,
            };
            this.go_on(started.map_err(|error| error.unsure_if(written))?, written).await
        };
        let mut first = first;
        for _ in 1..MOST_VERSIONS {
            // Past the deadline no time is left for a request. The workflow continues without its
            // caller.
            let is_past = context.is_past(self.deadline);
            if !driven || is_past || !matches!(first.ended, Ended::Continued(..)) {
                break;
            }
            first = look(first).await?;
        }
        let waits = |state: &Seen| matches!(state.ended, Ended::Waiting(_) | Ended::Continued(..));
        let last = polling.look_while(|| context.jitter(), first, waits, look).await?;
        Ok(last.ended.outcome(last.replayed)?)
    }

    /// Drives the claimed workflow. `written`: this call has started or driven it before.
    async fn go_on(&self, started: Started, written: bool) -> Result<Seen, Error> {
        Ok(match started {
            Started::Ended(ended) => Seen { ended, replayed: true, written },
            // From here on steps may have run, so an error of DynamoDB is returned as unknown.
            Started::Flow(flow) => {
                let ended = drive(self.code, &flow).await.map_err(Error::unsure)?;
                Seen { ended, replayed: false, written: true }
            }
            Started::Stored => {
                let now = self.context.now();
                let ended = Ended::Waiting(Waiting::enqueued(now, self.not_before.unwrap_or(now)));
                Seen { ended, replayed: false, written: true }
            }
        })
    }

    /// Checks all options before a request is sent. Returns the fingerprint of the request.
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
        let begins = driven && self.not_before.is_none_or(|at| at <= context.now());
        let header = self.new_header(&workflow, input, fingerprint, begins).await?;
        let item = || header_item(&header, context.settings().write_shards());
        let until = context.until(self.deadline);
        // Two callers start the same key. One put is applied, and the other call finds its header.
        let put = context.store().put_item(VERB, &item, Some(&header.revision), Guard::Absent, until);
        match put.await? {
            Written::Done if header.is_quarantined() => {
                context.report_quarantined(&header);
                Ok(Started::Ended(Ended::Quarantined(header.reason.clone().unwrap_or_default())))
            }
            Written::Done => {
                metrics::count_workflow(metrics::WORKFLOWS_STARTED, W::NAME);
                if !begins {
                    return Ok(Started::Stored);
                }
                let (limits, span) = (self.limits()?, Span::of_caller(self.deadline));
                let flow = Flow::new(context.clone(), header, limits, (Vec::new(), Vec::new()), &[], span);
                Ok(Started::Flow(flow))
            }
            Written::Refused { found: None, .. } => Err(Error::Contended { verb: VERB, tries: 1 }),
            Written::Refused { found: Some(item), after_silence } => {
                let stored = store::found(header_of(&item), (VERB, 1), after_silence)?;
                // The stored header may be of this call: the response of an earlier request was
                // lost, and another driver has claimed the workflow since.
                if !same_input(&stored, &header) {
                    context.drop_input(&workflow, header.input.as_ref(), until).await;
                }
                let found = self.found(stored, fingerprint, driven).await;
                // An earlier request of this call may have started the workflow, so an error is
                // returned as unknown.
                found.map_err(|error| error.unsure_if(after_silence))
            }
        }
    }

    /// Reads the workflow again, and drives it if it is due.
    async fn look_again(&self, fingerprint: &Fingerprint, driven: bool) -> Result<Started, Error> {
        let until = self.context.until(self.deadline);
        let read = Box::pin(self.context.store().read_header(&self.workflow()?, until)).await?;
        self.found(read.ok_or(Error::Gone { verb: VERB })?, fingerprint, driven).await
    }

    /// Drives the next version, after this call drove the version before it.
    async fn look_at(&self, next: &str, driven: bool) -> Result<Started, Error> {
        let until = self.context.until(self.deadline);
        let read = Box::pin(self.context.store().read_header(next, until)).await?;
        self.latest(read.ok_or(Error::Gone { verb: VERB })?, driven).await
    }

    /// Handles a start whose key is in use.
    async fn found(&self, stored: Header, print: &Fingerprint, driven: bool) -> Result<Started, Error> {
        let context = &self.context;
        let keys = context.fingerprint_keys();
        let same = match &stored.fingerprint {
            // An operator cancelled the workflow before it was started.
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

    /// Claims the latest version of a workflow.
    async fn latest(&self, stored: Header, driven: bool) -> Result<Started, Error> {
        let context = &self.context;
        let until = context.until(self.deadline);
        let stored = context.latest(stored, until).await?.ok_or(Error::Gone { verb: VERB })?;
        // In a workflow that has ended, the completer compensates a late event.
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
            // Since the read, the workflow was deleted and its key was used again.
            Claimed::Other => return Err(Error::Contended { verb: VERB, tries: 1 }),
        })
    }

    async fn new_header(
        &self,
        workflow: &str,
        input: String,
        fingerprint: &Fingerprint,
        begins: bool,
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
            owner: begins.then_some(owner),
            not_before: self.not_before.map(time::stored),
            fingerprint: Some(fingerprint.stored(context.fingerprint_keys()).text),
            input: Some(input),
            expected: self.expected,
            retention: self.retention,
            within: self.within.clone().or_else(session::within),
            opened: session::opened().filter(|_| context.restored().is_some()),
            continues: None,
        };
        let requested = self.requested.or_else(session::requested).max(session::opened());
        if context.may_have_forgotten(requested) {
            return Ok(Header::held(NewWorkflow { owner: None, ..new }, requested, context.stamp()));
        }
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
    /// This call has claimed the workflow.
    Flow(super::Flow),
    /// This call has stored the workflow for the completer.
    Stored,
    Ended(Ended),
}
