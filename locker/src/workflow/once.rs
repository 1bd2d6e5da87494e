//! A step that runs at most once.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::adopt::failed;
use super::definition::Found;
use super::flow::{Flow, StepAttempt};
use super::retry::RetryPolicy;
use super::step::later;
use super::stop::{StepFailure, Stop};
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{IntoKey, InvalidKey, Key};
use crate::core::time;
use crate::core::workflow::decide;
use crate::core::workflow::name;
use crate::core::workflow::record::{Intent, RecordId, StepKind, StepRecord, StepState};
use crate::error::{BoxError, Error};
use crate::metrics;
use crate::settings::Retention;
use crate::store::workflow::{Guard, Put, record_item, record_of};
use crate::token::{Class, Classify};

type Probing<'a> = Pin<Box<dyn Future<Output = Result<Found, BoxError>> + Send + 'a>>;
type Probe<'a> = Box<dyn Fn(StepAttempt) -> Probing<'a> + Send + Sync + 'a>;

/// How often a start is judged anew that changes under it.
const ROUNDS: usize = 4;

/// A step that runs at most once, about to run. See [`Flow::once`].
#[must_use = "a step does nothing until it is run"]
pub struct Once<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, Stop>>,
    key: Option<Result<Key, InvalidKey>>,
    version: Option<u32>,
    retention: Retention,
    recognised: Duration,
    expected: Duration,
    probe: Option<Probe<'a>>,
    undo: Option<Result<Intent, Stop>>,
    pivot: bool,
    retry: RetryPolicy,
    /// It is the undoing of the step of that name, for the first time or of a late outcome.
    undoes: Option<bool>,
}

