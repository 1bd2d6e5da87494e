//! A message as it arrives.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::ReceiveError;
use super::wrapped::{Wrapper, unwrapped};
use crate::core::answer;
use crate::core::argument::InvalidArgument;
use crate::core::message::attributes::{CORRELATION_ID, OF_EVERY_EVENT};
use crate::core::message::id::{named, number_of};
use crate::core::message::receipt::Identity;
use crate::core::time;

/// A message from a broker: an event by CloudEvents 1.0, or a message that your code converts.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incoming {
    /// Identifies the message among the messages of its source.
    pub id: String,
    /// Its source, such as `/orders`. Do not trust it: every sender with access to the queue may
    /// set any source.
    pub source: String,
    /// Its type, such as `order.placed`.
    pub kind: String,
    /// Its subject, such as the key of an order.
    pub subject: Option<String>,
    /// Its place among the messages of its subject, in a form that its sender chose: see
    /// [`Envelope::sequence`](crate::message::Envelope::sequence).
    pub sequence: Option<String>,
    /// When its sender committed it.
    pub time: Option<DateTime<Utc>>,
    /// The trace that it belongs to, as in the W3C header `traceparent`.
    pub trace: Option<String>,
    /// All other attributes of the event, by name, such as `correlationid`, `causationid`,
    /// `tenantid` or `dataschema`. A value that is not a JSON string is kept as JSON text.
    pub attributes: BTreeMap<String, String>,
    /// The data, as JSON text; `null` if the message has no data.
    pub data: String,
}

