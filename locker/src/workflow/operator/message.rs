//! Messages as operators read them.

use chrono::{DateTime, Utc};

use crate::core::class::Class;
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::core::message::revision;
use crate::core::token::record::{Intervention, short_digest};
use crate::core::token::work::Work;

/// A message that is kept: one that was committed and not sent, or one that a consumer set aside.
#[derive(Clone)]
pub struct Message {
    pub(crate) stored: Letter,
}

// Bodies may be private.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("topic", &self.topic()).finish_non_exhaustive()
    }
}

impl Message {
    /// Its name among tokens, workflows and messages.
    #[must_use]
    pub fn work(&self) -> Work {
        self.stored.work()
    }

    /// Eight hexadecimal digits that name it, as lists of messages show them.
    #[must_use]
    pub fn short_id(&self) -> String {
        self.stored.work().short_id()
    }

    /// Changes with every write of it, except that code which held it left it as it was.
    #[must_use]
    pub fn revision(&self) -> String {
        short_digest(revision::content_of(&self.stored.revision))
    }

    /// The consumer that received it and set it aside. `None`: it is to be sent.
    #[must_use]
    pub fn consumer(&self) -> Option<&str> {
        consumer_of(&self.stored.at.workflow)
    }

    /// What the broker said of one that was received, besides its body, as JSON text.
    #[must_use]
    pub fn delivery(&self) -> Option<&str> {
        self.stored.delivery.as_deref()
    }

    /// When a relay, or its consumer, may take it; of one that is dead or archived, since when it
    /// is dead.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.stored.next_due
    }

    /// The class of the failure, of one that was received: that of the last attempt; but once an
    /// attempt in the table was in doubt, in doubt. What attempts before the last one of its queue
    /// came to is not known here. Of an outgoing message: [`Class::InDoubt`] if an attempt of a
    /// relay had no reply, so that its target may have it; in a batch of one subject, of the first
    /// message only. An attempt right after the commit is not counted.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        self.stored.class
    }

    /// Until then [code that decides](crate::dead_letters::DeadLetters) has it, if it is dead: no
    /// other act on it is possible. It may be past.
    #[must_use]
    pub fn held_until(&self) -> Option<DateTime<Utc>> {
        self.stored.held_until
    }

    /// How many times an operator had it sent or handled again.
    #[must_use]
    pub fn redrives(&self) -> u32 {
        self.stored.redrives
    }

    /// The operator who acted on it last, and the reason.
    #[must_use]
    pub fn intervention(&self) -> Option<&Intervention> {
        self.stored.intervention.as_ref()
    }

    /// The topic of the message; the type of an event that was received, with dots, or
    /// `unreadable`.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.stored.topic
    }

    /// The body of the message, as JSON text; of one that was received, as it came. If the body is
    /// [elsewhere](Self::body_at), the claim on it as JSON, or nothing.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.stored.body
    }

    /// The place of a body that was too large for the table: `claim`, in the claim-check store of
    /// its [consumer](crate::inbox::Consumer::claim_check); `queue`, in the queue that delivered
    /// it. `None`: the message contains its body.
    #[must_use]
    pub fn body_at(&self) -> Option<&'static str> {
        self.stored.body_at.as_str()
    }

    /// Identifies the message for receivers: the same however often it is sent, and of no other
    /// message, also if the workflow was deleted and started anew under the same key. At most 128
    /// characters, no space.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.stored.id
    }

    /// The source of the event, such as `/orders`. Empty: it was received, and is no event.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.stored.source
    }

    /// What the message is about: messages of one subject are sent in the order of their commits.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.stored.subject
    }

    /// When the message was committed, or set aside; of a delayed one, when its delay ends.
    #[must_use]
    pub fn created(&self) -> DateTime<Utc> {
        self.stored.created
    }

    /// Whether it is to be sent or handled, or waits for an operator.
    #[must_use]
    pub fn state(&self) -> MessageState {
        self.stored.state
    }

    /// How many times it was sent right after its commit and refused, or taken by a relay or its
    /// consumer: one that was taken, and whose turn did not come in time, was not sent. Of a
    /// message that its consumer dead-lettered: how many times its handler failed. Of an imported
    /// message: how many times its queue delivered it, whether or not a handler began.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.stored.attempts
    }

    /// Why it was not sent or handled, as far as is known.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.stored.cause.as_deref()
    }
}
