//! Ids, subjects and sequences of messages, in the forms that brokers take.
//!
//! Amazon SQS and SNS take ids of groups and of deduplication of 1 to 128 characters: letters,
//! digits and punctuation of ASCII, and no space. No emulator checks this, so it is checked here.
//! Source: Amazon SQS API Reference, `SendMessage`, `MessageDeduplicationId` and `MessageGroupId`.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::attributes::{MAX_ATTRIBUTES, MAX_VALUE_BYTES};
use super::ticks::Tick;
#[cfg(feature = "messages")]
use crate::core::answer;

/// The longest id that brokers take, in bytes.
const LONGEST: usize = 128;
/// The longest subject of a message, in bytes.
pub(crate) const MAX_SUBJECT_BYTES: usize = 1024;
/// The longest source of a message, in bytes. Amazon EventBridge takes no longer one.
const MAX_SOURCE_BYTES: usize = 256;
/// The longest delay of a message.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The largest body of a message, in bytes of JSON.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// The prefix of ids that are made of a digest. An id with this prefix is replaced by its own
/// digest, so that no two ids are equal.
const DIGEST: &str = "sha256:";

/// The id of a message: the attempt of the commit, and its place in the commit.
pub(super) fn of_message(attempt: &str, place: usize) -> String {
    as_id(&format!("{attempt}.{place}"))
}

/// A text as an id that brokers take: itself, or its digest.
pub(crate) fn as_id(text: &str) -> String {
    let fits = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits && !text.starts_with(DIGEST) {
        return text.to_owned();
    }
    format!("{DIGEST}{}", hex::encode(Sha256::digest(text.as_bytes())))
}

/// The automatic sequence of a message: the millisecond and the number of its commit in its
/// process, its place in the commit, and the commit's attempt. The last part makes the sequences of
/// different processes different. Messages of an outbox are stored, and so sent, in the same order.
///
/// A hyphen follows each of the first three parts, so it is no number to any reader.
pub(super) fn sequence(tick: Tick, place: usize, attempt: &str) -> String {
    let millis = tick.at.timestamp_millis().max(0);
    format!("{millis:015}-{:010}-{place:03}-{}", tick.number, as_id(attempt))
}

/// The number of a counter as a sequence: 20 digits, so that texts sort as numbers do.
pub(super) fn sequence_of(number: u64) -> String {
    format!("{number:020}")
}

/// The number that a sender's transaction assigned. `None`: the sequence is automatic, or has
/// another form.
#[cfg(feature = "messages")]
pub(crate) fn number_of(sequence: &str) -> Option<u64> {
    // `parse` accepts a sign.
    let is_digits = sequence.bytes().all(|byte| byte.is_ascii_digit());
    sequence.parse().ok().filter(|_| is_digits)
}

/// JSON text without U+FFFE and U+FFFF, which JSON allows in strings and Amazon SQS refuses: as
/// escapes, they are the same text to every reader of JSON.
pub(crate) fn without_noncharacters(json: &str) -> String {
    json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
}

/// Why a message was refused. Nothing was written; correct it and call again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidMessage {
    /// The topic is empty or too long, or it has a character that is not allowed.
    #[error(
        "a topic has 1 to 128 characters: letters, digits and . _ - / such as order/placed; this one is {topic:?}"
    )]
    Topic {
        /// The topic given.
        topic: String,
    },
    /// The subject is empty or too long, or it has a control character.
    #[error(
        "a subject has 1 to {MAX_SUBJECT_BYTES} bytes and no control character, such as order/7; this one has {bytes}"
    )]
    Subject {
        /// Bytes given.
        bytes: usize,
    },
    /// The sender has no source.
    #[error(
        "the message has no source, since its sender has none; set one by `workflow::Builder::source`, such as /orders"
    )]
    NoSource,
    /// The source is empty or too long, or it has a character that is not allowed.
    #[error(
        "a source has 1 to {MAX_SOURCE_BYTES} printable ASCII characters and no space, such as /orders; this one is {given:?}"
    )]
    Source {
        /// The source given.
        given: String,
    },
    /// The name of an attribute has another form, or is that of an attribute of every event.
    #[error(
        "an attribute has a name of 1 to 20 lowercase letters and digits, such as correlationid, which no other part of the message uses; this one is {name:?}"
    )]
    Attribute {
        /// The name given.
        name: String,
    },
    /// The value of an attribute is empty or too long, or it has a control character.
    #[error(
        "the attribute {name} has 1 to {MAX_VALUE_BYTES} bytes and no control character; this one has {bytes}"
    )]
    AttributeValue {
        /// The name of the attribute.
        name: String,
        /// Bytes given.
        bytes: usize,
    },
    /// The delay is too long.
    #[error("a message is delayed by at most 366 days, this one by {delay:?}; commit it later")]
    Delay {
        /// The delay given.
        delay: Duration,
    },
    /// The message has too many attributes.
    #[error(
        "a message has at most {MAX_ATTRIBUTES} attributes of its sender, this one has {count}; put the others into its body"
    )]
    Attributes {
        /// Attributes given.
        count: usize,
    },
    /// A part that distinguishes the message from others is empty.
    #[cfg(feature = "messages")]
    #[error(
        "the message has no {part}, so it cannot be distinguished from other messages without one; give it the {part} that its sender uses"
    )]
    Nameless {
        /// The part, such as `id`.
        part: &'static str,
    },
    /// The body cannot be written as JSON.
    #[error("the body cannot be sent: {error}")]
    Json {
        /// Why not.
        error: String,
    },
    /// The body is too large.
    #[error(
        "a body has at most {MAX_BODY_BYTES} bytes of JSON, this one has {bytes}; keep it in Amazon S3 by a `ClaimCheck`, and send the claim"
    )]
    Body {
        /// Bytes given.
        bytes: usize,
    },
    /// The corrected body of a received message is another event.
    #[cfg(feature = "messages")]
    #[error(
        "the corrected body must be an event with the source {expected_source:?} and the id {id:?} of the message, so that it is processed once; correct other members only"
    )]
    OtherEvent {
        /// The source of the message.
        expected_source: String,
        /// The id of the message.
        id: String,
    },
    /// The corrected body of a received message does not fit into its item.
    #[cfg(feature = "messages")]
    #[error("a corrected body has at most {most} bytes, this one has {bytes}; shorten it")]
    Correction {
        /// Bytes given.
        bytes: usize,
        /// The largest size allowed.
        most: usize,
    },
}

