//! Reports of outcomes that do not come from the recorded attempt: from outside, or from a driver
//! whose step was taken over or cancelled.

use chrono::{DateTime, Utc};

use super::{Intent, NewStep, RecordId, StepData, StepKind, StepRecord, StepResult, StepState};
use crate::core::workflow::compensation::{self, Compensated};
use crate::core::workflow::header::{Header, HeaderEvent, Stamp};
use crate::core::workflow::place::{Former, Place};

/// The answer to a reported outcome. See
/// [`Workflows::report`](crate::workflow::Workflows::report).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "`Busy` and `Unknown` wrote nothing: report again; `Contradicts` and `NotAnEffect` need an operator"]
#[non_exhaustive]
pub enum Reported {
    /// The outcome is the result or the failure of the step, and the workflow resumes. If an
    /// operator closed the workflow and the step is a compensation that happened, the workflow is
    /// quarantined: the operator may have undone the same effect.
    Recorded,
    /// The step was cancelled, or the workflow has taken another branch or has ended. The workflow
    /// compensates the step once. If it is in quarantine, or an operator closed it, an operator
    /// decides first.
    Compensates,
    /// Another result is recorded under the same idempotency key, so the step may have happened
    /// twice. The workflow is quarantined, and both results are shown.
    ///
    /// The same answer applies to a step of a compensation that happened after it failed, or under
    /// a former version of its key: nothing compensates that step.
    Twice,
    /// The same outcome is recorded. **Repeating a report is harmless.**
    Known,
    /// The report states that the step did not happen, but its record states that it did. Nothing
    /// was written: let an operator investigate.
    Contradicts,
    /// The driver that started the step may be running it, and reports the outcome itself. Nothing
    /// was written: report the outcome again after this time.
    Busy(DateTime<Utc>),
    /// The workflow or the step is unknown. **Nothing was written:** keep the outcome. For example,
    /// answer the provider with an error, so that the provider sends the outcome again.
    ///
    /// The workflow does not exist or is deleted, it has not started this step under this version
    /// of its key, or it has continued as another version and the report names no version.
    Unknown,
    /// The step is a `step`, an `atomic` or a timer, whose outcome only its own driver records.
    /// Nothing was written: the name of the step in the report is wrong.
    NotAnEffect,
}

/// Whether a step happened.
#[derive(Debug, Clone)]
pub(crate) enum Happened {
    /// The step happened, with this result.
    Yes(StepResult),
    /// The step did not happen and never will. This is its failure.
    No(StepResult),
}

/// The outcome of a step.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The version of the step's key.
    pub(crate) version: u32,
    /// Whether the reporter named the version. Otherwise the outcome may be of any version.
    pub(crate) is_version_named: bool,
    pub(crate) happened: Happened,
    pub(crate) ended: DateTime<Utc>,
    /// The compensation that the code declared, for a record without one.
    pub(crate) compensation: Option<Intent>,
    /// Whether this is certainly the effect whose result is already recorded: the provider
    /// recognises its key, or a probe asked the provider.
    pub(crate) is_same_effect: bool,
    /// Whether the step happened, but its real result cannot be recorded. The result here is the
    /// reason.
    pub(crate) is_unrecorded: bool,
    /// Whether a driver may still be running the step, and the reporter can report again later.
    pub(crate) waits: bool,
}

/// An outcome, and the step that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The record of the step.
    pub(crate) step: RecordId,
    /// The workflow that the reporter names.
    pub(crate) run: String,
    /// The step in that workflow, for an outcome that gets a separate record next to the step.
    pub(crate) place: NewStep,
    pub(crate) outcome: Outcome,
}

/// The items on which a decision depends, as they were read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) step: Option<StepRecord>,
    /// The header of the workflow that the reporter names.
    pub(crate) reporter: Option<Header>,
    /// The header of the workflow that compensates the step. If the step has its own key, this may
    /// be another workflow than the reporter's.
    pub(crate) answerer: Option<Header>,
    /// Outcomes next to the step that were read.
    pub(crate) beside: Vec<(RecordId, Option<StepRecord>)>,
}

