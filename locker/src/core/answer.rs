//! The encoding of values that are stored, sent or compared. A stored value is read back bit for
//! bit.
//!
//! [`to_json`] checks every value before that: inputs, answers, failures, bodies of messages and
//! the values that identify a request.

use std::io::{Read, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use memchr::{memchr, memchr2, memchr2_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::finite;

/// The largest item that DynamoDB accepts, in bytes, attribute names included.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1024;

/// The largest JSON text that a compressed answer may unpack to, so that a damaged or hostile item
/// cannot exhaust a function's memory.
const MAX_JSON_BYTES: usize = 64 * 1024 * 1024;

/// Two thirds of the CPU of the default level, for a few percent more bytes.
const LEVEL: Compression = Compression::new(5);

/// The deepest nesting that serde reads: a value nested deeper could be stored but never replayed.
const MAX_LEVELS: usize = 127;

/// Bytes of an answer's item other than its key and the answer: attribute names and the values of
/// the small attributes, rounded up.
const BESIDE_OVERHEAD: usize = 128;

/// The largest encoded answer, in bytes, that fits into an item whose key has this length.
pub(crate) const fn most_bytes(item_key: usize) -> usize {
    MAX_ITEM_BYTES.saturating_sub(BESIDE_OVERHEAD + item_key)
}

/// Encoding of the bytes of an answer.
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

/// Stored instead of the name of a codec after the answer was erased. A version of this library
/// that does not know the word refuses to read the record, so it never runs the work again.
pub(crate) const REDACTED: &str = "redacted";

/// An answer as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) codec: Codec,
    pub(crate) bytes: Vec<u8>,
}

impl Encoded {
    /// JSON without compression.
    pub(crate) fn plain(json: String) -> Self {
        Self { codec: Codec::Json, bytes: json.into_bytes() }
    }

    /// The bytes by which values are compared: the canonical JSON of the value, or the stored bytes
    /// if they are damaged.
    #[cfg(feature = "workflow")]
    pub(crate) fn comparable(&self) -> Vec<u8> {
        decode(self.clone()).map_or_else(
            |_| self.bytes.clone(),
            |json| super::canonical::comparable(&json).into_owned().into(),
        )
    }
}

// Answers may be private: `Debug` shows only their length.
impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoded({}, {} bytes)", self.codec.name(), self.bytes.len())
    }
}

/// Where an answer is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the token's item.
    Inline(Encoded),
    /// In a separate item; the token stores its id and length.
    Beside { codec: Codec, id: String, bytes: usize },
    /// An operator erased it.
    Redacted,
}

/// The reason why a value could not be stored or read.
///
/// If an answer cannot be stored, you still have the value, and can store it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The value is too large for a DynamoDB item, even compressed. Store it elsewhere, and a
    /// reference to it in its place.
    #[error(
        "the encoded value has {bytes} bytes, but an item has room for {limit}; store it elsewhere, and a reference to it in its place"
    )]
    TooLarge {
        /// Bytes once encoded and compressed.
        bytes: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// The value cannot be written as JSON, or could not be read back: NaN, an infinite number, a
    /// map whose keys are not strings, more than 127 levels.
    #[error("the value cannot be stored as JSON: {reason}")]
    Encode {
        /// The reason.
        reason: String,
    },
    /// The stored JSON does not match the requested type. Request the type that was stored, or
    /// `serde_json::Value`.
    #[error(
        "the stored answer does not match the requested type: {reason}; read it as the type that was stored"
    )]
    Decode {
        /// What serde reported: the kind of the error, the type that it expected or the field that
        /// is missing, and the position, never a value.
        reason: String,
    },
    /// The token refers to an answer in a separate item, and that item does not exist. The work was
    /// done; do not run it again. An operator has to investigate.
    #[error(
        "the work is done, but its answer is missing: the item that the token refers to does not exist; do not run the work again"
    )]
    Missing,
    /// An operator erased the answer or the failure. The work has ended; do not run it again.
    #[error(
        "the work has ended, and its result is not kept: an operator erased it; do not run the work again"
    )]
    Redacted,
    /// The stored bytes are damaged. The work was done; do not run it again.
    #[error("the work is done, but its answer is damaged: {reason}; do not run the work again")]
    Damaged {
        /// The reason why they are not valid.
        reason: &'static str,
    },
}

