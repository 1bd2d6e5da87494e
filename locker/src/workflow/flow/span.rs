//! The time of a run: until when it may begin a step, and until when it records what it did.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Flow;
use crate::core::time;
use crate::store::Until;
use crate::workflow::run_time::{GRACE, Recording, RunTime};
use crate::workflow::stop::Stop;

/// The time that a run has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// Time that is kept free before the deadline. A step without an expected duration starts only
    /// if this much time is left. `None`: half of the time that is left when the run begins, at
    /// most a second.
    reserve: Option<Duration>,
    /// The longest run of this completer, if a completer drives the workflow.
    longest: Option<Duration>,
}

impl Span {
    /// Returns the time of a run that ends at its caller's deadline.
    pub(crate) const fn of_caller(deadline: Option<DateTime<Utc>>) -> Self {
        Self { deadline, reserve: None, longest: None }
    }

    /// Returns the time of a run that its completer aborts after `left`.
    pub(crate) fn of_completer(now: DateTime<Utc>, left: Duration, longest: Duration) -> Self {
        Self { deadline: Some(time::after(now, left)), reserve: Some(left / 2), longest: Some(longest) }
    }

    /// Returns the time of a run that begins now. The claim of a workflow may have taken long, so
    /// the reserve is counted from here on.
    pub(super) fn from(self, now: DateTime<Utc>) -> Self {
        const SOON: Duration = Duration::from_secs(1);
        let left = self.deadline.map_or(Duration::ZERO, |deadline| time::between(now, deadline));
        Self { reserve: self.reserve.or(Some(SOON.min(left / 2))), ..self }
    }
}

/// How long a step is expected to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) time: Duration,
    /// Whether the code said so, or it is the default.
    pub(crate) is_said: bool,
}

impl Flow {
    pub(crate) fn until(&self) -> Until {
        // Nothing new begins any more, so this is to record what was done.
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

    /// Do the work of a step. Hold on to what comes with its outcome until that is recorded.
    pub(crate) async fn doing<T>(&self, work: impl Future<Output = T>) -> (T, Recording) {
        let working = self.run_time().works();
        let outcome = work.await;
        (outcome, working.known())
    }

    /// Refuse to begin anything once the time of this run is over, or its code has returned. That
    /// counts as an attempt if the run recorded nothing.
    pub(crate) fn check_open(&self, step: &str) -> Result<(), Stop> {
        if self.is_closed() {
            return Err(self.returned(step));
        }
        if !self.run_time().is_over() {
            return Ok(());
        }
        Err(self.out_of_time(step, "the time of this run is over"))
    }

    /// A task that the code left behind asks for a step.
    pub(crate) fn returned(&self, step: &str) -> Stop {
        self.out_of_time(step, "the code of this workflow has returned")
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

    /// Whether too little time is left in this run for a pause and then work of this expected
    /// duration. Of a step that does not say how long it takes, the default would keep short runs
    /// from starting anything.
    pub(crate) fn is_short_of(&self, pause: Duration, expected: Expected) -> bool {
        if self.run_time().is_over() {
            return true;
        }
        let Expected { time, is_said } = expected;
        let work = if is_said { time } else { time.min(self.inner.span.reserve.unwrap_or_default()) };
        let end = time::after(self.now(), pause.saturating_add(work));
        self.inner.span.deadline.is_some_and(|deadline| end >= deadline)
    }

    /// How long a run of this completer may take.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.inner.span.longest
    }
}
