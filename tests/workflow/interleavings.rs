//! Interleavings that are hard to think of: each of these once did harm, or said what was not so.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::workflow::{
    Completer, Flow, Found, Intervened, Outcome, Reaper, RetryPolicy, Stop, Undo, Undone, Workflow,
    WorkflowState,
};
use locker::{Failure, Person, Retention};
use locker_tests::Fault;
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};

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

#[tokio::test]
async fn a_finished_workflow_keeps_its_retention_when_the_reply_of_its_end_is_lost() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                script.books.enter("charge");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.give_up_after = Duration::from_millis(900));
    // Start, start of the step, fence, outcome, answer, end.
    wire.next([Fault::None, Fault::None, Fault::None, Fault::None, Fault::None, Fault::Hang]);
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap_err();
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed);
    let kept = view.due() - view.ended().unwrap();
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    assert_eq!(script.books.count("charge"), 1, "kept for {kept}, then forgotten and done again");
}

#[tokio::test]
async fn the_input_of_a_start_whose_reply_was_lost_is_kept() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.step("s")
            .retry(RetryPolicy::never())
            .run(|_| async { if script.call() == 0 { Err(transient()) } else { Ok("done".to_owned()) } })
            .await
    });
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(1));
    wire.next([Fault::None, Fault::Hang]);
    let enqueued = tokio::spawn({
        let script = script.clone();
        let big: String = (0..3000).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        async move { workflows.workflow(&script, "s/1", &big).enqueue().await.map(drop) }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    let (other, _) = desk.machine();
    desk.bench.clock.advance(Duration::from_secs(1));
    let done = Completer::new(&other).register(script.clone()).run().await.unwrap();
    assert_eq!(done.taken, 1);
    enqueued.await.unwrap().unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn what_is_in_doubt_stays_in_doubt_though_a_later_try_did_not_happen() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .recognised_for(Duration::from_secs(24 * 3600))
            .compensate("refund", &1)
            .retry(RetryPolicy::never())
            .run(|_| async {
                if script.call() == 0 {
                    script.books.enter("charged");
                    return Err(Failure::in_doubt("no reply".to_owned()));
                }
                Err(transient())
            })
            .await
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).register(script.clone()).run().await.unwrap();
    assert_eq!(script.calls.load(Ordering::SeqCst), 2);
    workflows.cancel("s/1", 1, &person()).await.unwrap();
    desk.settle(&script).await;
    assert_eq!(desk.view("s/1").await.state(), WorkflowState::Cancelled);
    assert_eq!(script.books.entries(), ["charged", "undo charge"]);
}

#[tokio::test]
async fn a_late_outcome_is_undone_once_though_the_first_undoing_was_killed() {
    let desk = Desk::new().await;
    let mut twice = Vec::new();
    for n in 4..14 {
        let script = Script::new(|flow, script| async move {
            flow.once("charge")
                .compensate("refund", &1)
                .run(|_| async {
                    script.books.enter("charged");
                    script.call();
                    let _told = script.gate.acquire().await.unwrap();
                    Ok::<_, Failure>("paid".to_owned())
                })
                .await
        });
        let key = format!("s/{n}");
        let late = tokio::spawn({
            let (workflows, script, key) = (desk.machine().0, script.clone(), key.clone());
            async move { workflows.workflow(&script, key, &input()).run().await.map(drop) }
        });
        script.until(1).await;
        desk.machine().0.cancel(key.as_str(), 1, &person()).await.unwrap();
        desk.bench.clock.advance(LATER);
        let (workflows, wire) = desk.machine();
        wire.next(std::iter::repeat_n(Fault::None, n).chain([Fault::Stall]));
        let dying = tokio::spawn({
            let completer = Completer::new(&workflows).register(script.clone());
            async move { completer.run().await.map(drop) }
        });
        while wire.count() <= n && !dying.is_finished() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        dying.abort();
        script.gate.add_permits(10);
        late.await.unwrap().unwrap();
        for _ in 0..2 {
            desk.settle(&script).await;
        }
        if script.books.count("undo charge") > 1 {
            twice.push(n);
        }
    }
    assert!(twice.is_empty(), "refunded twice when killed at {twice:?}");
}

