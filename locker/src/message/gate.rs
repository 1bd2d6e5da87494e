//! Limits the calls to a target.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only the relay asks for the whole of it"))]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::core::message::breaker::{Admission, Breaker, Shown, Turn};

/// How long others wait for a probe. A target that replies later gets their messages in the next
/// run: a probe that hangs must not hold the turns that messages to other targets need.
const PROBE_WITHIN: Duration = Duration::from_secs(1);

/// The breaker of a target, shared by all that send to it in this process.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: Mutex<Inside>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    breaker: Breaker,
    /// When the probe that is under way began.
    probe: Option<Instant>,
}

/// Permits one sender to send. If it is the sender of a probe and is dropped without an outcome,
/// another sender sends the probe.
#[derive(Debug)]
#[must_use = "the others wait for a probe until it is dropped"]
pub(crate) struct Pass {
    probe: Option<(Arc<Gate>, u64)>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((gate, number)) = &self.probe {
            gate.inside().breaker.leave(*number);
            gate.changed.notify_waiters();
        }
    }
}

impl Gate {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        // No code panics while it holds it.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of the relay begins.
    pub(super) fn begin_run(&self) {
        self.inside().breaker.begin_run();
    }

    pub(super) fn is_open(&self) -> bool {
        self.inside().breaker.is_open()
    }

    /// Asks to send. `Err`: until when a probe is worth waiting for, or `None` if the target is
    /// down.
    fn ask(self: &Arc<Self>, now: DateTime<Utc>) -> Result<Pass, Option<Instant>> {
        let mut inside = self.inside();
        match inside.breaker.ask(now) {
            Admission::Send => Ok(Pass { probe: None }),
            Admission::Probe(number) => {
                inside.probe = Some(Instant::now());
                Ok(Pass { probe: Some((Arc::clone(self), number)) })
            }
            Admission::Wait => Err(inside.probe.map(|began| began + PROBE_WITHIN)),
            Admission::No => Err(None),
        }
    }

    /// Returns a pass for a caller that does not wait. `None`: leave the message for later.
    pub(super) fn enter(self: &Arc<Self>, now: DateTime<Utc>) -> Option<Pass> {
        self.ask(now).ok()
    }

    /// A pass, after the probe that is under way. `None`: the target is down.
    pub(super) async fn admit(self: &Arc<Self>, now: DateTime<Utc>) -> Option<Pass> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // A change between the question and the wait counts.
            changed.as_mut().enable();
            match self.ask(now) {
                Ok(pass) => return Some(pass),
                Err(until) => timeout_at(until?, changed).await.ok()?,
            }
        }
    }

    /// Records the outcome of one call.
    pub(super) fn record(&self, call: &[(&str, Shown)], now: DateTime<Utc>) -> Option<Turn> {
        let turn = self.inside().breaker.record(call, now);
        self.changed.notify_waiters();
        turn
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probe_without_an_outcome_is_followed_by_another_at_once() {
        let (gate, now) = (Arc::new(Gate::default()), DateTime::UNIX_EPOCH);
        gate.record(&[("a", Shown::Refuses), ("b", Shown::Refuses)], now);
        gate.begin_run();
        let probe = gate.enter(now).unwrap();
        let began = Instant::now();
        let waits = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.admit(now).await }
        });
        tokio::task::yield_now().await;
        drop(probe);
        assert!(waits.await.unwrap().is_some());
        assert!(began.elapsed() < PROBE_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn others_wait_for_a_probe_for_a_second() {
        let (gate, now) = (Arc::new(Gate::default()), DateTime::UNIX_EPOCH);
        gate.record(&[("a", Shown::Refuses), ("b", Shown::Refuses)], now);
        let later = now + TimeDelta::seconds(60);
        let _probe = gate.enter(later).unwrap();
        let began = Instant::now();
        assert!(gate.enter(later).is_none() && gate.admit(later).await.is_none());
        assert_eq!(began.elapsed().as_secs(), PROBE_WITHIN.as_secs());
        assert!(gate.admit(later).await.is_none());
        assert_eq!(began.elapsed().as_secs(), PROBE_WITHIN.as_secs(), "one second for all");
    }
}
