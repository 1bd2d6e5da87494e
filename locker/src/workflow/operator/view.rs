//! Views of workflows for operators.

use chrono::{DateTime, Utc};

use super::event::EventView;
use super::message::Message;
use crate::core::answer::{self, AnswerError, Body};
use crate::core::key::{IntoKey, Key};
use crate::core::name;
use crate::core::token::record::{Intervention, short_digest};
use crate::core::token::work::Work;
use crate::core::workflow::event::EventRecord;
use crate::core::workflow::header::{Awaited, FailedRuns, Header, List, State};
use crate::core::workflow::place::{Partition, Place};
use crate::core::workflow::step::{Placed, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::workflow::step::results::json_of;
use crate::workflow::workflows::Workflows;

/// A workflow and its steps, as they were read. Operator actions are conditional on this state.
#[derive(Clone)]
pub struct View {
    pub(crate) header: Header,
    pub(crate) steps: Vec<StepView>,
    /// The events of this workflow, followed by further events under the same names.
    pub(crate) events: Vec<EventView>,
    /// Events of a workflow that had the key before, which a new event is written over.
    pub(crate) former_events: Vec<EventRecord>,
    pub(crate) messages: Vec<Message>,
    pub(crate) result: Option<String>,
    pub(crate) failed: Vec<FailedRuns>,
}

/// A step as it was read.
#[derive(Debug, Clone)]
pub struct StepView {
    /// The name of the step in this workflow.
    pub(crate) name: String,
    pub(crate) placed: Placed,
}

impl Workflows {
    /// Reads a workflow and its steps, strongly consistent. `None`: no workflow has this key and
    /// version.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Record`] if a stored item cannot be read, [`Error::Denied`],
    /// [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit for each 4 KB; 1 request for its answer, 1 for each step with a key of
    /// its own or a result above 4 KB, 1 query if a run has failed, and 1 query if there are
    /// several events under a name.
    pub async fn get(&self, key: impl IntoKey, key_version: u32) -> Result<Option<View>, Error> {
        let key = key.into_key()?;
        self.get_listed(&name::partition(&key, key_version)).await
    }

    /// Reads a workflow by its name in a listing. Otherwise the same as [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// Same as [`get`](Self::get).
    pub async fn get_listed(&self, workflow: &str) -> Result<Option<View>, Error> {
        match self.view(workflow).await? {
            Some(view) => Ok(Some(self.with_causes(view).await?)),
            None => Ok(None),
        }
    }

    /// Reads the causes of the failed runs as well.
    pub(crate) async fn with_causes(&self, view: View) -> Result<View, Error> {
        let header = &view.header;
        if header.failures.latest().is_none() {
            return Ok(view);
        }
        let until = self.context().until(None);
        let read = self.context().store().read_failed_runs(&header.workflow, header.created, until);
        let failed = header.failures.all(Box::pin(read).await?);
        Ok(View { failed, ..view })
    }

    /// Reads a workflow without the causes of its failed runs, on which no act depends.
    pub(crate) async fn view(&self, workflow: &str) -> Result<Option<View>, Error> {
        let all =
            Box::pin(self.context().store().read_workflow(workflow, self.context().until(None))).await?;
        let Some(header) = all.header else { return Ok(None) };
        let mut steps = Vec::with_capacity(all.records.len());
        let (created, until) = (header.created, self.context().until(None));
        for record in all.records.into_iter().filter(|record| record.is_of(created)) {
            let name = record.id.shown();
            let mut placed = match record.shared() {
                Some(shared) => self.shared(record, &shared).await?,
                None => Placed::own(record),
            };
            placed.record = match self.context().with_result(placed.record.clone(), until).await {
                // It is being deleted, and its header is deleted last.
                Err(Error::Answer(AnswerError::Missing)) => placed.record,
                loaded => loaded?,
            };
            steps.push(StepView { name, placed });
        }
        steps.sort_by_key(|step| step.placed.number);
        let result = match self.context().result(&header, None).await {
            // It is being deleted, and its header is deleted last.
            Err(Error::Answer(AnswerError::Missing)) if header.state == State::Reaping => None,
            Err(Error::Answer(AnswerError::Redacted)) => None,
            result => result?,
        };
        let messages = all.messages.into_iter().map(|stored| Message { stored }).collect();
        let mut events = all.events;
        if header.surplus > 0 {
            let until = self.context().until(None);
            events.extend(Box::pin(self.context().store().read_surplus(workflow, None, until)).await?);
        }
        let (events, former_events): (Vec<_>, _) = events.into_iter().partition(|event| event.is_of(created));
        let events = events.into_iter().map(|record| EventView { record }).collect();
        Ok(Some(View { header, steps, events, former_events, messages, result, failed: Vec::new() }))
    }

    /// Reads the input of a workflow, as JSON text. `None`: it has none, since an operator
    /// cancelled it before it started.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Answer`] if the stored input is damaged.
    ///
    /// # Cost
    ///
    /// Nothing for an input of up to 400 bytes, which the header has; otherwise 1 strongly
    /// consistent read.
    pub async fn input(&self, seen: &View) -> Result<Option<String>, Error> {
        let encoded = match &seen.header.input {
            None => return Ok(None),
            Some(Body::Redacted) => return Err(AnswerError::Redacted.into()),
            Some(Body::Inline(encoded)) => encoded.clone(),
            Some(Body::Beside { codec, id, .. }) => {
                let (store, until) = (self.context().store(), self.context().until(None));
                let item = Place::Input(id).to_string();
                Box::pin(store.read_beside(&seen.header.workflow, &item, *codec, until)).await?
            }
        };
        Ok(Some(answer::decode(encoded)?))
    }

    /// Reads the record of a step with its own key, as this workflow's step.
    async fn shared(&self, pointer: StepRecord, shared: &RecordId) -> Result<Placed, Error> {
        let found = Box::pin(self.context().store().read_record(shared, self.context().until(None))).await?;
        Ok(match found {
            Some(found) => Placed::through(&pointer, found),
            None => Placed::own(pointer),
        })
    }
}

// Inputs, results and messages may be private.
impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("name", &self.name())
            .field("state", &self.state())
            .field("reason", &self.reason())
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl View {
    /// The key, without its version.
    #[must_use]
    pub fn key(&self) -> Key {
        self.header.key()
    }

    /// The version of the key.
    #[must_use]
    pub fn key_version(&self) -> u32 {
        self.header.key_version
    }

    /// The version of the key under which the workflow continues. In the first version, it is the
    /// latest one. `None`: the workflow has not continued.
    #[must_use]
    pub fn continued_as(&self) -> Option<u32> {
        self.header.continued_as
    }

    /// Identifies the workflow, its steps and its events as they were read: each later write to
    /// them changes the revision. The command prints it, and its verbs take it, so that an operator
    /// acts on the state that was shown.
    #[must_use]
    pub fn revision(&self) -> String {
        let steps = self.steps.iter().map(|step| step.placed.record.revision.as_str());
        let events = self.events.iter().map(|event| event.record.revision.as_str());
        let revisions: Vec<_> =
            std::iter::once(self.header.revision.as_str()).chain(steps).chain(events).collect();
        short_digest(&revisions.join("\n"))
    }

    /// The name of the workflow's code.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The state of the workflow.
    #[must_use]
    pub fn state(&self) -> State {
        self.header.state
    }

    /// The list in which it appears. `None`: finished, and kept indefinitely.
    #[must_use]
    pub fn listed(&self) -> Option<List> {
        self.header.listed
    }

    /// Why the workflow waits, or why it is in quarantine.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.header.reason.as_deref()
    }

    /// The owner of the driver that runs it.
    #[must_use]
    pub fn locked_by(&self) -> Option<&str> {
        self.header.locked_by.as_deref()
    }

    /// The number of runs since the last progress, with the run that made it, or since an
    /// operator's act.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.header.attempts
    }

    /// Since when the workflow makes no progress: its start, the last run that recorded a step, the
    /// end of a wait that the code chose, or an operator's act.
    #[must_use]
    pub fn since(&self) -> DateTime<Utc> {
        self.header.since
    }

    /// When the workflow was started.
    #[must_use]
    pub fn created(&self) -> DateTime<Utc> {
        self.header.created
    }

    /// When it may be driven, or deleted.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.header.next_due
    }

    /// When the workflow ended.
    #[must_use]
    pub fn ended(&self) -> Option<DateTime<Utc>> {
        self.header.ended
    }

    /// The answer or the first failure, as JSON text.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// Whether an operator erased the input and the answer: it happened, and its result is not
    /// kept.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        self.header.is_redacted()
    }

    /// The operator who acted on the workflow last, and the reason.
    #[must_use]
    pub fn intervention(&self) -> Option<&Intervention> {
        self.header.intervention.as_ref()
    }

    /// Returns the causes of the workflow's failed runs, oldest first: the three latest causes,
    /// each with the number of runs in a row that failed for it. Attempts of a step within one run
    /// are in the log.
    #[must_use]
    pub fn failed_runs(&self) -> &[FailedRuns] {
        &self.failed
    }

    /// Returns the token or the workflow whose work began this workflow, if it is known.
    #[must_use]
    pub fn within(&self) -> Option<&Work> {
        self.header.within.as_ref()
    }

    /// The steps and their compensations, in the order in which they started.
    #[must_use]
    pub fn steps(&self) -> &[StepView] {
        &self.steps
    }

    /// The events of the workflow, in the order of their names, in every state. Other events under
    /// a name that has its event come last.
    #[must_use]
    pub fn events(&self) -> &[EventView] {
        &self.events
    }

    /// The events and timers that the code waits for, the wait that ends first first. Empty if the
    /// workflow has ended.
    #[must_use]
    pub fn waits(&self) -> Vec<Awaited> {
        let of_events = self.events.iter().filter_map(|event| event.awaited(&self.header));
        let of_timers = self.steps.iter().filter_map(|step| self.timer(step));
        let mut waits: Vec<_> = of_events.chain(of_timers).collect();
        waits.sort_by(|one, other| (one.until, &one.name).cmp(&(other.until, &other.name)));
        waits
    }

    /// The pause of a timer that has not ended. The last run left the workflow to wait for it, or a
    /// driver has the workflow.
    fn timer(&self, step: &StepView) -> Option<Awaited> {
        let is_nested = matches!(step.placed.record.id.place(), Ok(Place::Nested { .. }));
        let is_open = match self.header.state {
            State::Running => !is_nested,
            State::Compensating => is_nested,
            _ => false,
        };
        let until = step.recorded_time().filter(|_| is_open)?;
        // Otherwise the time was only recorded, or is past.
        (until > step.placed.record.created && until >= self.header.next_due).then(|| Awaited {
            name: step.name(),
            since: step.placed.record.created,
            until,
        })
    }

    pub(crate) fn event(&self, name: &str) -> Option<&EventView> {
        self.events.iter().find(|event| event.name() == name)
    }

    /// Messages that were committed and not yet reported as sent.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn step(&self, name: &str) -> Option<&StepView> {
        self.steps.iter().find(|step| step.name() == name)
    }
}

