//! An operator gives a workflow its approval, and handles a late event.
//!
//! Run it with `cargo run -p locker-examples --bin approval`. The command has the same acts:
//! `locker workflow signal order/7 --event approved --value true --reason TEXT`, and `locker
//! workflow skip order/7 --step event:approved --reason TEXT`.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker::operator::{Act, Console, Filter, Match, Need, Part};
use locker::workflow::{
    Awaited, Completer, Event, EventState, EventView, Flow, Outcome, Stop, Workflow, Workflows,
};
use locker::{BoxError, Operator};

const APPROVED: Event<bool> = Event::named("approved");

#[derive(Clone)]
struct Order;

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: &Flow, _: u64) -> Result<String, Stop> {
        let within = Duration::from_secs(30 * 24 * 60 * 60);
        Ok(match flow.wait_for(APPROVED, within).await? {
            Some(true) => "shipped".to_owned(),
            Some(false) => "rejected".to_owned(),
            None => "not approved in time".to_owned(),
        })
    }
}

fn print_event(event: &EventView) {
    let needs_operator = event.state() == EventState::Late;
    println!("{}: {} {needs_operator}", event.name(), event.state().as_str());
}

/// Shows the effect of an act, and acts.
async fn act(console: &Console, act: &Act, operator: &Operator) -> Result<(), BoxError> {
    let Some(part) = console.get("order/7").await?.pop() else { return Err("no such workflow".into()) };
    if let Part::Workflow(view) = &part {
        for Awaited { name, since, until, .. } in view.waits() {
            println!("it waits for {name}, for {} days", (until - since).num_days());
        }
        view.events().iter().for_each(print_event);
    }
    match console.check(&part, act) {
        Ok(meaning) => println!("{}: {}", act.verb, meaning.effect),
        Err(refusal) => return Err(refusal.because.into()),
    }
    println!("{:?}", console.act(&part, act, operator).await?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let Outcome::InProgress(_) = workflows.start(&Order, ("order", 7), &7).run().await? else {
        return Err("it waits for its approval".into());
    };

    // The console refuses a value that is no `bool`.
    let console = Console::new().workflows(&workflows).event(&APPROVED);
    let ada = Operator::new("ada", "approved by the board on 26 November")?;
    act(&console, &Act::signal(APPROVED.name(), true.into()), &ada).await?;
    Completer::new(&workflows).register(Order).run().await?;
    let outcome = workflows.start(&Order, ("order", 7), &7).run().await?;
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "shipped"), "{outcome:?}");

    // Another approval comes after that. It changes nothing, and an operator handles it.
    let signalled = workflows.signal(("order", 7), APPROVED, &false).await?;
    println!("the second approval: {signalled:?}");
    let late = console.list(&Filter::new().need(Need::Late).only_late_events()).await?;
    for Match { event, cause, .. } in late.matches {
        let (Some(event), Some(cause)) = (event, cause) else { continue };
        println!("{event}: {cause}");
        let ada = Operator::new("ada", "the board has taken it back by mail")?;
        act(&console, &Act::skip().step(event), &ada).await?;
    }
    Ok(())
}
