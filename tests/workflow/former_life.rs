//! What a driver writes after its workflow was deleted belongs to a former life of the key: the
//! next one has nothing of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::workflow::{Completer, Flow, Reaper, Refused, Reported, RetryPolicy, State, Stop};
use locker::{Retention, aws_sdk_dynamodb};
use locker_tests::Fate;

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input};

/// How the first step is made, whose value says which call made it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Step,
    Once,
    Atomic,
    /// Its condition fails at first.
    Refused,
}

fn quote(desk: &Desk, kind: Kind) -> Script {
    let rows = desk.rows.clone();
    Script::new(move |flow, script| {
        let rows = rows.clone();
        async move {
            let quoted = format!("quote {}", script.call());
            let quoted = match kind {
                Kind::Step => flow.step("quote").run(|_| async { Ok(quoted.clone()) }).await?,
                Kind::Once => {
                    let once = flow.once("quote").retry(RetryPolicy::never());
                    once.run(|_| async { Ok(quoted.clone()) }).await?
                }
                Kind::Atomic => commit(&flow, &rows, &quoted, true).await?.expect("it is allowed"),
                Kind::Refused => {
                    let committed = commit(&flow, &rows, &quoted, script.call() > 1).await?;
                    committed.unwrap_or_else(|_| "sold out".to_owned())
                }
            };
            Ok(quoted)
        }
    })
}

async fn commit(
    flow: &Flow,
    rows: &str,
    quoted: &String,
    allowed: bool,
) -> Result<Result<String, Refused>, Stop> {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let row = aws_sdk_dynamodb::types::Put::builder().table_name(rows).item("id", text(quoted));
    let row = if allowed { row } else { row.condition_expression("attribute_exists(id)") };
    flow.atomic("quote").put(row.build().unwrap()).outcome(quoted).await
}

/// When the sleeping driver's request arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    BeforeTheNextLife,
    BetweenItsStartAndItsStep,
    AfterItsEnd,
}

/// A driver sleeps at this exchange until its workflow is deleted; its key is used again.
async fn played(kind: Kind, exchange: usize, when: When) {
    let what = format!("{kind:?}, {when:?}");
    let desk = Desk::new().await;
    let script = quote(&desk, kind);
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(15));
    wire.next(std::iter::repeat_n(Fate::Ok, exchange).chain([Fate::HeldBefore]));
    let start = |workflows: &locker::workflow::Workflows| {
        let kept = Retention::For(Duration::from_secs(60));
        workflows.start(&script, "s/1", &input()).retention(kept)
    };
    let asleep = tokio::spawn({
        let (script, kept) = (script.clone(), Retention::For(Duration::from_secs(60)));
        async move { workflows.start(&script, "s/1", &input()).retention(kept).run().await.map(drop) }
    });
    while wire.held() == 0 {
        assert!(!asleep.is_finished(), "{what}");
        tokio::task::yield_now().await;
    }
    // Another driver finishes it, and the reaper deletes it.
    desk.settle(&script).await;
    assert_eq!(desk.view("s/1").await.state(), State::Completed, "{what}");
    desk.bench.clock.advance(LATER);
    let completer = Completer::new(&desk.machine().0).register(script.clone());
    assert_eq!(Reaper::new(&completer).run().await.unwrap().deleted, 1, "{what}");

    let wakes = async {
        wire.let_through();
        // Its own answer does not matter.
        let _ = asleep.await.unwrap();
    };
    let calls = || script.calls.load(Ordering::SeqCst);
    match when {
        When::BeforeTheNextLife => {
            wakes.await;
            let reported = desk.machine().0.report("s/1", "quote").completed(&"reported").await.unwrap();
            assert_eq!(reported, Reported::Unknown, "{what}");
            start(&desk.machine().0).enqueue().await.unwrap();
            assert!(desk.view("s/1").await.steps().is_empty(), "{what}");
            let reported = desk.machine().0.report("s/1", "quote").completed(&"reported").await.unwrap();
            assert_eq!(reported, Reported::Unknown, "{what}");
            let before = calls();
            desk.settle(&script).await;
            check(&desk, before, &what).await;
        }
        When::BetweenItsStartAndItsStep => {
            let (next, next_wire) = desk.machine();
            let before = calls();
            next_wire.next(std::iter::repeat_n(Fate::Ok, exchange).chain([Fate::HeldBefore]));
            let next = tokio::spawn({
                let script = script.clone();
                async move { next.start(&script, "s/1", &input()).run().await.map(drop) }
            });
            while next_wire.held() == 0 {
                tokio::task::yield_now().await;
            }
            wakes.await;
            next_wire.let_through();
            next.await.unwrap().unwrap();
            desk.settle(&script).await;
            check(&desk, before, &what).await;
        }
        When::AfterItsEnd => {
            start(&desk.machine().0).enqueue().await.unwrap();
            let before = calls();
            desk.settle(&script).await;
            wakes.await;
            desk.settle(&script).await;
            check(&desk, before, &what).await;
        }
    }
}

/// The next life has the value of its own first call.
async fn check(desk: &Desk, calls: usize, what: &str) {
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed, "{what}: {:?}", view.reason());
    assert_eq!(view.result(), Some(format!("\"quote {calls}\"").as_str()), "{what}");
    assert_eq!(view.steps().len(), 1, "{what}: {:?}", view.steps());
    assert!(desk.quarantine().await.is_empty(), "{what}");
}

#[tokio::test]
async fn a_step_is_not_adopted() {
    // The start, then the record.
    for when in [When::BeforeTheNextLife, When::BetweenItsStartAndItsStep, When::AfterItsEnd] {
        played(Kind::Step, 1, when).await;
    }
}

#[tokio::test]
async fn a_once_only_step_is_not_adopted() {
    // The start, then the start of the step.
    for when in [When::BeforeTheNextLife, When::BetweenItsStartAndItsStep, When::AfterItsEnd] {
        played(Kind::Once, 1, when).await;
    }
}

#[tokio::test]
async fn an_atomic_step_is_not_adopted() {
    // The start, then the commit.
    for when in [When::BeforeTheNextLife, When::BetweenItsStartAndItsStep, When::AfterItsEnd] {
        played(Kind::Atomic, 1, when).await;
    }
}

#[tokio::test]
async fn a_refusal_of_an_atomic_step_is_not_adopted() {
    // The start, the refused commit, then the record of the refusal.
    for when in [When::BeforeTheNextLife, When::AfterItsEnd] {
        played(Kind::Refused, 2, when).await;
    }
}
