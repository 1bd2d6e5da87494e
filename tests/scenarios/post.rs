//! Messages of a play: a process relays what is left, and receives.

use std::time::Duration;

use locker::BoxError;
use locker::message::MessageState;
use locker::relay::Relay;
use locker::workflow::Workflows;

use super::broker::{broker, redrive};
use super::receiver::take;
use super::shop::Rows;
use super::wire::provider;
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
        let relay = Relay::new(self.workflows, broker(&provider(self.shared, self.slot)));
        let _ = self.shared.live(self.slot, relay.run()).await;
        let _ = self.shared.live(self.slot, self.hear(acknowledged)).await;
    }

    async fn hear(&self, acknowledged: &mut usize) {
        let inbox = self.workflows.inbox("receiver").expect("a name");
        loop {
            let next = self.shared.world().books.told.get(*acknowledged).cloned();
            let Some(event) = next else { return };
            let taken = take(&inbox, self.rows, &event).await;
            if !taken.as_ref().is_ok_and(|taken| taken.done().is_ok()) {
                return;
            }
            *acknowledged += 1;
        }
    }

    /// Without faults, until nothing is left.
    pub(super) async fn settle(&self, acknowledged: &mut usize) -> Result<(), BoxError> {
        debug_assert_eq!(self.slot, GOOD);
        for _ in 0..4 {
            redrive(self.workflows).await?;
            let unsent = self.workflows.messages(MessageState::Unsent).count(1).await?.at_least;
            if unsent == 0 && *acknowledged == self.shared.world().books.told.len() {
                break;
            }
            self.round(acknowledged).await;
        }
        Ok(())
    }
}