#[tokio::test]
async fn no_try_is_made_once_another_may_have_taken_the_step_over() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .probe(|_| async { Ok(Found::NotDone) })
            .retry(RetryPolicy::default().total(Duration::from_secs(600)))
            .run(|_| async {
                if script.call() == 0 {
                    return Err(transient().after(Duration::from_secs(2)));
                }
                script.books.enter("charge");
                Ok("paid".to_owned())
            })
            .await
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.workflow(&script, "s/1", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    // It waits until the provider wants to be asked again, and its machine is suspended meanwhile.
    desk.bench.clock.advance(LATER);
    let outcome = desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    first.await.unwrap().unwrap();
    assert_eq!(script.books.count("charge"), 1);
}

#[tokio::test]
async fn a_step_on_its_way_beside_the_one_that_failed_is_undone() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let rows = desk.rows.clone();
    let script = Script::new({
        let wire = wire.clone();
        move |flow, _| {
            let (rows, wire) = (rows.clone(), wire.clone());
            async move {
                let row = Put::builder().table_name(rows).item("id", AttributeValue::S("1".into()));
                let row = flow.atomic("row").put(row.build().unwrap()).compensate("unrow", &1);
                let fails = flow.step("fails").run(|_| async {
                    while wire.count() < 2 {
                        tokio::task::yield_now().await;
                    }
                    Err::<(), _>(Failure::permanent("no".to_owned()))
                });
                tokio::try_join!(row.commit(&()), fails)?;
                Ok("done".to_owned())
            }
        }
    });
    wire.next([Fault::None, Fault::Hang]);
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    assert!(desk.row("1").await.is_some());
    assert_eq!(desk.view("s/1").await.state(), WorkflowState::Failed);
    assert_eq!(script.books.entries(), ["undo row"]);
}

#[tokio::test]
async fn a_late_outcome_of_a_shared_step_that_was_taken_over_is_undone() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .probe(|_| async { Ok(Found::NotDone) })
            .compensate("refund", &1)
            .run(|_| async {
                if script.call() == 0 {
                    return forever().await;
                }
                let _told = script.gate.acquire().await.unwrap();
                script.books.enter("charged");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let script = Script { undone: Undone::Nothing, ..script };
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.workflow(&script, "a", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    dies.abort();
    desk.bench.clock.advance(LATER);
    let b = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        let long = Duration::from_secs(100 * 3600);
        async move { workflows.workflow(&script, "b", &input()).expect_within(long).run().await.map(drop) }
    });
    script.until(2).await;
    desk.machine().0.cancel("a", 1, &person()).await.unwrap();
    desk.settle(&script).await;
    assert_eq!(desk.view("a").await.state(), WorkflowState::Cancelled);
    script.gate.add_permits(10);
    b.await.unwrap().unwrap();
    desk.settle(&script).await;
    let (charged, refunded) = (script.books.count("charged"), script.books.count("undo charge"));
    let state = desk.view("b").await.state();
    assert!(
        charged == refunded || state == WorkflowState::Completed,
        "b is {state:?}; charged {charged}, refunded {refunded}"
    );
}

