//! A workflow while it is driven: its recovery points, and the fence around its driver.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::MutexGuard;

use super::atomic::Atomic;
use super::once::Once;
use super::step::Step;
use super::stop::Stop;
use super::workflows::Workflows;
use crate::core::answer::Encoded;
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::time;
use crate::core::workflow::header::Header;
use crate::core::workflow::name;
use crate::core::workflow::record::{self, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::store::Until;

/// A workflow on its way: what [`Workflow::run`](super::Workflow::run) makes its steps with.
///
/// Clones are the same workflow. Steps may run side by side, each under its own name.
#[derive(Debug, Clone)]
pub struct Flow {
    inner: Arc<Inner>,
    /// Of the step whose undoing this is given to, so that its steps have names of their own.
    scope: Option<Arc<str>>,
}

#[derive(Debug)]
struct Inner {
    workflows: Workflows,
    key: Key,
    workflow: String,
    version: u32,
    created: DateTime<Utc>,
    run_id: String,
    attempt: String,
    /// Whether anything was recorded in this drive.
    progressed: AtomicBool,
    /// Whether a step was begun in this drive that would have to be undone, or cannot be.
    touched: AtomicBool,
    header: tokio::sync::Mutex<Header>,
    records: Mutex<HashMap<String, StepRecord>>,
    used: Mutex<HashSet<String>>,
    number: AtomicU32,
    deadline: Option<DateTime<Utc>>,
    /// Nothing is started that may need more than this, up to what it expects, beyond the deadline.
    reserve: Duration,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow {
    pub(crate) fn new(
        workflows: Workflows,
        header: Header,
        records: Vec<StepRecord>,
        deadline: Option<DateTime<Utc>>,
    ) -> Self {
        let key = header.workflow.split(' ').next().unwrap_or_default().to_owned();
        let number = records.iter().map(|record| record.number).max().unwrap_or_default();
        Self {
            inner: Arc::new(Inner {
                workflows,
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
                reserve: Duration::ZERO,
            }),
            scope: None,
        }
    }

    /// The same, where a drive is broken off at its deadline.
    pub(crate) fn reserving(mut self, reserve: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.reserve = reserve;
        }
        self
    }

    /// The same for the undoing of a step.
    pub(crate) fn within(&self, scope: &str) -> Self {
        Self { inner: Arc::clone(&self.inner), scope: Some(scope.into()) }
    }

    /// A name of a step as it is recorded. Names have no `~`.
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

    /// Until when this drive should be done, if its caller said so.
    #[must_use]
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.inner.deadline
    }

    /// A step that runs **at least once**: again if it is not known that its result was recorded.
    ///
    /// For reads, and for what may happen twice. What has to be undone is a [`once`](Self::once).
    pub fn step(&self, name: impl Into<String>) -> Step<'_> {
        Step::new(self, name.into())
    }

    /// A step that runs **at most once**: recorded before it runs, so that nobody repeats it who does not
    /// know how it ended. What changes something outside DynamoDB is such a step.
    pub fn once(&self, name: impl Into<String>) -> Once<'_> {
        Once::new(self, name.into())
    }

    /// A step that happens **exactly once**, inside DynamoDB: the caller's rows, its messages and its
    /// recovery point in one transaction.
    pub fn atomic(&self, name: impl Into<String>) -> Atomic<'_> {
        Atomic::new(self, name.into())
    }

    /// Ask for more time: nobody takes the workflow over until so long from now.
    ///
    /// # Errors
    ///
    /// [`Stop::Lost`] if somebody has already, [`Stop::Store`].
    ///
    /// # Cost
    ///
    /// 1 request; 1 write unit, and 2 for the index.
    pub async fn extend(&self, by: Duration) -> Result<(), Stop> {
        crate::settings::check_expect_within(by).map_err(Error::from)?;
        let now = self.workflows().now();
        self.change("extend the workflow", |header| {
            header.next_due = header.next_due.max(time::after(now, by))
        })
        .await
    }

    pub(crate) fn workflows(&self) -> &Workflows {
        &self.inner.workflows
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

    /// A step is begun that would have to be undone, or cannot be.
    pub(crate) fn touch(&self) {
        self.inner.touched.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.inner.touched.load(Ordering::SeqCst)
    }

    pub(crate) fn until(&self) -> Until {
        self.workflows().until(self.inner.deadline)
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.workflows().now()
    }

    /// Whether this drive has no time for what is expected to take so long.
    pub(crate) fn is_short_of(&self, expected: Duration) -> bool {
        let end = time::after(self.now(), expected.min(self.inner.reserve));
        self.inner.deadline.is_some_and(|deadline| end >= deadline)
    }

    pub(crate) fn reserve(&self) -> Duration {
        self.inner.reserve
    }

    pub(crate) async fn header(&self) -> Header {
        self.lock_header().await.clone()
    }

    pub(super) async fn lock_header(&self) -> MutexGuard<'_, Header> {
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

    /// Take in what was read anew.
    pub(crate) fn remember_all(&self, records: Vec<StepRecord>) {
        *locked(&self.inner.records) =
            records.into_iter().map(|record| (record.id.item.clone(), record)).collect();
    }

    /// Take a name for one step of this drive. Under another version of its key it may be asked for again.
    pub(crate) fn take_name(&self, name: &str, version: Option<u32>) -> Result<(), Stop> {
        name::check(name).map_err(|error| Stop::name(name, &error))?;
        let used = format!("{}~~{}", self.full_name(name), version.unwrap_or(1));
        if locked(&self.inner.used).insert(used) {
            return Ok(());
        }
        Err(Stop::invalid(
            name,
            "its name was used before in this workflow; add what it is about, such as fund#7",
        ))
    }

    /// An undoing is tried again: its steps may be asked for again.
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

    /// A record of a step that begins now.
    pub(crate) fn new_record(&self, id: RecordId, kind: StepKind, input: Option<&Fingerprint>) -> StepRecord {
        let now = self.now();
        StepRecord {
            id,
            kind,
            state: StepState::Started,
            revision: self.workflows().new_id(),
            attempt: self.workflows().new_id(),
            owner: self.attempt().to_owned(),
            started_for: None,
            created: now,
            due: now,
            ended: None,
            number: self.next_number(),
            input: input.map(|input| input.stored(self.workflows().fingerprint_keys())),
            key_version: 1,
            pivot: false,
            undo: None,
            points_to: None,
            result: None,
            ttl: None,
            intervention: None,
        }
    }

    /// A result as a record holds it.
    pub(crate) fn encode(&self, json: String) -> Result<Encoded, Stop> {
        record::encode(json).map_err(|error| Error::from(error).into())
    }
}
