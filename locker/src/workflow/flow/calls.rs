//! The calls of steps in a run: their names, their places, and the stops that they returned.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Flow, Inner, locked};
use crate::core::name::{self, Branch};
use crate::core::time;
use crate::core::workflow::ending::{Need, NeedKind};
use crate::core::workflow::place::{Effect, Place, Undo, shown_event};
use crate::core::workflow::step::RecordId;
use crate::workflow::step::name::IntoStepName;
use crate::workflow::stop::StopKind;

tokio::task_local! {
    /// The run of the step whose closure runs on this task. `None`: the code of a workflow or of a
    /// compensation, which may call steps.
    static IN_STEP_OF: Option<Arc<Inner>>;
}

/// Runs code that may call steps. The closure of a step may drive another workflow.
pub(crate) fn outermost<F: Future>(code: F) -> impl Future<Output = F::Output> {
    IN_STEP_OF.scope(None, code)
}

/// Whether this code is the closure of a step.
pub(crate) fn is_in_step() -> bool {
    IN_STEP_OF.try_with(Option::is_some).unwrap_or(false)
}

/// The compensation that a flow is for: [`Undo`], owned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Used {
    scope: Option<Arc<Scope>>,
    name: String,
    version: u32,
}

/// The use of a name.
#[derive(Debug)]
struct Taken {
    /// `true`: the name is in use, or its step has an outcome. `false`: its last call was dropped,
    /// or returned a stop that is no outcome, so that the code may try again.
    is_kept: bool,
    /// The branch whose code may try again. All branches use the same names of events.
    by: Branch,
}

/// A start whose reply is outstanding, so that the step may have started.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The item of the record.
    pub(crate) item: String,
    pub(crate) step: String,
    pub(crate) place: String,
    /// Until then, its driver may be at work.
    pub(crate) due: DateTime<Utc>,
}

/// The calls of steps so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether the code has returned, so that no step begins any more.
    closed: bool,
    /// Whether another driver owns the workflow, or it has ended.
    lost: bool,
    /// Until then, one of the steps that run concurrently extends the claim.
    extends: Option<DateTime<Utc>>,
    used: HashMap<Used, Taken>,
    /// By a number: two branches may start the step of one key, each with its own request.
    starting: HashMap<u64, Start>,
    /// The number of the next start.
    next_start: u64,
    needs: Vec<(Option<Arc<Scope>>, Need)>,
}

/// A call of a step, which has its name. A dropped call gives the name back.
struct Call<'a> {
    flow: &'a Flow,
    used: Used,
    keeps_name: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(taken) = locked(&self.flow.inner.calls.0).used.get_mut(&self.used) {
            taken.is_kept = self.keeps_name;
        }
    }
}

impl Flow {
    /// Returns this flow for the compensation of a step.
    pub(crate) fn within(&self, of: Undo<'_>) -> Self {
        let Undo { effect: Effect { step, version }, late } = of;
        let scope = Scope { step: step.to_owned(), version, late };
        Self { inner: Arc::clone(&self.inner), scope: Some(Arc::new(scope)), branch: Branch::default() }
    }

    /// Returns this flow for a branch of a map.
    pub(crate) fn in_branch(&self, branch: Branch) -> Self {
        Self { branch, ..self.clone() }
    }

    pub(crate) const fn branch(&self) -> &Branch {
        &self.branch
    }

    /// The path of a step that this code names: its name, after the branch that the code is in.
    pub(crate) fn path(&self, name: impl IntoStepName) -> String {
        self.branch.path(&name.into_step_name())
    }

    /// Whether this is the flow of a compensation.
    pub(crate) const fn is_of_compensation(&self) -> bool {
        self.scope.is_some()
    }

    /// The place of a step of this code, by its path.
    pub(crate) fn place_of<'a>(&'a self, name: &'a str) -> Place<'a> {
        match &self.scope {
            None => Place::Step(name),
            Some(scope) => Place::Nested { step: name, within: scope.undo(), former: None },
        }
    }

    /// Calls a step: takes its name, does its work, and records the stop that it returns as a need
    /// of this run. The same name may be used again with another version of its key.
    ///
    /// The work is boxed: a future that is an argument would be copied into this one twice.
    pub(crate) async fn call<T>(
        &self,
        name: &str,
        version: Option<u32>,
        work: Pin<Box<impl Future<Output = Result<T, StopKind>>>>,
    ) -> Result<T, StopKind> {
        let given = self.branch.name(name).unwrap_or(name);
        let checked = name::check_in(&self.branch, given).map_err(|error| StopKind::name(name, &error));
        let place = || RecordId::at(self.workflow(), self.place_of(name)).reference();
        self.call_at(checked.and_then(|()| self.take_name(name, version)), place, work).await
    }

