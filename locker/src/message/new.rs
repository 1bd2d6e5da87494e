//! A message as its code gives it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::answer;
use crate::core::message::attributes::{self, Attributes, CAUSATION_ID, CORRELATION_ID, TENANT_ID};
use crate::core::message::id::{self, InvalidMessage};
use crate::core::message::letter::Content;
use crate::core::private::Private;
use crate::core::time;
use crate::error::Error;

/// A message to be committed, with its topic and body.
///
/// ```
/// use locker::message::NewMessage;
///
/// let placed = NewMessage::new("order/placed", &serde_json::json!({ "order": 7 })).subject("customer/12");
/// let placed = placed.correlation_id("checkout-17").tenant("shop-3").attribute("priority", "high");
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is committed until it is given to a commit"]
pub struct NewMessage {
    topic: String,
    body: Private<Result<String, String>>,
    subject: Private<Option<String>>,
    trace: Option<String>,
    number: Option<u64>,
    delay: Option<Duration>,
    expires: Option<DateTime<Utc>>,
    attributes: Private<Attributes>,
    /// Attributes that it has unless its code sets others.
    defaults: Private<Attributes>,
}

impl NewMessage {
    /// A message of a topic, such as `order/placed`: 1 to 128 letters, digits and `.`, `_`, `-`,
    /// `/`. The body is sent as JSON, of 256 KB at most.
    pub fn new(topic: impl Into<String>, body: &(impl Serialize + ?Sized)) -> Self {
        let body = answer::to_json(body).map_err(|error| Error::from(error).to_string());
        Self {
            topic: topic.into(),
            body: Private(body),
            subject: Private(None),
            trace: None,
            number: None,
            delay: None,
            expires: None,
            attributes: Private(Attributes::new()),
            defaults: Private(Attributes::new()),
        }
    }

    /// Sets the subject of the message, 1 to 1,024 bytes.
    ///
    /// Messages of one subject are sent in the order of their commits within one workflow. Default:
    /// the key of the workflow; outside a workflow, the id of the message, so it is not ordered.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Private(Some(subject.into()));
        self
    }

    /// Sends a trace with it, as in the W3C header `traceparent`.
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.trace = Some(traceparent.into());
        self
    }

    /// Sets the id of the business process that the message belongs to: the attribute
    /// `correlationid`. An [`Inbox`](crate::inbox::Receive::send) passes on the one of the message
    /// that it processes.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        self.attribute(CORRELATION_ID, id)
    }

    /// Sets the id of the message that caused this one: the attribute `causationid`. An
    /// [`Inbox`](crate::inbox::Receive::send) sets it to the id of the message that it processes.
    pub fn causation_id(self, id: impl Into<String>) -> Self {
        self.attribute(CAUSATION_ID, id)
    }

    /// Sets the tenant that the message is about: the attribute `tenantid`.
    pub fn tenant(self, id: impl Into<String>) -> Self {
        self.attribute(TENANT_ID, id)
    }

    /// Adds an attribute to the event, at most 20. The name has 1 to 20 lowercase letters and
    /// digits and is not one of CloudEvents' own; the value has 1 to 1,024 bytes and no control
    /// character. A receiver finds it in
    /// [`Incoming::attributes`](crate::inbox::Incoming::attributes).
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.0.insert(name.into(), value.into());
        self
    }

    /// Sends the message this much later, by at most 366 days.
    ///
    /// A [`Relay`](crate::relay::Relay) sends it in its first run after that. The `time` of the
    /// event is the end of the delay, so an inbox does not count the delay as age.
    ///
    /// **A delayed message is not ordered.** No other message waits for it, and it waits for no
    /// other message, even of its subject. It is independent of its workflow: if the workflow ends,
    /// is cancelled or is deleted, the message is still sent.
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets the time after which the message is worthless (the attribute `expirytime`).
    ///
    /// After this time, by its own clock, no process begins to send the message. A relay deletes
    /// the message once it is due, in the turn of its subject. The subject has no turn if the topic
    /// has no route, the target is down, or an earlier message of the subject waits. Then a relay
    /// deletes the message one minute after the expiry. The relay counts the message
    /// ([`expired`](crate::relay::RelayReport::expired), the metric `messagesExpired`) and logs it.
    /// Later messages of its subject follow.
    ///
    /// If the outcome of an earlier attempt is unknown, that attempt may have sent the message. A
    /// message that was sent may arrive after its expiry, so the receiver checks the attribute. A
    /// dead message does not expire: an operator decides. After a redrive, a relay deletes it.
    pub fn expires(mut self, at: impl Into<DateTime<Utc>>) -> Self {
        self.expires = Some(time::stored(at.into()));
        self
    }

    /// Sets attributes that the message has unless its code sets others.
    #[cfg(feature = "messages")]
    pub(crate) fn with_defaults(mut self, defaults: Attributes) -> Self {
        self.defaults = Private(defaults);
        self
    }

    /// Assigns a number of a counter that you keep for its subject, in the transaction that commits
    /// it. The number becomes its [sequence](super::Envelope::sequence), so receivers know the
    /// order of messages of several workflows and processes.
    /// [`latest`](crate::inbox::Receive::latest) and [`gapless`](crate::inbox::Receive::gapless)
    /// need it.
    ///
    /// Without a number, the sequence is automatic: the time at which the transaction was made. A
    /// transaction that is made earlier may be committed later, and the clocks of processes differ,
    /// so `latest` refuses an automatic sequence. Assign numbers to all messages of a subject, or
    /// to none.
    pub const fn number(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    /// `source`: the source of the sender. `subject`: of a message that names none.
    pub(crate) fn checked(self, source: Option<&str>, subject: &str) -> Result<Content, InvalidMessage> {
        let source = source.ok_or(InvalidMessage::NoSource)?.to_owned();
        let body = self.body.0.map_err(|error| InvalidMessage::Json { error })?;
        // Longer than it was given, and stored so.
        let body = id::without_noncharacters(&body);
        let subject = self.subject.0.unwrap_or_else(|| subject.to_owned());
        id::check(&self.topic, &subject, &body)?;
        attributes::check(&self.attributes.0)?;
        if let Some(delay) = self.delay.filter(|delay| *delay > id::MAX_DELAY) {
            return Err(InvalidMessage::Delay { delay });
        }
        let Self { topic, trace, number, delay, expires, attributes: Private(given), defaults, .. } = self;
        let Private(mut attributes) = defaults;
        attributes.extend(given);
        Ok(Content { source, topic, subject, body, trace, number, attributes, delay, expires })
    }
}
