//! The result or the failure of a step, in its record or in a separate item.

use sha2::{Digest as _, Sha256};

use crate::core::answer::{Codec, Encoded};

/// The largest result in a record, in stored bytes. Each resume reads the records of all steps.
pub(crate) const MOST_INLINE: usize = 4 * 1024;

/// The result or the failure of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepResult {
    /// The result is in the record.
    Inline(Encoded),
    /// The result is in a separate item, which no resume reads.
    Beside(Apart),
}

/// A reference to a result in a separate item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) id: String,
    pub(crate) codec: Codec,
    pub(crate) bytes: usize,
    /// Used to compare the result with other results.
    pub(crate) digest: String,
    /// The result, if this process has just written or read it.
    pub(crate) held: Option<Encoded>,
}

impl StepResult {
    /// Returns the reference to a large result. `None`: a small result stays in the record.
    pub(crate) fn beside(encoded: &Encoded, id: impl FnOnce() -> String) -> Option<Apart> {
        let bytes = encoded.bytes.len();
        (bytes > MOST_INLINE).then(|| Apart {
            id: id(),
            codec: encoded.codec,
            bytes,
            digest: digest(encoded),
            held: Some(encoded.clone()),
        })
    }

    /// Returns the result. `None`: its item must be read first.
    pub(crate) const fn at_hand(&self) -> Option<&Encoded> {
        match self {
            Self::Inline(encoded) => Some(encoded),
            Self::Beside(apart) => apart.held.as_ref(),
        }
    }

    /// Returns the SHA-256 of the canonical JSON, which does not depend on the place or the codec.
    pub(crate) fn digest(&self) -> String {
        match self {
            Self::Inline(encoded) => digest(encoded),
            Self::Beside(apart) => apart.digest.clone(),
        }
    }
}

impl From<Encoded> for StepResult {
    fn from(encoded: Encoded) -> Self {
        Self::Inline(encoded)
    }
}

fn digest(encoded: &Encoded) -> String {
    hex::encode(Sha256::digest(encoded.comparable()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_above_four_kilobytes_is_beside_its_record() {
        let of = |bytes: usize| StepResult::beside(&Encoded::plain("7".repeat(bytes)), || "id".to_owned());
        assert_eq!(of(4096), None);
        let apart = of(4097).unwrap();
        assert_eq!((apart.id.as_str(), apart.bytes), ("id", 4097));
        assert_eq!(StepResult::Beside(Apart { held: None, ..apart }).at_hand(), None);
    }

    #[test]
    fn results_are_compared_wherever_they_are_stored() {
        let value = |first: &str, last: &str| {
            Encoded::plain(format!("{{{first}\"text\":\"{}\"{last}}}", "x".repeat(5000)))
        };
        let (one, same) = (value("\"a\":1,", ""), value("", ",\"a\":1"));
        let beside = StepResult::Beside(StepResult::beside(&one, String::new).unwrap());
        assert_eq!(beside.digest(), StepResult::from(same).digest());
        assert_ne!(beside.digest(), StepResult::from(value("\"a\":2,", "")).digest());
    }
}
