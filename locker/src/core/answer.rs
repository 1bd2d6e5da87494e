//! Answers: from a value to what is stored, and back, bit for bit.

use std::io::{Read, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes that an item takes, attribute names included.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1024;

/// The most JSON that is read back from a compressed answer, so that a damaged or hostile item
/// cannot fill the memory of a function.
const MAX_JSON_BYTES: usize = 64 * 1024 * 1024;

/// The deepest nesting that serde reads: what is nested deeper could be stored and never be replayed.
const MAX_LEVELS: usize = 127;

/// What the item of an answer holds besides its key and the answer: the names of its attributes, and
/// the values of the small ones, rounded up.
const BESIDE_OVERHEAD: usize = 128;

/// The most bytes that an answer takes once encoded, in an item with such a key.
pub(crate) const fn most_bytes(item_key: usize) -> usize {
    MAX_ITEM_BYTES.saturating_sub(BESIDE_OVERHEAD + item_key)
}

/// How the bytes of an answer are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Json,
    Gzip,
}

impl Codec {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Gzip => "json+gzip",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Json, Self::Gzip].into_iter().find(|codec| codec.name() == name)
    }
}

/// An answer as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) codec: Codec,
    pub(crate) bytes: Vec<u8>,
}

impl Encoded {
    /// As it is.
    pub(crate) fn plain(json: String) -> Self {
        Self { codec: Codec::Json, bytes: json.into_bytes() }
    }
}

// Answers may be private: a debug print shows how long they are.
impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoded({}, {} bytes)", self.codec.name(), self.bytes.len())
    }
}

/// Where an answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the token's own item.
    Inline(Encoded),
    /// In an item of its own, of which the token knows the id and the length.
    Beside { codec: Codec, id: String, bytes: usize },
}

/// Why an answer could not be stored or read.
///
/// An error of storing leaves the token in progress and the value in the caller's hands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The answer is too large for an item of DynamoDB, even compressed. Store it elsewhere, and
    /// complete the token with a reference to it.
    #[error(
        "the answer has {bytes} bytes once encoded, {limit} fit into an item; store it elsewhere and complete the token with a reference to it"
    )]
    TooLarge {
        /// Bytes once encoded and compressed.
        bytes: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// The value has no JSON form (a map with keys that are not text, for one).
    #[error("the answer has no JSON form: {reason}")]
    Encode {
        /// What serde said.
        reason: String,
    },
    /// The stored JSON is not of the type asked for. Ask for the type that was stored, or for
    /// `serde_json::Value`.
    #[error("the stored answer is not of the type asked for: {reason}")]
    Decode {
        /// What serde said. It names types and places, never values.
        reason: String,
    },
    /// The token says that its answer lies beside it, and nothing is there. The work was done;
    /// do not do it again. A person has to look.
    #[error(
        "the work is done, but its answer is gone: the item beside the token is missing; do not run the work again"
    )]
    Missing,
    /// The stored bytes are damaged. The work was done; do not do it again.
    #[error("the work is done, but its answer is damaged: {reason}; do not run the work again")]
    Damaged {
        /// What is wrong with them.
        reason: &'static str,
    },
}

/// The JSON of a value.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, AnswerError> {
    serde_json::to_string(value).map_err(|error| AnswerError::Encode { reason: error.to_string() })
}

/// The value of a JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, AnswerError> {
    serde_json::from_str(json).map_err(|error| AnswerError::Decode { reason: describe(&error) })
}

/// What serde found wrong, without the value that it found.
fn describe(error: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column())
}

/// Encode an answer of at most `limit` bytes: as it is if it fits into `room`, compressed where that is
/// smaller.
///
/// The flag says whether it fits into the room, so whether it may lie in the token's item.
pub(crate) fn encode(json: String, room: usize, limit: usize) -> Result<(Encoded, bool), AnswerError> {
    check_depth(&json)?;
    if json.len() <= room {
        return Ok((Encoded::plain(json), true));
    }
    if json.len() > MAX_JSON_BYTES {
        return Err(AnswerError::TooLarge { bytes: json.len(), limit });
    }
    let packed = gzip(json.as_bytes())?;
    let encoded = if packed.len() < json.len() {
        Encoded { codec: Codec::Gzip, bytes: packed }
    } else {
        Encoded::plain(json)
    };
    match encoded.bytes.len() {
        bytes if bytes > limit => Err(AnswerError::TooLarge { bytes, limit }),
        bytes => Ok((encoded, bytes <= room)),
    }
}

