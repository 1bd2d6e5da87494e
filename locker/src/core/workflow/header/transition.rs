//! The state machine of a workflow: the header after each event.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    Claim, DriverAct, Events, Failures, Header, HeaderData, HeaderEvent, HeaderRefusal, List, MostCrashes,
    OperatorAct, Pause, ReaperAct, Stamp, State,
};
use crate::core::answer::Body;
use crate::core::restored;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::core::workflow::decide::{self, Standing};

/// A workflow that starts.
#[derive(Debug, Clone)]
pub(crate) struct NewWorkflow {
    pub(crate) workflow: String,
    pub(crate) name: String,
    pub(crate) code: u32,
    pub(crate) key_version: u32,
    /// The driver that starts the workflow. `None`: a completer drives it.
    pub(crate) owner: Option<String>,
    /// The earliest time of the first run, if a completer drives the workflow.
    pub(crate) not_before: Option<DateTime<Utc>>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) input: Option<Body>,
    pub(crate) expected: Duration,
    pub(crate) retention: Retention,
    pub(crate) within: Option<Work>,
    /// In a restored table: when an operator allowed the work that starts the workflow.
    pub(crate) opened: Option<DateTime<Utc>>,
    pub(crate) continues: Option<Continues>,
}

/// The data that a new version takes over from the version before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Continues {
    /// The first version.
    pub(crate) first: u32,
    /// The number of unread events that move to the new version.
    pub(crate) events: u32,
    /// See [`HeaderData::follows_waits`].
    pub(crate) follows_waits: bool,
}

impl Header {
    /// Returns the header of a workflow that starts now.
    pub(crate) fn started(new: NewWorkflow, stamp: Stamp) -> Self {
        let now = stamp.now;
        let driven = new.owner.is_some();
        // The time of its attempts counts from here on.
        let begins = new.not_before.map_or(now, |at| at.max(now));
        Self(HeaderData {
            workflow: new.workflow,
            name: new.name,
            code: new.code,
            state: State::Running,
            listed: Some(List::Unfinished),
            next_due: if driven { time::after(now, new.expected) } else { begins },
            revision: stamp.revision,
            attempt: stamp.attempt,
            locked_by: new.owner,
            attempts: u32::from(driven),
            lost_in_a_row: u32::from(driven),
            lost_without_progress: u32::from(driven),
            lost_in_all: 0,
            since: if driven { now } else { begins },
            created: now,
            ended: None,
            closed: false,
            closed_after: None,
            fingerprint: new.fingerprint,
            input: new.input,
            result: None,
            ending: None,
            reason: None,
            waits_for: None,
            expected: new.expected,
            retention: new.retention,
            key_version: new.key_version,
            continued_as: None,
            continues: new.continues.map(|continues| continues.first),
            follows_waits: new.continues.is_some_and(|continues| continues.follows_waits),
            intervention: None,
            opened: new.opened,
            within: new.within,
            reported: false,
            signals: new.continues.map_or(0, |continues| continues.events),
            surplus: 0,
            waits: None,
            stands: false,
            failures: Failures::default(),
        })
    }

    /// Returns the header of a workflow whose start is held for an operator, because the table was
    /// restored. An operator's retry starts it.
    pub(crate) fn held(new: NewWorkflow, requested: Option<DateTime<Utc>>, stamp: Stamp) -> Self {
        let mut header = Self::started(new, stamp.clone()).0;
        header.quarantine(restored::cause(requested), None, &stamp);
        Self(header)
    }

    /// Returns the header of a workflow that an operator cancels before it was started. The header
    /// refuses a later start.
    pub(crate) fn cancelled(new: NewWorkflow, by: Intervention, stamp: Stamp) -> Self {
        let mut header = Self::started(new, stamp.clone()).0;
        header.ending = Some(State::Cancelled);
        header.intervention = Some(by);
        header.end(State::Cancelled, false, &stamp);
        header.reason = Some("cancelled before it was started".to_owned());
        Self(header)
    }