/// The next act for a report.
#[derive(Debug)]
pub(crate) enum Decision<'a> {
    /// Read the record at this place, which is next to the step, and decide again.
    Read(RecordId),
    /// Write these items in one transaction, conditional on the items that were read.
    Write {
        reported: Reported,
        steps: Vec<(Option<&'a StepRecord>, StepRecord)>,
        headers: Vec<(Option<&'a Header>, Header)>,
    },
    /// Write nothing.
    Answer(Reported),
}

impl Report {
    /// Decides about the outcome. Each outcome gets an answer.
    pub(crate) fn decide<'a>(&'a self, seen: &'a Seen, stamp: &'a Stamp) -> Decision<'a> {
        let Some(step) = &seen.step else { return Decision::Answer(Reported::Unknown) };
        let case = Case { report: self, outcome: &self.outcome, step, seen, stamp };
        let is_former = self.outcome.version < step.key_version;
        let refused = match step.kind {
            StepKind::Step | StepKind::Atomic | StepKind::Timer => Some(Reported::NotAnEffect),
            StepKind::Pointer => Some(Reported::Unknown),
            _ if self.outcome.version > step.key_version => Some(Reported::Unknown),
            _ if is_former && !self.outcome.is_version_named => Some(Reported::Unknown),
            _ if is_former || !self.outcome.waits => None,
            _ => step.busy_until(stamp.skew).filter(|until| *until > stamp.now).map(Reported::Busy),
        };
        match (refused, &self.outcome.happened) {
            (Some(refused), _) => Decision::Answer(refused),
            (None, Happened::Yes(result)) => case.happened(result),
            (None, Happened::No(_)) if is_former => case.known(),
            (None, Happened::No(failure)) => case.never_happened(failure),
        }
    }
}

/// The reason of a quarantine for a second outcome.
const TWO_OUTCOMES: &str =
    "a step may have happened twice: two outcomes came, and the provider did not recognise the key";
/// The reason of a quarantine for the outcome of a compensation after a close.
const UNDONE_AFTER_A_CLOSE: &str = "a compensation in doubt happened, and an operator has closed the workflow: check \
     with the provider whether the same effect was undone twice, and repair that; skip each late step that you \
     repaired, then retry the workflow";

/// The record of a late outcome must be compensated. Only the outcome for which a quarantine waits
/// ends the quarantine: an outcome next to a step says nothing about the step itself.
fn late(record: &RecordId) -> HeaderEvent {
    HeaderEvent::Late { item: record.reference() }
}

/// An outcome, and the record of its step.
struct Case<'a> {
    report: &'a Report,
    outcome: &'a Outcome,
    step: &'a StepRecord,
    seen: &'a Seen,
    stamp: &'a Stamp,
}

