//! The time of a run: until when it may begin a step, and until when it records outcomes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Flow;
use crate::core::time;
use crate::core::workflow::header::DriverAct;
use crate::store::Until;
use crate::workflow::driver::fence::Unwritten;
use crate::workflow::run_time::{GRACE, Recording, RunTime};
use crate::workflow::stop::StopKind;

/// The time that a run has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// When the run began.
    began: DateTime<Utc>,
    /// Half of the time of the run. A step without its own `expect_within` starts only if this much
    /// time or the default of a step is left, whichever is less.
    half: Duration,
    /// The longest run of this completer, if a completer drives the workflow.
    longest: Option<Duration>,
}

impl Span {
    /// Returns the time of a run that ends at its caller's deadline.
    pub(crate) const fn of_caller(deadline: Option<DateTime<Utc>>) -> Self {
        Self { deadline, began: DateTime::UNIX_EPOCH, half: Duration::ZERO, longest: None }
    }

    /// Returns the time of a run that its completer aborts after `left`.
    pub(crate) fn of_completer(now: DateTime<Utc>, left: Duration, longest: Duration) -> Self {
        Self { longest: Some(longest), ..Self::of_caller(Some(time::after(now, left))) }
    }

    /// Returns the time of a run that begins now. The claim of a workflow may have taken long, so
    /// its time is counted from here on.
    pub(super) fn from(self, now: DateTime<Utc>) -> Self {
        let left = self.deadline.map_or(Duration::ZERO, |deadline| time::between(now, deadline));
        Self { began: now, half: left / 2, ..self }
    }
}

/// How long a step is expected to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) time: Duration,
    /// Whether the code set it, or it is the default.
    pub(crate) is_set: bool,
}

impl Expected {
    /// The default of a step.
    pub(crate) const DEFAULT: Self = Self { time: Duration::from_secs(30), is_set: false };

    pub(crate) const fn set(time: Duration) -> Self {
        Self { time, is_set: true }
    }
}

impl Flow {
    pub(crate) fn until(&self) -> Until {
        // After the end of the run no step begins, so this request records an outcome.
        if self.run_time().is_over() {
            self.until_recorded()
        } else {
            self.context().until(self.inner.span.deadline)
        }
    }

    /// Until when an outcome is recorded: no other record of it exists.
    pub(crate) fn until_recorded(&self) -> Until {
        let ended = self.run_time().ended().max(self.inner.span.deadline);
        let until =
            if self.longest().is_some() { ended.map(|ended| time::after(ended, GRACE)) } else { ended };
        self.context().until(until).for_end()
    }

    pub(crate) fn run_time(&self) -> &Arc<RunTime> {
        &self.inner.run_time
    }

    /// Does the work of a step, and keeps the claim of the workflow during it. Hold the second
    /// value until the outcome is recorded.
    pub(crate) async fn doing<T>(&self, expected: Expected, work: impl Future<Output = T>) -> (T, Recording) {
        let working = self.run_time().works();
        let ends = time::after(self.time(), expected.time);
        tokio::select! {
            biased;
            outcome = work => (outcome, working.known()),
            never = self.keep_claim(ends) => match never {},
        }
    }

    /// Extends the claim whenever a third of it is left, until this time: another driver would run
    /// the step again, or find it in doubt, although this driver is at work.
    async fn keep_claim(&self, ends: DateTime<Utc>) -> Infallible {
        let longest = time::after(self.began(), self.limits().longest_run);
        loop {
            // Read the claim after each sleep: another step of this run may have extended it.
            let (due, third) = {
                let header = self.lock_header();
                (header.next_due, header.expected / 3)
            };
            let now = self.time();
            let early = time::between(now, time::before(due, third));
            if !early.is_zero() {
                tokio::time::sleep(early).await;
                continue;
            }
            // Code that hangs must not keep its workflow. After this time, another driver takes it
            // over.
            if now >= ends || due >= longest {
                break;
            }
            if !self.may_extend() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
            let due = time::after(now, third * 3).min(longest);
            let extended = self.act("extend the workflow", DriverAct::Extend { due, held_since: None }).await;
            self.has_extended();
            match extended {
                Ok(()) => {}
                Err(Unwritten::Lost) => {
                    tracing::warn!(
                        workflow.key = self.context().shown(self.workflow()),
                        "a step continues, but this driver no longer owns its workflow"
                    );
                    self.lose();
                    break;
                }
                Err(Unwritten::Store(error)) => {
                    tracing::warn!(%error, "the claim of a workflow could not be extended");
                    // A third of the claim is left, so there is time for further tries.
                    tokio::time::sleep((third / 4).max(Duration::from_secs(1))).await;
                }
            }
        }
        std::future::pending().await
    }

