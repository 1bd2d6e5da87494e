//! Operator actions: conditional on what the operator saw, with a reason that is kept.

use std::sync::Arc;
use std::time::Duration;

use locker::Failure;
use locker::Intervened;
use locker::workflow::{Flow, List, Outcome, State, StepState, Stop, Workflow};
use locker_tests::ada;
use tokio::sync::Notify;

use crate::bench::{Books, Desk};

#[derive(Clone)]
struct Pay(Books);

impl Workflow for Pay {
    const NAME: &'static str = "pay";
    type Input = ();
    type Output = Option<String>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Option<String>, Stop> {
        let paid = flow.once("pay").run(|attempt| async move {
            self.0.enter(attempt.idempotency_key());
            Err::<Option<String>, _>(Failure::in_doubt("no reply".to_owned()))
        });
        let paid = paid.await?;
        flow.step("mail")
            .run(|_| async {
                self.0.enter("mail");
                Ok(())
            })
            .await?;
        Ok(paid)
    }
}

async fn quarantined() -> (Desk, Pay) {
    let desk = Desk::new().await;
    let pay = Pay(Books::default());
    let outcome = desk.machine().0.start(&pay, "pay/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    (desk, pay)
}

#[tokio::test]
async fn resolve_completes_a_step_with_a_result() {
    let (desk, pay) = quarantined().await;
    let (workflows, _) = desk.machine();
    let seen = desk.view("pay/1").await;
    let done = workflows.resolve_step(&seen, "pay", &"by transfer".into(), &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    let again = workflows.resolve_step(&seen, "pay", &"twice".into(), &ada()).await.unwrap();
    assert_eq!(again, Intervened::Changed, "it is not as it was seen");
    desk.settle(&pay).await;
    let view = desk.view("pay/1").await;
    assert_eq!(view.result(), Some("\"by transfer\""));
    let step = &view.steps()[0];
    assert_eq!(
        step.intervention().map(|operator| (operator.by.as_str(), operator.reason.as_str())),
        Some(("ada", "the provider's books say so"))
    );
    assert_eq!(view.intervention().map(|operator| operator.by.as_str()), Some("ada"));
    assert_eq!(pay.0.entries(), ["pay/1 pay", "mail"]);
}

#[tokio::test]
async fn skip_continues_without_the_step() {
    let (desk, pay) = quarantined().await;
    let seen = desk.view("pay/1").await;
    assert_eq!(desk.machine().0.skip_step(&seen, "pay", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&pay).await;
    assert_eq!(desk.view("pay/1").await.state(), State::Completed);
    assert_eq!(pay.0.entries(), ["pay/1 pay", "mail"]);
}

#[tokio::test]
async fn retry_of_a_step_in_doubt_is_under_the_key_that_the_provider_knows() {
    let (desk, pay) = quarantined().await;
    let seen = desk.view("pay/1").await;
    assert_eq!(desk.machine().0.retry_step(&seen, "pay", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&pay).await;
    assert_eq!(pay.0.entries(), ["pay/1 pay", "pay/1 pay"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn retry_of_a_step_with_a_new_key_is_under_the_next_version() {
    let (desk, pay) = quarantined().await;
    let workflows = desk.machine().0;
    let seen = desk.view("pay/1").await;
    let retried = workflows.retry_step_with_new_key(&seen, "pay", &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    desk.settle(&pay).await;
    // In doubt again, and retried under the key that was given last.
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.retry_step(&seen, "pay", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&pay).await;
    assert_eq!(pay.0.entries(), ["pay/1 pay", "pay/1 pay ~v1.2", "pay/1 pay ~v1.2"]);
}

#[tokio::test]
async fn retry_of_the_workflow_does_not_repeat_a_step_in_doubt() {
    let (desk, pay) = quarantined().await;
    let (workflows, _) = desk.machine();
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(desk.view("pay/1").await.listed(), Some(List::Unfinished));
    desk.settle(&pay).await;
    assert_eq!(pay.0.entries(), ["pay/1 pay"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn a_cancelled_step_refuses_its_late_start() {
    let desk = Desk::new().await;
    let pay = Pay(Books::default());
    let (workflows, _) = desk.machine();
    workflows.start(&pay, "pay/1", &()).enqueue().await.unwrap();
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.cancel_step(&seen, "pay", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&pay).await;
    let view = desk.view("pay/1").await;
    assert_eq!((view.state(), view.steps()[0].state()), (State::Failed, StepState::Cancelled));
    assert!(pay.0.entries().is_empty());
}

#[tokio::test]
async fn a_workflow_that_ended_or_changed_is_not_written() {
    let (desk, pay) = quarantined().await;
    let (workflows, _) = desk.machine();
    let old = desk.view("pay/1").await;
    assert_eq!(workflows.skip_step(&old, "pay", &ada()).await.unwrap(), Intervened::Done);
    for done in [
        workflows.retry(&old, &ada()).await.unwrap(),
        workflows.compensate(&old, &ada()).await.unwrap(),
        workflows.retry_step(&old, "pay", &ada()).await.unwrap(),
    ] {
        assert_eq!(done, Intervened::Changed);
    }
    desk.settle(&pay).await;
    let ended = desk.view("pay/1").await;
    let items = desk.items().await.len();
    for done in [
        workflows.retry(&ended, &ada()).await.unwrap(),
        workflows.compensate(&ended, &ada()).await.unwrap(),
        workflows.retry_step(&ended, "pay", &ada()).await.unwrap(),
        workflows.resolve_step(&ended, "other", &1.into(), &ada()).await.unwrap(),
        workflows.cancel("pay/1", 1, &ada()).await.unwrap(),
    ] {
        assert_eq!(done, Intervened::NotPossible);
    }
    assert_eq!(desk.items().await.len(), items);
}

#[tokio::test]
async fn only_a_quarantined_workflow_is_closed() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Pay(Books::default()), "pay/1", &()).enqueue().await.unwrap();
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::NotPossible);
    assert_eq!(desk.view("pay/1").await.listed(), Some(List::Unfinished));
}

/// Pays, and fails as it is told; or pays, and is cut off before it hears of it.
#[derive(Clone)]
struct Fails {
    books: Books,
    failure: Option<Failure>,
    charged: Arc<Notify>,
}

impl Workflow for Fails {
    const NAME: &'static str = "fails";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let pay = async |key: String| {
            self.books.enter(key);
            self.charged.notify_one();
            match &self.failure {
                Some(failure) => Err(failure.clone()),
                None => std::future::pending().await,
            }
        };
        flow.once("pay").run(|attempt| pay(attempt.idempotency_key().to_owned())).await
    }
}

#[tokio::test]
async fn a_step_that_waits_for_an_operator_is_retried_under_the_key_that_the_provider_knows() {
    let desk = Desk::new().await;
    let failure = Some(Failure::needs_operator("odd".to_owned()));
    let code = Fails { books: Books::default(), failure, charged: Arc::default() };
    desk.machine().0.start(&code, "fails/1", &()).run().await.unwrap();
    let seen = desk.view("fails/1").await;
    let done = desk.machine().0.retry_step(&seen, "pay", &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["fails/1 pay", "fails/1 pay"]);
}

#[tokio::test]
async fn a_step_is_retried_only_once_its_driver_cannot_be_alive_whatever_its_clock_says() {
    let desk = Desk::new().await;
    let code = Fails { books: Books::default(), failure: None, charged: Arc::default() };
    let (workflows, _) = desk.machine();
    tokio::select! {
        _ = workflows.start(&code, "fails/1", &()).run() => panic!("it goes on for ever"),
        () = code.charged.notified() => {}
    }
    let seen = desk.view("fails/1").await;
    let retry = async || workflows.retry_step(&seen, "pay", &ada()).await.unwrap();
    // The 30 seconds that are expected of a step, and the allowance for its driver's clock.
    desk.bench.clock.advance(Duration::from_millis(34_999));
    assert_eq!(retry().await, Intervened::NotPossible);
    desk.bench.clock.advance(Duration::from_millis(1));
    assert_eq!(retry().await, Intervened::Done);
}