#[tokio::test]
async fn a_reaper_that_wakes_late_deletes_nothing_of_the_next_run() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                script.books.enter("charge");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await?;
        flow.step("s")
            .retry(RetryPolicy::never())
            .run(|_| async { if script.call() == 1 { Err(transient()) } else { Ok("done".to_owned()) } })
            .await
    });
    let run = async || {
        let (workflows, _) = desk.machine();
        workflows.workflow(&script, "s/1", &input()).run().await.unwrap()
    };
    run().await;
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(3));
    // Listing, query, mark, ledger; its deletions are on their way for long.
    wire.next([Fault::None, Fault::None, Fault::None, Fault::None, Fault::Stall]);
    let late = tokio::spawn({
        let reaper = Reaper::new(&Completer::new(&workflows).register(script.clone()));
        async move { reaper.run().await.map(drop) }
    });
    while wire.count() < 5 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wire.take().last().unwrap().operation, "DeleteItem");
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!(reaped.forgotten, 1);
    let outcome = run().await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(script.books.count("charge"), 2, "one for each run");
    drop(late.await.unwrap());
    desk.settle(&script).await;
    assert_eq!(script.books.count("charge"), 2, "the second run did it twice");
}

#[tokio::test]
async fn what_is_to_be_undone_may_not_expire() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .retention(Retention::For(Duration::from_secs(60)))
            .compensate("refund", &1)
            .run(|_| async {
                script.books.enter("charged");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let outcome = desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("what is to be undone is kept for ever"), "{reason}");
    assert!(script.books.entries().is_empty());
}

#[tokio::test]
async fn a_pivot_with_a_key_that_failed_is_no_pivot() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        flow.once("a").compensate("undo", &1).run(|_| async { Ok::<_, Failure>(()) }).await?;
        let fails = |_| async { Err::<(), _>(Failure::permanent("no".to_owned())) };
        flow.once("pivot").key("pivot/1").pivot().run(fails).await?;
        Ok("done".to_owned())
    });
    let outcome = desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(script.books.entries(), ["undo a"]);
}

#[tokio::test]
async fn an_atomic_step_that_dynamodb_never_takes_is_parked() {
    let desk = Desk::new().await;
    let rows = desk.rows.clone();
    let script = Script::new(move |flow, _| {
        let rows = rows.clone();
        async move {
            // Two puts of one item: said to be checked before anything is sent.
            let row = || {
                Put::builder().table_name(&rows).item("id", AttributeValue::S("1".into())).build().unwrap()
            };
            flow.atomic("rows").put(row()).put(row()).commit(&()).await?;
            Ok("done".to_owned())
        }
    });
    let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 3);
    workflows.workflow(&script, "s/1", &input()).enqueue().await.unwrap();
    let completer = Completer::new(&workflows).register(script.clone());
    for _ in 0..12 {
        desk.bench.clock.advance(LATER);
        completer.run().await.unwrap();
    }
    let view = desk.view("s/1").await;
    assert_eq!(desk.quarantine().await, ["s/1"], "{} attempts: {:?}", view.attempts(), view.reason());
}

#[tokio::test]
async fn a_verb_that_was_applied_does_not_say_that_nothing_was_written() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.step("s")
            .run(|_| async {
                if script.call() == 0 {
                    Err(Failure::needs_person("look".to_owned()))
                } else {
                    Ok("done".to_owned())
                }
            })
            .await
    });
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(1));
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    wire.take();
    wire.next([Fault::Hang]);
    let retried = tokio::spawn(async move { workflows.retry(&seen, &person()).await });
    while wire.count() < 1 {
        tokio::task::yield_now().await;
    }
    let (other, _) = desk.machine();
    desk.bench.clock.advance(Duration::from_secs(1));
    Completer::new(&other).register(script.clone()).run().await.unwrap();
    assert_eq!(script.calls.load(Ordering::SeqCst), 2, "it was let go by the person's write");
    let said = retried.await.unwrap();
    assert!(!matches!(said, Ok(Intervened::Changed)), "{said:?}");
}

