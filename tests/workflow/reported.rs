//! Outcomes that come from outside: from a webhook, an event, or a report of the provider.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, Reported, RetryPolicy, State, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::ada;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::bench::{Books, Desk, LATER};

/// What a call of the wallet hears.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reply {
    Paid,
    Silent,
    /// That it is paid, but not before the gate opens.
    Slow,
}

/// A seat is reserved and paid. The wallet cannot be asked what became of a charge.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) books: Books,
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) gate: Arc<Semaphore>,
    /// The charge's own key.
    pub(crate) key: Option<&'static str>,
    pub(crate) recognised: Duration,
    /// One for each call; the last one for those that follow.
    pub(crate) replies: Vec<Reply>,
}

impl Order {
    pub(crate) fn new(replies: &[Reply]) -> Self {
        Self {
            books: Books::default(),
            calls: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            key: None,
            recognised: Duration::ZERO,
            replies: replies.to_vec(),
        }
    }

    pub(crate) async fn until(&self, calls: usize) {
        while self.calls.load(Ordering::SeqCst) < calls {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn spawned(&self, desk: &Desk, key: &'static str) -> JoinHandle<Outcome<String>> {
        let (workflows, code) = (desk.machine().0, self.clone());
        tokio::spawn(async move { workflows.start(&code, key, &()).run().await.unwrap() })
    }

    pub(crate) async fn run_to_quarantine(&self, desk: &Desk, key: &'static str) {
        let outcome = desk.machine().0.start(self, key, &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    }
}

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let seat = |_| async {
            self.books.enter("seat");
            Ok(1)
        };
        flow.once("seat").compensate(&"free").run(seat).await?;
        let charge = flow.once("charge").retry(RetryPolicy::never()).recognised_for(self.recognised);
        let charge = if let Some(key) = self.key { charge.key(key) } else { charge };
        let call = |_| async {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            self.books.enter("charge");
            match self.replies.get(call).or(self.replies.last()) {
                Some(Reply::Silent) => return Err(Failure::in_doubt("no reply".to_owned())),
                Some(Reply::Slow) => drop(self.gate.acquire().await.unwrap()),
                _ => {}
            }
            Ok(format!("paid {call}"))
        };
        let paid = charge.compensate(&"refund").run(call).await?;
        let confirm = |_| async {
            self.books.enter(format!("confirm {paid}"));
            Ok(paid.clone())
        };
        flow.step("confirm").run(confirm).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let result: Option<serde_json::Value> = compensation.result().expect("it can be read");
        // The wallet knows of a charge only by its receipt.
        let Some(receipt) = result else { return Ok(Compensated::Nothing) };
        self.books.enter(format!("{} {receipt} of {}", compensation.name(), compensation.tried_under()));
        Ok(Compensated::Done)
    }
}

pub(crate) async fn report(desk: &Desk, key: &str, receipt: &str) -> Reported {
    desk.machine().0.report(key, "charge").completed(&receipt).await.unwrap()
}

async fn report_failed(desk: &Desk, key: &str) -> Reported {
    desk.machine().0.report(key, "charge").failed(&"declined").await.unwrap()
}

/// Every item, as it is stored.
pub(crate) async fn stored(desk: &Desk) -> Vec<HashMap<String, AttributeValue>> {
    let mut items = desk.items().await;
    items.sort_by_key(|item| ["workflow", "item"].map(|key| item[key].as_s().unwrap().clone()));
    items
}

fn order(key: Option<&'static str>, replies: &[Reply]) -> Order {
    Order { key, ..Order::new(replies) }
}

const KEYS: [Option<&str>; 2] = [None, Some("card/1")];

fn provider_key(key: Option<&str>) -> &str {
    key.unwrap_or("o/1 charge")
}

#[tokio::test]
async fn report_of_a_step_in_quarantine_resumes_its_workflow() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        code.run_to_quarantine(&desk, "o/1").await;
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Recorded);
        let view = desk.view("o/1").await;
        assert_eq!((view.listed(), view.reason()), (Some(List::Unfinished), None));
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.result(), Some("\"ch-1\""));
        assert_eq!(code.books.entries(), ["seat", "charge", "confirm ch-1"]);
        // Once more, after the end.
        let before = stored(&desk).await;
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Known);
        assert_eq!(stored(&desk).await, before);
    }
}

#[tokio::test]
async fn report_while_a_driver_may_be_at_work_is_busy() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Slow]);
        let drives = code.spawned(&desk, "o/1");
        code.until(1).await;
        let before = stored(&desk).await;
        for reported in [report(&desk, "o/1", "paid 0").await, report_failed(&desk, "o/1").await] {
            let Reported::Busy(until) = reported else { panic!("{reported:?}") };
            assert!(until > desk.now() && until < desk.now() + LATER, "{until}");
        }
        assert_eq!(stored(&desk).await, before);
        code.gate.add_permits(1);
        assert!(matches!(drives.await.unwrap(), Outcome::Completed(_)));
        assert_eq!(report(&desk, "o/1", "paid 0").await, Reported::Known);
    }
}