    /// Returns the header after the event.
    pub(crate) fn on(&self, event: &HeaderEvent, stamp: Stamp) -> Result<Self, HeaderRefusal> {
        let mut next = self.clone().0;
        next.failures.settle();
        match event {
            HeaderEvent::Claim(claim) => next.claim(self, claim, &stamp)?,
            HeaderEvent::Driver { attempt, events, act } => {
                // Another driver has the workflow, or an operator or a late outcome has ended this
                // run. Without this, a suspended driver would end the workflow of its successor.
                if self.attempt != *attempt {
                    return Err(HeaderRefusal::Lost);
                }
                next.drive(act, *events, &stamp)?;
            }
            HeaderEvent::Operator { seen, by, act } => {
                // An outcome may have come since the operator decided.
                if self.revision != *seen {
                    return Err(HeaderRefusal::Changed);
                }
                next.operate(*act, by, &stamp)?;
            }
            HeaderEvent::Reaper { seen, act } => {
                if self.revision != *seen {
                    return Err(HeaderRefusal::Changed);
                }
                next.reap(act, &stamp)?;
            }
            HeaderEvent::Settled { item } => next.settled(item, &stamp)?,
            HeaderEvent::Late { item } => next.late(item, &stamp)?,
            HeaderEvent::Twice { why } => next.twice(why, &stamp)?,
            HeaderEvent::Signalled { is_waited_for, owed } => {
                next.signalled(*is_waited_for, *owed, &stamp)?;
            }
            HeaderEvent::Surplus if self.state == State::Reaping => return Err(HeaderRefusal::NotPossible),
            HeaderEvent::Surplus => next.surplus = next.surplus.saturating_add(1),
            HeaderEvent::Followed { version }
                if self.continued_as.is_some() && self.state != State::Reaping =>
            {
                next.continued_as = Some(*version);
            }
            HeaderEvent::Followed { .. } => return Err(HeaderRefusal::NotPossible),
        }
        next.revision = stamp.revision;
        Ok(Self(next))
    }
}

/// Cuts a reason. A panic message may have any length, and many readers read the header and the
/// index.
fn cut(reason: &str) -> String {
    const LONGEST: usize = 300;
    reason.chars().take(LONGEST).collect()
}

impl HeaderData {
    /// Begins a run. The run is counted here, so a run that kills its driver also counts.
    fn claim(&mut self, header: &Header, claim: &Claim, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        let same_owner = claim.is_named && self.locked_by.as_deref() == Some(claim.owner.as_str());
        match decide::standing(header, same_owner, stamp.now, stamp.skew) {
            Standing::Claimable => {}
            other => return Err(HeaderRefusal::Standing(other)),
        }
        // The row or the header that the driver read may be outdated: of a workflow that ended,
        // was deleted, and whose key was used again, perhaps by another type.
        if self.name != claim.name || self.created != claim.started {
            return Err(HeaderRefusal::Lost);
        }
        // Older code does not know the steps of newer code, and would leave out their effects.
        if self.code > claim.code {
            return Err(HeaderRefusal::Newer(self.code));
        }
        // The table may have forgotten steps that a driver ran before the restore.
        if claim.restored.is_some_and(|restored| restored.is_before(Some(header.requested()))) {
            self.quarantine(restored::cause(Some(self.created)), None, stamp);
            return Ok(());
        }
        self.code = claim.code;
        if let Some(driver) = &self.locked_by {
            self.failures.lose(driver, stamp.now);
            self.lost_in_all = self.lost_in_all.saturating_add(1);
        }
        if claim.progressed {
            self.progressed(stamp.now);
        }
        if let Some(reason) = claim.most_crashes.and_then(|most| self.crashed_too_often(most)) {
            self.quarantine(reason, None, stamp);
            return Ok(());
        }
        if let Some(expected) = claim.expected {
            self.expected = expected;
        }
        self.next_due = time::after(stamp.now, self.expected.max(claim.may_take));
        self.attempt.clone_from(&stamp.attempt);
        self.locked_by = Some(claim.owner.clone());
        for count in self.counts_of_the_run() {
            *count = count.saturating_add(1);
        }
        (self.waits_for, self.waits, self.reported) = (None, None, false);
        Ok(())
    }

    /// Returns the reason if too many runs have lost their driver.
    pub(crate) fn crashed_too_often(&self, most: MostCrashes) -> Option<String> {
        let last = self.reason.as_deref().map_or(String::new(), |reason| format!("; before that: {reason}"));
        let (in_a_row, in_all) = (self.lost_without_progress, self.lost_in_all);
        if in_a_row >= most.in_a_row {
            return Some(format!("{in_a_row} runs in a row killed or hung their driver{last}"));
        }
        (in_all >= most.in_all).then(|| {
            format!("{in_all} runs killed or hung their driver since an operator or the start{last}")
        })
    }

    /// Returns the counts that include the current run.
    fn counts_of_the_run(&mut self) -> [&mut u32; 3] {
        [&mut self.attempts, &mut self.lost_in_a_row, &mut self.lost_without_progress]
    }

    /// A run recorded an outcome. It may have lost its driver after that.
    fn progressed(&mut self, now: DateTime<Utc>) {
        (self.attempts, self.lost_without_progress, self.since) = (1, 0, now);
    }