#[tokio::test]
async fn a_failed_step_that_a_person_frees_runs_again() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let done = flow.step("s").run(|_| async {
            if script.call() == 0 { Err(Failure::permanent("no".to_owned())) } else { Ok("done".to_owned()) }
        });
        match done.await {
            Err(Stop::Failed(failure)) => Err(Stop::NeedsPerson(failure)),
            done => done,
        }
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    assert_eq!(workflows.retry_step(&seen, "s", &person()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn a_person_resolves_a_shared_step_that_has_only_its_pointer() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .run(|_| async {
                script.books.enter("charged");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) = desk.machine();
    // Start, pointer, start of the step.
    wire.next([Fault::None, Fault::None, Fault::Stall]);
    let dies = tokio::spawn({
        let script = script.clone();
        async move { workflows.workflow(&script, "s/1", &input()).run().await.map(drop) }
    });
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    dies.abort();
    let (workflows, _) = desk.machine();
    let seen = desk.view("s/1").await;
    let name = seen.steps()[0].name();
    let said = workflows.resolve_step(&seen, &name, &"paid by hand".into(), &person()).await.unwrap();
    desk.settle(&script).await;
    let charged = script.books.count("charged");
    assert!(
        name == "charge" && (said != Intervened::Done || charged == 0),
        "step {name}: {said:?}, charged {charged}"
    );
}

#[tokio::test]
async fn debug_shows_no_input_and_no_result() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        flow.once("a")
            .compensate("undo", &"secret")
            .run(|_| async { Ok::<_, Failure>("secret".to_owned()) })
            .await
    });
    let (workflows, _) = desk.machine();
    let start = workflows.workflow(&script, "s/1", &input());
    let mut shown = vec![("Start", format!("{:?}", start.owner("me").run().await.map(drop)))];
    let view = desk.view("s/1").await;
    shown.push(("WorkflowView", format!("{view:?}")));
    shown.push(("StepView", format!("{:?}", view.steps())));
    let leaks: Vec<_> =
        shown.iter().filter(|(_, text)| text.contains("secret")).map(|(what, _)| what).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[tokio::test]
async fn a_step_that_somebody_is_at_is_not_freed() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                if script.call() == 0 {
                    let _told = script.gate.acquire().await.unwrap();
                }
                script.books.enter("charged");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let at_work = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.workflow(&script, "s/1", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    let seen = desk.view("s/1").await;
    let said = desk.machine().0.retry_step(&seen, "charge", &person()).await.unwrap();
    desk.settle(&script).await;
    script.gate.add_permits(10);
    at_work.await.unwrap().unwrap();
    assert!(
        said != Intervened::Done && script.books.count("charged") == 1,
        "{said:?}: {:?}",
        script.books.entries()
    );
}

#[tokio::test]
async fn no_two_effects_share_an_idempotency_key() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let enter = |attempt: locker::workflow::StepAttempt| {
            script.books.enter(attempt.idempotency_key());
            async { Ok::<_, Failure>(()) }
        };
        flow.once("charge").run(enter).await?;
        flow.once("shared").key("order/7/charge").run(enter).await?;
        flow.once("posing").key("card~v2").run(enter).await?;
        flow.once("version").key("card").version(2).run(enter).await?;
        Ok("done".to_owned())
    });
    desk.machine().0.workflow(&script, ("order", 7), &input()).run().await.unwrap();
    let keys = script.books.entries();
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
}

#[tokio::test]
async fn a_shared_step_cancelled_in_doubt_can_be_mended_for_others() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .compensate("refund", &1)
            .run(|_| async {
                if script.call() == 0 {
                    return forever().await;
                }
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let script = Script { undone: Undone::Nothing, ..script };
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.workflow(&script, "a", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    dies.abort();
    let (workflows, _) = desk.machine();
    workflows.cancel("a", 1, &person()).await.unwrap();
    desk.settle(&script).await;
    let outcome = workflows.workflow(&script, "b", &input()).run().await.unwrap();
    assert!(!matches!(outcome, Outcome::Failed(_)), "nobody cancelled b: {outcome:?}");
}

#[tokio::test]
async fn a_step_beside_the_end_does_not_start_after_it() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let (beside, books) = (flow.clone(), script.clone());
        tokio::spawn(async move {
            let _told = books.gate.acquire().await.unwrap();
            let charge = beside.once("charge").compensate("refund", &1).run(|_| async {
                books.books.enter("charged");
                Ok::<_, Failure>(())
            });
            drop(charge.await);
            books.call();
        });
        Err(Stop::fail("no"))
    });
    let outcome = desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    script.gate.add_permits(1);
    script.until(1).await;
    desk.settle(&script).await;
    assert!(script.books.entries().is_empty(), "{:?}, and never undone", script.books.entries());
}

