//! A workflow while it is driven: its recorded steps, and what its driver owns.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::MutexGuard;

use super::stop::Stop;
use crate::core::answer::{self, Encoded};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::time;
use crate::core::workflow::header::Header;
use crate::core::workflow::name;
use crate::core::workflow::step::{RecordId, StepKind, StepRecord};
use crate::error::Error;
use crate::store::Until;
use crate::workflow::context::Context;

/// A running workflow, with which [`Workflow::run`](super::Workflow::run) makes its steps.
///
/// Clones refer to the same workflow. Steps may run concurrently, each under its own name.
#[derive(Debug, Clone)]
pub struct Flow {
    inner: Arc<Inner>,
    /// Set for the compensation of a step, so that the steps of the compensation have names of their own.
    scope: Option<Arc<str>>,
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
    /// Whether anything was recorded in this run.
    progressed: AtomicBool,
    /// Whether this run began a step that has a compensation or is a pivot.
    touched: AtomicBool,
    header: tokio::sync::Mutex<Header>,
    records: Mutex<HashMap<String, StepRecord>>,
    used: Mutex<HashSet<String>>,
    number: AtomicU32,
    deadline: Option<DateTime<Utc>>,
    /// Time kept free before the deadline: a step whose duration is not said starts only if this remains.
    reserve: Duration,
    /// How long a run may take, if it is one of a completer.
    longest: Option<Duration>,
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
        deadline: Option<DateTime<Utc>>,
    ) -> Self {
        let key = header.workflow.split(' ').next().unwrap_or_default().to_owned();
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
                    records.into_iter().map(|record| (record.id.item.clone(), record)).collect(),
                ),
                used: Mutex::default(),
                number: AtomicU32::new(number),
                deadline,
                reserve,
                longest: None,
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

    /// The same for the compensation of a step.
    pub(crate) fn within(&self, scope: &str) -> Self {
        Self { inner: Arc::clone(&self.inner), scope: Some(scope.into()) }
    }

    /// The name of a step as it is recorded. Names contain no `~`.
    pub(crate) fn full_name(&self, name: &str) -> String {
        self.scope.as_ref().map_or_else(|| name.to_owned(), |scope| format!("{name}~in~{scope}"))
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
        Ok(self
            .change("extend the workflow", |header| {
                header.next_due = header.next_due.max(time::after(now, by))
            })
            .await?)
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
        self.context().until(self.inner.deadline)
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.context().now()
    }

    /// Whether too little time is left in this run for a pause and then work of this expected duration. Of a step that
    /// does not say how long it takes, the default would keep short runs from starting anything.
    pub(crate) fn is_short_of(&self, pause: Duration, expected: Expected) -> bool {
        let Expected { time, is_said } = expected;
        let work = if is_said { time } else { time.min(self.inner.reserve) };
        let end = time::after(self.now(), pause.saturating_add(work));
        self.inner.deadline.is_some_and(|deadline| end >= deadline)
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
        locked(&self.inner.records).get(&id.item).cloned()
    }

    pub(crate) fn has_progressed(&self) -> bool {
        self.inner.progressed.load(Ordering::SeqCst)
    }

    pub(crate) fn remember(&self, record: StepRecord) {
        self.inner.progressed.store(true, Ordering::SeqCst);
        locked(&self.inner.records).insert(record.id.item.clone(), record);
    }

    pub(crate) fn records(&self) -> Vec<StepRecord> {
        locked(&self.inner.records).values().cloned().collect()
    }

    /// Replace the known records by those just read.
    pub(crate) fn remember_all(&self, records: Vec<StepRecord>) {
        *locked(&self.inner.records) =
            records.into_iter().map(|record| (record.id.item.clone(), record)).collect();
    }

    /// Claim a name for one step of this run. The same name may be used again with another version of its key.
    pub(crate) fn take_name(&self, name: &str, version: Option<u32>) -> Result<(), Stop> {
        name::check(name).map_err(|error| Stop::name(name, &error))?;
        let used = format!("{}~~{}", self.full_name(name), version.unwrap_or(1));
        if locked(&self.inner.used).insert(used) {
            return Ok(());
        }
        Err(Stop::invalid(
            name,
            "another step of this workflow has the same name; make it unique, such as fund#7",
        ))
    }

    /// A compensation is retried, so its steps may use their names again.
    pub(crate) fn forget_names(&self) {
        let scope = format!("~in~{}~~", self.scope.as_deref().unwrap_or_default());
        locked(&self.inner.used).retain(|used| !used.contains(&scope));
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.inner.number.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    pub(crate) fn fingerprint(&self, input: &impl Serialize) -> Result<Fingerprint, Stop> {
        Fingerprint::of_json(input).map_err(|error| Error::from(error).into())
    }

    /// The record of a step that starts now.
    pub(crate) fn new_record(&self, id: RecordId, kind: StepKind, input: Option<&Fingerprint>) -> StepRecord {
        let (ids, owner) = ((self.context().new_id(), self.context().new_id()), self.attempt().to_owned());
        StepRecord {
            input: input.map(|input| input.stored(self.context().fingerprint_keys()).text),
            ..StepRecord::started(id, kind, ids, owner, self.next_number(), self.now())
        }
    }

    /// Encode a result for the record of a step.
    pub(crate) fn encode(&self, json: String) -> Result<Encoded, Stop> {
        answer::encode_for_item(json).map_err(|error| Error::from(error).into())
    }
}