impl StepView {
    /// The name of the step; prefixed with `compensation:` for the compensation of a step, and with
    /// `compensation-late:` for that of a late outcome.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// The kind of step.
    #[must_use]
    pub fn kind(&self) -> StepKind {
        self.placed.kind()
    }

    /// The state of the step.
    #[must_use]
    pub fn state(&self) -> StepState {
        self.placed.record.state
    }

    /// Returns whether the step of this workflow was cancelled, and may have happened.
    pub(crate) fn is_cancelled_in_doubt(&self, run: &str) -> bool {
        let placed = &self.placed;
        self.state() == StepState::Cancelled && placed.compensation.is_some() && placed.is_of(run)
    }

    /// When the step started.
    #[must_use]
    pub fn started(&self) -> DateTime<Utc> {
        self.placed.record.created
    }

    /// When the step ended.
    #[must_use]
    pub fn ended(&self) -> Option<DateTime<Utc>> {
        self.placed.record.ended
    }

    /// The run that started it last or recorded its outcome. An operator, if the step had not
    /// started.
    #[must_use]
    pub fn started_by(&self) -> &str {
        &self.placed.record.owner
    }

    /// Until then, the driver that started it may be at work.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.placed.record.due
    }

    /// The idempotency key that its last attempt gave the provider:
    /// [`StepAttempt::idempotency_key`](crate::workflow::StepAttempt::idempotency_key).
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let record = &self.placed.record;
        if matches!(record.id.place(), Ok(Place::Shared)) {
            return name::shared_provider_key(&Key::stored(record.id.workflow.clone()), record.key_version);
        }
        let RecordId { workflow, .. } = &self.placed.at;
        let (key, version) = match Partition::parse(workflow) {
            Ok(Partition::Workflow { key, version }) => (key, version),
            _ => (workflow.as_str(), 1),
        };
        let step = self.placed.at.place().map(|place| place.provider_step()).unwrap_or_default();
        name::provider_key(&Key::stored(key.to_owned()), version, &step, record.key_version)
    }

    /// The version of the step's key.
    #[must_use]
    pub fn key_version(&self) -> u32 {
        self.placed.record.key_version
    }

    /// The name of its compensation, if it has one.
    #[must_use]
    pub fn compensation(&self) -> Option<&str> {
        self.placed.compensation.as_ref().map(|intent| intent.name.as_str())
    }

    /// Whether the step is a pivot: steps before it are not compensated, unless it failed or may be
    /// started again.
    #[must_use]
    pub fn is_pivot(&self) -> bool {
        self.placed.pivot
    }

    /// The time that a timer recorded. `None`: it is another step.
    #[must_use]
    pub fn recorded_time(&self) -> Option<DateTime<Utc>> {
        let millis = self.result().filter(|_| self.kind() == StepKind::Timer)?.parse().ok()?;
        DateTime::from_timestamp_millis(millis)
    }

    /// The result or failure of the step, as JSON text.
    #[must_use]
    pub fn result(&self) -> Option<String> {
        json_of(&self.placed.record).ok()
    }

    /// The operator who acted on the step, and the reason.
    #[must_use]
    pub fn intervention(&self) -> Option<&Intervention> {
        self.placed.record.intervention.as_ref()
    }
}