#[tokio::test]
async fn an_error_after_an_effect_does_not_say_that_nothing_was_changed() {
    let desk = Desk::new().await;
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.give_up_after = Duration::from_millis(300));
    let script = Script::new({
        let wire = wire.clone();
        move |flow, script| {
            let wire = wire.clone();
            async move {
                flow.once("charge")
                    .run(|_| async {
                        script.books.enter("charged");
                        wire.always(Fault::Throttle);
                        Ok::<_, Failure>("paid".to_owned())
                    })
                    .await
            }
        }
    });
    let error = workflows.workflow(&script, "s/1", &input()).run().await.unwrap_err();
    assert_eq!(script.books.count("charged"), 1);
    assert!(!error.to_string().contains("nothing was changed"), "{error}");
}

#[tokio::test]
async fn the_reaper_does_not_delete_the_input_of_the_next_run() {
    let desk = Desk::new().await;
    let script = Script::new(|_, _| async { Ok("done".to_owned()) });
    desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(2));
    wire.next([Fault::None, Fault::Stall]);
    let next = tokio::spawn({
        let script = script.clone();
        let big: String = (0..3000).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        async move { workflows.workflow(&script, "s/1", &big).run().await.unwrap() }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!(reaped.forgotten, 1);
    let outcome = next.await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_new_run_does_not_undo_what_the_former_one_did() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate("refund", &1).run(|_| async {
            script.books.enter("charged");
            Ok::<_, Failure>("paid".to_owned())
        });
        let paid = charge.await?;
        if script.call() == 0 { Ok(paid) } else { Err(Stop::fail("no")) }
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    let outcome = workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(script.books.entries(), ["charged"]);
}

#[tokio::test]
async fn a_permanent_failure_after_one_in_doubt_proves_nothing() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .recognised_for(Duration::from_secs(24 * 3600))
            .compensate("refund", &1)
            .run(|_| async {
                if script.call() == 0 {
                    script.books.enter("charged");
                    return Err(Failure::in_doubt("no reply".to_owned()));
                }
                Err::<String, _>(Failure::permanent("401: the token has expired".to_owned()))
            })
            .await
    });
    desk.machine().0.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    let undone = script.books.count("undo charge") == 1;
    assert!(undone || !desk.quarantine().await.is_empty(), "{:?}", script.books.entries());
}

#[tokio::test]
async fn a_step_that_became_atomic_is_a_clear_error() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            return flow.once("x").run(|_| async { Err(Failure::needs_person("look".to_owned())) }).await;
        }
        flow.atomic("x").commit(&"done".to_owned()).await
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    workflows.retry(&seen, &person()).await.unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Running, "{:?}", view.result());
    assert!(view.reason().unwrap().contains("another kind"), "{:?}", view.reason());
}

#[tokio::test]
async fn a_person_resolves_a_shared_step_that_was_never_recorded() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .run(|_| async {
                script.books.enter("charged");
                Ok::<_, Failure>("paid".to_owned())
            })
            .await
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).enqueue().await.unwrap();
    let seen = desk.view("s/1").await;
    let said = workflows.resolve_step(&seen, "charge", &"paid by hand".into(), &person()).await.unwrap();
    assert_eq!(said, Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed, "{:?}", view.reason());
    assert!(script.books.entries().is_empty());
}

