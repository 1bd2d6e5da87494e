//! A completer with your own workflows: it finishes workflows that no caller waits for.
//!
//! Run it with `cargo run -p locker-examples --bin complete`. As a Lambda function,
//! `locker::lambda::complete` does the same.

use lock_token_testing::Embedded;
use locker::workflow::{Completer, Flow, Outcome, Stop, Workflow, Workflows};
use locker::{BoxError, Failure};

struct Ship {
    carrier: &'static str,
}

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, address: String) -> Result<String, Stop> {
        let label = format!("label of {} for {address}", self.carrier);
        flow.once("label").input(&address).run(async |_| Ok(label.clone())).await
    }
}

struct Remind;

impl Workflow for Remind {
    const NAME: &'static str = "remind";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("mail").run(async |_| Err(Failure::permanent("no address".to_owned()))).await
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let ship = Ship { carrier: "post" };
    let started = workflows.start(&ship, ("ship", 7), &"1 High Street".to_owned()).enqueue().await?;
    println!("ship 7 is started, and nobody waits: {}", matches!(started, Outcome::InProgress(_)));
    let Outcome::InProgress(_) = workflows.start(&Remind, ("remind", 7), &()).enqueue().await? else {
        return Err("it was started before".into());
    };

    // An enqueued workflow is due from the next millisecond on.
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    // Without the code of `remind`, the completer counts the workflow by name and does not change
    // it.
    let report = Completer::new(&workflows).register(ship).run().await?;
    println!("completed: {}, without code here: {:?}", report.completed, report.unknown);
    let report = Completer::new(&workflows).register(Remind).also_expect(["ship"]).run().await?;
    println!("failed, and compensated: {}, without code here: {:?}", report.compensated, report.unknown);

    if let Some(Outcome::Completed(label)) = workflows.outcome::<Ship>(("ship", 7)).fetch().await? {
        println!("ship 7: {}", *label);
    }
    Ok(())
}
