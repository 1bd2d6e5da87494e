//! Starts and needs that come when the code of a run has returned, or is about to.

use std::time::Duration;

use locker::Failure;
use locker::workflow::{Completer, List, Outcome, Reaper, RetryPolicy, State, StepState};
use locker_tests::{DAY, Exchange, Fate};

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input, transient};

fn paid() -> Result<String, Failure> {
    Ok("paid".to_owned())
}

async fn yields(mut until: impl FnMut() -> bool, what: &str) {
    for _ in 0..2_000 {
        if until() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come so far: {what}");
}

/// One branch starts version 2 of the step, and its request is under way. The other branch finds
/// the failure of version 1.
#[tokio::test]
async fn branch_with_the_same_key_does_not_hide_a_start_without_reply() {
    let desk = Desk::new().await;
    let refused = Script::new(|flow, _| async move {
        let charge = flow.once("charge").key("card/1");
        charge.run(async |_| Err::<String, _>(Failure::permanent("declined".to_owned()))).await
    });
    desk.machine().0.start(&refused, "first/1", &input()).run().await.unwrap();

    let (workflows, wire) = desk.machine();
    let gate = wire.clone();
    let script = Script::new(move |flow, script| {
        let gate = gate.clone();
        async move {
            let (left, branch) = (script.clone(), flow.clone());
            tokio::spawn(async move {
                let charge = branch.once("a").key("card/1").version(2);
                let work = async |_| {
                    left.books.enter("charge");
                    paid()
                };
                let _ = charge.run(work).await;
            });
            yields(|| gate.held() == 1, "the start is held").await;
            let found = flow.once("b").key("card/1").outcome(async |_| paid()).await;
            assert!(matches!(found, Ok(Err(_))), "{found:?}");
            Ok("done".to_owned())
        }
    });
    // The first put finds the failure, and the second put starts over it.
    let starts = |it: &Exchange| it.operation == "PutItem" && it.request.to_string().contains("keyVersion");
    wire.matching(starts, Fate::Ok);
    wire.matching(starts, Fate::HeldBefore);
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    wire.let_through();
    assert!(matches!(outcome, Outcome::InProgress(_)), "its start is under way: {outcome:?}");
}

/// The end of the run reads a keyed step. Meanwhile a task that was left behind calls a step.
#[tokio::test]
async fn step_that_is_refused_after_the_return_leaves_no_need() {
    for waits in [false, true] {
        let desk = Desk::new().await;
        let (workflows, wire) = desk.machine();
        let gate = wire.clone();
        let script = Script::new(move |flow, script| {
            let gate = gate.clone();
            async move {
                if script.call() == 0 {
                    flow.once("first").key("card/1").run(async |_| paid()).await?;
                    let mail = flow.step("mail").retry(RetryPolicy::never());
                    return mail.run(async |_| Err(transient())).await;
                }
                tokio::spawn(async move {
                    yields(|| gate.held() == 1, "the end reads").await;
                    let late = match waits {
                        true => flow.sleep("late", DAY).await,
                        false => flow.step("late").run(async |_| paid()).await.map(drop),
                    };
                    script.books.enter(format!("refused {}", late.is_err()));
                });
                Ok("done".to_owned())
            }
        });
        workflows.start(&script, "s/1", &input()).run().await.unwrap();
        desk.bench.clock.advance(LATER);
        wire.take();
        wire.matching(
            |it| it.operation == "GetItem" && it.request.to_string().contains("card/1"),
            Fate::HeldAfter,
        );
        let second = tokio::spawn({
            let (workflows, script) = (workflows.clone(), script.clone());
            async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
        });
        yields(|| !script.books.entries().is_empty(), "the late call").await;
        wire.let_through();
        let outcome = second.await.unwrap();
        assert_eq!(script.books.entries(), ["refused true"]);
        assert!(matches!(outcome, Outcome::Completed(_)), "waits: {waits}: {outcome:?}");
        let steps = desk.view("s/1").await.steps().len();
        assert_eq!(steps, 1, "the refused step has no record");
    }
}

/// The claim of the driver has ended, so a step reads the header before it begins. The code returns
/// during the read.
#[tokio::test]
async fn step_whose_code_returns_during_its_check_does_not_begin() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let (gate, clock) = (wire.clone(), desk.bench.clock.clone());
    let script = Script::new(move |flow, script| {
        let (gate, clock) = (gate.clone(), clock.clone());
        async move {
            clock.advance(LATER);
            tokio::spawn(async move {
                let mail = async |_| {
                    script.books.enter("mail");
                    paid()
                };
                let sent = flow.step("mail").run(mail).await;
                script.books.enter(format!("sent {}", sent.is_ok()));
            });
            yields(|| gate.held() == 1, "the read is held").await;
            Ok("done".to_owned())
        }
    });
    wire.matching(|it| it.operation == "GetItem", Fate::HeldAfter);
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    wire.let_through();
    yields(|| !script.books.entries().is_empty(), "the step").await;
    assert_eq!(script.books.entries(), ["sent false"]);
    assert!(desk.view("s/1").await.steps().is_empty());
}

/// The request of a start arrives after the end of its workflow. Its driver received no reply, so
/// it did not run the step.
#[tokio::test]
async fn start_that_arrives_after_the_end_runs_nothing_and_is_kept() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|settings, _| settings.give_up_after = Duration::from_secs(2));
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            return flow
                .once("charge")
                .run(async |_| {
                    script.books.enter("charge");
                    paid()
                })
                .await;
        }
        Ok("another branch".to_owned())
    });
    wire.always(Fate::Lost);
    wire.nth(1, Fate::Ok);
    wire.nth(2, Fate::Late);
    let first = workflows.start(&script, "s/1", &input()).run().await;
    assert!(!matches!(first, Ok(Outcome::Completed(_))), "{first:?}");
    desk.settle(&script).await;
    let before = desk.view("s/1").await;
    assert_eq!((before.state(), before.steps().len()), (State::Completed, 0), "{first:?}");
    wire.next([]);
    assert_eq!(wire.deliver_late().await, 1);
    let view = desk.view("s/1").await;
    let steps: Vec<_> = view.steps().iter().map(|step| step.state()).collect();
    assert_eq!((view.state(), steps), (State::Completed, vec![StepState::Started]));
    assert!(script.books.entries().is_empty());
    // The reaper keeps it, since the step is in doubt.
    desk.bench.clock.advance(Duration::from_secs(400 * 24 * 3600));
    let completer = Completer::new(&desk.machine().0).register(script.clone());
    let reaped = Reaper::new(&completer).run().await.unwrap();
    assert_eq!((reaped.deleted, reaped.kept), (0, 1), "{reaped:?}");
    assert_eq!(desk.view("s/1").await.listed(), Some(List::Finished));
}
