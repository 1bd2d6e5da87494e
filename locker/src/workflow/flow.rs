//! A workflow while it is driven: its recorded steps, and what its driver owns.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::MutexGuard;

use super::limits::Limits;
use super::run_time::{GRACE, Recording, RunTime};
use super::stop::Stop;
use crate::core::answer::{self, Encoded};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::message::letter::Letter;
use crate::core::time;
use crate::core::workflow::header::{DriverAct, Header};
use crate::core::workflow::name;
use crate::core::workflow::place::{self, Effect, Place, Undo};
use crate::core::workflow::step::{NewStep, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::store::Until;
use crate::workflow::context::Context;
use crate::workflow::unsent::Unsent;

/// A running workflow, with which [`Workflow::run`](super::Workflow::run) makes its steps.
///
/// Clones refer to the same workflow. Steps may run concurrently, each under its own name.
#[derive(Debug, Clone)]
pub struct Flow {
    inner: Arc<Inner>,
    /// Set for the compensation of a step, so that the steps of the compensation have places of their own.
    scope: Option<Arc<Scope>>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    key: Key,
    workflow: String,
    version: u32,
    created: DateTime<Utc>,
    run_id: String,
    attempt: String,
    /// Whether an outcome was recorded in this run.
    progressed: AtomicBool,
    /// Whether this run began a step that has a compensation or is a pivot.
    touched: AtomicBool,
    header: tokio::sync::Mutex<Header>,
    records: Mutex<HashMap<String, StepRecord>>,
    used: Mutex<HashSet<Used>>,
    number: AtomicU32,
    deadline: Option<DateTime<Utc>>,
    /// Time kept free before the deadline: a step whose duration is not said starts only if this remains.
    reserve: Duration,
    /// How long a run may take, if it is one of a completer.
    longest: Option<Duration>,
    /// Those of its type, once its code is known.
    limits: OnceLock<Limits>,
    run_time: Arc<RunTime>,
    unsent: Arc<Unsent>,
}

/// The compensation that a flow is for: [`Undo`], owned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scope {
    step: String,
    version: u32,
    late: bool,
}

impl Scope {
    fn undo(&self) -> Undo<'_> {
        Undo { effect: Effect { step: &self.step, version: self.version }, late: self.late }
    }
}

/// A name that a step of this run has, under one version of its key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Used {
    scope: Option<Arc<Scope>>,
    name: String,
    version: u32,
}

