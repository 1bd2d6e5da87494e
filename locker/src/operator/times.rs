//! Times of filters and plans as text.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serializer};

use crate::core::time;

pub(super) fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::to_text(*at))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    read(&String::deserialize(deserializer)?)
}

fn read<E: serde::de::Error>(text: &str) -> Result<DateTime<Utc>, E> {
    time::from_text(text).ok_or_else(|| E::custom(format!("{text:?} is no time of RFC 3339")))
}

/// The same for a time that may be missing.
pub(super) mod optional {
    use super::{DateTime, Deserialize, Deserializer, Serializer, Utc, read, time};

    pub(crate) fn serialize<S: Serializer>(
        at: &Option<DateTime<Utc>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_str(&time::to_text(*at)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<DateTime<Utc>>, D::Error> {
        Option::<String>::deserialize(deserializer)?.as_deref().map(read).transpose()
    }
}
