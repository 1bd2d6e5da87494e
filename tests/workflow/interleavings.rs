//! Interleavings that are hard to think of: each of these once did harm, or said what was not so.

#[path = "interleavings/doubt.rs"]
mod doubt;
#[path = "interleavings/ends.rs"]
mod ends;
#[path = "interleavings/keyed.rs"]
mod keyed;
#[path = "interleavings/shared_time.rs"]
mod shared_time;
#[path = "interleavings/undoing.rs"]
mod undoing;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use locker::workflow::{Flow, Stop, Undo, Undone, Workflow};
use locker::{Failure, Person};
use tokio::sync::Semaphore;

use crate::bench::Books;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Run = dyn Fn(Flow, Script) -> Boxed<Result<String, Stop>> + Send + Sync;

/// A workflow whose code is a closure.
#[derive(Clone)]
struct Script {
    books: Books,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    undone: Undone,
    run: Arc<Run>,
}

impl Script {
    fn new<F, R>(run: F) -> Self
    where
        F: Fn(Flow, Self) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, Stop>> + Send + 'static,
    {
        let run: Arc<Run> = Arc::new(move |flow, script| Box::pin(run(flow, script)));
        let (books, calls, gate) = (Books::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        Self { books, calls, gate, undone: Undone::Done, run }
    }

    fn call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }

    async fn until(&self, calls: usize) {
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

    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        if undo.is_late() || self.undone == Undone::Done {
            self.books.enter(format!("undo {}", undo.step()));
            return Ok(Undone::Done);
        }
        Ok(Undone::Nothing)
    }
}

fn person() -> Person {
    Person::new("alice", "the customer called").unwrap()
}

fn input() -> String {
    "secret".to_owned()
}

async fn forever<T>() -> T {
    std::future::pending().await
}

fn transient() -> Failure {
    Failure::transient("down".to_owned())
}
