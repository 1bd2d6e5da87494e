//! Inputs that the code of a workflow cannot read any more, since its type has changed.

use std::marker::PhantomData;

use locker::Intervened;
use locker::workflow::{Flow, List, Outcome, State, Stop, Workflow};
use locker_tests::ada;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bench::Desk;

/// A payment of an amount, with an input of this type.
#[derive(Clone)]
struct Pay<I>(PhantomData<fn() -> I>);

impl<I: Serialize + DeserializeOwned + Send + Sync + 'static> Workflow for Pay<I> {
    const NAME: &'static str = "pay";
    type Input = I;
    type Output = ();

    async fn run(&self, _: &Flow, _: I) -> Result<(), Stop> {
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    amount: String,
}

#[derive(Serialize, Deserialize)]
struct Paid {
    lines: Vec<Line>,
}

#[derive(Clone, Serialize, Deserialize)]
struct NewLine {
    amount: String,
    currency: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct WithField {
    lines: Vec<NewLine>,
}

#[derive(Clone, Serialize, Deserialize)]
struct NumberLine {
    amount: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct WithNumber {
    lines: Vec<NumberLine>,
}

#[derive(Clone, Serialize, Deserialize)]
struct DefaultLine {
    amount: String,
    #[serde(default)]
    currency: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct WithDefault {
    lines: Vec<DefaultLine>,
}

fn pay<I>() -> Pay<I> {
    Pay(PhantomData)
}

const CARD: &str = "4111 1111";

async fn enqueued(desk: &Desk) {
    let input = Paid { lines: vec![Line { amount: CARD.to_owned() }] };
    desk.machine().0.start(&pay::<Paid>(), "pay/1", &input).enqueue().await.unwrap();
}

async fn reason_of<I>(code: &Pay<I>) -> (Desk, String)
where
    I: Serialize + DeserializeOwned + Send + Sync + Clone + 'static,
{
    let desk = Desk::new().await;
    enqueued(&desk).await;
    desk.settle(code).await;
    let view = desk.view("pay/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    let reason = view.reason().unwrap().to_owned();
    assert!(reason.starts_with("the input of the workflow cannot be read"), "{reason}");
    assert!(reason.contains("#[serde(default)]") && reason.contains("retry"), "{reason}");
    assert!(!reason.contains("4111") && reason.contains("lines[0]"), "{reason}");
    (desk, reason)
}

#[tokio::test]
async fn added_field_is_named_and_its_default_lets_a_retry_complete() {
    let (desk, reason) = reason_of(&pay::<WithField>()).await;
    assert!(reason.contains("missing field `currency`"), "{reason}");
    let (workflows, _) = desk.machine();
    let retried = workflows.retry(&desk.view("pay/1").await, &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    desk.settle(&pay::<WithDefault>()).await;
    assert_eq!(desk.view("pay/1").await.state(), State::Completed);
}

#[tokio::test]
async fn field_of_another_type_is_named_without_its_value() {
    let (_, reason) = reason_of(&pay::<WithNumber>()).await;
    assert!(reason.contains("lines[0].amount") && reason.contains("expected u64"), "{reason}");
}

#[tokio::test]
async fn input_is_not_called_an_answer_towards_its_caller() {
    let desk = Desk::new().await;
    enqueued(&desk).await;
    let reader = desk.machine().0.outcome::<Pay<WithField>>("pay/1").fetch().await.unwrap();
    assert!(matches!(reader, Some(Outcome::InProgress(_))), "{reader:?}");
    desk.settle(&pay::<WithField>()).await;
    let reader = desk.machine().0.outcome::<Pay<WithField>>("pay/1").fetch().await.unwrap();
    let Some(Outcome::Quarantined(reason)) = reader else { panic!("{reader:?}") };
    assert!(!reason.contains("answer"), "{reason}");
}
