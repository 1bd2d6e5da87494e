//! The due messages of one workflow.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;

use super::batcher::{Batcher, NotBegun};
use super::relay::RelayReport;
use super::seen::Skipped;
use crate::core::message::envelope::Envelope;
use crate::core::message::event::LetterAct;
use crate::core::message::letter::{Letter, MessageState, is_long_over, is_of_one_subject};
use crate::core::retry::Backoff;
use crate::core::time;
use crate::message::Sent;
use crate::message::router::Router;
use crate::message::target::Fate;
use crate::metrics;
use crate::session::due_work::{Counts as _, Then, Turn};
use crate::store::Item;
use crate::workflow::context::Context;
use crate::workflow::send::{Came, DoneWith, change, delete};
use crate::workflow::send::{Queue, by_subject};

/// How long a relay has a subject once it has taken its oldest message.
const LEASE: Duration = Duration::from_secs(60);
/// Messages that are sent before the first of them is deleted, so that many are sent again at most.
const TOGETHER: usize = 10;

/// The due messages of a workflow or a subject, and how far they were read.
pub(super) struct Partition {
    pub(super) workflow: String,
    from: Option<Item>,
    /// Subjects that wait, each with its reason.
    ended: BTreeMap<String, Row>,
    /// Whether the rest was not read because the target of its subject is down.
    pub(super) is_down: bool,
}

impl Partition {
    pub(super) const fn of(workflow: String) -> Self {
        Self { workflow, from: None, ended: BTreeMap::new(), is_down: false }
    }
}

/// The parts of a run that send messages.
pub(super) struct Sender<'a> {
    pub(super) context: &'a Context,
    pub(super) router: &'a Router,
    pub(super) batcher: &'a Batcher,
    pub(super) skipped: &'a Skipped,
    /// Nothing is sent after it.
    pub(super) ends: Option<DateTime<Utc>>,
}

/// The outcome of messages of a subject that were sent in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// All that were begun were sent; there may be more.
    Sent,
    /// The subject waits.
    Ends,
    /// The subject waits because its target is down.
    Down,
}

