//! Joins messages of many partitions into batches, one sender for each target.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::router::Router;
use super::target::Sent;
use crate::core::message::envelope::Envelope;

/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_millis(5);
/// Batches that are on their way to one target at the same time.
const AT_ONCE: usize = 8;
/// After this many messages in a row that a target did not take, nothing more is sent to it in this run.
const ENOUGH: usize = 5;

struct Asked {
    envelope: Envelope,
    reply: oneshot::Sender<Sent>,
}

/// The way to one target.
struct Lane {
    inbox: mpsc::Sender<Asked>,
    /// Messages in a row that it did not take.
    failures: Arc<AtomicUsize>,
}

/// The senders of one run. Dropping it ends them.
pub(super) struct Batcher {
    lanes: Vec<Lane>,
    _senders: JoinSet<()>,
}

impl Batcher {
    pub(super) fn new(router: &Router) -> Self {
        let mut senders = JoinSet::new();
        let lanes = (0..router.targets()).map(|target| {
            let (inbox, asked) = mpsc::channel(1000);
            let failures = Arc::default();
            senders.spawn(serve(router.clone(), target, asked, Arc::clone(&failures)));
            Lane { inbox, failures }
        });
        Self { lanes: lanes.collect(), _senders: senders }
    }

    /// Whether a target is left alone for the rest of this run.
    pub(super) fn is_down(&self, target: usize) -> bool {
        self.lanes[target].failures.load(Ordering::Relaxed) >= ENOUGH
    }

    pub(super) async fn send(&self, target: usize, envelope: Envelope) -> Sent {
        let gone = || Sent::Unknown("the sender of the target has ended".to_owned());
        let (reply, sent) = oneshot::channel();
        if self.lanes[target].inbox.send(Asked { envelope, reply }).await.is_err() {
            return gone();
        }
        sent.await.unwrap_or_else(|_| gone())
    }
}

async fn serve(router: Router, target: usize, mut inbox: mpsc::Receiver<Asked>, failures: Arc<AtomicUsize>) {
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
        (batch, left) = gather(&router, target, first, &mut inbox).await;
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        let (router, failures) = (router.clone(), Arc::clone(&failures));
        under_way.spawn(async move {
            let (envelopes, replies): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|asked| (asked.envelope, asked.reply)).unzip();
            for (sent, reply) in router.send(target, &envelopes).await.into_iter().zip(replies) {
                match sent {
                    Sent::Later(_) | Sent::Unknown(_) => drop(failures.fetch_add(1, Ordering::Relaxed)),
                    Sent::Done | Sent::Never(_) => failures.store(0, Ordering::Relaxed),
                }
                // Whoever asked may have been dropped.
                let _ = reply.send(sent);
            }
        });
    }
    while under_way.join_next().await.is_some() {}
}

/// A batch as large as the target takes, and what did not fit. No two messages of it have the same subject: the later
/// one is only asked for once the earlier one was sent.
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
