//! One run of the relay: workflows and subjects with due messages take turns.

use std::time::Duration;

use super::batcher::Batcher;
use super::expired::Expired;
use super::partition::{Partition, Sender};
use super::relay::{Relay, RelayReport};
use super::{kept, seen};
use crate::core::message::letter::MessageState;
use crate::core::rounds::{Entry, Kind};
use crate::core::time;
use crate::error::Error;
use crate::session::due_work::{Counts, DueWork, Lists, Page, Pool, RunReport, Then, Turn, Work};
use crate::store::{Layout, Positions};

/// How long after its deadline a relay waits for the outcomes of messages.
const PATIENCE: Duration = Duration::from_secs(3);

/// An item of a run.
enum Due {
    /// The messages of a workflow or a subject.
    Partition(Partition),
    /// One expired message.
    Expired(Expired),
}

impl Due {
    fn partition(&self) -> &str {
        match self {
            Self::Partition(partition) => &partition.workflow,
            Self::Expired(message) => message.partition(),
        }
    }
}

struct Sends<'a> {
    sender: Sender<'a>,
    lists: Lists<'a>,
    seen: seen::Seen,
}

pub(super) async fn all(relay: &Relay) -> Result<RunReport<RelayReport>, Error> {
    let (context, deadline) = (&relay.context, relay.deadline);
    let ends = deadline.map(|deadline| time::before(deadline, Relay::LEAST));
    let batcher = Batcher::new(context, &relay.router, ends);
    let stuck = Box::pin(kept::read(context, deadline)).await;
    let unsent = MessageState::Unsent;
    let bases: Vec<_> = std::iter::once(unsent.as_str()).chain(unsent.also().iter().copied()).collect();
    let lists = Lists::of(context, &Layout::WORKFLOWS, &bases, deadline).due();
    let work = DueWork {
        pools: vec![Pool { width: relay.concurrency, begins_until: ends }],
        limit: relay.limit,
        deadline,
        // Each request of a turn is bounded by the table's or the target's own time, so a turn ends
        // by itself.
        patience: PATIENCE,
        ..DueWork::new(context, lists.len(), relay.concurrency)
    };
    let skipped = seen::Skipped::default();
    let sender = Sender { context, router: &relay.router, batcher: &batcher, skipped: &skipped, ends };
    work.run(&Sends { sender, lists, seen: seen::Seen::new(stuck) }).await
}

impl Work for Sends<'_> {
    type Item = Due;
    type Place = Positions;
    type Counts = RelayReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<Due, Positions, RelayReport>, Error> {
        let page = self.lists.read(list, from).await?;
        let mut counts = RelayReport::default();
        let now = self.sender.context.now();
        let entries = page.rows.into_iter().filter_map(|row| {
            let item = if let Some(expired) = Expired::of(&row, now) {
                Due::Expired(expired)
            } else if self.seen.is_new(&row, &self.sender, &mut counts) {
                Due::Partition(Partition::of(row.key.clone()))
            } else {
                return None;
            };
            Some(Entry { lane: row.key, due: row.due, kind: Kind::One, item })
        });
        let entries = entries.collect();
        Ok(Page { entries, next: page.next, counts })
    }

    async fn turn(&self, due: &mut Due) -> Turn<RelayReport> {
        let partition = match due {
            Due::Partition(partition) => partition,
            Due::Expired(message) => {
                let counts = Box::pin(message.delete(self.sender.context)).await;
                return Turn { is_work: false, ..Turn::done(counts) };
            }
        };
        if let Some(target_down) = self.seen.skip(&partition.workflow, &self.sender) {
            let counts = RelayReport { target_down, ..RelayReport::default() };
            return Turn { is_work: false, ..Turn::done(counts) };
        }
        let mut turn = Box::pin(self.sender.relay(partition)).await;
        if !matches!(turn.then, Then::Again) {
            turn.counts.target_down += self.seen.end(partition, &self.sender);
        }
        turn
    }

    async fn abandon(&self, due: &Due) -> RelayReport {
        let key = self.sender.context.shown(due.partition());
        tracing::error!(
            workflow.key = key,
            "the run ended while it sent messages; the messages may or may not be sent"
        );
        RelayReport { failed: 1, ..RelayReport::default() }
    }
}

impl RelayReport {
    /// Whether anything was tried.
    pub(super) const fn has_any(&self) -> bool {
        let tried = self.sent + self.waiting + self.dead + self.expired + self.failed;
        tried + self.taken_elsewhere + self.target_down > 0
    }
}

impl Counts for RelayReport {
    fn add(&mut self, part: Self) {
        self.sent += part.sent;
        self.waiting += part.waiting;
        self.dead += part.dead;
        self.expired += part.expired;
        self.taken_elsewhere += part.taken_elsewhere;
        self.failed += part.failed;
        self.target_down += part.target_down;
        for (topic, count) in part.unknown {
            *self.unknown.entry(topic).or_default() += count;
        }
    }
}
