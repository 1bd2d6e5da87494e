//! A message that its consumer cannot process: your code decides, then an operator.
//!
//! Run it with `cargo run -p locker-examples --bin dead_letters`.

use std::sync::Arc;
use std::time::Duration;

use lock_token_testing::{Embedded, TestClock};
use locker::dead_letters::{DeadLetterReport, DeadLetters, Decision, MessageSummary};
use locker::inbox::{Consumer, ConsumerReport, Delivery, Inbox, Incoming, Received, Taken};
use locker::message::MessageState;
use locker::workflow::{Message, Workflows};
use locker::{BoxError, Failure, Intervened, Operator, RunReport};

/// Packs an order. Order 7 needs a box that the warehouse does not have.
async fn pack(inbox: &Inbox, delivery: &Delivery, boxes: bool) -> Result<(), Failure> {
    let message = Incoming::parse(&delivery.body)?;
    let order: u64 = message.data()?;
    if order == 7 && !boxes {
        return Err(Failure::permanent("no box is large enough".to_owned()).code("packing.box"));
    }
    let taken = inbox.atomic(&message).commit().await?;
    let first = taken == Taken::Now;
    taken.done()?;
    println!("order {order}: packed, {}", if first { "now" } else { "before" });
    Ok(())
}

fn delivery(order: u64) -> Delivery {
    let event = format!(
        r#"{{"specversion":"1.0","id":"{order}.0","source":"/orders","type":"order.placed","data":{order}}}"#
    );
    Delivery::new(format!("delivery-{order}"), event).group(format!("order/{order}"))
}

async fn print_dead(workflows: &Workflows) -> Result<(), BoxError> {
    for MessageSummary { topic, cause, .. } in workflows.messages(MessageState::Dead).fetch().await?.items {
        println!("dead: {}: {}", topic.as_deref().unwrap_or("-"), cause.as_deref().unwrap_or("-"));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let clock = TestClock::new();
    let builder = Workflows::builder(&dynamodb, "workflows").with_clock(Arc::new(clock.clone()));
    let workflows = builder.build()?;
    let inbox = workflows.inbox("packer")?;
    let consumer: Consumer = inbox.consumer();

    // The queue delivers order 8 twice. The dead letter of order 7 does not hold up order 8.
    for order in [7, 8, 8] {
        let received = consumer.receive(&delivery(order), async |it| pack(&inbox, &it, false).await).await?;
        println!(
            "order {order}: {}",
            if received == Received::DeadLettered { "dead" } else { "acknowledged" }
        );
    }
    print_dead(&workflows).await?;

    // Your code decides first, on a schedule. It leaves unknown causes to an operator.
    let code = Operator::new("packing", "known causes")?;
    let leave = async |message: &Message| {
        println!("{} failed {} time(s)", message.topic(), message.attempts());
        Decision::Leave
    };
    let report: RunReport<DeadLetterReport> = DeadLetters::new(&workflows, code).run(leave).await?;
    println!("left for an operator: {}", report.left);

    // An operator acts on the message as read, and the consumer's next run processes it.
    let ada = Operator::new("ada", "large boxes have arrived")?;
    for summary in workflows.messages(MessageState::Dead).fetch().await?.items {
        let Some(message) = workflows.message(&summary.work).await? else { continue };
        assert_eq!(workflows.redrive(&message, &ada).await?, Intervened::Done);
    }
    clock.advance(Duration::from_secs(1));
    let report: RunReport<ConsumerReport> = consumer.run(async |it| pack(&inbox, &it, true).await).await?;
    println!("processed: {}, dead: {}", report.handled, report.dead);
    print_dead(&workflows).await
}
