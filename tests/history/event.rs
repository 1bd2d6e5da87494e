//! Events: the lines of a history.

use std::fmt;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A time, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Before every other time.
    pub const START: Self = Self(i64::MIN);
    /// After every other time: a call without an outcome may still take effect.
    pub const NEVER: Self = Self(i64::MAX);

    pub(crate) const fn of_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp_micros(self.0) {
            _ if *self == Self::NEVER => f.write_str("never"),
            _ if *self == Self::START => f.write_str("before the history"),
            Some(at) => f.write_str(&at.to_rfc3339_opts(SecondsFormat::Micros, true)),
            None => write!(f, "{} us", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(at.timestamp_micros()))
    }
}

/// The half of a call that a line records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The call is about to be sent.
    Invoke,
    /// The call has an outcome.
    Outcome,
}

/// The operation of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the verbs of the library")]
pub enum Op {
    Begin,
    Complete,
    Fail,
    Hold,
    Release,
    Extend,
    Resolve,
    Correct,
    Close,
    ReleaseByOperator,
}

impl Op {
    /// Whether it stores an answer that later callers get.
    pub(crate) const fn answers(self) -> bool {
        matches!(self, Self::Complete | Self::Fail | Self::Resolve | Self::Correct)
    }

    /// Whether an owner ends its token with it.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Complete | Self::Fail | Self::Hold | Self::Release)
    }

    /// Whether the token can be begun again after it.
    pub(crate) const fn frees(self) -> bool {
        matches!(self, Self::Release | Self::ReleaseByOperator)
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the outcomes of the library")]
pub enum Outcome {
    Acquired,
    TookOver,
    Completed,
    Failed,
    Held,
    InProgress,
    Mismatch,
    Ok,
    Lost,
    Changed,
    Unknown,
    Unavailable,
    Denied,
    Refused,
}

impl Outcome {
    /// Whether it is the replay of a stored answer.
    pub(crate) const fn tells_answer(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// Whether the caller owns the token after it.
    pub(crate) const fn holds(self) -> bool {
        matches!(self, Self::Acquired | Self::TookOver)
    }
}

/// One half of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "docs/evidence/reliability.md has the table")]
pub struct Event {
    pub history: Phase,
    pub call: String,
    pub op: Op,
    pub token: String,
    #[serde(default)]
    pub owner: String,
    #[serde(default)]
    pub attempt: Option<String>,
    #[serde(default)]
    pub outcome: Option<Outcome>,
    #[serde(default)]
    pub found: Option<String>,
    #[serde(default)]
    pub digest: Option<String>,
    #[serde(default)]
    pub ttl: Option<i64>,
    pub at: Time,
}

/// The content of a line.
#[derive(Debug)]
pub(crate) enum Line {
    Event(Box<Event>),
    /// Another line of a log.
    Other,
    /// An event that cannot be read.
    Damaged,
}

impl Line {
    /// Reads a line as `locker --history` writes it, or as Lambda's JSON log contains it (under
    /// `fields`).
    pub(crate) fn of(text: &str) -> Self {
        // Most lines of a log are not events.
        if !text.contains("history") {
            return Self::Other;
        }
        match serde_json::from_str(text) {
            Ok(value) => Self::of_value(value),
            Err(_) if text.starts_with('{') && text.contains(r#""history":""#) => Self::Damaged,
            Err(_) => Self::Other,
        }
    }

    fn of_value(mut value: Value) -> Self {
        if let Some(fields) = value.get_mut("fields").map(Value::take) {
            value = fields;
        }
        if !value.get("history").is_some_and(Value::is_string) {
            return Self::Other;
        }
        serde_json::from_value(value).map_or(Self::Damaged, |event| Self::Event(Box::new(event)))
    }
}
