//! The relay: sends committed messages that are still stored.

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
/// Run it about once a minute, in as many processes as you like. Most messages are sent right after
/// their commit. A relay sends the other messages, such as after a crash of their process, or after
/// a failure of their target.
///
/// - It takes the oldest message of a subject by a conditional write, and with it the later
///   messages of that subject: no other relay sends them during the lease.
/// - It sends messages of one subject in the order of their commits, up to the first message that
///   its target does not accept. Messages of other subjects do not wait for it.
/// - A message that its target does not accept waits with a growing pause. After 72 hours since the
///   first try it is dead: an operator decides about it, and the later messages of its subject
///   wait. A message that its target refuses for a reason in the message is dead at once.
/// - A target is down if it refuses messages of two subjects for a reason in the target, such as a
///   permission, or if five calls in a row get no message accepted. Nothing more is sent to it in
///   this run. The next run sends one call first, and the others once a message of it is accepted.
/// - A message that a relay sent without a reply is sent again in a separate call, so that it
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
    /// Messages that their targets accepted.
    pub sent: usize,
    /// Messages that their targets did not accept. They are sent again after a pause.
    pub waiting: usize,
    /// Messages that became dead in this run.
    pub dead: usize,
    /// Messages that [expired](crate::message::NewMessage::expires) and were deleted.
    pub expired: usize,
    /// Subjects that this run skipped: another relay has their first message, sent it or changed
    /// it, or half a minute passed since this relay took it.
    pub taken_elsewhere: usize,
    /// Workflows and subjects whose messages could not be read, written or deleted, or whose write
    /// has an unknown outcome. Messages that are still stored are sent again.
    pub failed: usize,
    /// Due messages that this run skipped because their target, or that of an earlier message of
    /// their subject, is down. Each is counted once. Messages that wait for a message in `waiting`
    /// are not counted. A later run sends them.
    pub target_down: usize,
    /// Due messages whose topic has no route here, by topic. They are not changed.
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
    /// Their messages share batches, of which eight are sent to a target at the same time. If a
    /// target [keeps the order](crate::message::Target::keeps_order) of a batch, each subject of
    /// several messages has one more call.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets for how many workflows and outbox subjects it sends in one run (default: all with due
    /// messages, until its deadline). Workflows whose messages wait for an operator or a route are
    /// not counted.
    pub const fn limit(mut self, workflows: usize) -> Self {
        self.limit = Some(workflows);
        self
    }

    /// Sets the time to stop, such as 5 seconds before the deadline of a Lambda invocation. No call
    /// begins in the last 2 seconds before it. If a target has not replied one second before it,
    /// its messages are sent again.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Sends the due messages.
    ///
    /// # Crash window
    ///
    /// A message that was sent and not deleted is sent again, with the messages of its subject that
    /// were sent after it, in order: ten at most. They keep their ids, so a receiver that remembers
    /// ids takes each message once.
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
    /// 4 KB of their rows, which are 10 to 20. A message costs nothing more while an earlier one of
    /// its subject is dead, its topic has no route, or its target is down. If such a message
    /// expired, 1 request deletes it: 1 write unit for each KB, and 1 for the index.
    ///
    /// For each other workflow or subject with due messages 1 query for 50, a read unit for each
    /// 4 KB, up to the first message that waits. For each of its subjects and ten messages 1 write
    /// of 1 write unit for each KB and 2 for the index. For each message a part of a request to its
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
