//! Joins messages of many partitions into batches, with a sender for each target.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::relay::Relay;
use crate::core::message::envelope::Envelope;
use crate::core::message::letter::is_over;
use crate::core::time;
use crate::message::gate::Pass;
use crate::message::router::REPLY_WITHIN;
use crate::message::{Router, Sent};
use crate::workflow::context::Context;

/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_millis(5);
/// Calls to one target at the same time, whose batches have messages of many subjects. While these
/// calls run, more messages come, so later batches are full: most of the cost of a message is its
/// call. A batch of one subject gets no fuller by waiting, so its call begins at once and is not
/// counted here: [`Relay::concurrency`](super::Relay::concurrency) limits such calls.
const AT_ONCE: usize = 8;
/// Calls to one target at the same time for messages in doubt. They are separate from the other
/// calls: if each of them hangs, the other messages are still sent.
const ALONE_AT_ONCE: usize = 4;

struct Asked {
    envelope: Envelope,
    /// The time from which another relay may have it.
    not_after: DateTime<Utc>,
    reply: oneshot::Sender<Passed>,
}

/// The outcome of a message that waited for its batch.
pub(super) enum Passed {
    Sent(Sent),
    /// Its call did not begin: nothing was sent.
    NotBegun(NotBegun),
}

/// Why nothing was sent.
pub(super) enum NotBegun {
    /// Another relay may have the message.
    TooLate,
    /// The run is over.
    IsOver,
    /// Its target is down.
    IsDown,
    /// It expired while it waited for its call.
    HasExpired,
}

/// The ways to one target.
struct Lane {
    /// In batches.
    together: mpsc::Sender<Asked>,
    /// Each message alone: an earlier attempt had no reply, and the message may be the reason. Its
    /// neighbours in a batch would have no reply either.
    alone: mpsc::Sender<Asked>,
    line: Line,
}

/// The sender of one lane: its target, and the end of its time.
#[derive(Clone)]
struct Line {
    context: Context,
    router: Router,
    target: usize,
    is_alone: bool,
    /// Nothing is begun after it.
    ends: Option<DateTime<Utc>>,
}

/// The senders of one run. Dropping it ends them.
pub(super) struct Batcher {
    lanes: Vec<Lane>,
    _senders: JoinSet<()>,
}

impl Batcher {
    pub(super) fn new(context: &Context, router: &Router, ends: Option<DateTime<Utc>>) -> Self {
        router.begin_run();
        let mut senders = JoinSet::new();
        let mut way = |target, is_alone| {
            let (inbox, asked) = mpsc::channel(1000);
            let line = Line { context: context.clone(), router: router.clone(), target, is_alone, ends };
            senders.spawn(serve(line.clone(), asked));
            (inbox, line)
        };
        let lanes = (0..router.targets()).map(|target| {
            let ((together, line), (alone, _)) = (way(target, false), way(target, true));
            Lane { together, alone, line }
        });
        let lanes = lanes.collect();
        Self { lanes, _senders: senders }
    }

    /// Whether nothing is sent to a target now.
    pub(super) fn is_down(&self, target: usize) -> bool {
        self.lanes[target].line.is_down()
    }

    /// A pass to send to a target, after the outcome of a probe that is under way. `None`: the
    /// target is down. Keep the pass until the first message has its outcome.
    pub(super) async fn admit(&self, target: usize) -> Option<Pass> {
        let line = &self.lanes[target].line;
        line.router.admit(target, line.context.now()).await
    }

    async fn send(
        &self,
        target: usize,
        envelope: Envelope,
        is_in_doubt: bool,
        not_after: DateTime<Utc>,
    ) -> Passed {
        let gone = || Passed::Sent(Sent::Unknown("the sender of the target has ended".to_owned()));
        let (reply, sent) = oneshot::channel();
        let lane = &self.lanes[target];
        let way = if is_in_doubt { &lane.alone } else { &lane.together };
        if way.send(Asked { envelope, not_after, reply }).await.is_err() {
            return gone();
        }
        sent.await.unwrap_or_else(|_| gone())
    }

