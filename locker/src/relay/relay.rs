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
/// their commit. A relay sends the other messages, for example if their process crashed or their
/// target failed.
///
/// - It takes a subject by a conditional write to its oldest message. During the lease of one
///   minute, no other relay sends messages of that subject.
/// - It sends messages of one subject in the order of their commits, up to the first message that
///   its target does not accept. Messages of other subjects do not wait for it.
/// - A message that its target does not accept waits with a growing pause. 72 hours after the first
///   try it is dead: an operator decides about it, and the later messages of its subject wait. A
///   message that its target refuses because of its content is dead at once.
/// - A target is down if it refuses messages of two subjects for a reason other than their content,
///   such as a missing permission. It is also down if it accepts no message in five calls in a row.
///   This run sends nothing more to it. The next run first sends one call. If the target accepts a
///   message of that call, the run sends the others.
/// - If a relay received no reply for a message, it sends the message again in a separate call, so
///   that no other message waits for it twice. A caller that sends a message right after its commit
///   does not record a missing reply, so the relay first sends that message in a batch. In a batch
///   of one subject, only the first message without a reply is sent again separately.
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
    /// Nothing is begun so shortly before the deadline. A target has half of it to reply.
    pub(crate) const LEAST: std::time::Duration = std::time::Duration::from_secs(2);

    /// A relay of the messages in this table.
    pub fn new(workflows: &Workflows, router: Router) -> Self {
        let context = workflows.context().clone();
        Self { context, router, concurrency: 50, limit: None, deadline: None }
    }

    /// Sets how many workflows and outbox subjects it works on at the same time (default: 50).
    ///
    /// Their messages share batches. At most eight batches are sent to a target at the same time.
    /// If a target [keeps the order](crate::message::Target::keeps_order) of a batch, each subject
    /// with several messages has one call more.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets for how many workflows and outbox subjects one run sends messages. Default: all with
    /// due messages, until the deadline. Workflows whose messages wait for an operator or a route
    /// are not counted.
    pub const fn limit(mut self, workflows: usize) -> Self {
        self.limit = Some(workflows);
        self
    }

    /// Sets the time to stop, such as 5 seconds before the deadline of a Lambda invocation. No call
    /// begins in the last 2 seconds before the deadline. If a target has not replied one second
    /// before the deadline, its messages are sent again later.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Sends the due messages.
    ///
    /// # Crash window
    ///
    /// If a message was sent and not deleted, the relay sends it again, with the messages of its
    /// subject that were sent after it: at most ten, in order. They keep their ids, so a receiver
    /// that remembers ids processes each message once.
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
    /// - To list: for each shard 2 requests, and 1 more for each 100 due messages. Half a read unit
    ///   reads 4 KB, which are 10 to 20 rows.
    /// - To read: for each workflow or subject with due messages 1 query for 50 messages, and 1
    ///   read unit for each 4 KB, up to the first message that waits.
    /// - To take: 1 write for each ten messages of a subject: 1 write unit for each KB, and 2 for
    ///   the index.
    /// - To send: for each message a part of a request to its target.
    /// - To delete: for each message 1 request: 1 write unit for each KB, and 1 for the index.
    /// - For the gauges: 4 more requests for each shard, and 1 more for each 1,000 messages that
    ///   are dead or are sent again after a pause, up to 10,000.
    /// - To record the run: 1 write unit.
    ///
    /// A message costs only its listing while an earlier message of its subject is dead, its topic
    /// has no route, or its target is down. If such a message expired, 1 request deletes it.
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