/// Returns the JSON of a value. Refuses a value that JSON would change, or that could not be read
/// back.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, AnswerError> {
    let encode = |reason: String| AnswerError::Encode { reason };
    finite::check(value).map_err(|error| encode(error.to_string()))?;
    let json = serde_json::to_string(value).map_err(|error| encode(error.to_string()))?;
    if is_too_deep(&json) {
        let reason = format!("it is nested more than {MAX_LEVELS} levels deep, which cannot be read back");
        return Err(encode(reason));
    }
    Ok(json)
}

/// Same as [`to_json`], for a value that others read as this type. Also returns the value as they
/// read it.
///
/// Some values are read back differently (`Some(None)`, skipped fields). With this value, the
/// writer has the same value as all readers.
pub(crate) fn to_json_and_back<T: Serialize + DeserializeOwned>(
    value: &T,
) -> Result<(String, T), AnswerError> {
    let json = to_json(value)?;
    let back = serde_json::from_str(&json);
    let back = back.map_err(|error| AnswerError::Encode {
        reason: format!("it cannot be read back: {}", describe(&error)),
    })?;
    Ok((json, back))
}

/// The cause of work that is held because its result cannot be stored.
pub(crate) fn unrecorded(error: &AnswerError) -> String {
    format!("it happened, but its result cannot be recorded: {error}")
}

/// The text that is stored instead of a failure that cannot be stored.
pub(crate) fn not_whole(error: &AnswerError) -> String {
    format!("{NOT_WHOLE}{error}")
}

/// Whether this JSON is such a text.
#[cfg(feature = "workflow")]
pub(crate) fn is_not_whole(json: &str) -> bool {
    json.strip_prefix('"').is_some_and(|text| text.starts_with(NOT_WHOLE))
}

const NOT_WHOLE: &str = "the failure could not be stored whole: ";

/// A text as JSON.
pub(crate) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The value of a JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, AnswerError> {
    serde_json::from_str(json).map_err(|error| AnswerError::Decode { reason: describe(&error) })
}

/// The value of a JSON text. The error names the field that cannot be read.
#[cfg(feature = "workflow")]
pub(crate) fn from_json_by_field<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    // Only a failure pays for the path: it wraps the reader of each value.
    from_json(json).or_else(|_| {
        let mut reader = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| format!("{}{}", path_to(error.path()), describe(error.inner())))
    })
}

/// The path to a field, for the start of a message. The key of a map may be private, and serde does
/// not distinguish it from the name of a field. So only keys that look like names are shown.
#[cfg(feature = "workflow")]
fn path_to(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let is_name = |text: &str| {
        text.len() <= 40
            && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    let mut shown = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => {
                shown.push_str(&format!("[{index}]"));
                continue;
            }
            Segment::Map { key: name } | Segment::Enum { variant: name } if is_name(name) => name,
            _ => "*",
        };
        if !shown.is_empty() {
            shown.push('.');
        }
        shown.push_str(name);
    }
    if shown.is_empty() { shown } else { format!("{shown}: ") }
}

/// What serde found wrong, without the value, which may be private.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let what = of_type(&error.to_string()).unwrap_or_else(|| format!("{:?} error", error.classify()));
    format!("{what} at line {} column {}", error.line(), error.column())
}

