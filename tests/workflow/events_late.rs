//! Late events change no outcome. They are listed, and run the compensation of their wait once.

use std::time::Duration;

use lock_token_testing::Fate;
use locker::workflow::Completer;
use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, Reaper, Signalled, State, Stop, Workflow,
};
use locker::{AnswerError, Error, Failure, Intervened};
use locker_tests::{DAY, ada};

use crate::bench::{Books, Desk};
use crate::events::{Order, PAID, answer, begun, signal, stored};
use crate::interleavings::{Script, input};

fn is_late(signalled: Signalled, expected: bool) {
    let Signalled::Late { compensates, .. } = signalled else { panic!("{signalled:?}") };
    assert_eq!(compensates, expected);
}

/// Completes a workflow whose wait ended without its event.
async fn expired(desk: &Desk, code: &Order) {
    begun(desk, code).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(code).await;
    assert_eq!(answer(desk, code).await, "timeout");
}

#[tokio::test]
async fn event_after_its_time_is_compensated_once_and_the_outcome_stands() {
    let (desk, code) = (Desk::new().await, Order::default());
    expired(&desk, &code).await;
    let (workflows, wire) = desk.machine();
    is_late(signal(&workflows, "e-1", "17").await, true);
    assert_eq!(desk.view("o/1").await.state(), State::Compensating);
    assert_eq!(answer(&desk, &code).await, "timeout", "the outcome stands meanwhile");
    let read = workflows.outcome::<Order>("o/1").fetch().await.unwrap();
    assert!(matches!(read, Some(Outcome::Completed(_))), "{read:?}");
    assert!(code.0.entries().is_empty(), "a caller does not drive it");
    assert!(stored(&desk, "event/paid", "status").await.unwrap().starts_with("late"));
    for _ in 0..2 {
        desk.settle(&code).await;
        assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
        assert_eq!(desk.view("o/1").await.state(), State::Completed);
        assert_eq!(answer(&desk, &code).await, "timeout");
        wire.take();
        assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Duplicate);
        assert_eq!(wire.count(), 2);
    }
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("handled"));
    assert_eq!(stored(&desk, "event/paid", "status").await, None, "it is listed no more");
}

#[tokio::test]
async fn event_after_a_redact_is_compensated_and_no_run_fails() {
    for is_last_attempt in [false, true] {
        let (desk, code) = (Desk::new().await, Order::default());
        expired(&desk, &code).await;
        let (workflows, _) = desk.machine();
        assert_eq!(workflows.redact(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
        is_late(signal(&workflows, "e-1", "17").await, true);
        let completer = Completer::new(&workflows).register(code.clone());
        if is_last_attempt {
            desk.bench.clock.advance(5 * DAY);
            let reaped = Reaper::new(&completer).run().await.unwrap();
            assert_eq!((reaped.completed, reaped.failed), (1, 0), "{reaped:?}");
        } else {
            desk.bench.clock.advance(DAY);
            let ran = completer.run().await.unwrap();
            assert_eq!((ran.completed, ran.failed), (1, 0), "{ran:?}");
        }
        assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
        assert_eq!(desk.view("o/1").await.state(), State::Completed);
        let read = workflows.outcome::<Order>("o/1").fetch().await;
        assert!(matches!(read, Err(Error::Answer(AnswerError::Redacted))), "{read:?}");
    }
}

#[tokio::test]
async fn event_after_a_cancel_is_compensated_and_the_workflow_stays_cancelled() {
    for ended in [false, true] {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, _) = desk.machine();
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        if ended {
            desk.settle(&code).await;
            assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
        }
        is_late(signal(&workflows, "e-1", "17").await, true);
        if ended {
            assert_eq!(answer(&desk, &code).await, "cancelled");
        }
        desk.settle(&code).await;
        assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
        assert_eq!(answer(&desk, &code).await, "cancelled");
        let cause = stored(&desk, "event/paid", "cause").await.unwrap();
        assert_eq!(cause, if ended { "after the end" } else { "after the cancel" });
    }
}

/// The sender receives `Accepted`, and then an operator cancels.
#[tokio::test]
async fn accepted_event_that_a_cancel_leaves_unread_is_compensated() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let (workflows, _) = desk.machine();
    assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Accepted);
    assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    desk.settle(&code).await;
    assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
    assert_eq!(stored(&desk, "event/paid", "cause").await.as_deref(), Some("not read before the end"));
    assert_eq!(answer(&desk, &code).await, "cancelled");
}

/// A workflow that waits only if its flag is set.
#[derive(Clone)]
struct Fickle(Order, bool);

impl Workflow for Fickle {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        if self.1 { Workflow::run(&self.0, flow, ()).await } else { Ok("without".to_owned()) }
    }

    async fn compensate(&self, flow: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        Workflow::compensate(&self.0, flow, it).await
    }
}

