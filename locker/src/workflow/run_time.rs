//! The time of a run of the completer: when it is over nothing new begins, and what was done is
//! still recorded.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::core::workflow::header::Header;

/// How long a run may go on past its time, to record what it has done.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// What goes on in a run.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Work of steps.
    working: usize,
    /// Outcomes that are known and not recorded yet.
    recording: usize,
}

/// Shared by all flows of one run.
#[derive(Debug, Default)]
pub(crate) struct RunTime {
    ended: OnceLock<DateTime<Utc>>,
    /// The header under whose attempt the run compensates, once it does.
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

    /// When its time was over, if it is.
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

    /// From now on no step begins.
    pub(crate) fn end(&self, now: DateTime<Utc>) {
        let _ = self.ended.set(now);
    }

    /// Work begins.
    pub(crate) fn works(self: &Arc<Self>) -> Recording {
        self.counts.send_modify(|counts| counts.working += 1);
        Recording { run: Arc::clone(self), is_known: false }
    }

    /// An outcome is known.
    pub(crate) fn records(self: &Arc<Self>) -> Recording {
        self.works().known()
    }

    /// Until nothing is left to record. `patience`: how long to wait for work that goes on, too.
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
    /// The work has ended, so its outcome is to be recorded.
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
    async fn a_run_waits_for_what_is_not_recorded_and_no_longer() {
        let run = Arc::new(RunTime::default());
        assert!(is_settled(&run, Duration::ZERO).await);
        let working = run.works();
        assert!(is_settled(&run, Duration::ZERO).await, "work that goes on is broken off");
        assert!(!is_settled(&run, Duration::from_secs(9)).await, "unless the thread was blocked");
        let recording = working.known();
        assert!(!is_settled(&run, Duration::ZERO).await);
        drop((recording.known(), run.works()));
        assert!(is_settled(&run, Duration::from_secs(9)).await, "nothing is left");
    }
}
