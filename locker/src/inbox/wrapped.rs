//! Events inside the messages of other services: a notification of SNS, an event of EventBridge.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A service that puts an event into a message of its own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// Source: Amazon SNS Developer Guide, *Amazon SNS message and JSON formats*.
    Sns,
    /// Source: Amazon EventBridge User Guide, *AWS service event metadata*.
    EventBridge,
}

impl Wrapper {
    /// The part of the message that contains the event, and the setting that removes the rest.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Sns => {
                "in the Message of a notification of SNS; RawMessageDelivery of its subscription delivers the Message alone"
            }
            Self::EventBridge => {
                "in the detail of an event of EventBridge; InputPath $.detail of the rule's target delivers the detail alone"
            }
        }
    }
}

#[derive(Deserialize)]
struct Notification {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "TopicArn")]
    _topic: String,
    #[serde(rename = "Message")]
    message: String,
}

#[derive(Deserialize)]
struct OfBus<'a> {
    #[serde(rename = "detail-type")]
    _kind: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(borrow)]
    detail: &'a RawValue,
}

/// The text inside a message of SNS or EventBridge. `None`: the message is of another form.
pub(super) fn unwrapped(json: &str) -> Option<(Wrapper, String)> {
    if let Ok(Notification { kind, message, .. }) = serde_json::from_str(json)
        && kind == "Notification"
    {
        return Some((Wrapper::Sns, message));
    }
    let OfBus { detail, .. } = serde_json::from_str(json).ok()?;
    Some((Wrapper::EventBridge, detail.get().to_owned()))
}