/// How long a step is expected to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) time: Duration,
    /// Whether the code said so, or it is the default.
    pub(crate) is_said: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow {
    pub(crate) fn new(
        context: Context,
        header: Header,
        records: Vec<StepRecord>,
        messages: &[Letter],
        deadline: Option<DateTime<Utc>>,
    ) -> Self {
        let key = place::workflow_key(&header.workflow).to_owned();
        const SOON: Duration = Duration::from_secs(1);
        let left = deadline.map(|deadline| time::between(context.now(), deadline));
        let reserve = left.map_or(Duration::ZERO, |left| SOON.min(left / 2));
        let number = records.iter().map(|record| record.number).max().unwrap_or_default();
        Self {
            inner: Arc::new(Inner {
                context,
                key: Key::stored(key),
                workflow: header.workflow.clone(),
                version: header.key_version,
                created: header.created,
                run_id: header.run_id(),
                attempt: header.attempt.clone(),
                progressed: AtomicBool::new(false),
                touched: AtomicBool::new(false),
                header: tokio::sync::Mutex::new(header),
                records: Mutex::new(
                    records.into_iter().map(|record| (record.id.reference(), record)).collect(),
                ),
                used: Mutex::default(),
                number: AtomicU32::new(number),
                deadline,
                reserve,
                longest: None,
                limits: OnceLock::new(),
                run_time: Arc::default(),
                unsent: Arc::new(Unsent::of(messages)),
            }),
            scope: None,
        }
    }

    /// The same for a run that is aborted at its deadline.
    pub(crate) fn reserving(mut self, reserve: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.reserve = reserve;
        }
        self
    }

    /// The same for a run of a completer, which may take this long.
    pub(crate) fn lasting(mut self, longest: Option<Duration>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.longest = longest;
        }
        self
    }

    /// The same as a part of the run that this other flow belongs to.
    pub(crate) fn in_run_of(mut self, other: &Self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.run_time = Arc::clone(&other.inner.run_time);
            inner.unsent = Arc::clone(&other.inner.unsent);
            // Also of steps that may be committed, and that nobody waited for.
            inner.number.fetch_max(other.inner.number.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self
    }

    /// The same for the compensation of a step.
    pub(crate) fn within(&self, of: Undo<'_>) -> Self {
        let Undo { effect: Effect { step, version }, late } = of;
        let scope = Scope { step: step.to_owned(), version, late };
        Self { inner: Arc::clone(&self.inner), scope: Some(Arc::new(scope)) }
    }

    /// The place of a step that this code names.
    pub(crate) fn place_of<'a>(&'a self, name: &'a str) -> Place<'a> {
        match &self.scope {
            None => Place::Step(name),
            Some(scope) => Place::Nested { step: name, within: scope.undo(), former: None },
        }
    }

    /// The key of the workflow.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.inner.key
    }

    /// The version of the key, from 1.
    #[must_use]
    pub fn key_version(&self) -> u32 {
        self.inner.version
    }

    /// The deadline of this run, if its caller set one.
    #[must_use]
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.inner.deadline
    }

    /// Extend the expected completion: no other driver takes the workflow over for at least this long from now.
    ///
    /// # Errors
    ///
    /// [`Stop::Lost`] if it was taken over already, [`Stop::Store`].
    ///
    /// # Cost
    ///
    /// 1 request; 1 write unit, and 2 for the index.
    pub async fn extend(&self, by: Duration) -> Result<(), Stop> {
        crate::settings::check_expect_within(by).map_err(Error::from)?;
        let now = self.context().now();
        Ok(self.act("extend the workflow", DriverAct::Extend(time::after(now, by))).await?)
    }

    /// Wait until this time: for a callback, an approval, or simply for a while. The run ends here, and a completer
    /// resumes the workflow then.
    ///
    /// A wait uses up no attempts and does not count as failing, however long it is. The time must be the same in every
    /// run: record it in a step, as a number or a text. To poll, ask in a step under a name of its own each time, such as `ask#3`, and wait
    /// again.
    ///
    /// # Errors
    ///
    /// [`Stop::Waiting`] until then; pass it on.
    pub fn wait_until(&self, time: DateTime<Utc>) -> Result<(), Stop> {
        if time <= self.now() { Ok(()) } else { Err(Stop::Waiting { until: time }) }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The partition.
    pub(crate) fn workflow(&self) -> &str {
        &self.inner.workflow
    }

    /// When the workflow was started.
    pub(crate) fn created(&self) -> DateTime<Utc> {
        self.inner.created
    }

    pub(crate) fn attempt(&self) -> &str {
        &self.inner.attempt
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.inner.run_id
    }

    /// Note that a step with a compensation, or a pivot, is about to begin.
    pub(crate) fn touch(&self) {
        self.inner.touched.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.inner.touched.load(Ordering::SeqCst)
    }

    pub(crate) fn until(&self) -> Until {
        // Nothing new begins any more, so this is to record what was done.
        if self.run_time().is_over() {
            self.until_recorded()
        } else {
            self.context().until(self.inner.deadline)
        }
    }

    /// Until when an outcome is recorded: no other record of it exists.
    pub(crate) fn until_recorded(&self) -> Until {
        let ended = self.run_time().ended().max(self.inner.deadline);
        let until =
            if self.longest().is_some() { ended.map(|ended| time::after(ended, GRACE)) } else { ended };
        self.context().until(until).for_end()
    }

    pub(crate) fn run_time(&self) -> &Arc<RunTime> {
        &self.inner.run_time
    }

    /// Do the work of a step. Hold on to what comes with its outcome until that is recorded.
    pub(crate) async fn doing<T>(&self, work: impl Future<Output = T>) -> (T, Recording) {
        let working = self.run_time().works();
        let outcome = work.await;
        (outcome, working.known())
    }

    /// Refuse to begin anything once the time of this run is over. That counts as an attempt if the run recorded
    /// nothing.
    pub(crate) fn check_open(&self, step: &str) -> Result<(), Stop> {
        if !self.run_time().is_over() {
            return Ok(());
        }
        Err(self.out_of_time(step, "the time of this run is over"))
    }

    /// The next run goes on with this step. That counts as an attempt if this one recorded nothing.
    pub(crate) fn out_of_time(&self, step: &str, cause: &str) -> Stop {
        Stop::Later {
            step: step.to_owned(),
            at: self.now(),
            cause: cause.to_owned(),
            counts: !self.has_progressed(),
            retry_for: None,
        }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.context().now()
    }

    /// Whether too little time is left in this run for a pause and then work of this expected duration. Of a step that
    /// does not say how long it takes, the default would keep short runs from starting anything.
    pub(crate) fn is_short_of(&self, pause: Duration, expected: Expected) -> bool {
        if self.run_time().is_over() {
            return true;
        }
        let Expected { time, is_said } = expected;
        let work = if is_said { time } else { time.min(self.inner.reserve) };
        let end = time::after(self.now(), pause.saturating_add(work));
        self.inner.deadline.is_some_and(|deadline| end >= deadline)
    }

    /// Use the limits of its type.
    pub(crate) fn abide_by(&self, limits: Limits) {
        let _ = self.inner.limits.set(limits);
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.inner.limits.get().unwrap_or_else(|| self.context().limits())
    }

    /// How long a run of this completer may take.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.inner.longest
    }

    pub(crate) fn reserve(&self) -> Duration {
        self.inner.reserve
    }

    pub(crate) async fn header(&self) -> Header {
        self.lock_header().await.clone()
    }

    pub(crate) async fn lock_header(&self) -> MutexGuard<'_, Header> {
        self.inner.header.lock().await
    }

    pub(crate) fn recorded(&self, id: &RecordId) -> Option<StepRecord> {
        locked(&self.inner.records).get(&id.reference()).cloned()
    }

    pub(crate) fn has_progressed(&self) -> bool {
        self.inner.progressed.load(Ordering::SeqCst)
    }

    pub(crate) fn remember(&self, record: StepRecord) {
        if matches!(record.state, StepState::Completed | StepState::Failed | StepState::Compensated) {
            self.inner.progressed.store(true, Ordering::SeqCst);
        }
        locked(&self.inner.records).insert(record.id.reference(), record);
    }

    /// Whether this run knows the outcome of the step of this item.
    pub(crate) fn has_settled(&self, item: &str) -> bool {
        let records = locked(&self.inner.records);
        let state = records.get(item).map(|record| record.state);
        matches!(state, Some(StepState::Completed | StepState::Failed))
    }

    pub(crate) fn records(&self) -> Vec<StepRecord> {
        self.records_that(|_| true)
    }

    pub(crate) fn records_that(&self, are: impl Fn(&StepRecord) -> bool) -> Vec<StepRecord> {
        locked(&self.inner.records).values().filter(|record| are(record)).cloned().collect()
    }

    /// Replace the known records by those just read.
    pub(crate) fn remember_all(&self, records: Vec<StepRecord>) {
        *locked(&self.inner.records) =
            records.into_iter().map(|record| (record.id.reference(), record)).collect();
    }

    /// Claim a name for one step of this run. The same name may be used again with another version of its key.
    pub(crate) fn take_name(&self, name: &str, version: Option<u32>) -> Result<(), Stop> {
        self.check_open(name)?;
        name::check(name).map_err(|error| Stop::name(name, &error))?;
        let version = version.unwrap_or(1);
        let used = Used { scope: self.scope.clone(), name: name.to_owned(), version };
        if locked(&self.inner.used).insert(used) {
            return Ok(());
        }
        Err(Stop::invalid(
            name,
            "another step of this workflow has the same name; make it unique, such as fund#7",
        ))
    }

    /// Whether this run has come to a step of the workflow itself with this name.
    pub(crate) fn has_reached(&self, name: &str) -> bool {
        locked(&self.inner.used).iter().any(|used| used.scope.is_none() && used.name == name)
    }

    /// A compensation is retried, so its steps may use their names again.
    pub(crate) fn forget_names(&self) {
        locked(&self.inner.used).retain(|used| used.scope != self.scope);
    }

    /// The latest time at which something was committed, as far as this run knows.
    pub(crate) fn latest_commit(&self) -> DateTime<Utc> {
        let records = locked(&self.inner.records);
        records.values().map(|record| record.created).max().unwrap_or(self.inner.created)
    }

    /// The messages of this run that are not sent.
    pub(crate) fn unsent(&self) -> &Unsent {
        &self.inner.unsent
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.inner.number.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    pub(crate) fn fingerprint(&self, input: &impl Serialize) -> Result<Fingerprint, Stop> {
        Fingerprint::of_json(input).map_err(|error| Error::from(error).into())
    }

    /// A step as its code asks for it now.
    pub(crate) fn new_step(&self, id: RecordId, kind: StepKind, input: Option<&Fingerprint>) -> NewStep {
        NewStep {
            input: input.map(|input| input.stored(self.context().fingerprint_keys()).text),
            ..NewStep::of(id, kind, self.attempt().to_owned(), self.created(), self.next_number())
        }
    }

    /// Encode a result for the record of a step.
    pub(crate) fn encode(&self, json: String) -> Result<Encoded, Stop> {
        answer::encode_for_item(json).map_err(|error| Error::from(error).into())
    }
}