#[tokio::test]
async fn report_after_a_cancel_is_compensated_once_with_its_result() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        code.run_to_quarantine(&desk, "o/1").await;
        assert_eq!(desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
        assert_eq!(code.books.entries(), ["seat", "charge", "free 1 of o/1 seat"]);
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
        assert_eq!(desk.view("o/1").await.state(), State::Compensating);
        for _ in 0..2 {
            assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Known);
            desk.settle(&code).await;
        }
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Known);
        let refunded = format!("refund \"ch-1\" of {}", provider_key(key));
        assert_eq!(code.books.entries()[3..], [refunded]);
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.steps()[1].state()), (State::Cancelled, StepState::Compensated));
    }
}

#[tokio::test]
async fn early_report_is_unknown_and_nothing_is_written() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        let before = stored(&desk).await;
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Unknown, "there is no workflow");
        assert_eq!(stored(&desk).await, before);
        desk.machine().0.start(&code, "o/1", &()).enqueue().await.unwrap();
        let before = stored(&desk).await;
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Unknown, "it has not come to the step");
        assert_eq!(report_failed(&desk, "o/1").await, Reported::Unknown);
        let other = desk.machine().0.report("o/1", "charge").key_version(2).completed(&"ch-1").await.unwrap();
        assert_eq!(other, Reported::Unknown);
        assert_eq!(stored(&desk).await, before);
        desk.settle(&code).await;
        let before = stored(&desk).await;
        let next = desk.machine().0.report("o/1", "charge").step_version(2).completed(&"ch-1").await.unwrap();
        assert_eq!(next, Reported::Unknown, "it has not come to this version of its key");
        assert_eq!(stored(&desk).await, before);
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Recorded, "the provider sends it again");
    }
}

#[tokio::test]
async fn report_of_a_failure_compensates_the_other_steps() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        code.run_to_quarantine(&desk, "o/1").await;
        assert_eq!(report_failed(&desk, "o/1").await, Reported::Recorded);
        desk.settle(&code).await;
        assert_eq!(code.books.entries(), ["seat", "charge", "free 1 of o/1 seat"]);
        let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
        let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
        let failure = failed.failure();
        assert_eq!(
            (failure.step(), failure.error::<String>().unwrap().as_str()),
            (Some("charge"), "declined")
        );
        let before = stored(&desk).await;
        assert_eq!(report_failed(&desk, "o/1").await, Reported::Known);
        assert_eq!(stored(&desk).await, before);
        // The provider was wrong.
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Known);
        desk.settle(&code).await;
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Known);
        desk.settle(&code).await;
        assert_eq!(code.books.entries()[3..], [format!("refund \"ch-1\" of {}", provider_key(key))]);
        assert_eq!(desk.view("o/1").await.state(), State::Failed);
    }
}

#[tokio::test]
async fn failure_of_a_completed_step_contradicts() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Paid]);
        code.spawned(&desk, "o/1").await.unwrap();
        let before = stored(&desk).await;
        assert_eq!(report_failed(&desk, "o/1").await, Reported::Contradicts);
        assert_eq!(stored(&desk).await, before);
    }
}

#[tokio::test]
async fn second_result_under_one_key_is_shown_with_the_first() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Paid]);
        code.spawned(&desk, "o/1").await.unwrap();
        assert_eq!(report(&desk, "o/1", "ch-2").await, Reported::Twice);
        let before = desk.items().await.len();
        let view = desk.view("o/1").await;
        assert_eq!((view.listed(), view.result()), (Some(List::Quarantine), Some("\"paid 0\"")));
        assert!(view.reason().unwrap().starts_with("a step may have happened twice"), "{:?}", view.reason());
        let charges: Vec<_> = view.steps().iter().filter(|step| step.name().starts_with("charge")).collect();
        let results: Vec<_> = charges.iter().map(|step| step.result().unwrap()).collect();
        assert_eq!(results, ["\"paid 0\"", "\"ch-2\""]);
        // The message comes again, later.
        desk.bench.clock.advance(LATER);
        assert_eq!(report(&desk, "o/1", "ch-2").await, Reported::Known);
        assert_eq!(desk.items().await.len(), before);
        // Without a decision nothing is refunded.
        let view = desk.view("o/1").await;
        assert_eq!(desk.machine().0.retry(&view, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        assert_eq!(desk.quarantine().await, ["o/1"]);
        // An operator finds that it is the same charge.
        let view = desk.view("o/1").await;
        let second = view.steps().iter().find(|step| step.state() == StepState::Late).unwrap().name();
        let skipped = desk.machine().0.skip_step(&view, &second, &ada()).await.unwrap();
        assert_eq!(skipped, Intervened::Done);
        desk.settle(&code).await;
        assert_eq!(code.books.entries()[3..], Vec::<String>::new());
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 0\"")));
        assert_eq!(report(&desk, "o/1", "ch-2").await, Reported::Known);
    }
}
