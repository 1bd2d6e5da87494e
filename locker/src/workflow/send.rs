//! Sending right after the commit, by the process that committed.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::future::join_all;

use crate::core::message::envelope::Envelope;
use crate::core::message::event::{LetterAct, LetterEvent, LetterRefusal, Mark};
#[cfg(feature = "messages")]
use crate::core::message::letter::partition_of;
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::error::Error;
use crate::message::router::REPLY_WITHIN;
use crate::message::target::Fate;
use crate::message::{Router, Sent};
use crate::metrics;
use crate::store::{Changed, Guard, Written};
use crate::workflow::context::Context;
use crate::workflow::flow::Flow;

/// Messages of one subject, the oldest first.
pub(crate) type Queue = VecDeque<Letter>;

/// The subjects, and the queue of each. `messages`: in the order of their sort keys. Archived ones
/// hold nothing up.
pub(crate) fn by_subject(messages: Vec<Letter>) -> Vec<(String, Queue)> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for message in messages.into_iter().filter(|message| message.state != MessageState::Archived) {
        queues.entry(message.subject.clone()).or_default().push_back(message);
    }
    queues.into_iter().collect()
}

/// How long sending may delay the step. It is far shorter than the time after which a relay may
/// send.
const BUDGET: Duration = Duration::from_secs(2);

/// Send what was just committed, and what waited for it. The step is done whatever comes of it:
/// what is not sent is left for the relay.
pub(crate) async fn send(flow: &Flow, committed: Vec<Letter>) {
    if committed.is_empty() {
        return;
    }
    let context = flow.context();
    let Some(router) = context.router() else { return };
    flow.unsent().queue(committed);
    let budget = context.bounded(BUDGET, flow.deadline());
    let sending = async {
        loop {
            let ready = flow.unsent().take_ready();
            if ready.is_empty() {
                return;
            }
            let queues = by_subject(ready).into_iter().map(|(_, queue)| {
                send_queue(context, router, queue, |message| flow.unsent().remove(message))
            });
            join_all(queues).await;
        }
    };
    if tokio::time::timeout(budget, sending).await.is_err() {
        tracing::debug!("messages are left for the relay: there was no time to send them");
    }
}

/// Send what was committed outside workflows about a subject.
#[cfg(feature = "messages")]
pub(crate) async fn send_subject(context: &Context, subject: &str) {
    let Some(router) = context.router() else { return };
    let sending = async {
        let until = context.until(None);
        let partition = partition_of(subject);
        let read = context.store().read_messages(&partition, None, until);
        let Ok((messages, _)) = Box::pin(read).await else { return };
        // The oldest one comes first, and a relay may have it.
        let is_ours = |message: &Letter| {
            message.state == MessageState::Unsent && message.next_due > context.now() && message.attempts == 0
        };
        let queues = by_subject(messages).into_iter().map(|(_, queue)| async {
            let ours = queue.into_iter().take_while(is_ours).collect();
            send_queue(context, router, ours, |_| {}).await;
        });
        join_all(queues).await;
    };
    if tokio::time::timeout(BUDGET, sending).await.is_err() {
        tracing::debug!("messages are left for the relay: there was no time to send them");
    }
}

/// Send messages of one subject in order, up to the first that is not taken.
async fn send_queue(context: &Context, router: &Router, queue: Queue, was_sent: impl Fn(&Letter)) {
    for message in queue {
        let Some(target) = router.target_of(&message.topic) else { return };
        // It was suspended, and a relay may have it. A relay deletes an expired message.
        let now = context.now();
        if now >= message.next_due || message.has_expired(now) {
            return;
        }
        let Some(_pass) = router.enter(target, now) else { return };
        let batch = [Envelope::of(&message)];
        let sent = router.send(target, &batch, false, REPLY_WITHIN, now).await.pop();
        match sent.map(Sent::fate) {
            Some(Fate::Delete) => {
                metrics::count_sent(&message.topic);
                let Came::To(()) = delete(context, &message, DoneWith::Sent).await else { return };
                was_sent(&message);
            }
            Some(Fate::DeadLetter { cause }) => {
                refuse(context, &message, cause).await;
                return;
            }
            Some(Fate::Retry { cause, .. }) => {
                tracing::info!(message.id, message.topic, cause, "a message is left for the relay");
                return;
            }
            None => return,
        }
    }
}

/// The outcome of a write of a message, as far as it is known.
pub(crate) enum Came<T> {
    /// It is done.
    To(T),
    /// The message was changed meanwhile, or is gone: it is another caller's.
    Passed,
    /// It may not have been written.
    Failed,
}

impl Came<Box<Letter>> {
    /// Count a message that was not sent or handled: waiting, dead, passed by, failed.
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
    /// Its target has it. A message that is gone already is deleted, too: sending it twice is
    /// allowed.
    Sent,
    /// It expired. A message that is gone already was sent, or dropped by another relay.
    Expired,
    /// Its consumer handled it. A message that is gone already was another run's, which may have
    /// handled it, too.
    Handled,
}

/// Delete a message that is done with. If it is still there, it is sent or handled again.
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

/// Set a message aside that its target will never take.
async fn refuse(context: &Context, message: &Letter, cause: String) {
    change(context, message, LetterAct::Refused { class: None, cause }).await;
}

/// Write what an act makes of a message.
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

/// Write what an event makes of a message as it was read. `revision`: of what is written.
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
