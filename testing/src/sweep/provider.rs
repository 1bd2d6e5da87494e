//! A provider with books, such as a bank: it recognises an idempotency key for a time.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::Failure;

use super::world::World;

/// What a provider has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The idempotency key.
    pub key: String,
    /// What was done.
    pub what: String,
    /// What the caller was given.
    pub receipt: String,
    /// When it was done.
    pub at: DateTime<Utc>,
}

/// The books of a play.
#[derive(Debug, Default)]
pub(super) struct Books(Vec<Entry>);

impl Books {
    fn apply(&mut self, key: &str, what: &str, now: DateTime<Utc>, recognises_for: Duration) -> String {
        let window = TimeDelta::from_std(recognises_for).unwrap_or(TimeDelta::MAX);
        let known = self.0.iter().rev().find(|entry| entry.key == key && now - entry.at < window);
        if let Some(known) = known {
            return known.receipt.clone();
        }
        let receipt = format!("receipt-{}", self.0.len() + 1);
        let entry = Entry { key: key.to_owned(), what: what.to_owned(), receipt: receipt.clone(), at: now };
        self.0.push(entry);
        receipt
    }
}

/// A provider, as one process reaches it.
#[derive(Debug, Clone)]
pub struct Provider {
    world: World,
}

impl Provider {
    pub(super) const fn new(world: World) -> Self {
        Self { world }
    }

    /// Do something under an idempotency key, such as a charge or a refund, and get a receipt. For as long as it
    /// [recognises](super::Sweep::recognises_for) the key, the same key is the same effect.
    ///
    /// # Errors
    ///
    /// A transient [`Failure`] if nothing happened, and one in doubt if that is unknown.
    pub fn apply(&self, key: &str, what: &str) -> impl Future<Output = Result<String, Failure>> + use<> {
        let (world, key, what) = (self.world.clone(), key.to_owned(), what.to_owned());
        async move {
            let shown = format!("{what} under {key}");
            let there = world.clone();
            let effect = move || {
                let (now, recognises_for) = (there.clock().now(), there.shared.recognises_for);
                there.shared.state().books.apply(&key, &what, now, recognises_for)
            };
            world.call(&shown, effect).await
        }
    }

    /// Ask what came of a key: the receipt, if something was done under it.
    ///
    /// # Errors
    ///
    /// Same as [`apply`](Self::apply).
    pub fn find(&self, key: &str) -> impl Future<Output = Result<Option<String>, Failure>> + use<> {
        let (world, key) = (self.world.clone(), key.to_owned());
        async move {
            let shown = format!("a look for {key}");
            let there = world.clone();
            let effect = move || {
                let state = there.shared.state();
                state.books.0.iter().rev().find(|entry| entry.key == key).map(|entry| entry.receipt.clone())
            };
            world.call(&shown, effect).await
        }
    }

    /// Everything that was done, in order.
    #[must_use]
    pub fn books(&self) -> Vec<Entry> {
        self.world.shared.state().books.0.clone()
    }

    /// How often something was done.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.books().iter().filter(|entry| entry.what == what).count()
    }
}
