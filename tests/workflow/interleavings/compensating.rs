//! Compensation concurrent with a step in flight, with a late outcome, or with steps of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::Failure;
use locker::Intervened;
use locker::workflow::{Compensated, Compensation, Completer, Flow, Outcome, State, Stop, Workflow};
use locker_tests::{Fate, ada, kill};

use super::{Script, input, transient};
use crate::bench::{Desk, LATER};

#[tokio::test]
async fn a_late_outcome_is_compensated_once_though_the_first_compensation_was_killed() {
    let desk = Desk::new().await;
    let mut twice = Vec::new();
    for n in 4..14 {
        let script = Script::new(|flow, script| async move {
            flow.once("charge")
                .compensate(&"refund")
                .run(|_| async {
                    script.books.enter("charged");
                    script.call();
                    let _told = script.gate.acquire().await.unwrap();
                    Ok("paid".to_owned())
                })
                .await
        });
        let key = format!("s/{n}");
        let late = tokio::spawn({
            let (workflows, script, key) = (desk.machine().0, script.clone(), key.clone());
            async move { workflows.start(&script, key, &input()).run().await.map(drop) }
        });
        script.until(1).await;
        assert_eq!(desk.machine().0.cancel(key.as_str(), 1, &ada()).await.unwrap(), Intervened::Done);
        desk.bench.clock.advance(LATER);
        let (workflows, wire) = desk.machine();
        wire.next(std::iter::repeat_n(Fate::Ok, n).chain([Fate::Stalls]));
        let dying = tokio::spawn({
            let completer = Completer::new(&workflows).register(script.clone());
            async move { completer.run().await.map(drop) }
        });
        while wire.count() <= n && !dying.is_finished() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        kill(dying).await;
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
async fn a_step_in_flight_while_another_fails_is_compensated() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let rows = desk.rows.clone();
    let script = Script::new({
        let wire = wire.clone();
        move |flow, _| {
            let (rows, wire) = (rows.clone(), wire.clone());
            async move {
                let row = Put::builder().table_name(rows).item("id", AttributeValue::S("1".into()));
                let row = flow.atomic("row").put(row.build().unwrap()).compensate(&"unrow");
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
    wire.next([Fate::Ok, Fate::Hangs]);
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    assert!(desk.row("1").await.is_some());
    assert_eq!(desk.view("s/1").await.state(), State::Failed);
    assert_eq!(script.books.entries(), ["undo row"]);
}

#[tokio::test]
async fn a_step_concurrent_with_the_end_does_not_start_after_it() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let (beside, books) = (flow.clone(), script.clone());
        tokio::spawn(async move {
            let _told = books.gate.acquire().await.unwrap();
            let charge = beside.once("charge").compensate(&"refund").run(|_| async {
                books.books.enter("charged");
                Ok(())
            });
            drop(charge.await);
            books.call();
        });
        Err(Stop::fail("no"))
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    script.gate.add_permits(1);
    script.until(1).await;
    desk.settle(&script).await;
    assert!(script.books.entries().is_empty(), "{:?}, and never compensated", script.books.entries());
}

#[derive(Clone)]
struct Tells(Arc<AtomicUsize>);

impl Workflow for Tells {
    const NAME: &'static str = "tells";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["a", "b"] {
            flow.once(name).compensate(&"undo").run(|_| async { Ok(()) }).await?;
        }
        Err(Stop::fail("no"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let told = flow.step("tell").run(|_| async { Ok(()) }).await;
        told.map_err(|stop| Failure::permanent(stop.to_string()))?;
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 { Err(transient()) } else { Ok(Compensated::Done) }
    }
}

#[tokio::test]
async fn a_compensation_with_a_step_of_its_own_is_retried() {
    let desk = Desk::new().await;
    let tells = Tells(Arc::default());
    let outcome = desk.machine().0.start(&tells, "tells/1", &()).run().await.unwrap();
    let view = desk.view("tells/1").await;
    let failed: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state(), step.result())).collect();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}: {failed:?}");
}