/// Refuse what could be stored and never be replayed.
pub(crate) fn check_depth(json: &str) -> Result<(), AnswerError> {
    if is_too_deep(json) {
        let reason = format!("it is nested more than {MAX_LEVELS} levels deep, which cannot be read back");
        return Err(AnswerError::Encode { reason });
    }
    Ok(())
}

fn is_too_deep(json: &str) -> bool {
    let (mut level, mut in_text, mut escaped) = (0_usize, false, false);
    json.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => level += 1,
            b']' | b'}' if !in_text => level = level.saturating_sub(1),
            _ => {}
        }
        level > MAX_LEVELS
    })
}

/// The JSON text of a stored answer.
pub(crate) fn decode(encoded: Encoded) -> Result<String, AnswerError> {
    let bytes = match encoded.codec {
        Codec::Json => encoded.bytes,
        Codec::Gzip => gunzip(&encoded.bytes)?,
    };
    String::from_utf8(bytes).map_err(|_| AnswerError::Damaged { reason: "it is not UTF-8" })
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .map_err(|error| AnswerError::Encode { reason: error.to_string() })
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let mut json = Vec::new();
    let limit = MAX_JSON_BYTES as u64;
    match GzDecoder::new(bytes).take(limit + 1).read_to_end(&mut json) {
        Ok(read) if read > MAX_JSON_BYTES => {
            Err(AnswerError::Damaged { reason: "it unpacks to more than 64 MiB" })
        }
        Ok(_) => Ok(json),
        Err(_) => Err(AnswerError::Damaged { reason: "it cannot be unpacked" }),
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 600;

    fn there_and_back(json: &str) -> (Encoded, bool) {
        let (encoded, inline) = encode(json.to_owned(), ROOM, MAX_ITEM_BYTES).unwrap();
        assert_eq!(decode(encoded.clone()).unwrap(), json);
        (encoded, inline)
    }

    #[test]
    fn a_small_answer_is_stored_as_it_is() {
        let (encoded, inline) = there_and_back("null");
        assert_eq!((encoded.codec, inline), (Codec::Json, true));
    }

    #[test]
    fn an_answer_that_compresses_well_stays_with_its_token() {
        let (encoded, inline) = there_and_back(&format!("\"{}\"", "a".repeat(5000)));
        assert_eq!((encoded.codec, inline), (Codec::Gzip, true));
    }

    #[test]
    fn an_answer_that_does_not_compress_lies_beside() {
        let noise: String = (0..4000).map(|_| fastrand::alphanumeric()).collect();
        let (_, inline) = there_and_back(&format!("\"{noise}\""));
        assert!(!inline);
    }

    #[test]
    fn what_cannot_be_stored_says_so() {
        let noise: String = (0..800_000).map(|_| fastrand::alphanumeric()).collect();
        let error = encode(format!("\"{noise}\""), ROOM, MAX_ITEM_BYTES).unwrap_err();
        assert!(matches!(error, AnswerError::TooLarge { bytes, .. } if bytes > MAX_ITEM_BYTES));
    }

    #[test]
    fn damage_is_found_and_bounded() {
        let damaged =
            |bytes: &[u8]| decode(Encoded { codec: Codec::Gzip, bytes: bytes.to_vec() }).unwrap_err();
        assert!(matches!(damaged(b"not gzip"), AnswerError::Damaged { .. }));
        let bomb = gzip(&vec![b' '; MAX_JSON_BYTES + 1]).unwrap();
        assert!(matches!(damaged(&bomb), AnswerError::Damaged { reason } if reason.contains("64 MiB")));
    }

    #[test]
    fn a_decode_error_does_not_show_the_value() {
        let error = from_json::<u32>("\"4111 1111 1111 1111\"").unwrap_err().to_string();
        assert!(!error.contains("4111"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn every_json_text_comes_back(text in ".{0,3000}", room in 0_usize..2000) {
            let json = to_json(&text).unwrap();
            let (encoded, inline) = encode(json.clone(), room, MAX_ITEM_BYTES).unwrap();
            proptest::prop_assert_eq!(inline, encoded.bytes.len() <= room);
            proptest::prop_assert_eq!(decode(encoded).unwrap(), json);
        }

        #[test]
        fn every_float_comes_back_bit_for_bit(bits: u64) {
            let value = f64::from_bits(bits);
            proptest::prop_assume!(value.is_finite());
            let back: f64 = from_json(&to_json(&value).unwrap()).unwrap();
            proptest::prop_assert_eq!(back.to_bits(), bits);
        }
    }
}
