//! The records of steps as a run knows them.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use chrono::{DateTime, Utc};

use super::{Flow, locked};
use crate::core::fingerprint::Fingerprint;
use crate::core::name::Branch;
use crate::core::private::Private;
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{NewStep, RecordId, StepKind, StepRecord, StepState};

/// The steps of the workflow that this run knows.
#[derive(Debug)]
pub(super) struct Records {
    /// By their references.
    known: Private<Mutex<HashMap<String, StepRecord>>>,
    /// The number of the step that began last.
    number: AtomicU32,
    /// Whether an outcome was recorded in this run.
    progressed: AtomicBool,
    /// Whether this run began a step that has a compensation or is a pivot.
    touched: AtomicBool,
}

impl Records {
    /// `number`: of a step that may have begun, and whose record was not read.
    pub(super) fn of(records: Vec<StepRecord>, number: u32) -> Self {
        let last = records.iter().map(|record| record.number).max().unwrap_or_default();
        Self {
            known: Private(Mutex::new(by_reference(records))),
            number: AtomicU32::new(last.max(number)),
            progressed: AtomicBool::new(false),
            touched: AtomicBool::new(false),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }
}

fn by_reference(records: Vec<StepRecord>) -> HashMap<String, StepRecord> {
    records.into_iter().map(|record| (record.id.reference(), record)).collect()
}

impl Flow {
    pub(crate) fn recorded(&self, id: &RecordId) -> Option<StepRecord> {
        locked(&self.inner.records.known).get(&id.reference()).cloned()
    }

    pub(crate) fn has_progressed(&self) -> bool {
        self.inner.records.progressed.load(Ordering::SeqCst)
    }

    /// An outcome was recorded in this run.
    pub(crate) fn has_recorded(&self) {
        self.inner.records.progressed.store(true, Ordering::SeqCst);
    }

    /// Remembers a record that this run has written.
    pub(crate) fn remember(&self, record: StepRecord) {
        if matches!(record.state, StepState::Completed | StepState::Failed | StepState::Compensated) {
            self.has_recorded();
        }
        self.note(record);
    }

    /// Remembers a record that this run has read.
    pub(crate) fn note(&self, record: StepRecord) {
        locked(&self.inner.records.known).insert(record.id.reference(), record);
    }

    /// Whether this run knows the outcome of the step of this item.
    pub(crate) fn has_settled(&self, item: &str) -> bool {
        let records = locked(&self.inner.records.known);
        let state = records.get(item).map(|record| record.state);
        matches!(state, Some(StepState::Completed | StepState::Failed))
    }

    pub(crate) fn records(&self) -> Vec<StepRecord> {
        self.records_that(|_| true)
    }

    pub(crate) fn records_that(&self, are: impl Fn(&StepRecord) -> bool) -> Vec<StepRecord> {
        locked(&self.inner.records.known).values().filter(|record| are(record)).cloned().collect()
    }

    /// The branches of this map that have a step with a record.
    pub(crate) fn begun_branches(&self, map: &str) -> HashSet<Branch> {
        let known = locked(&self.inner.records.known);
        let paths = known.values().filter_map(|record| match record.id.place() {
            Ok(Place::Step(path)) if !self.is_of_compensation() => Some(path),
            Ok(Place::Nested { step, .. }) if self.place_of(step).to_string() == record.id.item => Some(step),
            _ => None,
        });
        paths.filter_map(|path| self.branch().of_map_with(map, path)).collect()
    }

    /// Replaces the known records by those just read.
    pub(crate) fn remember_all(&self, records: Vec<StepRecord>) {
        *locked(&self.inner.records.known) = by_reference(records);
    }

    /// Notes that a step with a compensation, or a pivot, is about to begin.
    pub(crate) fn touch(&self) {
        self.inner.records.touched.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.inner.records.touched.load(Ordering::SeqCst)
    }

    /// Returns the latest time of a commit that this run knows.
    pub(crate) fn latest_commit(&self) -> DateTime<Utc> {
        let records = locked(&self.inner.records.known);
        records.values().map(|record| record.created).max().unwrap_or(self.inner.created)
    }

    fn next_number(&self) -> u32 {
        self.inner.records.number.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// A step as its code asks for it now.
    pub(crate) fn new_step(&self, id: RecordId, kind: StepKind, input: Option<&Fingerprint>) -> NewStep {
        NewStep {
            input: input.map(|input| input.stored(self.context().fingerprint_keys()).text),
            ..NewStep::of(id, kind, self.attempt().to_owned(), self.created(), self.next_number())
        }
    }
}
