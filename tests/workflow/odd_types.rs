//! Types of workflow with limits that no workflow can have, and two types with one name.

use std::time::Duration;

use locker::Error;
use locker::workflow::{Completer, Flow, Limits, Reaper, State, Stop, Workflow};

use crate::bench::{Books, Desk, LATER};

/// A workflow with limits of its type.
#[derive(Clone)]
struct Limited(Books, fn(&mut Limits));

impl Workflow for Limited {
    const NAME: &'static str = "limited";
    type Input = ();
    type Output = ();

    fn limits(&self, mut limits: Limits) -> Limits {
        (self.1)(&mut limits);
        limits
    }

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        self.0.enter("run");
        Ok(())
    }
}

type Change = fn(&mut Limits);

const ODD: [(&str, Change); 8] = [
    ("attempts must be at least 1", |limits| limits.attempts = 0),
    ("crashes must be at least 1", |limits| limits.crashes = 0),
    ("longest_run must be between", |limits| limits.longest_run = Duration::ZERO),
    ("retry_for must be between", |limits| limits.retry_for = Duration::MAX),
    ("failing_after must be between", |limits| limits.failing_after = Duration::ZERO),
    ("backoff_base must be between", |limits| limits.backoff_base = Duration::ZERO),
    ("backoff_cap must be between", |limits| limits.backoff_cap = Duration::MAX),
    ("last_chance_after must be between", |limits| limits.last_chance_after = Duration::ZERO),
];

fn is_refused<T: std::fmt::Debug>(done: Result<T, Error>, with: &str, name: &str) {
    let Err(Error::Invalid(error)) = done else { panic!("{with}: {done:?}") };
    let text = error.to_string();
    assert!(text.contains(with) && text.contains(name), "{text}");
}

#[tokio::test]
async fn limits_out_of_range_are_refused_before_any_request() {
    let desk = Desk::new().await;
    let well = Limited(Books::default(), |_| {});
    desk.machine().0.start(&well, "limited/1", &()).enqueue().await.unwrap();
    let before = desk.items().await;
    desk.bench.clock.advance(LATER);
    for (why, limits) in ODD {
        let code = Limited(Books::default(), limits);
        let (workflows, wire) = desk.machine();
        is_refused(workflows.start(&code, "limited/2", &()).run().await, why, "limited");
        is_refused(workflows.start(&code, "limited/2", &()).enqueue().await, why, "limited");
        let completer = Completer::new(&workflows).register(code.clone());
        is_refused(completer.run().await, why, "limited");
        is_refused(Reaper::new(&completer).run().await, why, "limited");
        assert_eq!((wire.count(), code.0.count("run")), (0, 0), "{why}");
    }
    assert_eq!(desk.items().await, before);
    desk.settle(&well).await;
    assert_eq!(desk.view("limited/1").await.state(), State::Completed);
}

/// Another type with the same name.
#[derive(Clone)]
struct Other;

impl Workflow for Other {
    const NAME: &'static str = Limited::NAME;
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test]
async fn two_types_with_one_name_are_refused_before_any_request() {
    let desk = Desk::new().await;
    let code = Limited(Books::default(), |_| {});
    desk.machine().0.start(&code, "limited/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let (workflows, wire) = desk.machine();
    let twice = Completer::new(&workflows).register(code.clone()).register(Other);
    is_refused(twice.run().await, "registered twice", "limited");
    is_refused(Reaper::new(&twice).run().await, "registered twice", "limited");
    assert_eq!((wire.count(), code.0.count("run")), (0, 0));
}