    /// Sends messages of one subject in their order: several only to a target that keeps it.
    /// `is_in_doubt`: an earlier attempt of the only message had no reply.
    pub(super) async fn send_row(
        &self,
        target: usize,
        mut row: Vec<Envelope>,
        is_in_doubt: bool,
        not_after: DateTime<Utc>,
    ) -> Result<Vec<Sent>, NotBegun> {
        if row.len() < 2 {
            let Some(message) = row.pop() else { return Ok(Vec::new()) };
            return match self.send(target, message, is_in_doubt, not_after).await {
                Passed::Sent(sent) => Ok(vec![sent]),
                Passed::NotBegun(why) => Err(why),
            };
        }
        let line = &self.lanes[target].line;
        match line.why_not(not_after, row[0].expires) {
            Some(why) => Err(why),
            None => Ok(line.send(&row).await),
        }
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
        (batch, left) = if line.is_alone {
            (vec![first], None)
        } else {
            gather(&line.router, line.target, first, &mut inbox).await
        };
        if under_way.len() >= if line.is_alone { ALONE_AT_ONCE } else { AT_ONCE } {
            under_way.join_next().await;
        }
        // The batch may have waited for other calls. Meanwhile another relay may have taken a
        // message, or a message may have expired.
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
    let all = line.send(&envelopes).await;
    for (sent, reply) in all.into_iter().zip(replies) {
        // The receiver of the reply may have been dropped.
        let _ = reply.send(Passed::Sent(sent));
    }
}

impl Line {
    /// Returns the messages that may be sent now. The others receive the reason why not.
    fn still_to_be_sent(&self, batch: Vec<Asked>) -> Vec<Asked> {
        let mut still = Vec::with_capacity(batch.len());
        for asked in batch {
            match self.why_not(asked.not_after, asked.envelope.expires) {
                Some(why) => drop(asked.reply.send(Passed::NotBegun(why))),
                None => still.push(asked),
            }
        }
        still
    }

    fn is_down(&self) -> bool {
        self.router.is_down(self.target)
    }

    /// Why a message may not be begun now. `None`: it may.
    fn why_not(&self, not_after: DateTime<Utc>, expires: Option<DateTime<Utc>>) -> Option<NotBegun> {
        if self.context.is_past(self.ends) {
            Some(NotBegun::IsOver)
        } else if self.context.now() >= not_after {
            Some(NotBegun::TooLate)
        } else if is_over(expires, self.context.now()) {
            Some(NotBegun::HasExpired)
        } else {
            self.is_down().then_some(NotBegun::IsDown)
        }
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        // The rest of the time is for the writes of the outcomes.
        let by = self.ends.map(|ends| time::after(ends, Relay::LEAST / 2));
        let within = self.context.bounded(REPLY_WITHIN, by);
        self.router.send(self.target, batch, self.is_alone, within, self.context.now()).await
    }
}

/// Gathers a batch as large as the target takes. Also returns the message that did not fit. No two
/// messages of a batch have the same subject: the later message follows after the earlier one was
/// sent.
async fn gather(
    router: &Router,
    target: usize,
    first: Asked,
    inbox: &mut mpsc::Receiver<Asked>,
) -> (Vec<Asked>, Option<Asked>) {
    let target = router.target(target);
    let mut bytes = first.envelope.bytes();
    let mut batch = vec![first];
    while batch.len() < target.most_messages() {
        let Ok(Some(next)) = tokio::time::timeout(LINGER, inbox.recv()).await else { break };
        bytes += next.envelope.bytes();
        let is_alone = batch.iter().all(|other| other.envelope.group_id() != next.envelope.group_id());
        if bytes > target.most_bytes() || !is_alone {
            return (batch, Some(next));
        }
        batch.push(next);
    }
    (batch, None)
}
