//! The end of a plan: late requests arrive, completers run until nothing is due, and then a reaper.

use std::time::Duration;

use locker::status::{Need, StatusBuilder};
use locker::workflow::Reaper;

use super::super::invariant::Invariant;
use super::play::{WORKFLOWS, WorkflowRig};
use super::program::key;
use super::scenario::WorkflowScenario;
use super::world::SETTLER;

/// More often than a workflow may be driven before it is put into quarantine.
const ROUNDS: usize = 60;
/// Past the retention of what has ended.
const KEPT: Duration = Duration::from_secs(32 * 24 * 60 * 60);

impl WorkflowRig {
    /// Complete what is due until nothing is unfinished.
    pub(super) async fn settle(&self, scenario: WorkflowScenario) {
        let settler = self.program(scenario, SETTLER);
        for _ in 0..ROUNDS {
            {
                let mut world = self.shared.world();
                while !world.late.is_empty() {
                    world.deliver(0);
                }
                let is_unfinished = |row: &serde_json::Value| {
                    let status = row["status"]["S"].as_str().unwrap_or_default();
                    ["unfinished", "failing"].iter().any(|list| status.starts_with(list))
                };
                if !world.memory.rows(WORKFLOWS).iter().any(is_unfinished) {
                    return;
                }
                world.clock.advance(scenario.0.pause);
            }
            settler.complete().await;
        }
    }

    /// The report of what needs an operator has each workflow in quarantine, and nothing else.
    async fn must_be_reported(&self) {
        let expected = {
            let world = self.shared.world();
            let is_in_quarantine = |row: &serde_json::Value| {
                row["status"]["S"].as_str().unwrap_or_default().starts_with("quarantine")
            };
            world.memory.rows(WORKFLOWS).iter().filter(|row| is_in_quarantine(row)).count()
        };
        let status = StatusBuilder::new().workflows(&self.workflows[SETTLER]).read().await;
        let is_right = status.as_ref().is_ok_and(|status| {
            let only = status.groups.iter().all(|group| group.need == Need::Quarantined);
            only && status.finished && status.count() == expected
        });
        if !is_right {
            let seen = format!("{expected} in quarantine, and reported as {status:?}");
            self.shared.world().violated(Invariant::Visible, seen);
        }
    }

    /// Let everything come to an end, and judge it.
    pub(super) async fn end(&self, scenario: WorkflowScenario) {
        self.settle(scenario).await;
        let settler = self.program(scenario, SETTLER);
        for workflow in 0..scenario.0.steps.len() {
            if self.shared.world().row(&key(workflow), "#").is_some_and(|row| row.text("name") == "play") {
                settler.drive(workflow).await;
            }
        }
        self.must_be_reported().await;
        let kept = {
            let mut world = self.shared.world();
            world.judge(scenario);
            world.clock.advance(KEPT);
            world.must_be_kept()
        };
        let reaped = Reaper::new(&settler.completer()).run().await;
        let mut world = self.shared.world();
        world.note(|| format!("reaped: {reaped:?}"));
        world.judge_kept(&kept);
    }
}
