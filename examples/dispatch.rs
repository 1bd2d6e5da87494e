//! A consumer with one handler for each type of message. A type without a handler is dead-lettered.
//!
//! Run it with `cargo run -p locker-examples --bin dispatch`.

use lock_token_testing::Embedded;
use locker::inbox::{Delivery, Handlers, Inbox, Incoming};
use locker::message::MessageState;
use locker::workflow::Workflows;
use locker::{BoxError, Failure};

async fn pack(inbox: &Inbox, message: Incoming) -> Result<(), Failure> {
    let order: u64 = message.data()?;
    // Only what this transaction writes happens once, so a real handler adds its writes here.
    inbox.atomic(&message).commit().await?.done()?;
    println!("pack order {order}");
    Ok(())
}

async fn unpack(inbox: &Inbox, message: Incoming) -> Result<(), Failure> {
    let order: u64 = message.data()?;
    inbox.atomic(&message).commit().await?.done()?;
    println!("unpack order {order}");
    Ok(())
}

fn delivery(id: u64, kind: &str) -> Delivery {
    let event = format!(r#"{{"specversion":"1.0","id":"{id}","source":"/orders","type":"{kind}","data":7}}"#);
    Delivery::new(id.to_string(), event)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let inbox = workflows.inbox("packer")?;
    let handlers = Handlers::new()
        .on("order.placed", |message| pack(&inbox, message))
        .on("order.cancelled", |message| unpack(&inbox, message));
    let consumer = inbox.consumer();
    for (id, kind) in [(1, "order.placed"), (2, "order.cancelled"), (3, "order.shipped")] {
        let received = consumer.receive(&delivery(id, kind), async |it| handlers.handle(it).await).await?;
        println!("{kind}: {received:?}");
    }
    for dead in workflows.messages(MessageState::Dead).fetch().await?.items {
        println!("dead: {}", dead.cause.as_deref().unwrap_or("-"));
    }
    Ok(())
}
