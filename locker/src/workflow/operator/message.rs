//! Messages as operators read them.

use chrono::{DateTime, Utc};

use crate::core::class::Class;
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::core::message::revision;
use crate::core::token::record::{Intervention, short_digest};
use crate::core::token::work::Work;

/// A stored message: a committed message that is not sent, or a received message that the table
/// keeps.
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

    /// Changes with every write, except if code held the message and left it.
    #[must_use]
    pub fn revision(&self) -> String {
        short_digest(revision::content_of(&self.stored.revision))
    }

    /// The time from which a relay deletes it instead of sending it: see
    /// [`NewMessage::expires`](crate::message::NewMessage::expires). `None`: it does not expire.
    #[must_use]
    pub fn expires(&self) -> Option<DateTime<Utc>> {
        self.stored.expires
    }

    /// The consumer that received it. `None`: it is to be sent.
    #[must_use]
    pub fn consumer(&self) -> Option<&str> {
        consumer_of(&self.stored.at.workflow)
    }

    /// Returns the data that the broker delivered with a received message in addition to its body,
    /// as JSON text.
    #[must_use]
    pub fn delivery(&self) -> Option<&str> {
        self.stored.delivery.as_deref()
    }

    /// Returns the time from which a relay or its consumer may process it. If it is dead or
    /// archived: the time of its death.
    #[must_use]
    pub fn due(&self) -> DateTime<Utc> {
        self.stored.next_due
    }

    /// Returns the class of the failure.
    ///
    /// For a received message: the class of the last attempt, or in doubt once an attempt in the
    /// table was in doubt. The outcomes of its queue's attempts before the last attempt are unknown
    /// here.
    ///
    /// For an outgoing message: [`Class::InDoubt`] if an attempt of a relay had no reply, so that
    /// its target may have it. In a batch of one subject, only the first message has this class. An
    /// attempt right after the commit is not counted.
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

    /// Returns the body of the message as JSON text, or the unchanged body of a received message.
    /// If the body is [elsewhere](Self::body_at), returns the claim on it as JSON, or an empty
    /// text.
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

    /// Identifies the message for receivers. Each copy has the same id, and no other message has
    /// it, even if the workflow was deleted and started again under the same key. At most 128
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

    /// Returns the subject: messages of one subject are sent in the order of their commits.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.stored.subject
    }

    /// Returns the time when the message was committed or dead-lettered. For a delayed message: the
    /// end of its delay.
    #[must_use]
    pub fn created(&self) -> DateTime<Utc> {
        self.stored.created
    }

    /// Whether it is to be sent or handled, or waits for an operator.
    #[must_use]
    pub fn state(&self) -> MessageState {
        self.stored.state
    }

    /// Returns the number of attempts.
    ///
    /// For an outgoing message, or a message that waits for its consumer: how many times it was
    /// sent right after its commit and refused, or taken by a relay or its consumer. A message that
    /// was taken may not have been sent, if its turn did not come in time. For a message that its
    /// consumer dead-lettered: how many times its handler failed. For an imported message: how many
    /// times its queue delivered it, whether or not a handler began.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.stored.attempts
    }

    /// Returns the reason why it was not sent or processed, if it is known.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.stored.cause.as_deref()
    }
}