impl std::fmt::Debug for Once<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Once<'a> {
    pub(super) fn new(flow: &'a Flow, name: String) -> Self {
        Self {
            flow,
            name,
            input: None,
            key: None,
            version: None,
            retention: Retention::Forever,
            recognised: Duration::ZERO,
            expected: Duration::from_secs(30),
            probe: None,
            undo: None,
            pivot: false,
            retry: RetryPolicy::default(),
            undoes: None,
        }
    }

    /// The undoing of a step.
    pub(super) fn undoing(flow: &'a Flow, step: String, late: bool) -> Self {
        Self { undoes: Some(late), ..Self::new(flow, step) }
    }

    const fn kind(&self) -> StepKind {
        if self.undoes.is_some() { StepKind::Undo } else { StepKind::Once }
    }

    /// What it is given. Only a digest is recorded; a resumed step with another input is [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(self.flow.fingerprint(input));
        self
    }

    /// Give it a business key of its own, such as `("card/charge", order_id)`, so that it happens once
    /// **whichever workflow asks**: another workflow, a fork, or this one under the next version of its key.
    ///
    /// Without it the step belongs to this workflow and the version of its key. Costs a pointer more (1 request
    /// and 1 write unit), and when it is resumed 1 request.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = Some(key.into_key());
        self
    }

    /// Ask under this version of the step's key, from 1. A recorded **failure** of a lower version is then no
    /// answer, and the provider gets a new idempotency key. A recorded success always is one. Source: seed 000.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// How long the record of a step with a key of its own is kept. For ever, unless said otherwise: once it
    /// is forgotten, an old workflow that is resumed would do the step again.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The provider recognises the idempotency key for so long (Stripe: 24 hours). A step in doubt is then sent
    /// again, with the same key, until shortly before.
    pub const fn recognised_for(mut self, time: Duration) -> Self {
        self.recognised = time;
        self
    }

    /// How long a try may take, 30 seconds by default. Until then nobody else considers it in doubt.
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = time;
        self
    }

    /// How to find out whether a try happened of which nobody knows.
    ///
    /// Say [`Found::NotDone`] only if it has not happened **and will not**.
    pub fn probe<F, R>(mut self, probe: F) -> Self
    where
        F: Fn(StepAttempt) -> R + Send + Sync + 'a,
        R: Future<Output = Result<Found, BoxError>> + Send + 'a,
    {
        self.probe = Some(Box::new(move |attempt| Box::pin(probe(attempt))));
        self
    }

    /// How it is undone, should the workflow fail or be cancelled: [`Workflow::undo`](super::Workflow::undo) is
    /// called with this name and input. Both are stored with the start, so that a step in doubt is undone as well.
    pub fn compensate(self, undo: impl Into<String>, input: &impl Serialize) -> Self {
        self.compensate_within(undo, input, Duration::ZERO)
    }

    /// The same, where the provider recognises the idempotency key of the undoing for so long: then an undoing
    /// in doubt is sent again.
    pub fn compensate_within(
        mut self,
        undo: impl Into<String>,
        input: &impl Serialize,
        recognised: Duration,
    ) -> Self {
        self.undo = Some(intent(undo.into(), input, recognised));
        self
    }

    /// Past this step there is no way back: if the workflow fails later, what came before it is not undone, and
    /// a person has to look.
    pub const fn pivot(mut self) -> Self {
        self.pivot = true;
        self
    }

    /// Try it again like this while it fails in passing, or in doubt where it can be found out.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Run it, unless it is recorded.
    ///
    /// **Crash window:** between its start and its outcome it is in doubt: it is run again only if the probe
    /// says so, or while the provider recognises the key. Otherwise a person decides.
    ///
    /// # Errors
    ///
    /// [`Stop`], which says what becomes of the workflow.
    ///
    /// # Cost
    ///
    /// 3 requests: 2 writes, of 1 write unit and of 1 for each KB of the record, and 1 read of 1 unit.
    /// Nothing if it is recorded.
    pub async fn run<T, E, F, R>(mut self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let start = Starting::of(&mut self)?;
        match self.settle(&start).await? {
            Settled::Run(record) => Box::pin(self.work(record, work)).await,
            Settled::Recorded(record) => Flow::result_of(&record),
        }
    }

    /// Start it, or find how it ended.
    async fn settle(&self, start: &Starting) -> Result<Settled, Stop> {
        let flow = self.flow;
        let mut known = match &start.pointer {
            None => flow.recorded(&start.id),
            // It may have ended since this workflow read its own records.
            Some(pointer) => {
                self.point(pointer, start).await?;
                None
            }
        };
        for _ in 0..ROUNDS {
            let next = match known.take() {
                None => self.start(start, None).await?,
                Some(record) => self.judge(record, start).await?,
            };
            match next {
                Next::Settled(settled) => return Ok(settled),
                Next::Judge(record) => known = Some(*record),
            }
        }
        Err(later(flow, &self.name, None, "its record changed under every try"))
    }

    /// What a record that is there means.
    async fn judge(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        let (expired_at, now, skew) = (flow.workflows().expired_at(), flow.now(), flow.workflows().skew());
        let found = decide::found(&record, self.version, expired_at, now, skew);
        if !matches!(found, decide::Found::Free | decide::Found::Cancelled) {
            flow.check_same(&self.name, &record, self.kind(), start.input.as_ref())?;
        }
        match found {
            decide::Found::Completed => Ok(Next::Settled(Settled::Recorded(Box::new(record)))),
            decide::Found::Failed => Err(failed(&record)),
            decide::Found::Cancelled => Err(Stop::Cancelled { step: self.name.clone() }),
            decide::Found::Busy => Err(Stop::Later {
                step: self.name.clone(),
                at: time::after(record.due, skew),
                cause: "somebody started it and may be at work".to_owned(),
                counts: false,
            }),
            decide::Found::Free => {
                let version = self.version.unwrap_or_default().max(record.key_version.saturating_add(1));
                self.start(start, Some((&record, version))).await
            }
            decide::Found::InDoubt => self.resolve(record, start).await,
        }
    }

    /// Nobody knows whether it happened: find out, or leave it.
    async fn resolve(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        metrics::count_step_in_doubt();
        tracing::warn!(
            workflow.key = flow.workflows().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.started = %record.created,
            "nobody knows whether a step happened"
        );
        if self.is_recognised(&record) {
            return self.take_over(record, start).await;
        }
        match self.ask(&record).await? {
            Found::Done(json) => {
                let record = self.finish(record, StepState::Completed, json).await?;
                Ok(Next::Settled(Settled::Recorded(Box::new(record))))
            }
            Found::NotDone => self.take_over(record, start).await,
            Found::Unknown => Err(self.in_doubt()),
        }
    }

    /// The provider still knows the key, whenever the next try arrives.
    fn is_recognised(&self, record: &StepRecord) -> bool {
        let margin = self.flow.workflows().skew().saturating_add(self.expected);
        let until = time::after(record.created, self.recognised.saturating_sub(margin));
        self.recognised > margin && self.flow.now() < until
    }

    async fn ask(&self, record: &StepRecord) -> Result<Found, Stop> {
        let Some(probe) = &self.probe else { return Ok(Found::Unknown) };
        let attempt = self.attempt_of(record, 1);
        match probe(attempt).await {
            Ok(found) => Ok(found),
            Err(error) => {
                tracing::warn!(workflow.step = self.name, error, "a probe failed");
                Ok(Found::Unknown)
            }
        }
    }

    fn in_doubt(&self) -> Stop {
        let resolvable = self.probe.is_some();
        Stop::InDoubt { step: self.name.clone(), resolvable }
    }

    fn attempt_of(&self, record: &StepRecord, number: u32) -> StepAttempt {
        let flow = self.flow;
        let step = match self.undoes {
            None => Cow::Borrowed(self.name.as_str()),
            Some(false) => Cow::Owned(format!("{}~undo", self.name)),
            Some(true) => Cow::Owned(format!("{}~undo-late", self.name)),
        };
        let idempotency_key = match &self.key {
            Some(Ok(key)) => name::shared_provider_key(key, record.key_version),
            _ => name::provider_key(flow.key(), flow.key_version(), &step, record.key_version),
        };
        StepAttempt { step: self.name.clone(), idempotency_key, number }
    }

    /// Say in the workflow that it has such a step, before the step starts elsewhere.
    async fn point(&self, pointer: &StepRecord, start: &Starting) -> Result<(), Stop> {
        let flow = self.flow;
        if let Some(known) = flow.recorded(&pointer.id) {
            if known.state == StepState::Cancelled {
                return Err(Stop::Cancelled { step: self.name.clone() });
            }
            flow.check_same(&self.name, &known, StepKind::Pointer, start.input.as_ref())?;
            if known.points_to.as_deref() != Some(start.id.workflow.as_str()) {
                return Err(Stop::Changed { step: self.name.clone(), what: "key" });
            }
            return Ok(());
        }
        match self.put(pointer, Guard::Absent).await? {
            None => {
                flow.remember(pointer.clone());
                Ok(())
            }
            Some(other) => {
                flow.remember(other);
                Box::pin(self.point(pointer, start)).await
            }
        }
    }

    /// Write the start, and make sure that this drive still holds the workflow.
    async fn start(&self, start: &Starting, over: Option<(&StepRecord, u32)>) -> Result<Next, Stop> {
        let flow = self.flow;
        let mut record = start.record.clone();
        record.created = flow.now();
        record.due = time::after(record.created, self.expected);
        record.key_version = over.map_or_else(|| self.version.unwrap_or(1), |(_, version)| version);
        let guard = over.map_or(Guard::Absent, |(over, _)| Guard::Revision(&over.revision));
        if let Some(found) = self.put(&record, guard).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(record).await
    }

    /// Start it again in the place of whoever started it.
    async fn take_over(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        let again = StepRecord {
            revision: start.record.revision.clone(),
            attempt: start.record.attempt.clone(),
            owner: flow.attempt(),
            due: time::after(flow.now(), self.expected),
            ..record.clone()
        };
        if let Some(found) = self.put(&again, Guard::Revision(&record.revision)).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(again).await
    }

    async fn held(&self, record: StepRecord) -> Result<Next, Stop> {
        let flow = self.flow;
        if flow.is_held().await? {
            flow.remember(record.clone());
            return Ok(Next::Settled(Settled::Run(Box::new(record))));
        }
        // Nothing was done under it.
        self.withdraw(&record).await?;
        Err(Stop::Lost)
    }

    async fn withdraw(&self, record: &StepRecord) -> Result<(), Stop> {
        let store = self.flow.workflows().store();
        let RecordId { workflow, item } = &record.id;
        let guard = Guard::Revision(&record.revision);
        let deleted = store.delete_item("withdraw the step", workflow, item, guard, self.flow.until());
        Box::pin(deleted).await?;
        self.flow.forget(&record.id);
        Ok(())
    }

    /// Put a record; if another is there, that one.
    async fn put(&self, record: &StepRecord, guard: Guard<'_>) -> Result<Option<StepRecord>, Stop> {
        let item = record_item(record);
        let store = self.flow.workflows().store();
        match Box::pin(store.put_item("start the step", &item, guard, self.flow.until())).await? {
            Put::Done => Ok(None),
            Put::Refused { item: Some(item), .. } => Ok(Some(record_of(&item).map_err(Error::from)?)),
            Put::Refused { item: None, .. } => Err(later(self.flow, &self.name, None, "its record has gone")),
        }
    }

    /// Run the work under its start.
    async fn work<T, E, F, R>(&self, record: Box<StepRecord>, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let flow = self.flow;
        let began = Instant::now();
        let mut attempt = self.attempt_of(&record, 1);
        // Of an earlier try nobody knows whether it happened; a later one that did not proves nothing.
        let mut doubt = false;
        loop {
            let error = match work(attempt.clone()).await {
                Ok(value) => {
                    let Ok(json) = answer::to_json(&value) else {
                        return Err(Stop::invalid(
                            &self.name,
                            "it happened, and its result has no JSON form",
                        ));
                    };
                    self.finish(*record, StepState::Completed, json).await?;
                    return Ok(value);
                }
                Err(error) => error,
            };
            let class = error.class();
            match class {
                Class::Permanent | Class::NeedsPerson => {
                    let failure = StepFailure::of(Some(&self.name), class, &error).map_err(Error::from)?;
                    let json = failure.to_stored().map_err(Error::from)?;
                    let record = self.finish(*record, StepState::Failed, json).await?;
                    return Err(failed(&record));
                }
                Class::InDoubt if !self.is_recognised(&record) => match self.ask(&record).await? {
                    Found::Done(json) => {
                        return Flow::result_of(&self.finish(*record, StepState::Completed, json).await?);
                    }
                    Found::NotDone => doubt = false,
                    Found::Unknown => return Err(self.in_doubt()),
                },
                Class::InDoubt => doubt = true,
                Class::Transient => {}
            }
            let asked = error.retry_after();
            let jitter = flow.workflows().jitter();
            let Some(pause) = self.retry.pause(attempt.number, began.elapsed(), asked, jitter) else {
                if doubt {
                    return Err(Stop::InDoubt { step: self.name.clone(), resolvable: true });
                }
                self.withdraw(&record).await?;
                return Err(later(flow, &self.name, asked, "its tries are used up"));
            };
            tokio::time::sleep(pause).await;
            attempt.number += 1;
        }
    }

    /// Record how it ended. The log has it first.
    async fn finish(&self, started: StepRecord, state: StepState, json: String) -> Result<StepRecord, Stop> {
        let flow = self.flow;
        tracing::info!(
            workflow.key = flow.workflows().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.outcome = state.as_str(),
            "a step ended"
        );
        metrics::count_step(self.kind().as_str(), state.as_str());
        let mut record = started.clone();
        record.state = state;
        record.revision = flow.workflows().new_id();
        record.ended = Some(flow.now());
        record.result = Some(flow.encode(json)?);
        if let (true, Retention::For(kept)) = (record.started_for.is_some(), self.retention) {
            record.ttl = Some(time::after(flow.now(), kept).timestamp().saturating_add(1));
        }
        let store = flow.workflows().store();
        let item = record_item(&record);
        // Nothing else would tell others, so it is worth a try even when time is up.
        let until = flow.until().for_end();
        let guard = Guard::Revision(&started.revision);
        match Box::pin(store.put_item("record the step", &item, guard, until)).await? {
            Put::Done => {
                flow.remember(record.clone());
                Ok(record)
            }
            Put::Refused { item, .. } => Err(flow.came_late(&self.name, record, item.as_ref()).await),
        }
    }
}