#[tokio::test]
async fn a_finished_workflow_is_not_parked_by_the_completer_that_cut_its_end_off() {
    let desk = Desk::new().await;
    let script = Script::new(|_, _| async { Ok("done".to_owned()) });
    let (workflows, wire) = desk.machine_with(|_, limits| limits.attempts = 1);
    workflows.workflow(&script, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    // Listing, header, claim, query, answer, end.
    wire.next([Fault::None, Fault::None, Fault::None, Fault::None, Fault::None, Fault::Hang]);
    let completer = Completer::new(&workflows).register(script.clone()).drive_for(Duration::from_secs(1));
    completer.run().await.unwrap();
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed);
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{:?}", view.reason());
}

#[tokio::test]
async fn a_completer_near_its_deadline_puts_nothing_in_doubt() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let slow = |_| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, Failure>("paid".to_owned())
        };
        flow.once("charge").run(slow).await
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let soon = desk.now() + Duration::from_millis(700);
    Completer::new(&workflows).register(script.clone()).deadline(soon).run().await.unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), WorkflowState::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn no_shard_starves_another() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        if flow.key().as_str().starts_with("well") {
            return Ok("done".to_owned());
        }
        let row = Put::builder().table_name("no-such-table").item("id", AttributeValue::S("1".into()));
        flow.atomic("row").put(row.build().unwrap()).commit(&"done".to_owned()).await
    });
    let (workflows, _) = desk.machine_with(|settings, _| settings.shards = 2);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    for (kind, shard) in [("poison", "unfinished_0"), ("well", "unfinished_1")] {
        for number in 0.. {
            let key = format!("{kind}/{number}");
            workflows.workflow(&script, key.as_str(), &input()).enqueue().await.unwrap();
            let mine =
                |item: &&std::collections::HashMap<String, AttributeValue>| item["workflow"] == text(&key);
            if desk.items().await.iter().find(mine).unwrap()["status"] == text(shard) {
                break;
            }
            let delete = desk.bench.client.delete_item().table_name(&desk.table);
            delete.key("workflow", text(&key)).key("item", text("#")).send().await.unwrap();
        }
    }
    let completer = Completer::new(&workflows).register(script.clone()).limit(1);
    let mut completed = 0;
    for _ in 0..12 {
        desk.bench.clock.advance(LATER);
        completed += completer.run().await.unwrap().completed;
    }
    assert_eq!(completed, 1, "12 runs never came to the second shard");
}

#[tokio::test]
async fn a_finished_workflow_with_a_shared_step_in_doubt_is_kept() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        drop(flow.once("charge").key("card/1").compensate("refund", &1).run(lost).await);
        Ok("done".to_owned())
    });
    let (workflows, _) = desk.machine();
    workflows.workflow(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!((reaped.kept, reaped.forgotten), (1, 0));
}

#[derive(Clone)]
struct Tells(Arc<AtomicUsize>);

impl Workflow for Tells {
    const NAME: &'static str = "tells";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["a", "b"] {
            flow.once(name).compensate("undo", &1).run(|_| async { Ok::<_, Failure>(()) }).await?;
        }
        Err(Stop::fail("no"))
    }

    async fn undo(&self, flow: &Flow, _: Undo) -> Result<Undone, Failure> {
        let told = flow.step("tell").run(|_| async { Ok::<_, Failure>(()) }).await;
        told.map_err(|stop| Failure::permanent(stop.to_string()))?;
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 { Err(transient()) } else { Ok(Undone::Done) }
    }
}

#[tokio::test]
async fn an_undoing_that_makes_a_step_is_tried_again() {
    let desk = Desk::new().await;
    let tells = Tells(Arc::default());
    let outcome = desk.machine().0.workflow(&tells, "tells/1", &()).run().await.unwrap();
    let view = desk.view("tells/1").await;
    let failed: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state(), step.result())).collect();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}: {failed:?}");
}