    /// Refuses a step that may run twice if this driver lost its workflow: its claim has ended, so
    /// another driver may have taken it over, an operator may have cancelled it, or it may be
    /// deleted. A driver within its claim sends no request.
    pub(crate) async fn check_claim(&self) -> Result<(), StopKind> {
        let due = self.lock_header().next_due;
        if self.time() < due || self.is_held().await? {
            return Ok(());
        }
        self.lose();
        Err(StopKind::Lost)
    }

    /// Refuses to begin anything once the time of this run is over, or its code has returned. That
    /// counts as an attempt if the run recorded nothing.
    pub(crate) fn check_open(&self, step: &str) -> Result<(), StopKind> {
        if self.is_lost() {
            return Err(StopKind::Lost);
        }
        if self.is_closed() {
            return Err(self.returned(step));
        }
        if !self.run_time().is_over() {
            return Ok(());
        }
        Err(self.out_of_time(step, "the time of this run is over"))
    }

    /// A task that outlives the code asks for a step.
    pub(crate) fn returned(&self, step: &str) -> StopKind {
        self.out_of_time(step, "the code of this workflow has returned")
    }

    /// The next run continues with this step. If this run recorded nothing, it counts as an
    /// attempt.
    pub(crate) fn out_of_time(&self, step: &str, cause: &str) -> StopKind {
        StopKind::Later {
            step: step.to_owned(),
            at: self.time(),
            cause: cause.to_owned(),
            counts: !self.has_progressed(),
            retry_for: None,
        }
    }

    /// Whether too little time is left in this run for a pause and then work of this expected
    /// duration. The default would keep short runs from starting anything, so it counts for half of
    /// the run at most.
    pub(crate) fn is_short_of(&self, pause: Duration, expected: Expected) -> bool {
        if self.run_time().is_over() {
            return true;
        }
        let Expected { time, is_set } = expected;
        let work = if is_set { time } else { time.min(self.inner.span.half) };
        let end = time::after(self.time(), pause.saturating_add(work));
        self.inner.span.deadline.is_some_and(|deadline| end >= deadline)
    }

    /// Refuses to start work for which too little time is left: it would be cut off, and its
    /// outcome would be unknown.
    pub(crate) fn check_time(&self, step: &str, expected: Expected) -> Result<(), StopKind> {
        if let Some(longest) = self.longest().filter(|longest| expected.is_set && expected.time > *longest) {
            let cause = format!(
                "it is expected to take {} s, and a run of this completer takes at most {} s; raise `drive_for`, \
                 or let its caller run it",
                expected.time.as_secs(),
                longest.as_secs()
            );
            // Another completer, or its caller, may have the time.
            return Err(StopKind::Later {
                step: step.to_owned(),
                at: self.time(),
                cause,
                counts: false,
                retry_for: None,
            });
        }
        if !self.is_short_of(Duration::ZERO, expected) {
            return Ok(());
        }
        Err(self.out_of_time(step, "too little time is left in this run"))
    }

    /// When this run began.
    pub(crate) fn began(&self) -> DateTime<Utc> {
        self.inner.span.began
    }

    /// How long a run of this completer may take.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.inner.span.longest
    }
}
