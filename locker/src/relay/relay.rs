//! The relay: sends messages that were committed and are still there.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::run;
use crate::error::Error;
use crate::message::Router;
use crate::session::due_work::{RunReport, scheduled};
use crate::session::heartbeat::Machine;
use crate::workflow::Workflows;
use crate::workflow::context::Context;

/// Sends messages that are still unsent half a minute after their commit.
///
/// Run it about once a minute, in as many places as you like. Most messages are sent right after
/// their commit; a relay sends those whose process died, or whose target could not be reached.
///
/// - It takes the oldest message of a subject by a conditional write, and with it the later ones of
///   that subject: no other relay sends them meanwhile.
/// - It sends messages of one subject in the order of their commits, up to the first one that is
///   not taken. Messages of other subjects do not wait for it.
/// - A message that its target does not accept waits with a growing pause. After 72 hours since the
///   first try it is dead: it waits for an operator, and so do the later ones of its subject. A
///   message that its target refuses for a reason in the message is dead at once.
/// - A target is down if it refuses messages of two subjects for a reason of its own, such as a
///   permission, or if five calls in a row get no message accepted. Nothing more is sent to it in
///   this run. The next run sends one call first, and the others once a message of it is accepted.
/// - A message that a relay sent without a reply is sent again in a call of its own, so that it
///   delays no other message twice. If a caller sent it right after its commit, nothing is written,
///   and the relay first sends it in a batch. In a batch of one subject, only the first message
///   without a reply counts as such.
#[derive(Debug, Clone)]
#[must_use = "a relay does nothing until it is run"]
pub struct Relay {
    pub(super) context: Context,
    pub(super) router: Router,
    pub(super) concurrency: usize,
    pub(super) limit: Option<usize>,
    pub(super) deadline: Option<DateTime<Utc>>,
}

/// The counts of a run of the relay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RelayReport {
    /// Messages that their targets have.
    pub sent: usize,
    /// Messages that were not taken, and are sent again after a pause.
    pub waiting: usize,
    /// Messages that wait for an operator since this run.
    pub dead: usize,
    /// Messages that [expired](crate::message::NewMessage::expires) and were deleted.
    pub expired: usize,
    /// Subjects that this run skipped: another relay has, sent or changed their first message, or
    /// half a minute passed since this relay took the first message.
    pub taken_elsewhere: usize,
    /// Workflows and subjects whose messages could not be read, written or deleted, or of which
    /// that is unknown. What is still there is sent again.
    pub failed: usize,
    /// Due messages that this run skipped because their target is down, each counted once. A later
    /// run sends them.
    pub target_down: usize,
    /// Due messages whose topic has no route here, by topic. They were left as they are.
    pub unknown: BTreeMap<String, usize>,
}

impl Relay {
    /// A relay of the messages in this table.
    pub fn new(workflows: &Workflows, router: Router) -> Self {
        let context = workflows.context().clone();
        Self { context, router, concurrency: 50, limit: None, deadline: None }
    }

    /// Sets how many workflows and outbox subjects it works on at the same time (default: 50).
    ///
    /// Their messages share batches. At most eight batches are sent to a target at the same time.
    /// If a target [keeps the order](crate::message::Target::keeps_order) of a batch, each subject
    /// with several messages has a separate call, which is not counted.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// For how many workflows it sends in one run. Those whose messages wait for an operator or a
    /// route are not counted. Default: as many as have due messages, until its deadline.
    pub const fn limit(mut self, workflows: usize) -> Self {
        self.limit = Some(workflows);
        self
    }

    /// Stop at this time, such as 5 seconds before the deadline of a Lambda invocation. No message
    /// is begun in the last 2 seconds before it, and a target that has not replied one second
    /// before it is not waited for: its messages are sent again.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Send what is due.
    ///
    /// # Crash window
    ///
    /// A message that was sent and not deleted is sent again, with those of its subject that were
    /// sent after it, in order: ten at most. They keep their ids, so a receiver that remembers them
    /// takes each once.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, a message that was taken is sent a minute later.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing at all could be listed. An error after
    /// that is reported as [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// For each shard 2 requests, and 1 more for each 100 due messages: half a read unit for each
    /// 4 KB of their rows, which are 10 to 20 rows. A message costs nothing more while an earlier
    /// message of its subject is dead, its topic has no route, or its target is down. If such a
    /// message expires, 1 request deletes it: 1 write unit for each KB, and 1 for the index.
    ///
    /// For each other workflow or subject with due messages 1 query for 50, a read unit for each
    /// 4 KB, up to the first one that waits. For each subject of it and ten messages 1 write of
    /// 1 write unit for each KB and 2 for the index. For each message a part of a request to its
    /// target, and 1 request, 1 write unit for each KB and 1 for the index to delete it.
    ///
    /// For the gauges 4 more requests for each shard, and 1 more for each 1,000 messages that are
    /// dead or are sent again after a pause, up to 10,000. 1 write unit to write down that it ran.
    ///
    /// While a target is down, a run takes and sends one message of it: 2 writes.
    pub async fn run(&self) -> Result<RunReport<RelayReport>, Error> {
        let run = async {
            let done = run::all(self).await?;
            self.log(&done);
            Ok(done)
        };
        scheduled(&self.context, Machine::Relay, self.deadline, Box::pin(run)).await
    }

    fn log(&self, done: &RunReport<RelayReport>) {
        if !done.unknown.is_empty() {
            tracing::warn!(topics = ?done.unknown, "due messages have no route here");
        }
        tracing::info!(
            sent = done.sent,
            waiting = done.waiting,
            dead = done.dead,
            expired = done.expired,
            taken_elsewhere = done.taken_elsewhere,
            failed = done.failed,
            target_down = done.target_down,
            finished = done.finished,
            "relayed what was due"
        );
    }
}