/// A start about to be written.
struct Starting {
    id: RecordId,
    record: StepRecord,
    pointer: Option<StepRecord>,
    input: Option<Fingerprint>,
}

impl Starting {
    fn of(once: &mut Once<'_>) -> Result<Self, Stop> {
        let flow = once.flow;
        if once.undoes.is_none() {
            flow.take_name(&once.name)?;
        }
        crate::settings::check_expect_within(once.expected).map_err(Error::from)?;
        if once.version == Some(0) {
            return Err(Stop::invalid(&once.name, "versions of a key are counted from 1"));
        }
        let input = once.input.take().transpose()?;
        let undo = once.undo.take().transpose()?;
        let own = match once.undoes {
            None => RecordId::step(flow.workflow(), &once.name),
            Some(late) => RecordId::undo(flow.workflow(), &once.name, late),
        };
        let own_record = |kind| {
            let mut record = flow.new_record(own.clone(), kind, input.as_ref());
            record.pivot = once.pivot;
            record.undo.clone_from(&undo);
            record
        };
        let key = match &once.key {
            None => {
                let record = own_record(once.kind());
                return Ok(Self { id: own, record, pointer: None, input });
            }
            Some(Ok(key)) => key.clone(),
            Some(Err(error)) => return Err(Error::from(error.clone()).into()),
        };
        crate::settings::check_retention(once.retention).map_err(Error::from)?;
        let mut pointer = own_record(StepKind::Pointer);
        pointer.points_to = Some(key.as_str().to_owned());
        let id = RecordId::shared(key.as_str());
        let mut record = flow.new_record(id.clone(), StepKind::Once, input.as_ref());
        record.started_for = Some(flow.workflow().to_owned());
        Ok(Self { id, record, pointer: Some(pointer), input })
    }
}

/// Where a step stands before its work.
enum Settled {
    /// It is started, and by this call.
    Run(Box<StepRecord>),
    /// It is done.
    Recorded(Box<StepRecord>),
}

enum Next {
    Settled(Settled),
    /// Another record is there.
    Judge(Box<StepRecord>),
}

pub(super) fn intent(name: String, input: &impl Serialize, recognised: Duration) -> Result<Intent, Stop> {
    name::check(&name).map_err(|error| Stop::name(&name, &error))?;
    let input = answer::to_json(input).map_err(Error::from)?;
    // It lies in the record of the start, and every outcome pays for it.
    const MOST: usize = 4096;
    if input.len() > MOST {
        let reason =
            format!("what undoes it is given {} bytes, {MOST} are allowed; give it a reference", input.len());
        return Err(Stop::invalid(&name, reason));
    }
    Ok(Intent { name, input, recognised: recognised.as_secs() })
}
