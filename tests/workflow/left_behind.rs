//! An outcome of a version of a step's key that the workflow has left behind, or of a driver that
//! it no longer waits for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{
    Completer, Flow, List, Outcome, Reported, RetryPolicy, State, StepState, Stop, Workflow,
};
use locker::{Clock as _, Failure, Intervened};
use locker_tests::{TestClock, ada, kill};

use crate::bench::{Desk, LATER};
use crate::reported::{Order, Reply};

/// The first driver is slow, and the step is in doubt.
async fn slow(desk: &Desk, code: &Order) -> tokio::task::JoinHandle<Outcome<String>> {
    let first = code.spawned(desk, "o/1");
    code.until(1).await;
    desk.settle(code).await;
    let view = desk.view("o/1").await;
    assert_eq!((view.listed(), view.steps()[1].state()), (Some(List::Quarantine), StepState::Started));
    first
}

async fn free_with_new_key(desk: &Desk) {
    let seen = desk.view("o/1").await;
    let freed = desk.machine().0.retry_step_with_new_key(&seen, "charge", &ada()).await.unwrap();
    assert_eq!(freed, Intervened::Done);
}

fn order(key: Option<&'static str>) -> Order {
    Order { key, ..Order::new(&[Reply::Slow, Reply::Paid]) }
}

/// The charge of the first version is refunded once, under its own key; that of the second stands.
async fn check(desk: &Desk, code: &Order, what: &str) {
    for _ in 0..2 {
        desk.settle(code).await;
    }
    let view = desk.view("o/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 1\"")), "{what}: {view:?}");
    let refunds: Vec<_> =
        code.books.entries().into_iter().filter(|entry| entry.starts_with("refund")).collect();
    let first = code.key.unwrap_or("o/1 charge");
    assert_eq!(refunds, [format!("refund \"paid 0\" of {first}")], "{what}");
    let charge = view.steps().iter().find(|step| step.name() == "charge").expect("the step");
    assert_eq!((charge.state(), charge.key_version()), (StepState::Completed, 2), "{what}");
    assert_eq!(code.books.count("charge"), 2, "{what}");
    assert!(!code.books.entries().contains(&"free 1 of o/1 seat".to_owned()), "{what}");
}

#[tokio::test]
async fn the_outcome_of_a_key_that_was_given_up_is_compensated_after_the_end() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = order(key);
        let first = slow(&desk, &code).await;
        free_with_new_key(&desk).await;
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.state(), State::Completed, "{key:?}");
        code.gate.add_permits(1);
        first.await.unwrap();
        assert_eq!(desk.view("o/1").await.state(), State::Compensating, "{key:?}");
        check(&desk, &code, &format!("{key:?}")).await;
    }
}

#[tokio::test]
async fn the_outcome_of_a_key_that_was_given_up_is_compensated_before_the_next_start() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = order(key);
        let first = slow(&desk, &code).await;
        free_with_new_key(&desk).await;
        code.gate.add_permits(1);
        first.await.unwrap();
        assert_eq!(desk.view("o/1").await.state(), State::Running, "{key:?}");
        check(&desk, &code, &format!("{key:?}")).await;
        let refunded = code.books.entries().iter().position(|entry| entry.starts_with("refund"));
        assert_eq!(refunded, Some(2), "{key:?}: before anything builds on it");
    }
}

#[tokio::test]
async fn an_operator_who_cancels_what_has_to_be_compensated_after_its_end_cancels_all_of_it() {
    let desk = Desk::new().await;
    let code = order(None);
    let first = slow(&desk, &code).await;
    free_with_new_key(&desk).await;
    desk.settle(&code).await;
    code.gate.add_permits(1);
    first.await.unwrap();
    assert_eq!(desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let entries = code.books.entries();
    assert_eq!(entries.iter().filter(|entry| entry.starts_with("refund")).count(), 2, "{entries:?}");
    assert_eq!(code.books.count("free 1 of o/1 seat"), 1);
    assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
    let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");
}

#[tokio::test]
async fn the_outcome_of_a_key_that_was_given_up_says_nothing_about_the_next() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order { key, ..Order::new(&[Reply::Slow, Reply::Silent]) };
        let first = slow(&desk, &code).await;
        free_with_new_key(&desk).await;
        desk.settle(&code).await;
        code.gate.add_permits(1);
        first.await.unwrap();
        let seen = desk.view("o/1").await;
        let reason = "step charge is in doubt: it may or may not have happened: no reply";
        assert_eq!((seen.listed(), seen.reason()), (Some(List::Quarantine), Some(reason)), "{key:?}");
        let paid = "paid 1".into();
        let resolved = desk.machine().0.resolve_step(&seen, "charge", &paid, &ada()).await.unwrap();
        assert_eq!(resolved, Intervened::Done);
        check(&desk, &code, &format!("{key:?}")).await;
    }
}

