//! What an operator is shown of a step inside a compensation.
use std::sync::{Arc, Mutex};

use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow};
use locker::{Failure, Operator};

use crate::bench::Desk;

#[derive(Clone, Default)]
struct Nested {
    given: Arc<Mutex<Vec<String>>>,
    calls: Arc<Mutex<u32>>,
}

impl Nested {
    async fn charge(&self) -> Result<String, Failure> {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        if *calls == 1 { Err(Failure::in_doubt("no reply".to_owned())) } else { Ok("paid".to_owned()) }
    }
}

impl Workflow for Nested {
    const NAME: &'static str = "nested";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("charge").compensate(&"refund").run(|_| self.charge()).await?;
        Err(Stop::fail("no seat"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let sent = flow
            .once("send")
            .run(|attempt| {
                self.given.lock().unwrap().push(attempt.idempotency_key().to_owned());
                async { Ok("sent".to_owned()) }
            })
            .await;
        sent.map_err(|stop| Failure::needs_operator(stop.to_string()))?;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn an_operator_is_shown_the_key_that_the_provider_was_given() {
    let desk = Desk::new().await;
    let code = Nested::default();
    let (workflows, _) = desk.machine();
    workflows.start(&code, "o/1", &()).run().await.unwrap();
    desk.settle(&code).await;
    let seen = desk.view("o/1").await;
    let operator = Operator::new("ada", "the bank says no").unwrap();
    let retried = workflows.retry_step_with_new_key(&seen, "charge", &operator).await.unwrap();
    assert_eq!(retried, locker::Intervened::Done);
    desk.settle(&code).await;
    let view = desk.view("o/1").await;
    let given = code.given.lock().unwrap().clone();
    let step = view.steps().iter().find(|step| step.name().starts_with("send")).expect("the step");
    assert_eq!(vec![step.idempotency_key()], given);
}
