//! The processes of the storm: started, killed, and frozen for longer than what they claimed is
//! due.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::{Clock as _, SystemClock};
use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::work::Place;
use crate::process::{own_role, signal};

/// How long a process is frozen, in milliseconds: a claim is due after 4 seconds, a step after 3,
/// and a queue delivers again after 3.
pub(super) const FROZEN: std::ops::Range<u64> = 5_000..9_000;
/// How long a relay is frozen: what it took is due after a minute.
pub(super) const FROZEN_RELAY: std::ops::Range<u64> = 61_000..70_000;
/// What a process that is dead had sent has arrived by then: the provider takes up to a second for
/// a request.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// One process after the other in the same role.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Process>);

#[derive(Debug)]
struct Process {
    child: Child,
    spawned: DateTime<Utc>,
    wakes: Option<Instant>,
}

impl Slot {
    pub(super) fn spawn(&mut self, role: &str, place: &Place, more: &[&str]) {
        // Before it can do anything.
        let spawned = SystemClock.now();
        let mut command: Command = own_role();
        command.arg(role).arg("--endpoint").arg(&place.endpoint).arg("--provider").arg(&place.provider);
        let child = command.arg("--told").arg(&place.told).args(more).spawn().expect("a process");
        self.0 = Some(Process { child, spawned, wakes: None });
    }

    /// Whether no process is in it, or one that ended by itself.
    pub(super) fn is_over(&mut self) -> bool {
        self.0.as_mut().is_none_or(|it| it.child.try_wait().expect("a child").is_some())
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.wakes.is_some())
    }

    /// Kill it, unless it is frozen: what matters of a frozen process is what it does when it
    /// wakes.
    pub(super) async fn kill(&mut self) -> bool {
        if self.is_frozen() {
            return false;
        }
        let Some(mut process) = self.0.take() else { return false };
        process.child.kill().await.expect("a process is killed");
        true
    }

    pub(super) fn freeze(&mut self, rng: &mut fastrand::Rng, millis: std::ops::Range<u64>) -> bool {
        if self.is_over() || self.is_frozen() {
            return false;
        }
        let Some(process) = &mut self.0 else { return false };
        signal(process.child.id(), Signal::SIGSTOP);
        process.wakes = Some(Instant::now() + Duration::from_millis(rng.u64(millis)));
        true
    }

    /// Wake it if it is due, or in any case.
    pub(super) fn wake(&mut self, anyway: bool) {
        let Some(process) = &mut self.0 else { return };
        if process.wakes.is_some_and(|wakes| anyway || wakes <= Instant::now()) {
            signal(process.child.id(), Signal::SIGCONT);
            process.wakes = None;
        }
    }

    fn spawned(&self) -> Option<DateTime<Utc>> {
        self.0.as_ref().map(|it| it.spawned)
    }
}

/// Since when every process that lives has lived, over time: by it an operator knows which drivers
/// are dead.
#[derive(Debug, Clone, Default)]
pub(super) struct Living(Arc<Mutex<Noted>>);

/// When it was noted, and since when they have lived.
type Noted = VecDeque<(Instant, DateTime<Utc>)>;

impl Living {
    /// Call it after every start of a process; none lives if there are no slots.
    pub(super) fn note<'a>(&self, slots: impl Iterator<Item = &'a Slot>) {
        let oldest = slots.filter_map(Slot::spawned).min().unwrap_or(DateTime::<Utc>::MAX_UTC);
        let mut noted = self.0.lock().expect("no panic here");
        noted.push_back((Instant::now(), oldest));
        // Only the last of those that are old enough counts.
        while noted.get(1).is_some_and(|(at, _)| at.elapsed() >= IN_FLIGHT) {
            noted.pop_front();
        }
    }

    /// Whether whoever acted before this time is dead, and what it sent has arrived.
    pub(super) fn are_dead(&self, before: DateTime<Utc>) -> bool {
        let noted = self.0.lock().expect("no panic here");
        let known = noted.iter().rev().find(|(at, _)| at.elapsed() >= IN_FLIGHT);
        known.is_some_and(|(_, oldest)| *oldest > before + TimeDelta::seconds(1))
    }
}
