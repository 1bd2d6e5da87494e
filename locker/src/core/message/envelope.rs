//! The form in which messages travel: CloudEvents 1.0, structured, as JSON.
//!
//! Source: CloudEvents specification 1.0.2, and its JSON event format.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;

use super::id;
use super::letter::Letter;
use crate::core::time;

/// A message as its target is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// Identifies the message: each copy has this id, and no other message has it. At most 128
    /// characters.
    pub id: String,
    /// The source of its sender, such as `/orders`, as it was committed. Source and id identify the
    /// message for receivers.
    pub source: String,
    /// The topic, such as `order/placed`; the event's type is the same with dots, `order.placed`.
    pub topic: String,
    /// The subject of the message, such as the order's key. Messages of one subject are in order.
    pub subject: String,
    /// The place of the message among those of its subject, as text that sorts byte by byte. No
    /// other message of its subject and source has the same sequence, unless its sender assigned
    /// the same number twice.
    ///
    /// 20 digits are the [number](crate::message::NewMessage::number) that the transaction of the
    /// sender assigned. Text with hyphens is an automatic sequence, which begins with the time of
    /// the commit in milliseconds.
    ///
    /// An automatic sequence grows with the commits of one
    /// [`Workflows`](crate::workflow::Workflows) and its clones, even if the clock is set back. The
    /// time in a sequence never goes back from one step of a workflow to a later step that another
    /// process runs. Commits of different processes are ordered by their clocks only, so a later
    /// commit may have a smaller sequence.
    pub sequence: String,
    /// When it was committed; of a delayed message, when its delay ends.
    pub time: DateTime<Utc>,
    /// The trace of its commit, as in the W3C header `traceparent`.
    pub trace: Option<String>,
    /// The attributes that its sender added, by name, such as `correlationid`.
    pub attributes: BTreeMap<String, String>,
    /// From then on the message is worthless: the attribute `expirytime`.
    pub expires: Option<DateTime<Utc>>,
    /// How many times an operator had it sent again.
    pub redrives: u32,
    /// The data, as JSON text.
    pub data: String,
}

#[derive(Serialize)]
struct Event<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    kind: String,
    subject: &'a str,
    #[serde(serialize_with = "time::serialize")]
    time: DateTime<Utc>,
    datacontenttype: &'static str,
    sequence: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expirytime: Option<String>,
    #[serde(flatten)]
    attributes: &'a BTreeMap<String, String>,
    data: &'a RawValue,
}

impl Envelope {
    pub(crate) fn of(message: &Letter) -> Self {
        Self {
            id: message.id.clone(),
            source: message.source.clone(),
            topic: message.topic.clone(),
            subject: message.subject.clone(),
            sequence: message.sequence.clone(),
            time: message.created,
            trace: message.trace.clone(),
            attributes: message.attributes.clone(),
            expires: message.expires,
            redrives: message.redrives,
            data: message.body.clone(),
        }
    }

    /// The type of the event: the topic with dots.
    #[must_use]
    pub fn kind(&self) -> String {
        self.topic.replace('/', ".")
    }

    /// The event as JSON text, by the JSON format of CloudEvents 1.0.
    ///
    /// # Errors
    ///
    /// The data is not JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let data: &RawValue = serde_json::from_str(&self.data)?;
        let json = serde_json::to_string(&Event {
            specversion: "1.0",
            id: &self.id,
            source: &self.source,
            kind: self.kind(),
            subject: &self.subject,
            time: self.time,
            datacontenttype: "application/json",
            sequence: &self.sequence,
            traceparent: self.trace.as_deref(),
            expirytime: self.expires.map(time::to_text),
            attributes: &self.attributes,
            data,
        })?;
        Ok(id::without_noncharacters(&json))
    }

    /// The size of the event as JSON text. 0: its data is not JSON, and its target refuses it.
    #[cfg(feature = "messages")]
    pub(crate) fn bytes(&self) -> usize {
        self.to_json().map_or(0, |json| json.len())
    }

    /// The id of its group for a broker that keeps the order within groups: the subject, or its
    /// digest. At most 128 characters, no space.
    #[must_use]
    pub fn group_id(&self) -> String {
        id::as_id(&self.subject)
    }

    /// Returns the id by which a broker drops copies: the id of the message. After each redrive by
    /// an operator the id is different, since the broker may have seen the former id.
    #[must_use]
    pub fn deduplication_id(&self) -> String {
        match self.redrives {
            0 => self.id.clone(),
            redrives => id::as_id(&format!("{}~r{redrives}", self.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::letter::tests::committed;

    fn envelope() -> Envelope {
        Envelope::of(&committed())
    }

    #[test]
    fn event_has_the_names_of_cloudevents() {
        let event: serde_json::Value = serde_json::from_str(&envelope().to_json().unwrap()).unwrap();
        let expected = serde_json::json!({
            "specversion": "1.0",
            "id": "a-1.1",
            "source": "/orders",
            "type": "order.placed",
            "subject": "order/7",
            "time": "1970-01-01T00:00:10.000Z",
            "datacontenttype": "application/json",
            "sequence": committed().sequence,
            "data": {},
        });
        assert_eq!(event, expected);
        let traced = Envelope { trace: Some("00-1-2-01".to_owned()), ..envelope() };
        assert!(traced.to_json().unwrap().contains(r#""traceparent":"00-1-2-01""#));
        let attributes = BTreeMap::from([("tenantid".to_owned(), "7".to_owned())]);
        let json = Envelope { attributes, data: "1.50".to_owned(), ..envelope() }.to_json().unwrap();
        assert!(json.contains(r#""tenantid":"7""#) && json.contains(r#""data":1.50"#), "{json}");
        assert!(Envelope { data: "{".to_owned(), ..envelope() }.to_json().is_err());
    }

    #[test]
    #[cfg(feature = "messages")]
    fn size_is_that_of_the_json() {
        assert_eq!(envelope().bytes(), envelope().to_json().unwrap().len());
        assert_eq!(Envelope { data: "{".to_owned(), ..envelope() }.bytes(), 0);
    }

    #[test]
    fn each_redrive_has_another_deduplication_id() {
        let after = |redrives| Envelope { redrives, ..envelope() }.deduplication_id();
        assert_eq!([0, 1, 2].map(after), ["a-1.1", "a-1.1~r1", "a-1.1~r2"]);
    }

    #[test]
    fn group_is_the_subject_or_its_digest() {
        assert_eq!(envelope().group_id(), "order/7");
        let subject = "x".repeat(200);
        assert!(Envelope { subject, ..envelope() }.group_id().starts_with("sha256:"));
    }
}