/// The part of a message of serde that comes from the type. The other part shows the value. `None`:
/// the message has no such part, or code of the type made it.
fn of_type(message: &str) -> Option<String> {
    for kind in ["missing field", "duplicate field"] {
        let name = message.strip_prefix(kind).and_then(|rest| rest.strip_prefix(" `"));
        if let Some((name, _)) = name.and_then(|rest| rest.split_once('`')) {
            return Some(format!("{kind} `{name}`"));
        }
    }
    let kinds = ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    let kind = kinds.into_iter().find(|kind| message.starts_with(kind))?;
    // The value comes first, and may contain anything.
    let (_, expected) = message.rsplit_once(", expected ")?;
    let (expected, _) = expected.rsplit_once(" at line ")?;
    Some(format!("{kind}, expected {expected}"))
}

/// Encodes an answer into at most `limit` bytes: uncompressed if it fits into `room`, otherwise
/// compressed where that is smaller.
///
/// The flag shows whether the result fits into `room`, so whether the token's item can hold it.
pub(crate) fn encode(json: String, room: usize, limit: usize) -> Result<(Encoded, bool), AnswerError> {
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

/// The largest result, answer or input of a workflow: DynamoDB's limit for an item, less room for
/// its other attributes.
#[cfg(feature = "workflow")]
pub(crate) const MOST_BYTES: usize = 390 * 1024;

/// Encodes a result or an answer of a workflow: compressed from half a KB on, where that is
/// smaller.
#[cfg(feature = "workflow")]
pub(crate) fn encode_for_item(json: String) -> Result<Encoded, AnswerError> {
    const COMPRESS_FROM: usize = 512;
    Ok(encode(json, COMPRESS_FROM, MOST_BYTES)?.0)
}

/// Returns whether JSON is nested too deep to be read back. Strings, which are most of an answer,
/// are skipped by a search for their end.
pub(crate) fn is_too_deep(json: &str) -> bool {
    // An answer with at most `MAX_LEVELS` brackets is never too deep, so it is not examined.
    if memchr2_iter(b'[', b'{', json.as_bytes()).nth(MAX_LEVELS).is_none() {
        return false;
    }
    let (mut rest, mut level) = (json.as_bytes(), 0_usize);
    while !rest.is_empty() {
        let (outside, text) = rest.split_at(memchr(b'"', rest).unwrap_or(rest.len()));
        for byte in outside {
            match byte {
                b'[' | b'{' => level += 1,
                b']' | b'}' => level = level.saturating_sub(1),
                _ => {}
            }
            if level > MAX_LEVELS {
                return true;
            }
        }
        rest = after_text(text);
    }
    false
}

/// Returns the JSON after the text that begins here.
fn after_text(json: &[u8]) -> &[u8] {
    let mut rest = json.get(1..).unwrap_or_default();
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        match rest[at] {
            b'"' => return &rest[at + 1..],
            _ => rest = rest.get(at + 2..).unwrap_or_default(),
        }
    }
    &[]
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
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), LEVEL);
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
pub(crate) use properties::any_json;

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
    #[cfg(feature = "workflow")]
    fn answers_are_compared_by_their_values() {
        let compared = |json: &str| Encoded::plain(json.to_owned()).comparable();
        assert_eq!(compared(r#"{"b":2,"a":1}"#), compared(r#"{"a":1, "b":2}"#));
        assert_ne!(compared(r#"{"a":1}"#), compared(r#"{"a":2}"#));
        let damaged = Encoded { codec: Codec::Gzip, bytes: b"damaged".to_vec() };
        assert_eq!(damaged.comparable(), b"damaged");
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
    fn an_answer_that_does_not_compress_gets_an_item_of_its_own() {
        let noise: String = (0..4000).map(|_| fastrand::alphanumeric()).collect();
        let (_, inline) = there_and_back(&format!("\"{noise}\""));
        assert!(!inline);
    }

    #[test]
    #[cfg(feature = "workflow")]
    fn failure_that_cannot_be_stored_says_why() {
        let error = AnswerError::TooLarge { bytes: 2, limit: 1 };
        assert_eq!(
            text(&not_whole(&error)),
            format!("{:?}", format!("the failure could not be stored whole: {error}"))
        );
        assert!(is_not_whole(&text(&not_whole(&error))));
        for json in [
            text("the failure"),
            "7".to_owned(),
            r#"{"the failure could not be stored whole: ":1}"#.to_owned(),
        ] {
            assert!(!is_not_whole(&json), "{json}");
        }
        assert_eq!(unrecorded(&error), format!("it happened, but its result cannot be recorded: {error}"));
    }

    #[test]
    fn an_answer_too_large_to_store_is_refused() {
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

    #[test]
    fn answer_of_64_mib_comes_back_and_no_larger_one() {
        let text = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
        let (encoded, _) = encode(text(64 << 20), ROOM, MAX_ITEM_BYTES).unwrap();
        assert!(decode(encoded).unwrap() == text(64 << 20));
        let error = encode(text((64 << 20) + 1), ROOM, MAX_ITEM_BYTES).unwrap_err();
        assert_eq!(error, AnswerError::TooLarge { bytes: (64 << 20) + 1, limit: MAX_ITEM_BYTES });
    }

    #[test]
    fn answer_of_the_limit_is_stored_and_no_larger_one() {
        let noise: String = (0..4000).map(|_| fastrand::alphanumeric()).collect();
        let json = format!("\"{noise}\"");
        let bytes = encode(json.clone(), ROOM, MAX_ITEM_BYTES).unwrap().0.bytes.len();
        assert!(encode(json.clone(), ROOM, bytes).is_ok());
        let error = encode(json, ROOM, bytes - 1).unwrap_err();
        assert_eq!(error, AnswerError::TooLarge { bytes, limit: bytes - 1 });
    }

    #[test]
    fn answer_that_compression_does_not_shorten_stays_plain() {
        const NOISE: &str = "q7Zt0xKp4VbR9mLw2NcYh5DfJ8sGa3UeXo6TiBy1";
        let json = |repeated: usize| format!("\"{NOISE}{}\"", "a".repeat(repeated));
        let saved =
            |json: &str| json.len().checked_signed_diff(gzip(json.as_bytes()).unwrap().len()).unwrap();
        let of = |saving| (0..99).map(json).find(|json| saved(json) == saving).expect("a text of this kind");
        assert_eq!(encode(of(0), 0, MAX_ITEM_BYTES).unwrap().0.codec, Codec::Json);
        assert_eq!(encode(of(1), 0, MAX_ITEM_BYTES).unwrap().0.codec, Codec::Gzip);
    }

    #[test]
    fn item_with_its_key_has_at_most_400_kib() {
        assert_eq!([most_bytes(0), most_bytes(72), most_bytes(1 << 20)], [409_472, 409_400, 0]);
    }

    #[test]
    #[cfg(feature = "workflow")]
    fn result_over_half_a_kb_is_compressed() {
        let codec = |bytes: usize| encode_for_item(format!("\"{}\"", "a".repeat(bytes - 2))).unwrap().codec;
        assert_eq!((codec(512), codec(513)), (Codec::Json, Codec::Gzip));
        assert_eq!(MOST_BYTES, 399_360);
    }

    #[test]
    fn each_codec_is_read_from_its_stored_word() {
        for (codec, word) in [(Codec::Json, "json"), (Codec::Gzip, "json+gzip")] {
            assert_eq!((codec.name(), Codec::named(word)), (word, Some(codec)));
        }
        assert_eq!(Codec::named("gzip"), None);
    }

    #[test]
    fn debug_shows_no_answer() {
        assert_eq!(format!("{:?}", Encoded::plain("\"4111\"".to_owned())), "Encoded(json, 6 bytes)");
    }

    #[test]
    fn nesting_of_127_levels_is_stored_and_none_deeper() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_too_deep(&nested(127)));
        assert!(from_json::<serde_json::Value>(&nested(127)).is_ok());
        assert!(is_too_deep(&nested(128)));
        assert!(from_json::<serde_json::Value>(&nested(128)).is_err());
        let beside = format!("[{}]", vec![nested(126); 9].join(","));
        assert!(!is_too_deep(&beside));
        let quoted = format!(r#"["\\\"{}",1]"#, "[".repeat(200));
        assert!(!is_too_deep(&quoted));
        let after = format!(r#"["\\",{}]"#, nested(127));
        assert!(is_too_deep(&after));
    }

    #[test]
    fn value_that_json_would_change_is_refused() {
        for (refused, reason) in [
            (to_json(&Some(f64::NAN)), "it contains NaN or an infinite number, which JSON does not have"),
            (to_json(&std::collections::HashMap::from([((1, 2), 3)])), "key must be a string"),
        ] {
            assert_eq!(refused, Err(AnswerError::Encode { reason: reason.to_owned() }));
        }
    }

    #[test]
    fn value_that_cannot_be_read_back_is_refused() {
        /// Written as a text, and read as a number.
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct OneWay(#[serde(serialize_with = "as_text")] u8);
        fn as_text<S: serde::Serializer>(_: &u8, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str("one")
        }
        let reason = "it cannot be read back: invalid type, expected u8 at line 1 column 5".to_owned();
        assert_eq!(to_json_and_back(&OneWay(1)), Err(AnswerError::Encode { reason }));
        assert_eq!(to_json_and_back(&Some(None::<u8>)), Ok(("null".to_owned(), None)));
    }

    #[test]
    fn decode_error_says_where_it_is() {
        let error = from_json::<u32>("\n\"7\"").unwrap_err();
        let reason = "invalid type, expected u32 at line 2 column 3".to_owned();
        assert_eq!(error, AnswerError::Decode { reason });
    }

    #[test]
    #[cfg(feature = "workflow")]
    fn decode_error_names_the_field_and_never_a_value() {
        use std::collections::BTreeMap;

        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)]
        struct Row {
            card: u64,
            kind: Kind,
            #[serde(default)]
            pair: (u8, u8),
        }
        #[derive(Debug, serde::Deserialize)]
        enum Kind {
            Plain,
        }
        let error = |json: &str| from_json_by_field::<BTreeMap<String, Vec<Row>>>(json).unwrap_err();
        for (json, expected) in [
            (r#"{"a":[{"kind":"Plain"}]}"#, "a[0]: missing field `card` at line 1 column 22"),
            (r#"{"a_b-c":[{"kind":"Plain"}]}"#, "a_b-c[0]: missing field `card` at line 1 column 26"),
            (r#"{"4111 1":[{"kind":"Plain"}]}"#, "*[0]: missing field `card` at line 1 column 27"),
            (
                r#"{"a":[{"card":"4111, expected 7 at line 7"}]}"#,
                "a[0].card: invalid type, expected u64 at line 1 column 42",
            ),
            (r#"{"a":[{"card":-4111}]}"#, "a[0].card: invalid value, expected u64 at line 1 column 19"),
            (r#"{"a":[{"card":1,"card":2}]}"#, "a[0]: duplicate field `card` at line 1 column 22"),
            (
                r#"{"a":[{"card":1,"kind":"4111"}]}"#,
                "a[0].kind: unknown variant, expected `Plain` at line 1 column 29",
            ),
            (
                r#"{"a":[{"4111":1}]}"#,
                "a[0].*: unknown field, expected one of `card`, `kind`, `pair` at line 1 column 13",
            ),
            (
                r#"{"a":[{"pair":[4]}]}"#,
                "a[0].pair: invalid length, expected a tuple of size 2 at line 1 column 17",
            ),
            (r#"{"a":[{"card":4111"#, "a[0].*: Eof error at line 1 column 18"),
            ("4111", "invalid type, expected a map at line 1 column 4"),
        ] {
            assert_eq!(error(json), expected, "{json}");
        }
        // A message of the type's own code may show the value.
        assert_eq!(of_type("card 4111 is refused, expected another at line 1 column 2"), None);
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
