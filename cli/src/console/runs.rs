//! The plans that this console applies. Each is a task, which a closed page does not stop.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use locker::operator::{Acted, ApplyOptions, ApplyReport, Console, Done};

use crate::bulk::{self, Applied, Kept};
use crate::exit::Exit;

/// The largest number of records that were left as they are, and that a page names.
const NAMED: usize = 100;
/// How often the end of all runs is looked for.
const TICK: Duration = Duration::from_millis(50);

/// The applications of plans.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By the id of the plan. The latest of each plan is kept.
    runs: HashMap<String, Arc<Run>>,
    /// Acts on single records that are being written.
    acts: usize,
    /// Whether the console ends, so that no run and no act begins.
    is_ending: bool,
}

/// An act on one record that is being written. The console ends after it.
#[derive(Debug)]
pub(super) struct Writing<'a>(&'a Runs);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.all().acts -= 1;
    }
}

/// One application of a plan.
#[derive(Debug)]
pub(super) struct Run {
    stop: Arc<AtomicBool>,
    progress: Mutex<Progress>,
}

/// How far a run is.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Records that have an outcome.
    pub(super) told: usize,
    /// Those on which the act is done.
    pub(super) done: usize,
    /// Whether an operator stopped it. Acts that had begun are finished.
    pub(super) is_stopped: bool,
    /// Records that were left as they are, and errors.
    pub(super) said: Vec<String>,
    pub(super) ended: Option<Ended>,
}

/// The end of a run.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    Reported {
        report: ApplyReport,
        results: PathBuf,
        error: Option<String>,
    },
    /// Nothing was changed.
    Failed(String),
    /// The task panicked. Acts that it had done are done.
    Panicked,
}

impl Runs {
    fn all(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, id: &str) -> Option<Arc<Run>> {
        self.all().runs.get(id).cloned()
    }

    /// Each plan that is applied now.
    pub(super) fn under_way(&self) -> Vec<(String, Progress)> {
        let all = self.all();
        let runs = all.runs.iter().map(|(id, run)| (id.clone(), run.progress()));
        let mut runs: Vec<_> = runs.filter(|(_, progress)| progress.ended.is_none()).collect();
        runs.sort_by(|one, other| one.0.cmp(&other.0));
        runs
    }

    /// Starts a task that applies a plan. An error if this console applies it already, or ends.
    pub(super) fn start(&self, console: Console, path: PathBuf, kept: Kept) -> Result<(), Exit> {
        let mut all = self.all();
        let id = kept.plan.id.clone();
        all.goes_on()?;
        if all.runs.get(&id).is_some_and(|run| run.progress().ended.is_none()) {
            return Err(Exit::say(Exit::CHANGED, format!("the plan {id} is being applied already")));
        }
        let run = Arc::new(Run { stop: Arc::default(), progress: Mutex::default() });
        all.runs.insert(id, Arc::clone(&run));
        tokio::spawn(until_end(Arc::clone(&run), async move { run.apply(console, path, kept).await }));
        Ok(())
    }

    /// Announces an act on one record. An error if the console ends.
    pub(super) fn writing(&self) -> Result<Writing<'_>, Exit> {
        let mut all = self.all();
        all.goes_on()?;
        all.acts += 1;
        Ok(Writing(self))
    }

    /// Whether an act is being written, or a plan applied.
    fn is_at_work(&self) -> bool {
        let all = self.all();
        all.acts > 0 || all.runs.values().any(|run| run.progress().ended.is_none())
    }

    /// Stops every run, begins nothing else, and waits until the acts that have begun have ended.
    pub(super) async fn stop(&self) {
        {
            let mut all = self.all();
            all.is_ending = true;
            all.runs.values().for_each(|run| run.stop());
        }
        while self.is_at_work() {
            tokio::time::sleep(TICK).await;
        }
    }
}

impl Known {
    /// An error if the console ends: a connection that the browser keeps open outlives the server.
    fn goes_on(&self) -> Result<(), Exit> {
        let said = "the console ends; nothing was written, start it again";
        if self.is_ending { Err(Exit::say(Exit::UNAVAILABLE, said)) } else { Ok(()) }
    }
}

/// Records the end of a run, even if its task panics.
async fn until_end(run: Arc<Run>, task: impl Future<Output = Ended> + Send + 'static) {
    let ended = tokio::spawn(task).await.unwrap_or(Ended::Panicked);
    run.locked().ended = Some(ended);
}

impl Run {
    pub(super) fn progress(&self) -> Progress {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins no further act.
    pub(super) fn stop(&self) {
        self.locked().is_stopped = true;
        self.stop.store(true, Ordering::SeqCst);
    }

    async fn apply(&self, console: Console, path: PathBuf, kept: Kept) -> Ended {
        let options = ApplyOptions { stop: Arc::clone(&self.stop), ..kept.options };
        let applied = bulk::run(&console, &path, (&kept.plan, &options), |outcome| self.add(outcome)).await;
        match applied {
            Ok(Applied { report, results, unwritten }) => {
                Ended::Reported { report, results, error: unwritten.as_ref().map(Exit::in_one_line) }
            }
            Err(exit) => Ended::Failed(exit.in_one_line()),
        }
    }

    fn add(&self, outcome: &Acted) {
        let mut progress = self.locked();
        progress.told += 1;
        progress.done += usize::from(outcome.done == Done::Done);
        let said = bulk::not_done(outcome);
        if progress.said.len() < NAMED {
            progress.said.extend(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept() -> Kept {
        let kept = json!({ "place": "here", "shards": 1, "limit": 1, "options": {}, "plan": {
            "id": "00000000", "made": "2026-01-01T00:00:00.000Z", "act": { "verb": "release" }, "by": "ada",
            "reason": "x", "filter": { "need": "held" }, "found": 0, "complete": true, "leftOut": [], "items": [],
        }});
        serde_json::from_value(kept).expect("a plan")
    }

    /// A request that arrived before Ctrl-C may try to start a plan after it.
    #[tokio::test]
    async fn no_plan_begins_once_all_are_stopped() {
        let runs = Runs::default();
        let directory = tempfile::tempdir().expect("a directory");
        let start = || runs.start(Console::new(), directory.path().join("plan"), kept());
        assert!(start().is_ok());
        runs.stop().await;
        assert!(runs.under_way().is_empty());
        assert_eq!(start().expect_err("a refusal").code(), Exit::UNAVAILABLE);
        assert_eq!(runs.writing().expect_err("a refusal").code(), Exit::UNAVAILABLE);
    }

    #[tokio::test]
    async fn console_ends_after_an_act_that_is_being_written() {
        let runs = Runs::default();
        let writing = runs.writing().expect("begun");
        let mut stopped = std::pin::pin!(runs.stop());
        assert!(futures_util::poll!(&mut stopped).is_pending());
        drop(writing);
        stopped.await;
    }

    #[tokio::test]
    async fn run_that_panics_has_ended() {
        let run = Arc::new(Run { stop: Arc::default(), progress: Mutex::default() });
        until_end(Arc::clone(&run), async { panic!("a defect") }).await;
        assert!(matches!(run.progress().ended, Some(Ended::Panicked)));
    }
}
