//! Which topic goes where.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::sync::Arc;
use std::time::Duration;

use super::target::{AnyTarget, Sent, Target};
use crate::core::message::envelope::Envelope;
use crate::core::private::Private;

/// How long a target has to reply.
pub(crate) const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// Routes messages to targets by their topics. Clones share the targets.
#[derive(Debug, Clone, Default)]
#[must_use = "routes are used by `workflow::Builder::sending` and by a relay"]
pub struct Router {
    routes: Vec<(String, Private<Arc<dyn AnyTarget>>)>,
}

impl Router {
    /// A router without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Send topics of this pattern to this target: a topic, such as `order/placed`, or the
    /// beginning of topics, such as `order/*`; `*` is all of them. The first pattern that fits
    /// counts.
    pub fn route(mut self, pattern: impl Into<String>, target: impl Target) -> Self {
        self.routes.push((pattern.into(), Private(Arc::new(target))));
        self
    }

    /// The number of the target that takes a topic.
    pub(crate) fn target_of(&self, topic: &str) -> Option<usize> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => topic == pattern,
        };
        self.routes.iter().position(|(pattern, _)| fits(pattern))
    }

    pub(crate) fn targets(&self) -> usize {
        self.routes.len()
    }

    pub(crate) fn target(&self, number: usize) -> &dyn AnyTarget {
        &**self.routes[number].1
    }

    /// Send messages of different subjects to their target. One result for each.
    pub(crate) async fn send(&self, target: usize, batch: &[Envelope], within: Duration) -> Vec<Sent> {
        let sent = tokio::time::timeout(within, self.target(target).send(batch)).await;
        let mut sent = sent.unwrap_or_default();
        // What nothing is said of may have been sent.
        sent.resize_with(batch.len(), || Sent::Unknown("no reply from the target".to_owned()));
        sent
    }
}
