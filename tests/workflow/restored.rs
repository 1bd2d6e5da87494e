//! A restored table: workflows that it shows as unfinished, and starts that it has forgotten, wait
//! for an operator.

use chrono::{DateTime, Utc};
use locker::workflow::{Completer, Flow, Outcome, Stop, Workflow, Workflows};
use locker::{Failure, Intervened, RunError};
use locker_tests::{HOUR, MINUTE, ada};

use crate::bench::{Books, Desk, LATER};

/// Charges once. Its step begins a token of its own.
#[derive(Clone)]
struct Charge {
    books: Books,
    tokens: Option<locker::Locker>,
}

impl Charge {
    fn new() -> Self {
        Self { books: Books::default(), tokens: None }
    }
}

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: &Flow, number: u32) -> Result<u32, Stop> {
        let charge = async || {
            self.books.enter(format!("charge {}", flow.key().as_str()));
            if let Some(tokens) = &self.tokens {
                let inner =
                    tokens.token(("inner", flow.key().as_str())).run(async |_| Ok::<_, Failure>(1)).await;
                inner.map_err(|error: RunError<Failure>| Failure::permanent(error.to_string()))?;
            }
            Ok::<_, Failure>(number)
        };
        flow.once("charge").input(&number).run(|_| charge()).await
    }
}

/// Charges twice.
#[derive(Clone, Default)]
struct Pair(Books);

impl Workflow for Pair {
    const NAME: &'static str = "pair";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let charge = async |step: &'static str| {
            self.0.enter(step);
            Ok::<_, Failure>(1)
        };
        let first: u32 = flow.once("first").run(|_| charge("first")).await?;
        Ok(first + flow.once("second").run(|_| charge("second")).await?)
    }
}

/// The machine of a table that was restored at this time.
fn closed(desk: &Desk, end: DateTime<Utc>) -> Workflows {
    desk.machine_with(|settings, _| settings.restored = Some(end)).0
}

async fn complete(desk: &Desk, workflows: &Workflows, code: &Charge) {
    for _ in 0..3 {
        desk.bench.clock.advance(LATER);
        Completer::new(workflows).register(code.clone()).run().await.expect("a run");
    }
}

#[tokio::test(start_paused = true)]
async fn old_start_is_quarantined_until_an_operator_retries_it() {
    let desk = Desk::new().await;
    let code = Charge::new();
    let before = desk.now();
    desk.bench.clock.advance(HOUR);
    let end = desk.now();
    desk.bench.clock.advance(MINUTE);
    let workflows = closed(&desk, end);
    let start = |key: &'static str| workflows.start(&code, key, &7);
    for (key, at) in [("no-time", None), ("old", Some(before)), ("end", Some(end))] {
        let request = |key| match at {
            Some(at) => start(key).requested_at(at),
            None => start(key),
        };
        // By each of the two ways to start, and again.
        for outcome in [request(key).run().await, request(key).enqueue().await, request(key).run().await] {
            let Ok(Outcome::Quarantined(reason)) = outcome else { panic!("{key}: {outcome:?}") };
            assert!(reason.contains("may have forgotten this work"), "{reason}");
        }
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), [""; 0], "{key}");
    }
    let enqueued = start("enqueued").requested_at(before).enqueue().await;
    assert!(matches!(enqueued, Ok(Outcome::Quarantined(_))), "{enqueued:?}");
    assert!(matches!(start("new").requested_at(desk.now()).run().await, Ok(Outcome::Completed(_))));
    assert_eq!(workflows.retry(&desk.view("old").await, &ada()).await.expect("an answer"), Intervened::Done);
    complete(&desk, &workflows, &code).await;
    assert_eq!(code.books.entries(), ["charge new", "charge old"]);
    assert!(matches!(start("old").requested_at(before).run().await, Ok(Outcome::Completed(_))));
}