impl<'a> Case<'a> {
    fn happened(&self, result: &StepResult) -> Decision<'a> {
        use StepState::{Cancelled, Compensated, Completed, Failed, Freed, Held, Late, Started, Withdrawn};
        let (step, version) = (self.step, self.outcome.version);
        match step.state {
            // The code received the failure, and may have taken another branch.
            Failed => return self.left_behind(result),
            _ if version < step.key_version || step.settled.contains(version) => {
                return self.left_behind(result);
            }
            Completed | Late | Compensated if self.is_recorded(step, result) => return self.known(),
            Completed | Late | Compensated => return self.twice(result),
            Started | Held | Withdrawn | Freed | Cancelled => {}
        }
        let Some(header) = &self.seen.answerer else { return Decision::Answer(Reported::Unknown) };
        let is_forward = header.is_forward() && step.state != Cancelled;
        if !is_forward && !self.is_of_compensation() {
            let steps = vec![(Some(step), self.ended(Late, result))];
            return self.write(Reported::Compensates, steps, header, &late(&self.report.step));
        }
        let state = if self.outcome.is_unrecorded { Held } else { Completed };
        let steps = vec![(Some(step), self.ended(state, result))];
        let event = if self.is_after_a_close(header, result) {
            HeaderEvent::Twice { why: UNDONE_AFTER_A_CLOSE }
        } else {
            self.settled()
        };
        self.write(Reported::Recorded, steps, header, &event)
    }

    /// Returns whether the step of a compensation happened, and an operator has closed its workflow
    /// without knowing that.
    fn is_after_a_close(&self, header: &Header, result: &StepResult) -> bool {
        let is_own = self.seen.reporter.as_ref().is_some_and(|own| own.run_id() == header.run_id());
        let found_nothing = || {
            self.step.kind == StepKind::Compensation
                && compensation::read(result) == Some(Compensated::Nothing)
        };
        // A retry lets only later steps run. The number shows the order.
        let is_before_the_close = header.closed_after.is_some_and(|seen| self.step.number <= seen);
        is_before_the_close && is_own && self.is_of_compensation() && !found_nothing()
    }

    fn never_happened(&self, failure: &StepResult) -> Decision<'a> {
        use StepState::{Cancelled, Compensated, Completed, Failed, Freed, Held, Late, Started, Withdrawn};
        match (self.step.state, &self.seen.answerer) {
            (Completed | Late | Compensated, _) => Decision::Answer(Reported::Contradicts),
            (Failed | Withdrawn | Freed, _) => self.known(),
            (Started | Held | Cancelled, None) => Decision::Answer(Reported::Unknown),
            // A compensation that waits for a cancelled step has nothing to do.
            (Started | Held | Cancelled, Some(header)) => {
                let steps = vec![(Some(self.step), self.ended(Failed, failure))];
                self.write(Reported::Recorded, steps, header, &self.settled())
            }
        }
    }

    /// Decides about a step that happened, although the code continued after its failure or the
    /// step has a later version of its key. The outcome gets a separate record next to the step,
    /// and is compensated.
    fn left_behind(&self, result: &StepResult) -> Decision<'a> {
        let (step, version) = (self.step, self.outcome.version);
        let id = self.report.place.id.beside(Former { version, digest: None });
        let Some(found) = self.seen.beside(&id) else { return Decision::Read(id) };
        match (found, &self.seen.reporter) {
            (Some(found), _) if self.is_recorded(found, result) => self.known(),
            (None, _) if step.settled.contains(version) => self.known(),
            (Some(_), _) => self.twice(result),
            // Nothing compensates the steps of a compensation.
            (None, _) if self.is_of_compensation() => self.twice(result),
            (None, None) => Decision::Answer(Reported::Unknown),
            (None, Some(header)) => {
                let record = self.apart(id.clone(), self.outcome.compensation.clone(), result);
                let mut steps = vec![(None, record)];
                // Several workflows may report the outcome of a step with its own key. The record
                // that they share keeps the version, so that only one workflow compensates it.
                if step.started_for.is_some() {
                    let mut next = self.rewritten();
                    next.settled = next.settled.with(version);
                    steps.push((Some(step), StepRecord(next)));
                }
                self.write(Reported::Compensates, steps, header, &late(&id))
            }
        }
    }

    /// Decides about a second result under one idempotency key. An operator decides whether it is
    /// another effect. The sort key of its record contains the digest of the result, so a repeated
    /// report finds the record.
    fn twice(&self, result: &StepResult) -> Decision<'a> {
        let digest = short(&result.digest());
        let former = Former { version: self.outcome.version, digest: Some(&digest) };
        let id = self.report.place.id.beside(former);
        match (self.seen.beside(&id), &self.seen.reporter) {
            (None, _) => Decision::Read(id),
            (Some(Some(_)), _) => self.known(),
            (Some(None), None) => Decision::Answer(Reported::Unknown),
            (Some(None), Some(header)) => {
                let steps = vec![(None, self.apart(id, None, result))];
                self.write(Reported::Twice, steps, header, &HeaderEvent::Twice { why: TWO_OUTCOMES })
            }
        }
    }

    /// Decides about an outcome that is recorded. If the workflow is quarantined for the step, it
    /// becomes due. Otherwise nothing is written.
    fn known(&self) -> Decision<'a> {
        let item = self.report.step.reference();
        match self.seen.reporter.as_ref().filter(|header| header.awaits(&item)) {
            Some(header) => self.write(Reported::Known, Vec::new(), header, &self.settled()),
            None => Decision::Answer(Reported::Known),
        }
    }

    fn write(
        &self,
        reported: Reported,
        steps: Vec<(Option<&'a StepRecord>, StepRecord)>,
        header: &'a Header,
        event: &HeaderEvent,
    ) -> Decision<'a> {
        let is_settled = matches!(event, HeaderEvent::Settled { .. });
        let mut headers = Vec::new();
        match header.on(event, self.stamp.clone()) {
            Ok(next) => headers.push((Some(header), next)),
            // The workflow ended without this step, so its header needs no change: an operator
            // closed it during a compensation, or its code ignored the step.
            Err(_) if is_settled && header.state.is_final() => {}
            Err(_) => return Decision::Answer(Reported::Unknown),
        }
        // If another workflow compensates the step, the reporter's workflow may also wait for it.
        // Its driver may be about to wait: it has read the step and has not yet written the header.
        let item = self.report.step.reference();
        let waits = |other: &&Header| other.awaits(&item) || other.locked_by.is_some();
        let other = self.seen.reporter.as_ref().filter(|other| other.run_id() != header.run_id());
        if let Some(other) = other.filter(waits).filter(|_| is_settled)
            && let Ok(next) = other.on(event, self.stamp.clone())
        {
            headers.push((Some(other), next));
        }
        Decision::Write { reported, steps, headers }
    }

    /// Returns whether the record has the outcome of this report.
    fn is_recorded(&self, record: &StepRecord, result: &StepResult) -> bool {
        let same = record.result.as_ref().is_none_or(|known| known.digest() == result.digest());
        same || self.outcome.is_same_effect
    }

    /// Returns whether the step is a compensation or a step of a compensation. Its outcome is never
    /// compensated.
    fn is_of_compensation(&self) -> bool {
        matches!(self.report.place.id.place(), Ok(Place::Compensation { .. } | Place::Nested { .. }))
    }

    fn settled(&self) -> HeaderEvent {
        HeaderEvent::Settled { item: self.report.step.reference() }
    }

    fn rewritten(&self) -> StepData {
        StepData { revision: self.stamp.revision.clone(), ..self.step.0.clone() }
    }

    /// Returns the step with the outcome. The attempt changes, so later writes of the holder are
    /// refused.
    fn ended(&self, state: StepState, result: &StepResult) -> StepRecord {
        let mut next = StepData {
            attempt: self.stamp.attempt.clone(),
            state,
            result: Some(result.clone()),
            ended: Some(self.outcome.ended),
            ..self.rewritten()
        };
        if next.compensation.is_none() && next.started_for.is_none() {
            next.compensation.clone_from(&self.outcome.compensation);
        }
        StepRecord(next)
    }

    /// Returns the separate record of an outcome next to the step.
    fn apart(&self, id: RecordId, compensation: Option<Intent>, result: &StepResult) -> StepRecord {
        let new = NewStep { id, compensation, ..self.report.place.clone() };
        StepRecord(StepData {
            key_version: self.outcome.version,
            state: StepState::Late,
            result: Some(result.clone()),
            ended: Some(self.outcome.ended),
            ..StepData::new(&new, self.stamp)
        })
    }
}

/// Returns the ten digits of the digest that are part of the sort key.
fn short(digest: &str) -> String {
    digest.chars().take(10).collect()
}

impl Seen {
    /// Returns the record that was read at this place. `None`: the place was not read.
    fn beside(&self, id: &RecordId) -> Option<Option<&StepRecord>> {
        self.beside.iter().find(|(place, _)| place == id).map(|(_, record)| record.as_ref())
    }
}
