//! Sending right after the commit, by the process that committed.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::core::message::envelope::Envelope;
use crate::core::message::event::{LetterAct, LetterEvent, LetterRefusal, Mark};
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::error::Error;
use crate::message::router::REPLY_WITHIN;
use crate::message::target::Fate;
use crate::message::{Router, Sent};
use crate::metrics;
use crate::store::{Changed, Guard, Written};
use crate::workflow::context::Context;
use crate::workflow::flow::Flow;
#[cfg(feature = "messages")]
use crate::workflow::lines::Line;

/// Messages of one subject, the oldest first.
pub(crate) type Queue = VecDeque<Letter>;

/// The subjects, and the queue of each. `messages`: in the order of their sort keys.
pub(crate) fn by_subject(messages: Vec<Letter>) -> Vec<(String, Queue)> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for message in messages {
        queues.entry(message.subject.clone()).or_default().push_back(message);
    }
    queues.into_iter().collect()
}

/// How long sending may delay the step. It is far shorter than the time after which a relay may
/// send.
const BUDGET: Duration = Duration::from_secs(2);

/// The time in which a caller sends at once.
///
/// A call that is cut off may have sent its message, which the relay would send again. So no
/// message is begun in the second half, a target has seven eighths to reply, and the rest is for
/// the deletion. A target that does not reply by then counts as failing: if it were cut off by the
/// end of the time, its breaker would never open.
#[derive(Debug, Clone, Copy)]
struct Span {
    begins_until: Instant,
    reply_by: Instant,
}

impl Span {
    fn of(budget: Duration) -> Self {
        let now = Instant::now();
        Self { begins_until: now + budget / 2, reply_by: now + budget / 8 * 7 }
    }

    /// How long a target that is called now has to reply. `None`: begin nothing.
    fn reply_within(self) -> Option<Duration> {
        let now = Instant::now();
        (now < self.begins_until).then(|| (self.reply_by - now).min(REPLY_WITHIN))
    }
}

/// Sends the committed messages, and the messages that waited for them. The step is done in any
/// case: messages that are not sent are left for the relay.
pub(crate) async fn send(flow: &Flow, committed: Vec<Letter>) {
    if committed.is_empty() {
        return;
    }
    let context = flow.context();
    let Some(router) = context.router() else { return };
    flow.unsent().queue(committed);
    let budget = context.bounded(BUDGET, flow.deadline());
    let span = Span::of(budget);
    let sending = async {
        loop {
            let ready = flow.unsent().take_ready();
            if ready.is_empty() {
                return;
            }
            let queues = by_subject(ready).into_iter().map(|(_, queue)| {
                send_queue(context, router, queue, span, |message| flow.unsent().remove(message))
            });
            join_all(queues).await;
        }
    };
    if tokio::time::timeout(budget, sending).await.is_err() {
        tracing::debug!("messages are left for the relay: there was no time to send them");
    }
}

/// Sends messages that were just committed outside of workflows. Delayed messages, and messages
/// that are not sent, are left for the relay.
#[cfg(feature = "messages")]
pub(crate) async fn send_committed(context: &Context, committed: Vec<Letter>) {
    let Some(router) = context.router() else { return };
    let now = context.now();
    // A message that is due is a relay's. If its delay has ended, it is in no order, either.
    let is_callers = |message: &Letter| !message.is_delayed(now) && now < message.next_due;
    let at_once = committed.into_iter().filter(is_callers).collect();
    let lines = by_subject(at_once).into_iter().filter_map(|(_, queue)| {
        let partition = queue.front()?.at.workflow.clone();
        context.lines().join(&partition, queue.into())
    });
    let span = Span::of(BUDGET);
    let sending = join_all(lines.map(|line| send_line(context, router, line, span)));
    if tokio::time::timeout(BUDGET, sending).await.is_err() {
        tracing::debug!("messages are left for the relay: there was no time to send them");
    }
}

/// Sends the messages of a line until there are none, or one cannot be sent.
///
/// Another process may have committed an earlier message. That process or the relay sends it, and
/// the relay then sends the messages of this line as well. So a message is sent at once only if it
/// is stored as it was committed, and no earlier message is stored.
#[cfg(feature = "messages")]
async fn send_line(context: &Context, router: &Router, mut line: Line, span: Span) {
    while let Some(mut messages) = line.next() {
        while let Some(first) = messages.first() {
            let store = context.store();
            let read = store.read_first_messages(&first.at.workflow, messages.len(), context.until(None));
            let Ok((stored, has_more)) = Box::pin(read).await else { return };
            let ready = take_ready(&mut messages, &stored, has_more);
            // A caller of this process may have committed the earlier message, and added it to this
            // line after the last read.
            if ready.is_empty() && !messages.is_empty() && !line.join_to(&mut messages) {
                return;
            }
            if !send_queue(context, router, ready, span, |_| {}).await {
                return;
            }
        }
    }
}

/// Removes and returns the messages that may be sent: the oldest messages of their partition, as
/// they were committed. Drops a message that is not stored, or that was changed.
///
/// `stored`: the oldest messages of the partition. `has_more`: later messages may be stored.
#[cfg(feature = "messages")]
fn take_ready(messages: &mut Vec<Letter>, stored: &[Letter], has_more: bool) -> Queue {
    let mut ready = Queue::new();
    let mut stored = stored.iter();
    let mut next = stored.next();
    while let Some(message) = messages.first() {
        match next {
            Some(other) if message.is_unchanged(other) => {
                ready.push_back(messages.remove(0));
                next = stored.next();
            }
            Some(other) if other.at.item < message.at.item => break,
            None if has_more => break,
            _ => drop(messages.remove(0)),
        }
    }
    ready
}