// Data may be private.
impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A text that is not an event, or data that does not have the requested type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum InvalidEvent {
    #[error("{0}")]
    Json(String),
    #[error("the event has no {0}")]
    Missing(&'static str),
    #[error("the event has another specversion than 1.0")]
    Version,
    #[error("{inner}, {}", .wrapper.advice())]
    Wrapped { wrapper: Wrapper, inner: Box<Self> },
    #[error("the event has data_base64; only JSON data is supported")]
    Bytes,
}

impl From<InvalidEvent> for ReceiveError {
    fn from(error: InvalidEvent) -> Self {
        Self::Event { reason: error.to_string() }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    specversion: Option<String>,
    id: Option<String>,
    source: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    subject: Option<String>,
    sequence: Option<String>,
    time: Option<String>,
    traceparent: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<serde::de::IgnoredAny>,
}

impl From<serde_json::Error> for InvalidEvent {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(answer::describe(&error))
    }
}

impl Incoming {
    /// Reads an event in the JSON format of CloudEvents 1.0, as a [`Relay`](crate::relay::Relay)
    /// sends it. Attributes without a field here are kept in [`attributes`](Self::attributes).
    ///
    /// The event may be inside a notification of Amazon SNS (its `Message`), inside an event of
    /// Amazon EventBridge (its `detail`), or inside both. The result is the inner event, with its
    /// own id and source.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Event`] if the text is not such an event. If SNS or EventBridge sent the
    /// text, the error names the setting that delivers the inner text alone: `RawMessageDelivery`
    /// or `InputPath`.
    pub fn parse(json: &str) -> Result<Self, ReceiveError> {
        Ok(Self::read(json)?)
    }

    fn read(json: &str) -> Result<Self, InvalidEvent> {
        let read = Self::read_event(json);
        // An event has a specversion, so no event is taken for a wrapper.
        let Err(InvalidEvent::Missing("specversion")) = read else { return read };
        let Some((wrapper, inner)) = unwrapped(json) else { return read };
        let read = match (wrapper, Self::read_event(&inner)) {
            // A rule of EventBridge may have a topic as its target.
            (Wrapper::Sns, Err(InvalidEvent::Missing("specversion"))) => match unwrapped(&inner) {
                Some((Wrapper::EventBridge, detail)) => {
                    Self::read_event(&detail).map_err(|inner| (Wrapper::EventBridge, inner))
                }
                _ => Err((Wrapper::Sns, InvalidEvent::Missing("specversion"))),
            },
            (_, read) => read.map_err(|inner| (wrapper, inner)),
        };
        read.map_err(|(wrapper, inner)| InvalidEvent::Wrapped { wrapper, inner: Box::new(inner) })
    }

    fn read_event(json: &str) -> Result<Self, InvalidEvent> {
        let event: Event<'_> = serde_json::from_str(json)?;
        match event.specversion.as_deref() {
            Some("1.0") => {}
            Some(_) => return Err(InvalidEvent::Version),
            None => return Err(InvalidEvent::Missing("specversion")),
        }
        if event.data_base64.is_some() {
            return Err(InvalidEvent::Bytes);
        }
        let present = |value: Option<String>, name| {
            let value = value.unwrap_or_default();
            named(name, &value).map_err(|_| InvalidEvent::Missing(name))?;
            Ok::<_, InvalidEvent>(value)
        };
        Ok(Self {
            id: present(event.id, "id")?,
            source: present(event.source, "source")?,
            kind: present(event.kind, "type")?,
            subject: event.subject.filter(|subject| !subject.is_empty()),
            sequence: event.sequence,
            time: event.time.as_deref().and_then(time::from_text),
            trace: event.traceparent,
            attributes: others(json)?,
            data: event.data.map_or_else(|| "null".to_owned(), |data| data.get().to_owned()),
        })
    }

    /// Creates a message that is not an event.
    ///
    /// `id` identifies the message, such as a number that its sender sets. Do not use the
    /// `messageId` of SQS: it differs if the sender sends the message twice. An inbox refuses an
    /// empty source or id.
    pub fn new(
        source: impl Into<String>,
        id: impl Into<String>,
        kind: impl Into<String>,
        data: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            source: source.into(),
            kind: kind.into(),
            subject: None,
            sequence: None,
            time: None,
            trace: None,
            attributes: BTreeMap::new(),
            data: data.into(),
        }
    }

    /// Returns the data as a value of type `T`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Event`] if the data does not have this type. The error contains the
    /// position.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, ReceiveError> {
        Ok(serde_json::from_str(&self.data).map_err(InvalidEvent::from)?)
    }

    /// Returns the number that its sender [assigned](crate::message::NewMessage::number), for
    /// [`gapless`](crate::inbox::Receive::gapless). Returns `None` if the message has no sequence,
    /// or if its sequence is not a number, such as an automatic sequence.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        number_of(self.sequence.as_deref()?)
    }

    pub(crate) fn correlation_id(&self) -> Option<&str> {
        self.attributes.get(CORRELATION_ID).map(String::as_str)
    }

    /// The identity that distinguishes the message from all other messages.
    pub(crate) fn identity(&self) -> Result<Identity<'_>, InvalidArgument> {
        Ok(Identity::of_event(&self.source, &self.id)?)
    }

    /// The subject of the message, or its id if it has no subject.
    pub(crate) fn about(&self) -> &str {
        self.subject.as_deref().unwrap_or(&self.id)
    }
}

