//! Records for the pages of the console, and what other tests of the command make records with.

// The processes have the real time.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;
use chrono::{DateTime, Utc};
use locker::inbox::Delivery;
use locker::message::NewMessage;
use locker::workflow::{Compensated, Compensation, Event, Flow, StepAttempt, Stop, Workflow, Workflows};
use locker::{Begun, Class, Failure, Intervened, Locker, Operator};

use crate::command::Place;

/// A minute behind, so that what is committed is due.
#[derive(Debug)]
pub struct Behind;

impl locker::Clock for Behind {
    fn now(&self) -> DateTime<Utc> {
        (std::time::SystemTime::now() - Duration::from_secs(60)).into()
    }
}

/// A workflow that stops in quarantine, for the verbs that act on one.
#[derive(Debug)]
pub struct Stuck;

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, number: String) -> Result<String, Stop> {
        let call = |_: StepAttempt| {
            let wrong = Failure::needs_operator(format!("the number {number} is wrong"));
            async move { Err::<String, _>(wrong) }
        };
        flow.once("call").run(call).await
    }
}

/// Charges, and then waits, sleeps, fails or ends, as its input says.
#[derive(Debug)]
pub struct Trip;

const PAID: Event<u32> = Event::named("paid");

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, course: String) -> Result<(), Stop> {
        let charge = flow.once("charge").compensate(&"refund");
        charge.run(|_| async { Ok::<_, Failure>("classified receipt".to_owned()) }).await?;
        flow.atomic("note").message("trip/charged", &"classified body").commit(&()).await?;
        match course.as_str() {
            "sleeps" => flow.sleep("night", Duration::from_secs(86_400)).await,
            "ends" => Ok(()),
            "fails" => Err(Failure::permanent("no seat is left".to_owned()).into()),
            _ => flow.wait_for(PAID, Duration::from_secs(86_400)).await.map(drop),
        }
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Ok(Compensated::Done)
    }
}

/// Tokens in doubt, held and completed; workflows that wait, sleep, failed, ended and are in quarantine;
/// messages that are dead and unsent.
pub async fn fill(place: &Place) {
    let client = place.client();
    let locker = Locker::new(&client, place.table()).expect("a locker");
    let begin = async |key: &str| match locker.token(key).begin().await {
        Ok(Begun::Acquired(lock)) => lock,
        other => panic!("not acquired: {other:?}"),
    };
    begin("pay/1").await.leave_in_doubt("no reply of the bank").await;
    begin("pay/2").await.hold("the card is unknown").await.expect("held");
    begin("pay/3").await.complete("classified answer").await.expect("completed");
    let behind = Workflows::builder(&client, place.workflows()).with_clock(Arc::new(Behind));
    let workflows = behind.source("/trips").build().expect("workflows");
    for course in ["waits", "sleeps", "fails", "ends"] {
        let key = format!("trip/{course}");
        let _ended = workflows.start(&Trip, key.as_str(), &course.to_owned()).run().await;
    }
    workflows.start(&Stuck, "stuck/1", &"7".to_owned()).run().await.expect("an outcome");
    let consumer = workflows.inbox("packer").expect("a name").consumer();
    let delivery = Delivery::new("id 1", "classified order").group("order/1");
    consumer.dead_letter(&delivery, Class::Permanent, "it is no order").await.expect("it is kept");
    let message = workflows.outbox().message(NewMessage::new("order/placed", &1).subject("order/1"));
    let put = TransactWriteItem::builder().put(message.expect("a message").put()).build();
    client.transact_write_items().transact_items(put).send().await.expect("committed");
    // A request whose inner token is in doubt.
    let request = begin("request/1").await;
    let inner = locker.token("inner/1").within(request.attempt().work()).begin().await;
    let Ok(Begun::Acquired(inner)) = inner else { panic!("not acquired") };
    inner.leave_in_doubt("no reply of the inner bank").await;
    request.leave_in_doubt("its inner token is in doubt").await;
    // An act for the audit.
    let record = locker.get("pay/2").await.expect("read").expect("a token");
    let ada = Operator::new("ada", "the bank has no charge").expect("an operator");
    assert_eq!(locker.release(&record, &ada).await.expect("an answer"), Intervened::Done);
    begin("pay/2").await.hold("the card is unknown").await.expect("held");
}
