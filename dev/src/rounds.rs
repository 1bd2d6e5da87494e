//! The scanner, the completer, the reaper, the relay and the packers, again and again until `dev` stops. A round that has begun ends.

use std::collections::BTreeSet;
use std::time::Duration;

use locker::relay::Relay;
use locker::workflow::{Completer, Reaper};
use locker::{Clock as _, Locker, Scanner, SystemClock};
use locker_functions::packer::Packer;
use locker_functions::sandbox::Queue;
use tokio::sync::watch;

use crate::packing::pack;

/// The time between two rounds, and the word to stop.
#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) every: Duration,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Rounds {
    pub(crate) async fn scan(self, locker: &Locker) {
        let mut told = BTreeSet::new();
        self.each(async || match Scanner::new(locker).run().await {
            Ok(scanned) => {
                let missing =
                    scanned.missing.iter().map(|record| (record.revision(), record)).collect::<Vec<_>>();
                for (revision, record) in &missing {
                    if told.insert(revision.clone()) {
                        let overdue = SystemClock.now() - record.expected_completion();
                        let (key, cause) = (record.key().as_str(), record.cause());
                        let overdue = format!("{} s", overdue.num_seconds());
                        tracing::warn!(key, cause, overdue, "the scanner: a task is missing");
                    }
                }
                told.retain(|revision| missing.iter().any(|(missing, _)| missing == revision));
            }
            Err(error) => tracing::error!(%error, "the scan failed"),
        })
        .await;
    }

    pub(crate) async fn complete(self, completer: &Completer) {
        self.each(async || match completer.run().await {
            Ok(done) if done.claimed > 0 => tracing::info!(
                claimed = done.claimed,
                completed = done.completed,
                waiting = done.waiting,
                quarantined = done.quarantined,
                "the completer drove what was due"
            ),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the completer failed"),
        })
        .await;
    }

    pub(crate) async fn reap(self, completer: &Completer) {
        self.each(async || match Reaper::new(completer).run().await {
            Ok(reaped) if reaped.deleted > 0 => {
                tracing::info!(deleted = reaped.deleted, "the reaper deleted finished workflows");
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the reaper failed"),
        })
        .await;
    }

    pub(crate) async fn relay(self, relay: &Relay) {
        self.each(async || match relay.run().await {
            Ok(done) if done.sent + done.dead > 0 => {
                tracing::info!(sent = done.sent, dead = done.dead, "the relay sent what was left");
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the relay failed"),
        })
        .await;
    }

    /// At each message, and at each round.
    pub(crate) async fn pack(mut self, packer: &Packer, queue: &Queue) {
        let mut timer = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                () = queue.came() => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => return,
            }
            pack(packer, queue).await;
        }
    }

    async fn each(mut self, mut round: impl AsyncFnMut()) {
        let mut timer = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => return,
            }
            round().await;
        }
    }
}