/// Sends messages of one subject in order, up to the first that is not taken. Returns whether all
/// were sent and deleted.
async fn send_queue(
    context: &Context,
    router: &Router,
    queue: Queue,
    span: Span,
    was_sent: impl Fn(&Letter),
) -> bool {
    for message in queue {
        let Some(target) = router.target_of(&message.topic) else { return false };
        // It was suspended, and a relay may have it. A relay deletes an expired message.
        let now = context.now();
        if now >= message.next_due || message.has_expired(now) {
            return false;
        }
        let Some(within) = span.reply_within() else { return false };
        let Some(_pass) = router.enter(target, now) else { return false };
        let batch = [Envelope::of(&message)];
        let sent = router.send(target, &batch, false, within, now).await.pop();
        match sent.map(Sent::fate) {
            Some(Fate::Delete) => {
                metrics::count_sent(&message.topic);
                let Came::To(()) = delete(context, &message, DoneWith::Sent).await else { return false };
                was_sent(&message);
            }
            Some(Fate::DeadLetter { cause }) => {
                refuse(context, &message, cause).await;
                return false;
            }
            Some(Fate::Retry { cause, .. }) => {
                tracing::info!(message.id, message.topic, cause, "a message is left for the relay");
                return false;
            }
            None => return false,
        }
    }
    true
}

/// The known outcome of a write of a message.
pub(crate) enum Came<T> {
    /// It is done.
    To(T),
    /// The message was changed or deleted after it was read: another caller is responsible for it.
    Passed,
    /// It may not have been written.
    Failed,
}

impl Came<Box<Letter>> {
    /// Counts a message that was not sent or handled: waiting, dead, skipped, failed.
    pub(crate) fn count(&self, [waiting, dead, passed_by, failed]: [&mut usize; 4]) {
        match self {
            Self::To(next) if next.state == MessageState::Dead => *dead += 1,
            Self::To(_) => *waiting += 1,
            Self::Passed => *passed_by += 1,
            Self::Failed => {
                *waiting += 1;
                *failed += 1;
            }
        }
    }
}

/// Why a message is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DoneWith {
    /// Its target has it. A message that is already gone counts as deleted: a second send is
    /// allowed.
    Sent,
    /// It expired. A message that is gone already was sent, or dropped by another relay.
    Expired,
    /// Its consumer processed it. If the message is already gone, another run had it and may have
    /// processed it as well.
    Handled,
}

/// Deletes a message that is done with. If it is still there, it is sent or handled again.
pub(crate) async fn delete(context: &Context, message: &Letter, done_with: DoneWith) -> Came<()> {
    let (at, guard) = (&message.at, Guard::Revision(&message.revision));
    let until = context.until(None);
    let deleted = context.store().delete_item("delete the message", &at.workflow, &at.item, guard, until);
    match (Box::pin(deleted).await, done_with) {
        (Ok(Written::Done), _) | (Ok(Written::Refused { found: None, .. }), DoneWith::Sent) => Came::To(()),
        (Ok(Written::Refused { .. }), DoneWith::Sent | DoneWith::Expired) => Came::Passed,
        (Ok(Written::Refused { .. }), DoneWith::Handled) => {
            let said = "a message was handled, and became another's meanwhile: it may be handled twice";
            tracing::warn!(message.id, "{said}");
            Came::Passed
        }
        (Err(error), DoneWith::Sent) => {
            let said =
                "a message that was sent is not known to be deleted: if it is still there, it is sent again";
            tracing::error!(message.id, %error, "{said}");
            Came::Failed
        }
        (Err(error), DoneWith::Expired) => {
            tracing::warn!(message.id, %error, "a message that expired is not known to be deleted");
            Came::Failed
        }
        (Err(error), DoneWith::Handled) => {
            let said = "a message was handled and is not known to be deleted: if it is still there, it is handled again";
            tracing::error!(message.id, %error, "{said}");
            Came::Failed
        }
    }
}

/// Dead-letters a message that its target will never take.
async fn refuse(context: &Context, message: &Letter, cause: String) {
    change(context, message, LetterAct::Refused { class: None, cause }).await;
}

/// Writes the result of an act on a message.
pub(crate) async fn change(context: &Context, message: &Letter, act: LetterAct) -> Came<Box<Letter>> {
    let event = LetterEvent::new(&message.revision, act);
    match write(context, "change the message", message.clone(), &event, || context.new_id()).await {
        Ok(Changed::Done(next)) => {
            tell(context, &next);
            Came::To(Box::new(next))
        }
        Ok(Changed::Refused { .. } | Changed::Gone) => Came::Passed,
        Err(error) => {
            tracing::error!(message.id, %error, "a message is not known to be changed");
            Came::Failed
        }
    }
}

/// Writes the result of an event on a message as it was read. `revision`: returns the revision of
/// the written message.
pub(crate) async fn write(
    context: &Context,
    verb: &'static str,
    message: Letter,
    event: &LetterEvent,
    revision: impl Fn() -> String,
) -> Result<Changed<Letter, LetterRefusal>, Error> {
    let mark = || Mark { now: context.now(), revision: revision() };
    let rule = |stored: Option<&Letter>| stored.ok_or(LetterRefusal::Changed)?.on(event, mark());
    Box::pin(context.store().change(verb, Some(message), context.until(None), rule)).await
}

fn tell(context: &Context, message: &Letter) {
    if message.state == MessageState::Dead {
        metrics::count_dead(consumer_of(&message.at.workflow).unwrap_or(&message.topic));
        tracing::error!(
            workflow.key = context.shown(&message.at.workflow),
            message.id,
            message.topic,
            message.cause,
            "a message is dead"
        );
    }
}