    /// Calls a wait for an event, as a step is called. The event has the same place in every scope.
    pub(crate) async fn call_event<T>(
        &self,
        name: &str,
        id: &RecordId,
        work: Pin<Box<impl Future<Output = Result<T, StopKind>>>>,
    ) -> Result<T, StopKind> {
        let shown = shown_event(name);
        let checked = name::check(name).map_err(|error| StopKind::name(&shown, &error));
        self.call_at(checked.and_then(|()| self.take_name(&shown, None)), || id.reference(), work).await
    }

    /// Calls a map, as a step is called. No step has the name under which it is used.
    pub(crate) async fn call_map<T>(
        &self,
        name: &str,
        work: Pin<Box<impl Future<Output = Result<T, StopKind>>>>,
    ) -> Result<T, StopKind> {
        let path = self.branch.path(name);
        let checked = name::check_in(&self.branch, name).map_err(|error| StopKind::name(&path, &error));
        let used = format!("{path}:");
        self.call_at(checked.and_then(|()| self.take_name(&used, None)), || self.place_of_map(name), work)
            .await
    }

    /// The place of a map among the needs of a run. It is no place of a record.
    fn place_of_map(&self, name: &str) -> String {
        format!("map/{}", self.place_of(&self.branch.path(name)))
    }

    /// Records a stop of a branch of this map as a need of this run.
    pub(crate) fn note_map(&self, name: &str, stop: &StopKind) {
        self.note_need(Some(self.place_of_map(name)), stop);
    }

    async fn call_at<T>(
        &self,
        call: Result<Call<'_>, StopKind>,
        place: impl Fn() -> String,
        work: Pin<Box<impl Future<Output = Result<T, StopKind>>>>,
    ) -> Result<T, StopKind> {
        let mut call = match call {
            Ok(call) => call,
            Err(stop) => {
                self.note_need(None, &stop);
                return Err(stop);
            }
        };
        // This call replaces an earlier stop of the step. If it is dropped, its record decides.
        self.settle_needs(&place);
        let done = work.await;
        call.keeps_name = !matches!(&done, Err(stop) if stop.may_be_repeated());
        if let Err(stop) = &done {
            self.note_need(Some(place()), stop);
        }
        done
    }

    fn settle_needs(&self, place: impl Fn() -> String) {
        let mut state = locked(&self.inner.calls.0);
        if !state.needs.is_empty() {
            let place = Some(place());
            state.needs.retain(|(_, need)| need.place != place);
        }
    }

    /// Runs the closure of a step, which may not call a step of the same workflow.
    pub(crate) fn in_step<F: Future>(&self, closure: F) -> impl Future<Output = F::Output> {
        IN_STEP_OF.scope(Some(Arc::clone(&self.inner)), closure)
    }

    /// Refuses a step inside the closure of a step. If the inner step had to wait, the outer step
    /// would count as not done, and its effect would happen again.
    fn check_outermost(&self, name: &str) -> Result<(), StopKind> {
        let is_inside =
            |run: &Option<Arc<Inner>>| run.as_ref().is_some_and(|run| Arc::ptr_eq(run, &self.inner));
        if IN_STEP_OF.try_with(is_inside).unwrap_or(false) {
            return Err(StopKind::invalid(
                name,
                "it is called inside the closure of another step; call both from `run`",
            ));
        }
        Ok(())
    }