    fn drive(&mut self, act: &DriverAct, events: Events, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        // A driver that ended or released the workflow must not write again. Each transition that
        // removes the owner also changes the attempt, so the attempt alone refuses such a
        // driver. The condition keeps the rule true for headers that no transition writes.
        if self.state.is_final() || self.locked_by.is_none() {
            return Err(HeaderRefusal::Lost);
        }
        let has_unread = self.signals > events.known;
        match (act, self.state) {
            // An event came between the query of the run and its end. If the code has not read it,
            // it is late, and may have a compensation.
            (
                DriverAct::Complete { .. } | DriverAct::Continue { .. } | DriverAct::Fail { .. },
                State::Running,
            )
            | (DriverAct::EndCompensated, State::Compensating)
                if has_unread =>
            {
                return Err(HeaderRefusal::Signalled);
            }
            (DriverAct::Extend { due, held_since }, _) => {
                // Two steps extend the claim side by side. The shorter one must not shorten it.
                self.next_due = self.next_due.max(*due);
                // No other driver reads the header until it is due, maybe days later. So operators
                // get a reason.
                if let Some(since) = held_since {
                    self.listed = Some(List::Failing);
                    self.reason = Some(format!("one driver has it since {}", time::to_text(*since)));
                }
            }
            (DriverAct::Complete { result, note }, State::Running) => {
                self.result.clone_from(result);
                self.end(State::Completed, events.owed, stamp);
                self.reason = note.as_deref().map(cut);
            }
            (DriverAct::Continue { version, note }, State::Running) => {
                self.continued_as = Some(*version);
                self.end(State::Continued, false, stamp);
                self.reason = note.as_deref().map(cut);
            }
            (DriverAct::Fail { result }, State::Running) => {
                self.result = Some(result.clone());
                self.end(State::Failed, events.owed, stamp);
            }
            (DriverAct::Compensate { result, reason }, State::Running) => {
                self.state = State::Compensating;
                self.ending = Some(State::Failed);
                self.result = Some(result.clone());
                self.reason = Some(reason.clone());
                self.failed(reason, stamp);
                self.attempt.clone_from(&stamp.attempt);
                // Its compensations have their own time.
                self.since = stamp.now;
                self.counts_of_the_run().into_iter().for_each(|count| *count = 1);
                self.lost_in_all = 0;
            }
            (DriverAct::EndCompensated, State::Compensating) => {
                self.end(self.ending.unwrap_or(State::Cancelled), events.owed, stamp);
            }
            // After the query of the run, an outcome was reported or an event came. It may be the
            // reason why the run stops, so the next run reads it at once.
            (DriverAct::Release { .. } | DriverAct::Quarantine { waits_for: Some(_), .. }, _)
                if self.reported || has_unread =>
            {
                self.due_now(stamp);
            }
            (DriverAct::Release { at, pause, reason, progressed, failing_after, waits }, _) => {
                if matches!(pause, Pause::Failed | Pause::BrokenOff) {
                    self.failed(reason, stamp);
                }
                self.release(*at, *pause, *progressed, stamp);
                self.reason = Some(cut(reason));
                self.waits.clone_from(waits);
                let failing = time::after(self.since, *failing_after) <= stamp.now;
                self.listed = Some(if failing { List::Failing } else { List::Unfinished });
            }
            (DriverAct::Quarantine { reason, waits_for }, _) => {
                self.failed(reason, stamp);
                self.quarantine(reason.clone(), waits_for.clone(), stamp);
            }
            _ => return Err(HeaderRefusal::NotPossible),
        }
        Ok(())
    }

    /// Adds the failure of the current run to the causes.
    fn failed(&mut self, reason: &str, stamp: &Stamp) {
        if let Some(driver) = &self.locked_by {
            self.failures.add(driver, reason, stamp.now);
        }
    }

    fn release(&mut self, at: DateTime<Utc>, pause: Pause, progressed: bool, stamp: &Stamp) {
        self.let_go(at, stamp);
        if progressed {
            self.progressed(stamp.now);
        }
        match pause {
            Pause::BrokenOff => {
                self.lost_in_all = self.lost_in_all.saturating_add(1);
                return;
            }
            Pause::NotRun => {
                for count in self.counts_of_the_run() {
                    *count = count.saturating_sub(1);
                }
                return;
            }
            Pause::Failed => {}
            Pause::Chosen => (self.attempts, self.since) = (0, at),
            Pause::Elsewhere => self.attempts = self.attempts.saturating_sub(1),
        }
        (self.lost_in_a_row, self.lost_without_progress) = (0, 0);
    }

