//! What a person does: conditional on what was seen, with a reason that is kept.

use locker::Failure;
use locker::Person;
use locker::workflow::{Flow, Intervened, Listed, Outcome, StepState, Stop, Workflow, WorkflowState};

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
                Ok::<_, Failure>(())
            })
            .await?;
        Ok(paid)
    }
}

fn person() -> Person {
    Person::new("alice", "asked the bank").unwrap()
}

async fn parked() -> (Desk, Pay) {
    let desk = Desk::new().await;
    let pay = Pay(Books::default());
    let outcome = desk.machine().0.workflow(&pay, "pay/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    (desk, pay)
}

#[tokio::test]
async fn resolve_says_how_a_step_ended() {
    let (desk, pay) = parked().await;
    let (workflows, _) = desk.machine();
    let seen = desk.view("pay/1").await;
    let done = workflows.resolve_step(&seen, "pay", &"by transfer".into(), &person()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    let again = workflows.resolve_step(&seen, "pay", &"twice".into(), &person()).await.unwrap();
    assert_eq!(again, Intervened::Changed, "it is not as it was seen");
    desk.settle(&pay).await;
    let view = desk.view("pay/1").await;
    assert_eq!(view.result(), Some("\"by transfer\""));
    let step = &view.steps()[0];
    assert_eq!(
        step.intervention().map(|person| (person.by.as_str(), person.reason.as_str())),
        Some(("alice", "asked the bank"))
    );
    assert_eq!(view.intervention().map(|person| person.by.as_str()), Some("alice"));
    assert_eq!(pay.0.entries(), ["pay/1 pay", "mail"]);
}

#[tokio::test]
async fn skip_goes_on_without_it() {
    let (desk, pay) = parked().await;
    let seen = desk.view("pay/1").await;
    desk.machine().0.skip_step(&seen, "pay", &person()).await.unwrap();
    desk.settle(&pay).await;
    assert_eq!(desk.view("pay/1").await.state(), WorkflowState::Completed);
    assert_eq!(pay.0.entries(), ["pay/1 pay", "mail"]);
}

#[tokio::test]
async fn retry_of_a_step_is_under_the_next_version_of_its_key() {
    let (desk, pay) = parked().await;
    let seen = desk.view("pay/1").await;
    desk.machine().0.retry_step(&seen, "pay", &person()).await.unwrap();
    desk.settle(&pay).await;
    assert_eq!(pay.0.entries(), ["pay/1 pay", "pay/1 pay ~v1.2"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn retry_of_the_workflow_does_not_repeat_a_step_in_doubt() {
    let (desk, pay) = parked().await;
    let (workflows, _) = desk.machine();
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.retry(&seen, &person()).await.unwrap(), Intervened::Done);
    assert_eq!(desk.view("pay/1").await.listed(), Some(Listed::Unfinished));
    desk.settle(&pay).await;
    assert_eq!(pay.0.entries(), ["pay/1 pay"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn a_cancelled_step_refuses_its_late_start() {
    let desk = Desk::new().await;
    let pay = Pay(Books::default());
    let (workflows, _) = desk.machine();
    workflows.workflow(&pay, "pay/1", &()).enqueue().await.unwrap();
    let seen = desk.view("pay/1").await;
    assert_eq!(workflows.cancel_step(&seen, "pay", &person()).await.unwrap(), Intervened::Done);
    desk.settle(&pay).await;
    let view = desk.view("pay/1").await;
    assert_eq!((view.state(), view.steps()[0].state()), (WorkflowState::Failed, StepState::Cancelled));
    assert!(pay.0.entries().is_empty());
}

#[tokio::test]
async fn what_has_ended_or_changed_is_left_alone() {
    let (desk, pay) = parked().await;
    let (workflows, _) = desk.machine();
    let old = desk.view("pay/1").await;
    workflows.skip_step(&old, "pay", &person()).await.unwrap();
    for done in [
        workflows.retry(&old, &person()).await.unwrap(),
        workflows.compensate(&old, &person()).await.unwrap(),
        workflows.retry_step(&old, "pay", &person()).await.unwrap(),
    ] {
        assert_eq!(done, Intervened::Changed);
    }
    desk.settle(&pay).await;
    let ended = desk.view("pay/1").await;
    let items = desk.items().await.len();
    for done in [
        workflows.retry(&ended, &person()).await.unwrap(),
        workflows.compensate(&ended, &person()).await.unwrap(),
        workflows.retry_step(&ended, "pay", &person()).await.unwrap(),
        workflows.resolve_step(&ended, "other", &1.into(), &person()).await.unwrap(),
        workflows.cancel("pay/1", 1, &person()).await.unwrap(),
    ] {
        assert_eq!(done, Intervened::NotPossible);
    }
    assert_eq!(desk.items().await.len(), items);
}