#[tokio::test(start_paused = true)]
async fn unfinished_workflow_of_the_backup_is_not_resumed() {
    for by_caller in [false, true] {
        let desk = Desk::new().await;
        let code = Charge::new();
        let workflows = desk.machine().0;
        let started = workflows.start(&code, "order/7", &7).enqueue().await;
        assert!(matches!(started, Ok(Outcome::InProgress(_))), "{started:?}");
        desk.bench.clock.advance(HOUR);
        let end = desk.now();
        let workflows = closed(&desk, end);
        if by_caller {
            desk.bench.clock.advance(HOUR);
            let resumed = workflows.start(&code, "order/7", &7).requested_at(desk.now()).run().await;
            assert!(matches!(resumed, Ok(Outcome::Quarantined(_))), "{resumed:?}");
        }
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), [""; 0]);
        assert_eq!(desk.quarantine().await, ["order/7"]);
        assert_eq!(
            workflows.retry(&desk.view("order/7").await, &ada()).await.expect("an answer"),
            Intervened::Done
        );
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), ["charge order/7"]);
        let done = workflows.start(&code, "order/7", &7).run().await;
        assert!(matches!(done, Ok(Outcome::Completed(_))), "{done:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn finished_workflow_of_the_backup_is_replayed() {
    let desk = Desk::new().await;
    let code = Charge::new();
    let done = desk.machine().0.start(&code, "order/7", &7).run().await;
    assert!(matches!(done, Ok(Outcome::Completed(_))), "{done:?}");
    desk.bench.clock.advance(HOUR);
    let workflows = closed(&desk, desk.now());
    let again = workflows.start(&code, "order/7", &7).run().await;
    assert!(matches!(again, Ok(Outcome::Completed(_))), "{again:?}");
    assert_eq!(code.books.entries(), ["charge order/7"]);
}

#[tokio::test(start_paused = true)]
async fn steps_have_the_time_of_their_workflow() {
    let desk = Desk::new().await;
    let before = desk.now();
    desk.bench.clock.advance(HOUR);
    let end = desk.now();
    desk.bench.clock.advance(MINUTE);
    let tokens = desk.bench.machine_with(|settings| settings.restored = Some(end)).0;
    let code = Charge { tokens: Some(tokens.clone()), ..Charge::new() };
    let workflows = closed(&desk, end);
    let new = workflows.start(&code, "new", &7).requested_at(desk.now()).run().await;
    assert!(matches!(new, Ok(Outcome::Completed(_))), "{new:?}");
    // After an operator's retry, the steps belong to that decision.
    let old = workflows.start(&code, "old", &7).requested_at(before).run().await;
    assert!(matches!(old, Ok(Outcome::Quarantined(_))), "{old:?}");
    desk.bench.clock.advance(MINUTE);
    assert_eq!(workflows.retry(&desk.view("old").await, &ada()).await.expect("an answer"), Intervened::Done);
    complete(&desk, &workflows, &code).await;
    let old = workflows.start(&code, "old", &7).run().await;
    assert!(matches!(old, Ok(Outcome::Completed(_))), "{old:?}");
    assert!(tokens.get(("inner", "old")).await.expect("an answer").is_some());
}

/// Both charges happened after the backup. A decision about one does not allow the other.
#[tokio::test(start_paused = true)]
async fn decision_about_a_step_does_not_run_the_other_forgotten_steps() {
    for is_quarantined in [true, false] {
        let desk = Desk::new().await;
        let code = Pair::default();
        let started = desk.machine().0.start(&code, "order/7", &()).enqueue().await;
        assert!(matches!(started, Ok(Outcome::InProgress(_))), "{started:?}");
        desk.bench.clock.advance(HOUR);
        let workflows = closed(&desk, desk.now());
        desk.bench.clock.advance(MINUTE);
        let complete = async || {
            desk.bench.clock.advance(LATER);
            Completer::new(&workflows).register(code.clone()).run().await.expect("a run");
        };
        if is_quarantined {
            complete().await;
        }
        for step in ["first", "second"] {
            let seen = desk.view("order/7").await;
            let done = workflows.resolve_step(&seen, step, &7.into(), &ada()).await;
            assert_eq!(done.expect("an answer"), Intervened::Done, "{step}");
            complete().await;
            assert_eq!(code.0.entries(), [""; 0], "{step}");
            assert_eq!(desk.quarantine().await, ["order/7"], "{step}");
        }
        let seen = desk.view("order/7").await;
        assert_eq!(workflows.retry(&seen, &ada()).await.expect("an answer"), Intervened::Done);
        complete().await;
        assert_eq!(code.0.entries(), [""; 0]);
        assert_eq!(desk.view("order/7").await.result(), Some("14"));
    }
}