/// Checks the corrected body of a message that is to be sent, and returns it in the stored form.
#[cfg(feature = "messages")]
pub(crate) fn corrected(body: &str) -> Result<String, InvalidMessage> {
    serde_json::from_str::<serde::de::IgnoredAny>(body)
        .map_err(|error| InvalidMessage::Json { error: answer::describe(&error) })?;
    let body = without_noncharacters(body);
    check_body(&body)?;
    Ok(body)
}

/// Refuses an empty part of the identity of a message. All messages without this part would count
/// as one message.
#[cfg(feature = "messages")]
pub(crate) const fn named<'a>(part: &'static str, text: &'a str) -> Result<&'a str, InvalidMessage> {
    if text.is_empty() { Err(InvalidMessage::Nameless { part }) } else { Ok(text) }
}

/// Checks the source of a sender.
pub(crate) fn check_source(source: &str) -> Result<(), InvalidMessage> {
    let fits = (1..=MAX_SOURCE_BYTES).contains(&source.len());
    if fits && source.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(InvalidMessage::Source { given: source.chars().take(MAX_SOURCE_BYTES).collect() })
}

/// Checks the arguments of a message.
pub(crate) fn check(topic: &str, subject: &str, body: &str) -> Result<(), InvalidMessage> {
    let of_topic = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    if topic.is_empty() || topic.len() > LONGEST || !topic.chars().all(of_topic) {
        return Err(InvalidMessage::Topic { topic: topic.chars().take(LONGEST).collect() });
    }
    if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES || subject.chars().any(char::is_control) {
        return Err(InvalidMessage::Subject { bytes: subject.len() });
    }
    check_body(body)
}

