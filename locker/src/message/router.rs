//! Routes messages to targets by topic.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;

use super::gate::{Gate, Pass};
use super::target::{AnyTarget, Sent, Target};
use crate::core::message::breaker::Turn;
use crate::core::message::envelope::Envelope;
use crate::core::panicked;
use crate::core::private::Private;
use crate::metrics;

/// How long a target has to reply.
pub(crate) const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// Routes messages to targets by their topics. Clones share the targets and their health: a target
/// that is down receives only one probe a minute.
#[derive(Debug, Clone, Default)]
#[must_use = "routes are used by `workflow::Builder::sending` and by a relay"]
pub struct Router {
    routes: Vec<Route>,
}

#[derive(Debug, Clone)]
struct Route {
    pattern: String,
    target: Private<Arc<dyn AnyTarget>>,
    gate: Arc<Gate>,
}

impl Router {
    /// A router without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends topics of this pattern to this target: a topic, such as `order/placed`, or the
    /// beginning of topics, such as `order/*`; `*` is all of them. The first pattern that fits
    /// counts.
    pub fn route(mut self, pattern: impl Into<String>, target: impl Target) -> Self {
        let target: Private<Arc<dyn AnyTarget>> = Private(Arc::new(target));
        self.routes.push(Route { pattern: pattern.into(), target, gate: Arc::default() });
        self
    }

    /// The number of the target that takes a topic.
    pub(crate) fn target_of(&self, topic: &str) -> Option<usize> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => topic == pattern,
        };
        self.routes.iter().position(|route| fits(&route.pattern))
    }

    pub(crate) fn targets(&self) -> usize {
        self.routes.len()
    }

    pub(crate) fn target(&self, number: usize) -> &dyn AnyTarget {
        &**self.routes[number].target
    }

    /// A run of the relay begins. It sends a probe to each target that is down.
    pub(crate) fn begin_run(&self) {
        self.routes.iter().for_each(|route| route.gate.begin_run());
    }

    /// Whether nothing is sent to a target now.
    pub(crate) fn is_down(&self, target: usize) -> bool {
        self.routes[target].gate.is_open()
    }

    /// A pass to send to a target, or `None` if it is down or a probe is under way.
    pub(crate) fn enter(&self, target: usize, now: DateTime<Utc>) -> Option<Pass> {
        self.routes[target].gate.enter(now)
    }

    /// The same, after the outcome of a probe, for a second at most.
    pub(crate) async fn admit(&self, target: usize, now: DateTime<Utc>) -> Option<Pass> {
        self.routes[target].gate.admit(now).await
    }

    /// Sends messages of different subjects to their target. One result for each. `is_in_doubt`: an
    /// earlier attempt of the message had no reply.
    pub(crate) async fn send(
        &self,
        target: usize,
        batch: &[Envelope],
        is_in_doubt: bool,
        within: Duration,
        now: DateTime<Utc>,
    ) -> Vec<Sent> {
        // A panic of the target must not end the run of a relay, or a caller whose commit is done.
        let caught = AssertUnwindSafe(async { self.target(target).send(batch).await }).catch_unwind();
        let no_reply = "no reply from the target".to_owned();
        let (mut sent, silence) = match tokio::time::timeout(within, caught).await {
            Ok(Ok(sent)) => (sent, no_reply),
            Ok(Err(panic)) => (Vec::new(), format!("the target panicked: {}", panicked::text_of(&*panic))),
            Err(_) => (Vec::new(), no_reply),
        };
        // Messages without an outcome may have been sent.
        sent.resize_with(batch.len(), || Sent::Unknown(silence.clone()));
        let call: Vec<_> = batch
            .iter()
            .zip(&sent)
            .map(|(it, sent)| (it.subject.as_str(), sent.shown(is_in_doubt)))
            .collect();
        let turn = self.routes[target].gate.record(&call, now);
        batch.iter().zip(&sent).for_each(|(message, sent)| report_refusal(message, sent));
        report_turn(turn, &self.routes[target].pattern, &sent);
        sent
    }
}

fn report_refusal(message: &Envelope, sent: &Sent) {
    match sent {
        Sent::TargetRefused(cause) => {
            metrics::count_target_refusal(&message.topic);
            tracing::debug!(message.id, message.topic, cause, "the target refused a message");
        }
        Sent::Refused(cause) => tracing::warn!(
            message.id,
            message.topic,
            cause,
            "the target refused a message with a code that is in no list; the message is retried for 72 hours"
        ),
        _ => {}
    }
}

fn report_turn(turn: Option<Turn>, route: &str, sent: &[Sent]) {
    let cause = sent.iter().find_map(|sent| match sent {
        Sent::TargetRefused(cause) | Sent::Later(cause) | Sent::Unknown(cause) => Some(cause.as_str()),
        _ => None,
    });
    match turn {
        Some(Turn::Opened { refuses: true } | Turn::StaysOpen { refuses: true }) => tracing::error!(
            route,
            cause,
            "the target refuses all messages; one probe is sent each minute; correct the permission, the key or the \
             address of the target, and the messages are sent"
        ),
        Some(Turn::Opened { refuses: false } | Turn::StaysOpen { refuses: false }) => tracing::warn!(
            route,
            cause,
            "the target does not accept messages; one probe is sent each minute; check whether it is within reach"
        ),
        Some(Turn::Closed) => tracing::info!(route, "the target accepts messages again"),
        None => {}
    }
}
