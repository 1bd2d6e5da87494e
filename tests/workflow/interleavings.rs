//! Interleavings that are hard to foresee: each of these once caused harm or a false report.

#[path = "interleavings/compensating.rs"]
mod compensating;
#[path = "interleavings/doubt.rs"]
mod doubt;
#[path = "interleavings/ends.rs"]
mod ends;
#[path = "interleavings/keyed.rs"]
mod keyed;
#[path = "interleavings/late.rs"]
mod late;
#[path = "interleavings/shared_time.rs"]
mod shared_time;
#[path = "interleavings/whose.rs"]
mod whose;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use locker::Failure;
use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow};
use tokio::sync::Semaphore;

use crate::bench::Books;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Run = dyn Fn(Flow, Script) -> Boxed<Result<String, Stop>> + Send + Sync;

/// A workflow whose code is a closure.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) books: Books,
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) compensated: Compensated,
    run: Arc<Run>,
}

impl Script {
    pub(crate) fn new<F, R>(run: F) -> Self
    where
        F: Fn(Flow, Self) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, Stop>> + Send + 'static,
    {
        let run: Arc<Run> = Arc::new(move |flow, script| Box::pin(run(flow, script)));
        let (books, calls, gate) = (Books::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        Self { books, calls, gate, compensated: Compensated::Done, run }
    }

    pub(crate) fn call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) async fn until(&self, calls: usize) {
        while self.calls.load(Ordering::SeqCst) < calls {
            tokio::task::yield_now().await;
        }
    }
}

impl Workflow for Script {
    const NAME: &'static str = "script";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, _: String) -> Result<String, Stop> {
        (self.run)(flow.clone(), self.clone()).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.is_late() || self.compensated == Compensated::Done {
            self.books.enter(format!("undo {}", compensation.step()));
            return Ok(Compensated::Done);
        }
        Ok(Compensated::Nothing)
    }
}

pub(crate) fn input() -> String {
    "secret".to_owned()
}

pub(crate) async fn forever<T>() -> T {
    std::future::pending().await
}

pub(crate) fn transient() -> Failure {
    Failure::transient("down".to_owned())
}