#[tokio::test]
async fn event_that_the_code_does_not_read_any_more_is_late_by_the_end() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &Fickle(code.clone(), true)).await;
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    let other = Fickle(code.clone(), false);
    let outcome = desk.machine().0.start(&other, "o/1", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "without"), "{outcome:?}");
    assert_eq!(desk.view("o/1").await.state(), State::Compensating, "the refund is due");
    assert_eq!(answer(&desk, &other).await, "without");
    desk.settle(&other).await;
    assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
}

#[tokio::test]
async fn event_before_a_wait_that_is_never_reached_is_listed_without_a_compensation() {
    let (desk, code) = (Desk::new().await, Order::default());
    let fickle = Fickle(code.clone(), false);
    desk.machine().0.start(&fickle, "o/1", &()).enqueue().await.unwrap();
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    desk.settle(&fickle).await;
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("late"));
    assert!(code.0.entries().is_empty());
}

#[tokio::test]
async fn more_unread_events_than_a_transaction_takes_are_late_by_the_end() {
    let (desk, code) = (Desk::new().await, Order::default());
    let fickle = Fickle(code.clone(), false);
    let (workflows, _) = desk.machine();
    workflows.start(&fickle, "o/1", &()).enqueue().await.unwrap();
    for number in 0..120 {
        let signalled = workflows.signal("o/1", PAID.part(number), &"17".to_owned()).await.unwrap();
        assert_eq!(signalled, Signalled::Accepted);
    }
    desk.settle(&fickle).await;
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    let is_late = |state: &str| state == "late";
    let items = desk.items().await;
    let events = items.iter().filter(|item| item["item"].as_s().unwrap().starts_with("event/"));
    let late = events.filter(|item| is_late(item["state"].as_s().unwrap()));
    assert_eq!(late.count(), 120);
}

/// A workflow that continues with another wait after the first wait ended.
#[derive(Clone, Default)]
struct Patient(Order);

impl Workflow for Patient {
    const NAME: &'static str = "patient";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = flow.wait_for(PAID, DAY).on_late(&"refund").await?;
        self.0.0.enter(format!("{paid:?}"));
        Ok(flow.wait_for(PAID.part("again"), 9 * DAY).await?.unwrap_or_default())
    }

    async fn compensate(&self, flow: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        Workflow::compensate(&self.0, flow, it).await
    }
}

#[tokio::test]
async fn late_event_of_a_running_workflow_is_compensated_at_once() {
    let (desk, code) = (Desk::new().await, Patient::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    is_late(signal(&desk.machine().0, "e-1", "17").await, true);
    desk.settle(&code).await;
    let refund = "refund event:paid 17 of \"e-1\"";
    assert_eq!(code.0.0.entries(), ["None", refund, "None"], "the code still has no payment");
    assert_eq!(desk.view("o/1").await.state(), State::Running, "and waits on");
    desk.bench.clock.advance(9 * DAY);
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "");
    assert_eq!(code.0.0.count(refund), 1);
}

/// A workflow whose refunds fail.
#[derive(Clone, Default)]
struct Broke(Books);

impl Workflow for Broke {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = flow.wait_for(PAID, 3 * DAY).on_late(&"refund").await?;
        Ok(paid.map_or("timeout".to_owned(), |paid| format!("paid {paid}")))
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.enter("refund");
        Err(Failure::permanent("no money".to_owned()))
    }
}