#[tokio::test]
async fn each_key_that_was_given_up_is_compensated_under_its_own() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Slow, Reply::Slow, Reply::Paid]);
    let first = slow(&desk, &code).await;
    free_with_new_key(&desk).await;
    let second = code.spawned(&desk, "o/1");
    code.until(2).await;
    desk.settle(&code).await;
    free_with_new_key(&desk).await;
    desk.settle(&code).await;
    code.gate.add_permits(2);
    first.await.unwrap();
    second.await.unwrap();
    desk.settle(&code).await;
    let view = desk.view("o/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 2\"")), "{view:?}");
    let refunds = code.books.entries().into_iter().filter_map(|entry| {
        let entry = entry.strip_prefix("refund ")?.to_owned();
        Some(entry)
    });
    let refunds: BTreeSet<_> = refunds.collect();
    let [one, two] = [("paid 0", "o/1 charge"), ("paid 1", "o/1 charge ~v1.2")];
    assert_eq!(refunds, [one, two].map(|(receipt, key)| format!("{receipt:?} of {key}")).into());
}

#[tokio::test]
async fn two_results_of_a_key_that_was_given_up_are_shown_and_one_is_compensated() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order { key, ..Order::new(&[Reply::Silent, Reply::Paid]) };
        code.run_to_quarantine(&desk, "o/1").await;
        free_with_new_key(&desk).await;
        desk.settle(&code).await;
        let (workflows, _) = desk.machine();
        let mut reported = Vec::new();
        for receipt in ["ch-1", "ch-1", "ch-2", "ch-2"] {
            let report = workflows.report("o/1", "charge").step_version(1);
            reported.push(report.completed(&receipt).await.unwrap());
        }
        assert_eq!(
            reported,
            [Reported::Compensates, Reported::Known, Reported::Twice, Reported::Known],
            "{key:?}"
        );
        assert_eq!(desk.quarantine().await, ["o/1"], "{key:?}");
        let seen = desk.view("o/1").await;
        assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        // The second is no proof of a second charge, and not of its absence either.
        let refunds: Vec<_> =
            code.books.entries().into_iter().filter(|entry| entry.starts_with("refund")).collect();
        assert_eq!(refunds, [format!("refund \"ch-1\" of {}", key.unwrap_or("o/1 charge"))], "{key:?}");
        let seen = desk.view("o/1").await;
        let late = seen.steps().iter().find(|step| step.state() == StepState::Late).expect("the second");
        assert_eq!(seen.listed(), Some(List::Quarantine), "{key:?}");
        let skipped = workflows.skip_step(&seen, &late.name(), &ada()).await.unwrap();
        assert_eq!(skipped, Intervened::Done, "{key:?}");
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.listed()), (State::Completed, Some(List::Finished)), "{key:?}");
    }
}

#[tokio::test]
async fn reused_key_does_not_compensate_a_compensated_effect_again() {
    let desk = Desk::new().await;
    let code = order(Some("card/1"));
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.report("o/1", "charge").completed(&"paid 0").await.unwrap(), Reported::Recorded);
    assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.count("refund \"paid 0\" of card/1"), 1);
    let other = workflows.start(&code, "o/2", &()).run().await.unwrap();
    assert!(matches!(&other, Outcome::Completed(paid) if **paid == "paid 1"), "{other:?}");
    // The first driver hears of its charge only now.
    code.gate.add_permits(1);
    first.await.unwrap();
    desk.settle(&code).await;
    let refunds = code.books.entries().into_iter().filter(|entry| entry.starts_with("refund")).count();
    assert_eq!((refunds, desk.view("o/1").await.state()), (1, State::Cancelled));
    assert_eq!(desk.view("o/2").await.steps()[1].state(), StepState::Completed);
}

#[tokio::test]
async fn the_time_for_which_the_provider_recognises_a_new_key_begins_anew() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let replies = [Reply::Silent, Reply::Silent, Reply::Silent, Reply::Paid];
        let code = Order { key, recognised: Duration::from_secs(2 * 3600), ..Order::new(&replies) };
        let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.settle(&code).await;
        assert_eq!(desk.quarantine().await, ["o/1"], "the provider has forgotten the key");
        free_with_new_key(&desk).await;
        desk.bench.clock.advance(Duration::from_secs(1));
        let completer = Completer::new(&desk.machine().0).register(code.clone());
        assert_eq!(completer.run().await.unwrap().waiting, 1, "{key:?}");
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.result(), Some("\"paid 3\""), "{key:?}");
    }
}

#[tokio::test]
async fn another_answer_under_a_key_that_the_provider_recognises_is_the_same_charge() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let recognised = Duration::from_secs(24 * 3600);
        let code = Order { key, recognised, ..Order::new(&[Reply::Slow, Reply::Paid]) };
        let first = code.spawned(&desk, "o/1");
        code.until(1).await;
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.result(), Some("\"paid 1\""), "{key:?}");
        code.gate.add_permits(1);
        first.await.unwrap();
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 1\"")), "{key:?}");
        assert!(desk.quarantine().await.is_empty(), "{key:?}");
    }
}

