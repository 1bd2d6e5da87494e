//! A workflow of ten steps that is killed at every exchange, and resumed.

use std::time::Duration;

use locker::workflow::{List, Outcome, State, StepState};
use locker_tests::{Fate, kill};

use crate::bench::{Desk, LATER};
use crate::ten::{Ten, put_right};

/// Whether the request that is in flight when the driver dies is still applied.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Death {
    Before,
    After,
}

/// The number of exchanges of an undisturbed run.
async fn undisturbed(desk: &Desk) -> usize {
    let (workflows, wire) = desk.machine();
    let ten = Ten::new(desk);
    let Outcome::Completed(results) = workflows.start(&ten, "ten/undisturbed", &()).run().await.unwrap()
    else {
        panic!("it completes")
    };
    assert_eq!(results.len(), 10);
    wire.count()
}

/// Drive a workflow up to its `n`-th exchange, and kill the driver there.
async fn killed_at(desk: &Desk, ten: &Ten, key: &str, n: usize, death: Death) {
    let (workflows, wire) = desk.machine();
    let last = if death == Death::After { Fate::Hangs } else { Fate::Stalls };
    wire.next(std::iter::repeat_n(Fate::Ok, n).chain([last]));
    let (ten, key) = (ten.clone(), key.to_owned());
    let drive = tokio::spawn(async move { workflows.start(&ten, key, &()).run().await.map(drop) });
    while wire.count() <= n && !drive.is_finished() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    kill(drive).await;
}

#[tokio::test]
async fn killed_at_every_exchange_and_resumed() {
    let desk = Desk::new().await;
    let exchanges = undisturbed(&desk).await;
    assert!(exchanges > 20, "{exchanges}");
    let mut in_quarantine = 0;
    for n in 0..exchanges {
        for death in [Death::Before, Death::After] {
            let key = format!("ten/{n}/{death:?}");
            let ten = Ten::new(&desk);
            killed_at(&desk, &ten, &key, n, death).await;
            let Some(before) = desk.machine().0.get(key.as_str(), 1).await.unwrap() else {
                assert_eq!((n, death), (0, Death::Before), "only then is there no workflow");
                assert!(ten.books.entries().is_empty());
                continue;
            };
            desk.settle(&ten).await;
            let quarantined = desk.view(&key).await.listed() == Some(List::Quarantine);
            let once_doubtful = (0..4).any(|number| {
                before
                    .steps()
                    .iter()
                    .any(|step| step.name() == format!("once#{number}") && step.state() == StepState::Started)
            });
            assert_eq!(quarantined, once_doubtful, "{key}: quarantined if and only if a step is in doubt");
            in_quarantine += usize::from(quarantined);
            put_right(&desk, &ten, &key).await;

            let view = desk.view(&key).await;
            assert_eq!(view.state(), State::Completed, "{key}");
            for number in 0..4 {
                let once = ten.books.count(&format!("once#{number}"));
                assert_eq!(once, 1, "{key}: once#{number}");
                let steps = ten.books.count(&format!("step#{number}"));
                assert!((1..=2).contains(&steps), "{key}: step#{number} ran {steps} times");
            }
            let results: Vec<String> = serde_json::from_str(view.result().unwrap()).unwrap();
            for step in before.steps().iter().filter(|step| step.state() == StepState::Completed) {
                let recorded: String = serde_json::from_str(&step.result().unwrap()).unwrap();
                assert!(results.contains(&recorded), "{key}: the recorded result of {} is kept", step.name());
            }
            for number in 0..2 {
                assert!(desk.row(&format!("{key}/atomic#{number}")).await.is_some());
            }
            assert_eq!(view.messages().len(), 2, "{key}");
        }
    }
    // Four steps, between start and outcome: killed after the start was applied, at the read, and
    // before the outcome was.
    assert_eq!(in_quarantine, 4 * 4);
}

#[tokio::test]
async fn one_query_reads_all_recovery_points() {
    let desk = Desk::new().await;
    let exchanges = undisturbed(&desk).await;
    let ten = Ten::new(&desk);
    // All steps are done, and the answer is not stored.
    killed_at(&desk, &ten, "ten/query", exchanges - 2, Death::Before).await;
    desk.bench.clock.advance(LATER);
    let effects = ten.books.entries().len();
    let (workflows, wire) = desk.machine();
    let outcome = workflows.start(&ten, "ten/query", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(ten.books.entries().len(), effects, "nothing ran again");
    let operations: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
    // Refused, a look at the lost driver's progress, claimed, read, answer, end.
    assert_eq!(operations, ["PutItem", "Query", "PutItem", "Query", "PutItem", "PutItem"]);
}

#[tokio::test]
async fn code_may_be_reordered_while_a_workflow_is_unfinished() {
    use locker::Failure;
    use locker::workflow::{Flow, Stop, Workflow};

    struct Old;
    struct New;
    impl Workflow for Old {
        const NAME: &'static str = "reordered";
        type Input = ();
        type Output = Vec<u32>;
        async fn run(&self, flow: &Flow, (): ()) -> Result<Vec<u32>, Stop> {
            let a = flow.once("a").run(|_| async { Ok(1) }).await?;
            let b = flow
                .step("b")
                .run(|_| async { Err::<u32, _>(Failure::transient("down".to_owned())) })
                .await?;
            Ok(vec![a, b])
        }
    }
    impl Workflow for New {
        const NAME: &'static str = "reordered";
        type Input = ();
        type Output = Vec<u32>;
        async fn run(&self, flow: &Flow, (): ()) -> Result<Vec<u32>, Stop> {
            let c = flow.step("c").run(|_| async { Ok(30) }).await?;
            let b = flow.step("b").run(|_| async { Ok(20) }).await?;
            let a = flow.once("a").run(|_| async { Ok(10) }).await?;
            Ok(vec![a, b, c])
        }
    }

    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let outcome = workflows.start(&Old, "reordered/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    let outcome = workflows.start(&New, "reordered/1", &()).run().await.unwrap();
    let Outcome::Completed(results) = outcome else { panic!("{outcome:?}") };
    assert_eq!(*results, [1, 20, 30], "a is the recorded one");
}
