//! Joins messages of many partitions into batches, one sender for each target.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::run::RESERVE;
use crate::core::message::envelope::Envelope;
use crate::core::time;
use crate::message::router::REPLY_WITHIN;
use crate::message::{Router, Sent};
use crate::workflow::context::Context;

/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_millis(5);
/// Batches that are on their way to one target at the same time.
const AT_ONCE: usize = 8;
/// After this many messages in a row that a target did not take, nothing more is sent to it in this
/// run.
const ENOUGH: usize = 5;

struct Asked {
    envelope: Envelope,
    /// When another relay may have it.
    not_after: DateTime<Utc>,
    reply: oneshot::Sender<Passed>,
}

/// What became of a message that waited for its batch.
pub(super) enum Passed {
    Sent(Sent),
    /// It was not begun: nothing was sent.
    NotBegun(NotBegun),
}

/// Why nothing was sent.
pub(super) enum NotBegun {
    /// Another relay may have it by now.
    TooLate,
    /// The run is over.
    IsOver,
    /// Its target took none of the last ones.
    IsDown,
}

/// The way to one target.
struct Lane {
    inbox: mpsc::Sender<Asked>,
    failures: Failures,
}

/// Messages in a row that a target did not take.
#[derive(Debug, Clone, Default)]
struct Failures(Arc<AtomicUsize>);

impl Failures {
    fn are_too_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ENOUGH
    }

    fn count(&self, sent: &Sent) {
        match sent {
            Sent::Later(_) | Sent::Unknown(_) => drop(self.0.fetch_add(1, Ordering::Relaxed)),
            Sent::Done | Sent::Never(_) => self.0.store(0, Ordering::Relaxed),
        }
    }
}

/// What is sent where, and until when.
#[derive(Clone)]
struct Line {
    context: Context,
    router: Router,
    target: usize,
    /// Nothing is begun after it.
    ends: Option<DateTime<Utc>>,
    failures: Failures,
}

/// The senders of one run. Dropping it ends them.
pub(super) struct Batcher {
    lanes: Vec<Lane>,
    _senders: JoinSet<()>,
}

impl Batcher {
    pub(super) fn new(context: &Context, router: &Router, ends: Option<DateTime<Utc>>) -> Self {
        let mut senders = JoinSet::new();
        let lanes = (0..router.targets()).map(|target| {
            let (inbox, asked) = mpsc::channel(1000);
            let failures = Failures::default();
            let line = Line {
                context: context.clone(),
                router: router.clone(),
                target,
                ends,
                failures: failures.clone(),
            };
            senders.spawn(serve(line, asked));
            Lane { inbox, failures }
        });
        Self { lanes: lanes.collect(), _senders: senders }
    }

    /// Whether a target is left alone for the rest of this run.
    pub(super) fn is_down(&self, target: usize) -> bool {
        self.lanes[target].failures.are_too_many()
    }

    pub(super) async fn send(&self, target: usize, envelope: Envelope, not_after: DateTime<Utc>) -> Passed {
        let gone = || Passed::Sent(Sent::Unknown("the sender of the target has ended".to_owned()));
        let (reply, sent) = oneshot::channel();
        if self.lanes[target].inbox.send(Asked { envelope, not_after, reply }).await.is_err() {
            return gone();
        }
        sent.await.unwrap_or_else(|_| gone())
    }
}

async fn serve(line: Line, mut inbox: mpsc::Receiver<Asked>) {
    let mut under_way = JoinSet::new();
    let mut left = None;
    loop {
        let first = match left.take() {
            Some(first) => first,
            None => match inbox.recv().await {
                Some(first) => first,
                None => break,
            },
        };
        let batch;
        (batch, left) = gather(&line.router, line.target, first, &mut inbox).await;
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        // It may have waited for as long as others take.
        let batch = line.still_to_be_sent(batch);
        if !batch.is_empty() {
            under_way.spawn(send(line.clone(), batch));
        }
    }
    while under_way.join_next().await.is_some() {}
}

async fn send(line: Line, batch: Vec<Asked>) {
    let (envelopes, replies): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|asked| (asked.envelope, asked.reply)).unzip();
    // The rest of the time is for writing down what became of them.
    let by = line.ends.map(|ends| time::after(ends, RESERVE / 2));
    let within = line.context.bounded(REPLY_WITHIN, by);
    let all = line.router.send(line.target, &envelopes, within).await;
    for (sent, reply) in all.into_iter().zip(replies) {
        line.failures.count(&sent);
        // Whoever asked may have been dropped.
        let _ = reply.send(Passed::Sent(sent));
    }
}

impl Line {
    /// Those that may be begun now. The others are told why not.
    fn still_to_be_sent(&self, batch: Vec<Asked>) -> Vec<Asked> {
        let mut still = Vec::with_capacity(batch.len());
        for asked in batch {
            let why = if self.context.is_past(self.ends) {
                NotBegun::IsOver
            } else if self.context.now() >= asked.not_after {
                NotBegun::TooLate
            } else if self.failures.are_too_many() {
                NotBegun::IsDown
            } else {
                still.push(asked);
                continue;
            };
            let _ = asked.reply.send(Passed::NotBegun(why));
        }
        still
    }
}

/// A batch as large as the target takes, and what did not fit. No two messages of it have the same
/// subject: the later one is only asked for once the earlier one was sent.
async fn gather(
    router: &Router,
    target: usize,
    first: Asked,
    inbox: &mut mpsc::Receiver<Asked>,
) -> (Vec<Asked>, Option<Asked>) {
    let target = router.target(target);
    let size = |asked: &Asked| asked.envelope.to_json().map_or(0, |json| json.len());
    let mut bytes = size(&first);
    let mut batch = vec![first];
    while batch.len() < target.most_messages() {
        let Ok(Some(next)) = tokio::time::timeout(LINGER, inbox.recv()).await else { break };
        bytes += size(&next);
        let is_alone = batch.iter().all(|other| other.envelope.group_id() != next.envelope.group_id());
        if bytes > target.most_bytes() || !is_alone {
            return (batch, Some(next));
        }
        batch.push(next);
    }
    (batch, None)
}
