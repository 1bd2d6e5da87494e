//! The time of a run of the completer. After its end no step begins, and the run still records
//! the outcomes of steps that have begun.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::core::workflow::header::Header;

/// How long after its end a run may record outcomes.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The work of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Steps at work.
    working: usize,
    /// Known outcomes that are not recorded yet.
    recording: usize,
}

/// Shared by all flows of one run.
#[derive(Debug, Default)]
pub(crate) struct RunTime {
    ended: OnceLock<DateTime<Utc>>,
    /// The header under whose attempt the run compensates, if it does.
    compensates: OnceLock<Header>,
    counts: watch::Sender<Counts>,
}

/// Work whose outcome may not be recorded yet.
#[derive(Debug)]
pub(crate) struct Recording {
    run: Arc<RunTime>,
    is_known: bool,
}

impl RunTime {
    pub(crate) fn is_over(&self) -> bool {
        self.ended.get().is_some()
    }

    /// When the run's time ended. `None`: it has not ended.
    pub(crate) fn ended(&self) -> Option<DateTime<Utc>> {
        self.ended.get().copied()
    }

    /// The run continues under the attempt of this header.
    pub(crate) fn compensates_under(&self, header: &Header) {
        let _ = self.compensates.set(header.clone());
    }

    pub(crate) fn compensating(&self) -> Option<Header> {
        self.compensates.get().cloned()
    }

    /// Ends the time of the run: no step begins any more.
    pub(crate) fn end(&self, now: DateTime<Utc>) {
        let _ = self.ended.set(now);
    }

    /// Counts a step that begins to work.
    pub(crate) fn works(self: &Arc<Self>) -> Recording {
        self.counts.send_modify(|counts| counts.working += 1);
        Recording { run: Arc::clone(self), is_known: false }
    }

    /// Counts a known outcome that is not recorded yet.
    pub(crate) fn records(self: &Arc<Self>) -> Recording {
        self.works().known()
    }

    /// Waits until every known outcome is recorded, and up to `patience` for steps at work.
    pub(crate) async fn settled(&self, patience: Duration) {
        let mut counts = self.counts.subscribe();
        let nothing = counts.wait_for(|counts| counts.working + counts.recording == 0);
        if tokio::time::timeout(patience, nothing).await.is_err() {
            // The sender lives as long as `self`.
            let _ = counts.wait_for(|counts| counts.recording == 0).await;
        }
    }
}

impl Recording {
    /// The step has ended, and its outcome must be recorded.
    pub(crate) fn known(mut self) -> Self {
        if !self.is_known {
            self.is_known = true;
            self.run.counts.send_modify(|counts| {
                counts.working -= 1;
                counts.recording += 1;
            });
        }
        self
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let is_known = self.is_known;
        self.run.counts.send_modify(|counts| match is_known {
            true => counts.recording -= 1,
            false => counts.working -= 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_settled(run: &RunTime, patience: Duration) -> bool {
        tokio::time::timeout(Duration::from_secs(2), run.settled(patience)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn run_waits_until_known_outcomes_are_recorded() {
        let run = Arc::new(RunTime::default());
        assert!(is_settled(&run, Duration::ZERO).await);
        let working = run.works();
        assert!(is_settled(&run, Duration::ZERO).await, "a step at work is aborted");
        assert!(
            !is_settled(&run, Duration::from_secs(9)).await,
            "with patience the run waits for a step at work"
        );
        let recording = working.known();
        assert!(!is_settled(&run, Duration::ZERO).await);
        drop((recording.known(), run.works()));
        assert!(is_settled(&run, Duration::from_secs(9)).await, "each outcome is recorded");
    }
}