    fn operate(&mut self, act: OperatorAct, by: &Intervention, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        if act == OperatorAct::Redact {
            return self.redact(by);
        }
        if self.state.is_final() {
            return Err(HeaderRefusal::NotPossible);
        }
        // The driver may be running the compensation.
        if act == OperatorAct::Dismiss && self.locked_by.is_some() {
            return Err(HeaderRefusal::NotPossible);
        }
        let was_quarantined = self.is_quarantined();
        self.intervention = Some(by.clone());
        if matches!(act, OperatorAct::Retry | OperatorAct::Compensate) {
            self.opened = Some(by.at);
        }
        // The workflow is in quarantine for another reason, and stays there.
        if act == OperatorAct::Dismiss && was_quarantined && !self.stands {
            return Ok(());
        }
        self.due_now(stamp);
        self.lost_in_all = 0;
        let ending = if self.result.is_some() { State::Failed } else { State::Cancelled };
        match act {
            // After a retry, runs compensate the steps and events that are late now.
            OperatorAct::Retry => self.closed = false,
            OperatorAct::Decide | OperatorAct::Dismiss | OperatorAct::Redact => {}
            // The next version runs. Completed steps of this version stay. Only a step that is
            // late is compensated.
            OperatorAct::Compensate if self.ending == Some(State::Continued) => {
                return Err(HeaderRefusal::NotPossible);
            }
            OperatorAct::Compensate => {
                self.state = State::Compensating;
                // Callers of a workflow that failed or was cancelled keep their outcome. Only an
                // answer is revoked.
                self.stands &= self.ending != Some(State::Completed);
                self.ending = Some(match self.ending {
                    // The compensation revokes the answer.
                    Some(State::Completed) => State::Cancelled,
                    known => known.unwrap_or(ending),
                });
                // Compensates all steps and events, and not only those that arrived after its end.
                (self.ended, self.closed, self.closed_after) = (None, false, None);
            }
            // In quarantine no driver runs the workflow. A driver could start a step that the
            // operator has not seen.
            OperatorAct::Close { seen } if was_quarantined => {
                self.end(self.ending.unwrap_or(ending), false, stamp);
                (self.closed, self.closed_after) = (true, Some(seen));
            }
            OperatorAct::Close { .. } => return Err(HeaderRefusal::NotPossible),
        }
        Ok(())
    }

    /// The state, the fingerprint and the retention stay.
    fn redact(&mut self, by: &Intervention) -> Result<(), HeaderRefusal> {
        if !self.may_redact() {
            return Err(HeaderRefusal::NotPossible);
        }
        for body in [&mut self.input, &mut self.result] {
            *body = body.take().map(|_| Body::Redacted);
        }
        // A reason may repeat a failure.
        self.reason = None;
        self.intervention = Some(by.clone());
        Ok(())
    }

    fn reap(&mut self, act: &ReaperAct, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        match act {
            ReaperAct::Keep(until) if self.state.is_kept() => self.next_due = *until,
            // A later run continues a deletion that was cut off.
            ReaperAct::Delete(until) if self.state.is_final() => {
                if self.state != State::Reaping {
                    self.ending = Some(self.state);
                }
                self.state = State::Reaping;
                self.next_due = *until;
                self.attempt.clone_from(&stamp.attempt);
            }
            // A driver has claimed the workflow after its last attempt. A quarantine would refuse
            // the writes of that driver.
            ReaperAct::Quarantine { reason }
                if !self.state.is_final() && !self.is_quarantined() && self.locked_by.is_none() =>
            {
                self.quarantine(reason.clone(), None, stamp);
            }
            _ => return Err(HeaderRefusal::NotPossible),
        }
        Ok(())
    }

    /// The step of this item has an outcome, so the workflow is due.
    ///
    /// If a driver is at work, it may have read the step before: the header notes the report. A
    /// workflow in quarantine for another reason stays there.
    fn settled(&mut self, item: &str, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        if self.state.is_final() {
            return Err(HeaderRefusal::NotPossible);
        }
        if self.locked_by.is_some() {
            self.reported = true;
        } else if !self.is_quarantined() || self.awaits(item) {
            self.due_now(stamp);
        }
        Ok(())
    }

    /// The late step of this item must be compensated.
    fn late(&mut self, item: &str, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        const WHY: &str = "the outcome of a cancelled step arrived late";
        let awaits = self.awaits(item);
        match self.state {
            State::Reaping => return Err(HeaderRefusal::NotPossible),
            State::Running | State::Compensating => self.owe(WHY, awaits, stamp),
            ended @ (State::Completed | State::Failed | State::Cancelled | State::Continued) => {
                self.reopen(ended, WHY, stamp);
            }
        }
        // A late step may change the outcome that callers receive. A late event does not.
        self.stands = false;
        Ok(())
    }

