//! A process that may die or be suspended.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use aws_sdk_dynamodb::Client;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::faults::FROZEN;

/// One process: it lives as long as the work that it was started for.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    /// Whether its requests are counted and may go wrong.
    pub(super) is_faulty: bool,
    pub(super) client: OnceLock<Client>,
    died: Notify,
    is_dead: AtomicBool,
    frozen_until: Mutex<Option<Instant>>,
}

impl Process {
    pub(super) fn new(name: impl Into<String>, is_faulty: bool) -> Self {
        let (died, is_dead, frozen_until) = (Notify::new(), AtomicBool::new(false), Mutex::default());
        Self { name: name.into(), is_faulty, client: OnceLock::new(), died, is_dead, frozen_until }
    }

    /// Ends this process.
    pub(super) async fn die<T>(&self) -> T {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_waiters();
        std::future::pending().await
    }

    /// Suspends this process.
    pub(super) async fn freeze(&self) {
        let until = Instant::now() + FROZEN;
        *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.stand_still().await;
    }

    /// Returns the end of the suspension, if this process is suspended.
    fn frozen_until(&self) -> Option<Instant> {
        let until = *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > Instant::now())
    }

    /// Waits while this process is suspended, and without end if it is dead. The runtime also polls
    /// the spawned tasks of such a process.
    pub(super) async fn stand_still(&self) {
        while let Some(until) = self.frozen_until() {
            sleep_until(until).await;
        }
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Runs the process until its work is done or it dies. A spawned task stops at its next request
    /// or call.
    pub(super) async fn live<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut died, mut work) = (pin!(self.died.notified()), pin!(work));
        let mut asleep: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context: &mut Context<'_>| {
            loop {
                if died.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                if let Some(sleep) = &mut asleep {
                    std::task::ready!(sleep.as_mut().poll(context));
                    asleep = None;
                }
                // A spawned task also suspends the process.
                if let Some(until) = self.frozen_until() {
                    asleep = Some(Box::pin(sleep_until(until)));
                    continue;
                }
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(done));
                }
                if died.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                if self.frozen_until().is_none() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}
