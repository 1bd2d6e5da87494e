//! A process that may die or be suspended.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use aws_sdk_dynamodb::Client;
use tokio::sync::Notify;
use tokio::time::Sleep;

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
    freezes: AtomicBool,
}

impl Process {
    pub(super) fn new(name: impl Into<String>, is_faulty: bool) -> Self {
        let (died, is_dead, freezes) = (Notify::new(), AtomicBool::new(false), AtomicBool::new(false));
        Self { name: name.into(), is_faulty, client: OnceLock::new(), died, is_dead, freezes }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// Ends this process.
    pub(super) async fn die<T>(&self) -> T {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_waiters();
        std::future::pending().await
    }

    /// Suspends this process.
    pub(super) async fn freeze(&self) {
        self.freezes.store(true, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }

    /// Runs the process until its work is done or it dies. A spawned task stops at its next
    /// request.
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
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(done));
                }
                if died.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                if !self.freezes.swap(false, Ordering::SeqCst) {
                    return Poll::Pending;
                }
                asleep = Some(Box::pin(tokio::time::sleep(FROZEN)));
            }
        })
        .await
    }
}