    fn take_name(&self, name: &str, version: Option<u32>) -> Result<Call<'_>, StopKind> {
        self.check_outermost(name)?;
        self.check_open(name)?;
        let version = version.unwrap_or(1);
        let used = Used { scope: self.scope.clone(), name: name.to_owned(), version };
        let mut state = locked(&self.inner.calls.0);
        if state.used.get(&used).is_none_or(|taken| !taken.is_kept && taken.by == self.branch) {
            state.used.insert(used.clone(), Taken { is_kept: true, by: self.branch.clone() });
            return Ok(Call { flow: self, used, keeps_name: false });
        }
        Err(StopKind::invalid(
            name,
            "another step of this workflow has the same name; make it unique, such as fund#7. A workflow \
             that already ran the step under the old name runs it again under the new one",
        ))
    }

    /// Whether this run has called a step with this name, in the code that this flow is for.
    pub(crate) fn has_called(&self, name: &str) -> bool {
        locked(&self.inner.calls.0).used.keys().any(|used| used.scope == self.scope && used.name == name)
    }

    /// Records a stop as a need of this run, unless it is an outcome that the code may handle.
    ///
    /// A task that the code did not await needs no further run: the order of tasks would decide
    /// whether its stop is recorded before the end is decided. The records decide about its
    /// effects.
    pub(crate) fn note_need(&self, place: Option<String>, stop: &StopKind) {
        let Some(kind) = stop.need() else { return };
        let mut state = locked(&self.inner.calls.0);
        if state.closed {
            return;
        }
        state.needs.push((self.scope.clone(), Need { place, kind, reason: stop.reason() }));
    }

    pub(crate) fn needs(&self) -> Vec<Need> {
        locked(&self.inner.calls.0).needs.iter().map(|(_, need)| need.clone()).collect()
    }

    /// The earliest time for which the steps of this compensation wait on purpose, if they do
    /// nothing else.
    pub(crate) fn waits_within(&self) -> Option<DateTime<Utc>> {
        let state = locked(&self.inner.calls.0);
        let mut earliest: Option<DateTime<Utc>> = None;
        for (_, need) in state.needs.iter().filter(|(scope, _)| *scope == self.scope) {
            let NeedKind::Wait { until, .. } = need.kind else { return None };
            earliest = Some(earliest.map_or(until, |known| known.min(until)));
        }
        earliest
    }

    /// Whether the steps of this compensation wait for another driver only.
    pub(crate) fn leaves_to_others(&self) -> bool {
        let state = locked(&self.inner.calls.0);
        let mut needs = state.needs.iter().filter(|(scope, _)| *scope == self.scope).peekable();
        needs.peek().is_some()
            && needs.all(|(_, need)| matches!(need.kind, NeedKind::Retry { counts: false, .. }))
    }

    /// A compensation is retried, so its steps may use their names again.
    pub(crate) fn forget_names(&self) {
        let mut state = locked(&self.inner.calls.0);
        state.used.retain(|used, _| used.scope != self.scope);
        state.needs.retain(|(scope, _)| *scope != self.scope);
    }

    /// The code has returned. A step that begins from now on is refused; a start that was announced
    /// before is among [`starts`](Self::starts).
    pub(crate) fn close(&self) {
        locked(&self.inner.calls.0).closed = true;
    }

    /// Whether this step may extend the claim: no other step of the run does so now. A step that is
    /// not polled gives up its turn after a while.
    pub(crate) fn may_extend(&self) -> bool {
        const TURN: Duration = Duration::from_secs(5);
        let now = self.time();
        let mut state = locked(&self.inner.calls.0);
        let may = state.extends.is_none_or(|until| until <= now);
        if may {
            state.extends = Some(time::after(now, TURN));
        }
        may
    }

    pub(crate) fn has_extended(&self) {
        locked(&self.inner.calls.0).extends = None;
    }

    /// This driver saw that it no longer owns the workflow.
    pub(crate) fn lose(&self) {
        locked(&self.inner.calls.0).lost = true;
    }

    pub(crate) fn is_lost(&self) -> bool {
        locked(&self.inner.calls.0).lost
    }

    pub(crate) fn is_closed(&self) -> bool {
        locked(&self.inner.calls.0).closed
    }

    /// Announces the start of a step before it is written. One lock covers the announcement and the
    /// end of the run: either the end counts the start, or the start is refused.
    /// `None`: the code has returned.
    pub(crate) fn announce(&self, start: Start) -> Option<u64> {
        let mut state = locked(&self.inner.calls.0);
        if state.closed {
            return None;
        }
        let number = state.next_start;
        state.next_start += 1;
        state.starting.insert(number, start);
        Some(number)
    }

    /// The reply to the start with this number is known, and so is the record.
    pub(crate) fn answered(&self, number: u64) {
        locked(&self.inner.calls.0).starting.remove(&number);
    }

    /// The starts whose replies are outstanding, by their numbers.
    pub(crate) fn starts(&self) -> Vec<(u64, Start)> {
        let state = locked(&self.inner.calls.0);
        state.starting.iter().map(|(number, start)| (*number, start.clone())).collect()
    }
}