    /// The workflow has ended in this state, and a late step or event must be compensated.
    fn reopen(&mut self, ended: State, why: &str, stamp: &Stamp) {
        self.state = State::Compensating;
        self.ending = Some(ended);
        self.owe(why, false, stamp);
    }

    /// Makes the workflow due, because a late step or event must be compensated. A closed workflow
    /// is quarantined instead: an operator may have repaired these effects manually, and a
    /// compensation would undo them a second time.
    ///
    /// The attempt changes even while a driver compensates: with two effects in doubt, one outcome
    /// may come between its compensation and the end of the workflow. A workflow in quarantine
    /// stays there, unless it `awaits` this outcome: its reason still needs an operator.
    fn owe(&mut self, why: &str, awaits: bool, stamp: &Stamp) {
        self.closed = self.was_closed();
        if self.is_quarantined() && !awaits {
            self.attempt.clone_from(&stamp.attempt);
        } else if self.closed {
            self.quarantine(why.to_owned(), None, stamp);
        } else {
            self.due_now(stamp);
            self.reason = Some(why.to_owned());
        }
    }

    /// Counts a stored event. A driver that is at work compares this count with the events that it
    /// has read.
    ///
    /// A workflow in quarantine stays there. An event that no code waits for does not shorten the
    /// backoff of a retry: the next run finds the event.
    fn signalled(&mut self, is_waited_for: bool, owed: bool, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        const WHY: &str = "an event arrived late, and has a compensation";
        if self.state == State::Reaping {
            return Err(HeaderRefusal::NotPossible);
        }
        self.signals = self.signals.saturating_add(1);
        if self.state.is_final() {
            if owed {
                self.reopen(self.state, WHY, stamp);
                self.stands = true;
            }
        } else if owed && self.was_closed() {
            self.owe(WHY, false, stamp);
        } else if (is_waited_for || owed) && self.locked_by.is_none() && !self.is_quarantined() {
            self.due_now(stamp);
        }
        Ok(())
    }

    /// Quarantines the workflow, even after its end: an operator decides whether the effect
    /// happened twice.
    fn twice(&mut self, why: &str, stamp: &Stamp) -> Result<(), HeaderRefusal> {
        match self.state {
            State::Reaping => return Err(HeaderRefusal::NotPossible),
            ended if ended.is_final() => {
                self.state = State::Compensating;
                self.ending = Some(ended);
            }
            _ => {}
        }
        self.stands = false;
        self.quarantine(why.to_owned(), None, stamp);
        Ok(())
    }

    /// Quarantines the workflow for an operator. The new attempt refuses later writes of its run.
    fn quarantine(&mut self, reason: String, waits_for: Option<String>, stamp: &Stamp) {
        self.let_go(stamp.now, stamp);
        self.listed = Some(List::Quarantine);
        self.reason = Some(cut(&reason));
        self.waits_for = waits_for;
    }

    /// Makes the workflow due now, and resets the counts of the current run.
    fn due_now(&mut self, stamp: &Stamp) {
        self.let_go(stamp.now, stamp);
        self.listed = Some(List::Unfinished);
        self.since = stamp.now;
        self.counts_of_the_run().into_iter().for_each(|count| *count = 0);
        (self.reason, self.waits_for) = (None, None);
    }

    /// Removes the driver. The new attempt refuses later writes of that driver.
    fn let_go(&mut self, at: DateTime<Utc>, stamp: &Stamp) {
        self.next_due = at;
        self.attempt.clone_from(&stamp.attempt);
        self.locked_by = None;
        (self.reported, self.waits) = (false, None);
    }

    /// Ends the workflow. `owed`: a late event has a compensation, which a completer runs. Callers
    /// already receive the outcome.
    fn end(&mut self, state: State, owed: bool, stamp: &Stamp) {
        self.closed = self.was_closed();
        if owed {
            self.due_now(stamp);
            self.lost_in_all = 0;
            (self.state, self.ending, self.stands) = (State::Compensating, Some(state), true);
            self.ended = Some(stamp.now);
            return;
        }
        self.stands = false;
        let (listed, due) = match self.retention {
            Retention::For(kept) => (Some(List::Finished), time::after(stamp.now, kept)),
            Retention::Forever => (None, stamp.now),
        };
        self.let_go(due, stamp);
        self.state = state;
        self.listed = listed;
        self.ended = Some(stamp.now);
        (self.reason, self.waits_for) = (None, None);
    }
}
