//! What the actors share: paths, the asks, and the count of kills.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use crate::asks::Asks;
use crate::process;

pub(crate) const TABLE: &str = "locks";

pub(crate) struct World {
    pub(crate) directory: PathBuf,
    /// The faulty way to the engine.
    pub(crate) endpoint: String,
    pub(crate) provider: String,
    pub(crate) asks: Asks,
    pub(crate) kills: AtomicU32,
    pub(crate) freezes: AtomicU32,
    pub(crate) crashes: AtomicU32,
}

impl World {
    /// A file that is a history, or holds one.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.history"))
    }

    /// How often a process was killed or frozen.
    pub(crate) fn struck(&self) -> u32 {
        [&self.kills, &self.freezes, &self.crashes].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Strike {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT after this duration.
    Freeze(Duration),
}

/// The place of one process after the other, and how it is struck.
pub(crate) struct Slot(pub(crate) mpsc::Receiver<Strike>);

impl Slot {
    /// Let a process do something, and strike it as planned. `None`: it is to be killed now.
    pub(crate) async fn watch<T>(
        &mut self,
        world: &World,
        pid: Option<u32>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                strike = self.0.recv() => match strike {
                    Some(Strike::Kill) => {
                        world.kills.fetch_add(1, Ordering::Relaxed);
                        return None;
                    }
                    Some(Strike::Freeze(pause)) => {
                        world.freezes.fetch_add(1, Ordering::Relaxed);
                        process::signal(pid, Signal::SIGSTOP);
                        tokio::time::sleep(pause).await;
                        process::signal(pid, Signal::SIGCONT);
                    }
                    // No strikes are left.
                    None => return Some(work.await),
                },
            }
        }
    }
}
