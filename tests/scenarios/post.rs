//! Messages of a play: relays send what is left, and a receiver that remembers takes each once.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::Update;
use locker::inbox::{Incoming, Taken};
use locker::message::{MessageState, Relay};
use locker::workflow::Workflows;
use locker::{BoxError, Operator};

use super::books::Books;
use super::shop::{Rows, number, text};
use super::wire::broker;
use super::world::{GOOD, Shared};

/// Longer than any pause of a message.
const PAUSE: Duration = Duration::from_secs(20 * 60);

/// One process that relays and receives.
pub(super) struct Post<'a> {
    pub(super) shared: &'a Shared,
    pub(super) slot: usize,
    pub(super) workflows: &'a Workflows,
    pub(super) rows: &'a Rows,
}

impl Post<'_> {
    /// Relay, and take what the broker has. The plan decides whether it dies.
    pub(super) async fn round(&self, acknowledged: &mut usize) {
        tokio::time::sleep(PAUSE).await;
        let relay = Relay::new(self.workflows, broker(self.shared, self.slot));
        let _ = self.shared.live(self.slot, relay.run()).await;
        let _ = self.shared.live(self.slot, self.hear(acknowledged)).await;
    }

    async fn hear(&self, acknowledged: &mut usize) {
        let inbox = self.workflows.inbox("receiver").expect("a name");
        loop {
            let next = self.shared.world().books.told.get(*acknowledged).cloned();
            let Some(event) = next else { return };
            let message = Incoming::parse(&event).expect("an event");
            let count = Update::builder().table_name(&self.rows.table).key("id", text(&heard(&message.id)));
            let count =
                count.update_expression("ADD times :one").expression_attribute_values(":one", number(1));
            let taken = inbox.atomic(&message).update(count.build().expect("an update")).commit().await;
            if !taken.as_ref().is_ok_and(Taken::is_final) {
                return;
            }
            *acknowledged += 1;
        }
    }

    /// Have everything sent again that is dead.
    async fn redrive(&self) -> Result<(), BoxError> {
        let operator = Operator::new("operator", "the broker is back").expect("a reason");
        for listed in self.workflows.messages(MessageState::Dead).fetch().await?.items {
            if let Some(dead) = self.workflows.message(&listed.work).await? {
                // Changed meanwhile: it is sent.
                let _ = self.workflows.redrive(&dead, &operator).await?;
            }
        }
        Ok(())
    }

    /// Without faults, until nothing is left.
    pub(super) async fn settle(&self, acknowledged: &mut usize) -> Result<(), BoxError> {
        debug_assert_eq!(self.slot, GOOD);
        for _ in 0..4 {
            self.redrive().await?;
            self.round(acknowledged).await;
        }
        Ok(())
    }
}

fn heard(id: &str) -> String {
    format!("heard/{id}")
}

/// The topics that a receiver took, each once, in the order in which they first came; and what is wrong with them.
pub(super) async fn taken(books: &Books, rows: &Rows) -> Result<(Vec<String>, Vec<String>), BoxError> {
    let (mut seen, mut topics, mut wrong) = (BTreeSet::new(), Vec::new(), Vec::new());
    for event in &books.told {
        let message = Incoming::parse(event)?;
        if !seen.insert(message.id.clone()) {
            continue;
        }
        let times = rows.get(&heard(&message.id), "times").await?;
        if times != "1" {
            wrong.push(format!("{} was taken {times:?} times", message.kind));
        }
        topics.push(message.kind.replace('.', "/"));
    }
    Ok((topics, wrong))
}