/// The attributes of an event that have no field of their own. By CloudEvents, `null` is none.
fn others(json: &str) -> Result<BTreeMap<String, String>, InvalidEvent> {
    let all: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
    let others = all
        .into_iter()
        .filter(|(name, value)| !OF_EVERY_EVENT.contains(&name.as_str()) && value.get() != "null");
    let text =
        |value: &RawValue| serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
    Ok(others.map(|(name, value)| (name, text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_a_relay_is_read_unchanged() {
        let event = r#"{"specversion":"1.0","id":"a.0","source":"/orders","type":"order.placed","subject":"order/7",
            "time":"2026-11-23T08:00:00.000Z","datacontenttype":"application/json","sequence":"0017","traceparent":"00-1-2-01",
            "tenantid":"t\u0037","count":1,"whole":true,"none":null,"dataschema":"/s","data":{"cents": 100}}"#;
        let read = Incoming::parse(event).unwrap();
        assert_eq!(
            (read.id.as_str(), read.source.as_str(), read.kind.as_str()),
            ("a.0", "/orders", "order.placed")
        );
        assert_eq!((read.subject.as_deref(), read.sequence.as_deref()), (Some("order/7"), Some("0017")));
        assert_eq!(read.time.unwrap().timestamp_millis(), 1_795_420_800_000);
        assert_eq!((read.data.as_str(), read.trace.as_deref()), (r#"{"cents": 100}"#, Some("00-1-2-01")));
        assert_eq!(read.data::<serde_json::Value>().unwrap()["cents"], 100);
        let attributes = [("count", "1"), ("dataschema", "/s"), ("tenantid", "t7"), ("whole", "true")];
        assert_eq!(
            read.attributes,
            attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        );
        assert!(!format!("{read:?}").contains("cents"));
    }

    /// As SNS and EventBridge deliver it to a queue.
    fn wrapped_by(service: &str, inner: &str) -> String {
        match service {
            "sns" => serde_json::json!({
                "Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:eu-west-1:111122223333:orders",
                "Message": inner, "Timestamp": "2026-11-23T08:00:00.000Z", "SignatureVersion": "1",
                "Signature": "s", "SigningCertURL": "https://sns", "UnsubscribeURL": "https://sns",
            })
            .to_string(),
            _ => format!(
                r#"{{"version":"0","id":"of-the-bus","detail-type":"order.placed","source":"/bus","account":"111122223333",
                "time":"2026-11-23T09:00:00Z","region":"eu-west-1","resources":[],"detail":{inner}}}"#
            ),
        }
    }

    #[test]
    fn event_inside_sns_and_eventbridge_is_read_as_itself() {
        let event = r#"{"specversion":"1.0","id":"a.0","source":"/orders","type":"t","subject":"order/7","data":{"a": 1}}"#;
        let own = Incoming::parse(event).unwrap();
        let both = wrapped_by("sns", &wrapped_by("bus", event));
        for text in [wrapped_by("sns", event), wrapped_by("bus", event), both] {
            assert_eq!(Incoming::parse(&text).unwrap(), own, "{text}");
        }
        // An event with the names of a wrapper is an event.
        let named = event.replace(r#""id":"#, r#""Type":"Notification","TopicArn":"t","Message":"m","id":"#);
        assert_eq!(Incoming::parse(&named).unwrap().id, "a.0");
    }

    #[test]
    fn wrapped_text_that_is_no_event_names_the_setting() {
        let sns = "RawMessageDelivery of its subscription";
        let bus = "InputPath $.detail of the rule's target";
        let no_event = r#"{"secret":1}"#;
        let old = r#"{"specversion":"0.3"}"#;
        for (text, reason, setting) in [
            (wrapped_by("sns", "secret"), "Syntax error at line 1 column 1", sns),
            (wrapped_by("sns", no_event), "the event has no specversion", sns),
            (wrapped_by("sns", old), "another specversion", sns),
            (wrapped_by("sns", &wrapped_by("sns", no_event)), "the event has no specversion", sns),
            (wrapped_by("bus", no_event), "the event has no specversion", bus),
            (wrapped_by("bus", "7"), "invalid type", bus),
            (wrapped_by("sns", &wrapped_by("bus", no_event)), "the event has no specversion", bus),
        ] {
            let error = Incoming::parse(&text).unwrap_err().to_string();
            let is_clear = error.contains(reason) && error.contains(setting) && !error.contains("secret");
            assert!(is_clear, "{text}: {error}");
        }
    }

    #[test]
    fn invalid_event_is_refused_without_its_content() {
        let event = |change: &str| {
            format!(r#"{{"specversion":"1.0","id":"a","source":"/o","type":"t",{change}"data":1}}"#)
        };
        Incoming::parse(&event("")).unwrap();
        for (text, said) in [
            ("secret".to_owned(), "the message cannot be read: Syntax error at line 1 column 1"),
            (r#"{"id":"a"}"#.to_owned(), "the event has no specversion"),
            (event("").replace(r#""1.0""#, r#""0.3""#), "another specversion"),
            (event("").replace(r#""id":"a","#, ""), "the event has no id"),
            (event("").replace(r#""/o""#, r#""""#), "the event has no source"),
            (event("").replace(r#""type":"t","#, ""), "the event has no type"),
            (event(r#""data_base64":"eA==","#), "data_base64"),
            (event(r#""subject":7,"#), "invalid type, expected a string at line 1 column"),
        ] {
            let error = Incoming::parse(&text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret"), "{text}: {error}");
        }
        let data = Incoming::new("/o", "1", "t", "{").data::<u32>().unwrap_err();
        assert!(data.to_string().contains("invalid type, expected u32 at line 1"), "{data}");
    }
}