#[tokio::test]
async fn another_answer_under_a_key_that_the_provider_forgot_is_a_second_charge() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = order(key);
        let first = slow(&desk, &code).await;
        let seen = desk.view("o/1").await;
        let freed = desk.machine().0.retry_step(&seen, "charge", &ada()).await.unwrap();
        assert_eq!(freed, Intervened::Done);
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.result(), Some("\"paid 1\""), "{key:?}");
        code.gate.add_permits(1);
        first.await.unwrap();
        let view = desk.view("o/1").await;
        assert_eq!(view.listed(), Some(List::Quarantine), "{key:?}");
        assert!(view.reason().unwrap().starts_with("a step may have happened twice"), "{:?}", view.reason());
        let late = view.steps().iter().find(|step| step.state() == StepState::Late).expect("the second");
        assert_eq!(late.result(), Some("\"paid 0\"".to_owned()), "{key:?}");
    }
}

/// The same order; the message that confirms it cannot be sent for a while.
#[derive(Clone)]
struct Unsent(Order, Arc<AtomicBool>);

impl Workflow for Unsent {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = Workflow::run(&self.0, flow, ()).await?;
        let send = |_| async {
            let is_down = !self.1.load(Ordering::SeqCst);
            if is_down { Err(Failure::transient("down".to_owned())) } else { Ok(()) }
        };
        flow.step("send").retry(RetryPolicy::never()).run(send).await?;
        Ok(paid)
    }

    async fn compensate(
        &self,
        flow: &Flow,
        compensation: locker::workflow::Compensation,
    ) -> Result<locker::workflow::Compensated, Failure> {
        Workflow::compensate(&self.0, flow, compensation).await
    }
}

#[tokio::test]
async fn the_outcome_of_a_key_that_was_given_up_is_compensated_while_the_workflow_goes_on() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Unsent(order(key), Arc::default());
        let first = slow(&desk, &code.0).await;
        free_with_new_key(&desk).await;
        desk.bench.clock.advance(Duration::from_secs(1));
        let completer = Completer::new(&desk.machine().0).register(code.clone());
        assert_eq!(completer.run().await.unwrap().waiting, 1, "{key:?}");
        code.0.gate.add_permits(1);
        first.await.unwrap();
        desk.bench.clock.advance(LATER);
        assert_eq!(completer.run().await.unwrap().waiting, 1, "{key:?}");
        let refunds = code.0.books.entries().iter().filter(|entry| entry.starts_with("refund")).count();
        assert_eq!(refunds, 1, "{key:?}: while it is unfinished");
        code.1.store(true, Ordering::SeqCst);
        desk.settle(&code).await;
        check(&desk, &code.0, &format!("{key:?}")).await;
    }
}

#[tokio::test]
async fn an_outcome_after_all_takes_the_workflow_out_of_quarantine() {
    for (taken_over, key) in [(false, None), (true, None), (false, Some("card/1")), (true, Some("card/1"))] {
        let what = format!("taken over: {taken_over}, {key:?}");
        let desk = Desk::new().await;
        // The second driver sends the same key, and the third comes too late for it.
        let recognised = if taken_over { Duration::from_secs(2 * 3600) } else { Duration::ZERO };
        let code = Order { key, recognised, ..Order::new(&[Reply::Slow, Reply::Silent]) };
        let first = slow(&desk, &code).await;
        assert_eq!(code.books.count("charge"), if taken_over { 2 } else { 1 }, "{what}");
        code.gate.add_permits(1);
        first.await.unwrap();
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 0\"")), "{what}: {view:?}");
        assert_eq!(code.books.entries().last().unwrap(), "confirm paid 0");
        assert!(desk.quarantine().await.is_empty(), "{what}");
    }
}

/// Each call kills its driver.
#[derive(Clone)]
struct Deadly {
    clock: TestClock,
    calls: Arc<Mutex<Vec<DateTime<Utc>>>>,
    key: Option<&'static str>,
}

impl Workflow for Deadly {
    const NAME: &'static str = "deadly";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").recognised_for(Duration::from_secs(2 * 3600));
        let charge = if let Some(key) = self.key { charge.key(key) } else { charge };
        let call = |_| async {
            self.calls.lock().unwrap().push(self.clock.now());
            std::future::pending::<Result<(), Failure>>().await
        };
        charge.run(call).await
    }
}

#[tokio::test]
async fn a_takeover_does_not_renew_the_time_for_which_the_provider_recognises_the_key() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Deadly { clock: desk.bench.clock.clone(), calls: Arc::default(), key };
        let begun = desk.now();
        for _ in 0..24 {
            let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 100);
            let before = code.calls.lock().unwrap().len();
            let dies = tokio::spawn({
                let code = code.clone();
                async move { workflows.start(&code, "d/1", &()).run().await.map(drop) }
            });
            while code.calls.lock().unwrap().len() == before && !dies.is_finished() {
                tokio::task::yield_now().await;
            }
            kill(dies).await;
            desk.bench.clock.advance(Duration::from_secs(20 * 60));
        }
        let calls = code.calls.lock().unwrap().clone();
        assert!(calls.len() > 3, "{calls:?}");
        let last = calls.last().unwrap();
        assert!(*last < begun + Duration::from_secs(2 * 3600), "{key:?}: {} calls, {last}", calls.len());
        let view = desk.view("d/1").await;
        assert_eq!((view.listed(), view.steps()[0].state()), (Some(List::Quarantine), StepState::Started));
    }
}