impl Sender<'_> {
    /// Sends the messages on the next page of a partition.
    pub(super) async fn relay(&self, partition: &mut Partition) -> Turn<RelayReport> {
        let mut done = RelayReport::default();
        let Partition { workflow, ended, .. } = partition;
        let until = self.context.until(self.ends);
        let read = self.context.store().read_messages(workflow, partition.from.take(), until);
        let (messages, next) = match Box::pin(read).await {
            Ok(page) => page,
            Err(error) => {
                let key = self.context.shown(workflow);
                tracing::error!(workflow.key = key, %error, "messages could not be read");
                done.failed += 1;
                return Turn::done(done);
            }
        };
        let read = self.skipped.places(&messages);
        let mut parts = Vec::new();
        for (subject, queue) in by_subject(messages) {
            match ended.get(&subject) {
                None => parts.push(async move { (self.relay_subject(queue).await, subject) }),
                Some(Row::Down) => done.target_down += self.skipped.count(self.due_in(&queue)),
                Some(_) => {}
            }
        }
        for ((part, row), subject) in join_all(parts).await {
            done.add(part);
            if row != Row::Sent {
                ended.insert(subject, row);
            }
        }
        // The other messages of the page were sent, or wait for another reason.
        self.skipped.leave(read);
        // Messages queued after a waiting message are not read.
        let is_over = !ended.is_empty() && is_of_one_subject(workflow);
        partition.is_down = is_over && ended.values().any(|row| *row == Row::Down);
        let then = if self.context.is_past(self.ends) {
            Then::Cut
        } else if next.is_none() || is_over {
            Then::Done
        } else {
            Then::Again
        };
        partition.from = next;
        // Messages that wait for an operator or a route are the oldest, so they come first in each
        // run. They do not count for the limit.
        Turn { is_work: done.has_any(), then, counts: done }
    }

    /// Sends messages of one subject in order. Returns whether later messages may be sent.
    async fn relay_subject(&self, mut queue: Queue) -> (RelayReport, Row) {
        let mut done = RelayReport::default();
        while let Some(head) = queue.pop_front() {
            let is_due = self.is_due(&head);
            if is_due && is_long_over(head.expires, self.context.now()) {
                // Its row in the index has a separate turn: see [`super::expired`].
                continue;
            }
            if is_due && head.has_expired(self.context.now()) {
                if self.drop_expired(&head, &mut done).await {
                    continue;
                }
                return (done, Row::Ends);
            }
            // Its row in the index is counted.
            let Some(target) = self.router.target_of(&head.topic) else { return (done, Row::Ends) };
            // Later messages wait for a dead message until an operator decides.
            if !is_due || self.context.is_past(self.ends) {
                return (done, Row::Ends);
            }
            let pass = if self.batcher.is_down(target) { None } else { self.batcher.admit(target).await };
            // The others wait for the outcome of a probe until it is dropped.
            let Some(_pass) = pass else {
                done.target_down += self.skipped.count(iter::once(&head).chain(self.due_in(&queue)));
                return (done, Row::Down);
            };
            let by = self.context.settings().owner.clone();
            let taken = match change(self.context, &head, LetterAct::Take { by, lease: LEASE }).await {
                Came::To(taken) => *taken,
                Came::Passed => {
                    done.taken_elsewhere += 1;
                    return (done, Row::Ends);
                }
                Came::Failed => {
                    done.failed += 1;
                    return (done, Row::Ends);
                }
            };
            let row = self.send_row(taken, target, &mut queue, &mut done).await;
            if row != Row::Sent {
                return (done, row);
            }
        }
        (done, Row::Sent)
    }

    /// Deletes a message that expired. Returns whether later messages of its subject may be sent.
    async fn drop_expired(&self, message: &Letter, done: &mut RelayReport) -> bool {
        match delete(self.context, message, DoneWith::Expired).await {
            Came::To(()) => {
                metrics::count_expired(&message.topic);
                tracing::warn!(
                    message.id,
                    message.topic,
                    message.attempts,
                    "a message expired and is dropped"
                );
                done.expired += 1;
                true
            }
            Came::Passed => {
                done.taken_elsewhere += 1;
                false
            }
            Came::Failed => {
                done.failed += 1;
                false
            }
        }
    }

    fn is_due(&self, message: &Letter) -> bool {
        message.state == MessageState::Unsent && message.next_due <= self.context.now()
    }

    fn due_in<'q>(&self, queue: &'q Queue) -> impl Iterator<Item = &'q Letter> {
        queue.iter().filter(|message| self.is_due(message))
    }

    /// Sends the message that was taken and some messages after it, then deletes them. The first
    /// message is deleted last, so that no other relay begins with a later message.
    async fn send_row(&self, taken: Letter, target: usize, queue: &mut Queue, done: &mut RelayReport) -> Row {
        let until = time::before(taken.next_due, LEASE / 2);
        let mut sent: Vec<Letter> = Vec::new();
        let (mut next, mut target) = (Some(taken), Some(target));
        let mut ended = Row::Sent;
        // The outcomes of messages that were sent in one batch with the last one.
        let mut ahead: VecDeque<Sent> = VecDeque::new();
        while let (Some(message), Some(to)) = (next.take(), target.take()) {
            // This relay was suspended, and another relay may have the message.
            if ahead.is_empty() && self.context.now() >= until {
                done.taken_elsewhere += 1;
                ended = Row::Ends;
                break;
            }
            if ahead.is_empty() {
                let row = self.row(to, &message, queue, TOGETHER - sent.len());
                let is_in_doubt = message.is_in_doubt();
                ahead = match self.batcher.send_row(to, row, is_in_doubt, until).await {
                    Ok(all) => all.into(),
                    Err(why) => {
                        ended = Row::Ends;
                        match why {
                            NotBegun::TooLate => done.taken_elsewhere += 1,
                            NotBegun::IsDown => {
                                // The message that was taken was due, and is not due any more.
                                let was_due = message.locked_by.is_some() || self.is_due(&message);
                                let first = was_due.then_some(&message);
                                done.target_down +=
                                    self.skipped.count(first.into_iter().chain(self.due_in(queue)));
                                ended = Row::Down;
                            }
                            NotBegun::IsOver => {}
                            NotBegun::HasExpired => {
                                if self.drop_expired(&message, done).await {
                                    ended = Row::Sent;
                                }
                            }
                        }
                        break;
                    }
                };
            }
            let Some(sent_now) = ahead.pop_front() else { break };
            match sent_now.fate() {
                Fate::Delete => {
                    metrics::count_sent(&message.topic);
                    done.sent += 1;
                    sent.push(message);
                }
                Fate::DeadLetter { cause } => {
                    self.record(&message, LetterAct::Refused { class: None, cause }, done).await;
                    ended = Row::Ends;
                    break;
                }
                Fate::Retry { class, cause } => {
                    let pause = Backoff::OF_MESSAGES.equal(message.attempts, self.context.jitter());
                    self.record(&message, LetterAct::Failed { class, cause, pause }, done).await;
                    ended = Row::Ends;
                    break;
                }
            }
            let is_sent = !ahead.is_empty();
            let is_over = !is_sent
                && (sent.len() >= TOGETHER || self.context.now() >= until || self.context.is_past(self.ends));
            let now = self.context.now();
            if let Some(follower) = queue.pop_front_if(|follower| {
                is_sent || (!is_over && follower.state == MessageState::Unsent && !follower.has_expired(now))
            }) {
                target = self.router.target_of(&follower.topic);
                match target {
                    Some(_) => next = Some(follower),
                    None => queue.push_front(follower),
                }
            }
        }
        match self.delete_all(&sent).await {
            Came::To(()) => ended,
            Came::Passed => {
                done.taken_elsewhere += 1;
                Row::Ends
            }
            Came::Failed => {
                done.failed += 1;
                Row::Ends
            }
        }
    }

    /// The messages that are sent in one batch: several only to a target that keeps their order. A
    /// message whose earlier attempt had no reply is sent alone.
    fn row(&self, to: usize, first: &Letter, queue: &Queue, most: usize) -> Vec<Envelope> {
        let target = self.router.target(to);
        let mut row = vec![Envelope::of(first)];
        if !target.keeps_order() || first.is_in_doubt() {
            return row;
        }
        let (mut bytes, now) = (row[0].bytes(), self.context.now());
        for follower in queue {
            let envelope = Envelope::of(follower);
            bytes += envelope.bytes();
            let is_its = self.router.target_of(&follower.topic) == Some(to);
            let is_next = follower.state == MessageState::Unsent
                && !follower.is_in_doubt()
                && !follower.has_expired(now);
            let fits = row.len() < most.min(target.most_messages()) && bytes <= target.most_bytes();
            if !is_next || !is_its || !fits {
                break;
            }
            row.push(envelope);
        }
        row
    }

    /// Deletes messages that were sent. A message that stays is sent again.
    async fn delete_all(&self, sent: &[Letter]) -> Came<()> {
        let Some((first, others)) = sent.split_first() else { return Came::To(()) };
        let delete = |message| delete(self.context, message, DoneWith::Sent);
        let deleted = join_all(others.iter().map(delete)).await;
        match deleted.into_iter().find(|deleted| !matches!(deleted, Came::To(()))) {
            Some(stays) => stays,
            None => delete(first).await,
        }
    }

    async fn record(&self, message: &Letter, act: LetterAct, done: &mut RelayReport) {
        let counts = [&mut done.waiting, &mut done.dead, &mut done.taken_elsewhere, &mut done.failed];
        change(self.context, message, act).await.count(counts);
    }
}
