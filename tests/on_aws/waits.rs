//! A workflow that waits for an event.

use std::time::Duration;

use locker::workflow::{Completer, Event, Flow, Outcome, Signalled, Stop, Workflow};
use tokio::time::Instant;

use crate::account::Account;
use crate::row::Row;

const APPROVED: Event<bool> = Event::named("approved");
/// The index may be this late before the row is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Order;

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: &Flow, number: u64) -> Result<String, Stop> {
        let approved = flow.wait_for(APPROVED, Duration::from_secs(60 * 60)).await?;
        let shipped = flow.once("ship").run(async |_| Ok(format!("order {number} shipped"))).await?;
        Ok(format!("{approved:?}: {shipped}"))
    }
}

fn shown(outcome: &Outcome<String>) -> String {
    match outcome {
        Outcome::Completed(answer) => (**answer).clone(),
        Outcome::InProgress(_) => "waits".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(crate) async fn run(account: &Account) {
    let workflows = account.workflows().build().expect("workflows");
    let key = ("on-aws/order", 7_u64);
    let first = workflows.start(&Order, key, &7).run().await;
    let first = first.map_or_else(|error| error.to_string(), |outcome| shown(&outcome));
    let signalled = workflows.signal(key, APPROVED, &true).id("approval-7").await;
    let again = workflows.signal(key, APPROVED, &true).id("approval-7").await;
    let began = Instant::now();
    let mut last = String::new();
    while began.elapsed() < PATIENCE {
        if let Err(error) = Completer::new(&workflows).register(Order).run().await {
            last = error.to_string();
            break;
        }
        let outcome = workflows.outcome::<Order>(key).fetch().await;
        last = outcome.map_or_else(
            |error| error.to_string(),
            |outcome| outcome.as_ref().map_or_else(String::new, shown),
        );
        if last != "waits" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let is_accepted = matches!(signalled, Ok(Signalled::Accepted));
    let is_repeated = matches!(again, Ok(Signalled::Duplicate));
    Row::new("a workflow waits for an event, and a completer resumes it")
        .expected("waits; Some(true): order 7 shipped; the repeated event is known")
        .seen(format!("{first}; {last}; event {signalled:?}, then {again:?}"))
        .is(first == "waits" && last == "Some(true): order 7 shipped" && is_accepted && is_repeated);
}