const fn check_body(body: &str) -> Result<(), InvalidMessage> {
    if body.len() > MAX_BODY_BYTES { Err(InvalidMessage::Body { bytes: body.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn tick(millis: i64, number: u32) -> Tick {
        Tick { at: chrono::DateTime::from_timestamp_millis(millis).unwrap(), number }
    }

    /// The rule of the brokers, written down once more.
    fn is_taken(id: &str) -> bool {
        const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
        (1..=128).contains(&id.chars().count())
            && id.chars().all(|c| c.is_ascii_alphanumeric() || PUNCTUATION.contains(c))
    }

    #[test]
    fn limits_have_their_documented_sizes() {
        assert_eq!(MAX_DELAY, Duration::from_secs(31_622_400));
        assert_eq!(MAX_BODY_BYTES, 262_144);
    }

    #[test]
    #[cfg(feature = "messages")]
    fn corrected_body_is_json_within_the_limit() {
        assert_eq!(corrected(r#"{"price": 1.50}"#).unwrap(), r#"{"price": 1.50}"#);
        assert_eq!(corrected("\"\u{ffff}\"").unwrap(), r#""\uffff""#);
        assert!(matches!(corrected("{"), Err(InvalidMessage::Json { .. })));
        let text = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
        assert!(corrected(&text(MAX_BODY_BYTES)).is_ok());
        assert!(corrected(&text(MAX_BODY_BYTES + 1)).is_err());
    }

    proptest! {
        #[test]
        fn every_text_becomes_an_id_that_brokers_take(text in any::<String>(), place in 0_usize..100) {
            prop_assert!(is_taken(&as_id(&text)), "{}", as_id(&text));
            prop_assert!(is_taken(&of_message(&text, place)));
        }

        #[test]
        fn different_texts_have_different_ids(texts in proptest::collection::hash_set("(sha256:)?[ -~]{0,140}", 2..20)) {
            let mut ids: HashMap<String, String> = HashMap::new();
            for text in texts {
                let other = ids.insert(as_id(&text), text.clone());
                prop_assert_eq!(other, None);
            }
        }

        #[test]
        fn a_body_is_the_same_to_readers_and_has_no_noncharacter(text in "[\u{fffe}\u{ffff}\"\\\\a]{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            let sent = without_noncharacters(&json);
            let has_any = sent.contains(['\u{fffe}', '\u{ffff}']);
            prop_assert!(!has_any);
            prop_assert_eq!(serde_json::from_str::<String>(&sent).unwrap(), text);
        }

        #[test]
        fn sequences_sort_as_commits_do(one in (0_i64..9_000_000_000_000, 0_u32..99_999, 0_usize..100), other in (0_i64..9_000_000_000_000, 0_u32..99_999, 0_usize..100)) {
            let of = |(ms, number, place): (i64, u32, usize)| sequence(tick(ms, number), place, "a");
            prop_assert_eq!(of(one).cmp(&of(other)), one.cmp(&other));
        }

        #[test]
        fn sequence_of_a_number_sorts_as_the_number_does(one in any::<u64>(), other in any::<u64>()) {
            prop_assert_eq!(sequence_of(one).cmp(&sequence_of(other)), one.cmp(&other));
            #[cfg(feature = "messages")]
            prop_assert_eq!(number_of(&sequence_of(one)), Some(one));
        }

        #[test]
        fn commits_of_one_millisecond_have_different_sequences(attempts in proptest::collection::hash_set(".{0,40}", 2..20)) {
            let sequences: HashSet<_> = attempts.iter().map(|attempt| sequence(tick(5, 0), 0, attempt)).collect();
            prop_assert_eq!(sequences.len(), attempts.len());
        }
    }

    #[test]
    fn a_digest_is_no_id_of_another_text() {
        let long = "x".repeat(129);
        let digest = as_id(&long);
        assert!(digest.starts_with(DIGEST) && as_id(&digest) != digest);
        assert_eq!(as_id("order/7"), "order/7");
    }

    #[test]
    fn invalid_message_is_refused_with_its_cause() {
        check("order/placed", "order 7", "{}").unwrap();
        let said =
            |topic: &str, subject: &str, body: &str| check(topic, subject, body).unwrap_err().to_string();
        assert!(said("order placed", "7", "1").contains("this one is \"order placed\""));
        assert!(said("", "7", "1").starts_with("a topic has"));
        assert!(said("a", "", "1").contains("such as order/7; this one has 0"));
        assert!(said("a", "x\ny", "1").starts_with("a subject has"));
        assert!(said("a", "b", &"1".repeat(MAX_BODY_BYTES + 1)).contains("Amazon S3"));
    }
    #[test]
    fn bounds_of_a_message_are_included() {
        let topic = |length| check(&"a".repeat(length), "7", "1").is_ok();
        let subject = |length| check("a", &"7".repeat(length), "1").is_ok();
        let body = |length| check("a", "7", &"1".repeat(length)).is_ok();
        assert_eq!([0, 1, 128, 129].map(topic), [false, true, true, false]);
        assert_eq!([0, 1, 1024, 1025].map(subject), [false, true, true, false]);
        assert_eq!([1, 262_144, 262_145].map(body), [true, true, false]);
    }

    #[test]
    fn source_is_printable_and_has_no_space() {
        for (source, fits) in [
            ("", false),
            ("/orders", true),
            ("/or ders", false),
            ("/\u{e9}", false),
            ("/a\n", false),
            (&"s".repeat(256), true),
            (&"s".repeat(257), false),
        ] {
            assert_eq!(check_source(source).is_ok(), fits, "{source:?}");
        }
        let error = check_source("").unwrap_err().to_string();
        assert!(
            error.starts_with("a source has 1 to 256 ") && error.ends_with("this one is \"\""),
            "{error}"
        );
    }

    #[test]
    fn forms_of_sequences_differ() {
        let automatic = sequence(tick(1_795_259_349_120, 2), 1, "a");
        assert_eq!(automatic, "001795259349120-0000000002-001-a");
        assert!(sequence(tick(-1, 0), 0, "a").starts_with("000000000000000-0000000000-000-"));
        assert_eq!(sequence_of(7), "00000000000000000007");
        #[cfg(feature = "messages")]
        for (text, number) in [
            (automatic.as_str(), None),
            ("", None),
            ("+7", None),
            ("-7", None),
            ("7a", None),
            ("0017", Some(17)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (&format!("{}9", "0".repeat(27)), Some(9)),
        ] {
            assert_eq!(number_of(text), number, "{text:?}");
        }
    }
}
