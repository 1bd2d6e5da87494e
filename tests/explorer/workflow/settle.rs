//! The end of a plan: late requests arrive, completers run until nothing is due, and then a reaper.

use std::time::Duration;

use locker::operator::{Console, Need};
use locker::workflow::Reaper;

use super::super::invariant::Invariant;
use super::play::{WORKFLOWS, WorkflowRig};
use super::program::{Program, key};
use super::scenario::WorkflowScenario;
use super::world::SETTLER;

/// More often than a workflow may be driven before it is put into quarantine.
const ROUNDS: usize = 60;
/// Past the retention of what has ended.
const KEPT: Duration = Duration::from_secs(32 * 24 * 60 * 60);

/// Past each pause of a message that was not sent.
const LONGEST_PAUSE: Duration = Duration::from_secs(20 * 60);

/// Whether it is a message.
fn is_kept(row: &serde_json::Value) -> bool {
    row["item"]["S"].as_str().is_some_and(|item| item.starts_with("message/"))
}

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

    /// Send everything that is not dead, or behind what is.
    async fn send(&self, settler: &Program) {
        let unsent = || {
            let world = self.shared.world();
            let rows = world.memory.rows(WORKFLOWS);
            rows.iter().filter(|row| is_kept(row)).count()
        };
        loop {
            let before = unsent();
            self.shared.world().clock.advance(LONGEST_PAUSE);
            settler.relay().await;
            if unsent() == before {
                return;
            }
        }
    }

    /// The report of what needs an operator has each workflow in quarantine, and nothing else.
    async fn must_be_reported(&self) {
        let expected = {
            let world = self.shared.world();
            let is_listed = |row: &serde_json::Value| {
                let status = row["status"]["S"].as_str().unwrap_or_default();
                status.starts_with("quarantine") || status.starts_with("late")
            };
            world.memory.rows(WORKFLOWS).iter().filter(|row| is_listed(row) || is_kept(row)).count()
        };
        let status = Console::new().workflows(&self.workflows[SETTLER]).status().await;
        let is_right = status.as_ref().is_ok_and(|status| {
            let needs = [Need::Quarantined, Need::Dead, Need::Unsent, Need::Late];
            let only = status.groups.iter().all(|group| needs.contains(&group.need));
            only && status.finished && status.count() == expected
        });
        if !is_right {
            let seen = format!("{expected} need an operator, and are reported as {status:?}");
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
        if scenario.0.tells() {
            self.send(&settler).await;
            settler.hear().await;
            self.shared.world().post.is_forgotten();
        }
        self.must_be_reported().await;
        let (kept, committed) = {
            let mut world = self.shared.world();
            world.judge(scenario);
            let committed = world.committed(scenario);
            world.clock.advance(KEPT);
            (world.must_be_kept(), committed)
        };
        let reaped = Reaper::new(&settler.completer()).run().await;
        {
            let mut world = self.shared.world();
            world.note(|| format!("reaped: {reaped:?}"));
            world.judge_kept(&kept);
        }
        if scenario.0.tells() {
            settler.redrive().await;
            self.send(&settler).await;
            settler.hear().await;
            self.shared.world().judge_post(&committed);
        }
    }
}