#[tokio::test]
async fn outcome_stands_although_the_compensation_of_a_late_event_fails() {
    let (desk, code) = (Desk::new().await, Broke::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    is_late(signal(&desk.machine().0, "e-1", "17").await, true);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"], "an operator sees it");
    assert_eq!(answer(&desk, &code).await, "timeout", "and callers receive the outcome");
    assert_eq!(code.0.entries(), ["refund"]);
    // An operator closes it as it is.
    let view = desk.view("o/1").await;
    assert_eq!(desk.machine().0.close(&view, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    assert_eq!(answer(&desk, &code).await, "timeout");
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("late"), "and it stays listed");
}

#[tokio::test]
async fn callers_of_a_cancelled_workflow_keep_their_outcome_while_an_operator_compensates() {
    let (desk, code) = (Desk::new().await, Broke::default());
    begun(&desk, &code).await;
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    is_late(signal(&workflows, "e-1", "17").await, true);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let view = desk.view("o/1").await;
    assert_eq!(workflows.compensate(&view, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(answer(&desk, &code).await, "cancelled", "before the next run");
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"], "it failed again");
    assert_eq!(answer(&desk, &code).await, "cancelled");
}

#[tokio::test]
async fn operator_who_closes_a_workflow_leaves_its_unread_event_listed() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let odd = locker::workflow::Event::<u64>::named("paid");
    assert_eq!(desk.machine().0.signal("o/1", odd, &17).await.unwrap(), Signalled::Accepted);
    desk.settle(&code).await;
    let view = desk.view("o/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert_eq!(desk.machine().0.close(&view, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("late"));
    assert!(stored(&desk, "event/paid", "status").await.is_some());
}

#[tokio::test]
async fn late_events_are_compensated_in_the_order_in_which_they_came() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let wait = |part: &str| flow.wait_for(PAID.part(part), DAY).on_late(&"refund").into_future();
        let (one, other) = tokio::join!(wait("a"), wait("b"));
        one.and(other)?;
        Ok("timeout".to_owned())
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    for part in ["b", "a"] {
        is_late(workflows.signal("o/1", PAID.part(part), &"17".to_owned()).await.unwrap(), true);
        desk.bench.clock.advance(Duration::from_secs(1));
    }
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo event:paid#b", "undo event:paid#a"]);
}

/// Its second run stops at a mistake in the code.
#[tokio::test]
async fn event_after_a_close_waits_for_an_operator_who_reads_why() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if script.call() > 0 {
            flow.step("not a name").run(async |_| Ok(())).await?;
        }
        let paid = flow.wait_for(PAID, 3 * DAY).on_late(&"refund").await?;
        Ok(format!("{paid:?}"))
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    let retried = workflows.retry(&desk.view("o/1").await, &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    desk.settle(&code).await;
    let closed = workflows.close(&desk.view("o/1").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
    is_late(signal(&workflows, "e-1", "17").await, true);
    let view = desk.view("o/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert!(view.reason().unwrap_or_default().contains("event"), "{:?}", view.reason());
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), [""; 0]);
    let retried = workflows.retry(&view, &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo event:paid"]);
    assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
}

#[tokio::test]
async fn reaper_keeps_late_events_and_deletes_the_others() {
    for (id, handled) in [("e-1", false), ("e-2", true)] {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, _) = desk.machine();
        assert_eq!(signal(&workflows, "e-2", "17").await, Signalled::Accepted);
        let expected = if handled { Signalled::Duplicate } else { Signalled::AlreadyGiven };
        assert_eq!(signal(&workflows, id, "18").await, expected);
        desk.settle(&code).await;
        desk.bench.clock.advance(400 * DAY);
        let reaper = Reaper::new(&Completer::new(&workflows).register(code.clone()));
        let reaped = reaper.run().await.unwrap();
        assert_eq!((reaped.deleted, reaped.kept), (usize::from(handled), usize::from(!handled)), "{id}");
        let items = desk.items().await;
        let events = items.iter().filter(|item| item["item"].as_s().unwrap().contains("event/"));
        assert_eq!(events.count(), if handled { 0 } else { 2 });
    }
}

/// The reaper is stopped before each of its requests, while an event comes.
#[tokio::test]
async fn event_during_the_deletion_of_its_workflow_is_listed_or_refused() {
    let mut answers = [0, 0];
    for n in 1.. {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, _) = desk.machine();
        assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Accepted);
        desk.settle(&code).await;
        desk.bench.clock.advance(400 * DAY);
        let (slow, wire) = desk.machine();
        wire.nth(n, Fate::HeldBefore);
        let reaper = Reaper::new(&Completer::new(&slow).register(code.clone()));
        let reaps = tokio::spawn(async move { reaper.run().await.unwrap() });
        while wire.held() == 0 && !reaps.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if reaps.is_finished() {
            break;
        }
        let answer = signal(&workflows, "e-2", "18").await;
        wire.let_through();
        drop(reaps.await.unwrap());
        let reaper = Reaper::new(&Completer::new(&workflows).register(code.clone()));
        desk.bench.clock.advance(DAY);
        drop(reaper.run().await.unwrap());
        let is_kept = workflows.get("o/1", 1).await.unwrap().is_some();
        assert_eq!(answer, if is_kept { Signalled::AlreadyGiven } else { Signalled::NotStarted }, "{n}");
        answers[usize::from(is_kept)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
}

#[tokio::test]
async fn workflow_that_is_kept_is_checked_less_and_less_often() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let (workflows, _) = desk.machine();
    for id in ["e-1", "e-2"] {
        assert!(signal(&workflows, id, id).await.is_stored());
    }
    desk.settle(&code).await;
    let reaper = Reaper::new(&Completer::new(&workflows).register(code.clone()));
    for days in [1, 1, 2, 4, 8, 16, 30, 30] {
        let due = desk.view("o/1").await.due() + Duration::from_secs(1);
        desk.bench.clock.advance((due - desk.now()).to_std().unwrap());
        assert_eq!(reaper.run().await.unwrap().kept, 1);
        assert_eq!((desk.view("o/1").await.due() - desk.now()).num_days(), days);
    }
}

/// No step is compensated, and the run that fails did not receive the event itself.
#[tokio::test]
async fn event_of_an_earlier_run_is_compensated_if_the_workflow_fails() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        flow.wait_for(PAID, DAY).on_late(&"refund").await?;
        if script.call() == 0 {
            flow.step("mail").run(async |_| Err::<(), _>(Failure::transient("503".to_owned()))).await?;
        }
        Err(Stop::fail("no stock"))
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Accepted);
    for _ in 0..3 {
        desk.settle(&code).await;
    }
    assert_eq!(desk.view("o/1").await.state(), State::Failed);
    assert_eq!(code.books.entries(), ["undo event:paid"]);
}
