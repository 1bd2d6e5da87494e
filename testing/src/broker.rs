//! A broker that records the messages that it receives.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use locker::message::{Envelope, Sent, Target};
use locker::{Class, Classify as _};

use crate::faults::{Calls, Effect, Line};

/// A broker that records each message that it receives, in order. Clones share the records.
///
/// If a call is [declined](crate::CallFate::Declined), the broker refuses the message itself, and
/// the message is dead-lettered at once. For a target that refuses all messages, implement
/// [`Target`].
///
/// ```
/// use lock_token_testing::{Broker, CallFate, Calls};
/// use locker::message::{Router, Target};
///
/// let calls = Calls::default();
/// let broker = Broker::new().over(&calls);
/// let router = Router::new().route("order/*", broker.clone());
/// calls.next([CallFate::ReplyLost]); // the broker has the next message; its reply is lost
/// assert!(broker.took().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Broker {
    took: Arc<Mutex<Vec<Envelope>>>,
    line: Arc<dyn Line>,
}

impl Broker {
    /// Creates a broker without records. All calls succeed.
    #[must_use]
    pub fn new() -> Self {
        Self { took: Arc::default(), line: Arc::new(Calls::default()) }
    }

    /// Returns a broker with the same records, which is called through `calls`: one call for each
    /// message.
    #[must_use]
    pub fn over(self, calls: &Calls) -> Self {
        Self { line: Arc::new(calls.clone()), ..self }
    }

    /// Returns all messages that it received, in order, with repeats.
    #[must_use]
    pub fn took(&self) -> Vec<Envelope> {
        locked(&self.took).clone()
    }

    /// Returns the messages in order, without repeats, as a receiver that remembers ids processes
    /// them.
    #[must_use]
    pub fn took_once(&self) -> Vec<Envelope> {
        let mut known = std::collections::HashSet::new();
        self.took().into_iter().filter(|envelope| known.insert(envelope.id.clone())).collect()
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl Target for Broker {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let mut sent = Vec::with_capacity(batch.len());
        for envelope in batch {
            let (took, given) = (Arc::clone(&self.took), envelope.clone());
            let effect: Effect = Box::new(move || {
                locked(&took).push(given);
                None
            });
            let what = format!("send {} about {}", envelope.topic, envelope.subject);
            sent.push(match self.line.call(what, effect).await {
                Ok(_) => Sent::Done,
                Err(failure) => match failure.class() {
                    Class::Transient => Sent::Later(failure.cause()),
                    Class::InDoubt => Sent::Unknown(failure.cause()),
                    _ => Sent::MessageRefused(failure.cause()),
                },
            });
        }
        sent
    }
}

fn locked(took: &Mutex<Vec<Envelope>>) -> MutexGuard<'_, Vec<Envelope>> {
    took.lock().unwrap_or_else(PoisonError::into_inner)
}
