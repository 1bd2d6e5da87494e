//! What an inbox remembers of a message, and what it finds instead.

use std::cmp::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::core::workflow::place::{Partition, Place};
use crate::core::workflow::step::RecordId;

/// What an inbox remembers of a message that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) at: RecordId,
    pub(crate) revision: String,
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) received: DateTime<Utc>,
    pub(crate) kept: Kept,
}

/// For how long, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Each message, until this time.
    Each { expires: DateTime<Utc> },
    /// One that a consumer set aside: for as long as it is in the table, and for this long after
    /// that.
    Beside { window: Duration },
    /// The newest of its subject.
    Latest { sequence: String },
    /// All of its subject up to this number.
    Gapless { number: u64 },
}

/// A message, and the consumer that receives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) source: &'a str,
    pub(crate) id: &'a str,
    pub(crate) subject: &'a str,
}

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// It was.
    Duplicate,
    /// A newer one was.
    Superseded,
    /// Another one was, with the same number.
    SameNumber,
    /// The one with this number comes first.
    Early { expects: u64 },
}

impl Receipt {
    pub(crate) fn new(of: Identity<'_>, revision: String, received: DateTime<Utc>, kept: Kept) -> Self {
        let Identity { consumer, source, id, subject } = of;
        let (about, place) = match kept {
            Kept::Each { .. } | Kept::Beside { .. } => (id, Place::Received),
            Kept::Latest { .. } => (subject, Place::Latest),
            Kept::Gapless { .. } => (subject, Place::Number),
        };
        let partition = Partition::Inbox { consumer, digest: &digest_of(source, about) };
        let at = RecordId::at(&partition.to_string(), place);
        Self { at, revision, source: source.to_owned(), id: id.to_owned(), received, kept }
    }

    /// What a consumer remembers of a message that it sets aside in this partition: also when an
    /// operator has dealt with it.
    pub(crate) fn of_set_aside(
        at: RecordId,
        revision: String,
        (source, id): (&str, &str),
        received: DateTime<Utc>,
        kept: Kept,
    ) -> Self {
        Self { at, revision, source: source.to_owned(), id: id.to_owned(), received, kept }
    }

    /// Why it is refused: what was found instead of it.
    pub(crate) fn refused(&self, found: Option<&Found>) -> NotTaken {
        match (&self.kept, found) {
            (Kept::Each { .. } | Kept::Beside { .. }, _) => NotTaken::Duplicate,
            (Kept::Latest { .. } | Kept::Gapless { .. }, Some(found)) if found.id == self.id => {
                NotTaken::Duplicate
            }
            (Kept::Latest { .. }, _) => NotTaken::Superseded,
            (Kept::Gapless { number }, found) => {
                let taken = found.and_then(|found| found.number).unwrap_or(0);
                match number.cmp(&taken) {
                    Ordering::Less => NotTaken::Superseded,
                    Ordering::Equal => NotTaken::SameNumber,
                    Ordering::Greater => NotTaken::Early { expects: taken + 1 },
                }
            }
        }
    }
}

/// What is stored in the place of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) number: Option<u64>,
}

/// Where a consumer remembers the message of this identity that it set aside in this partition.
pub(crate) fn heard_at(partition: &str, identity: &str) -> RecordId {
    RecordId::at(partition, Place::Heard(identity))
}

/// Of both texts, so that no two pairs have one.
pub(crate) fn digest_of(source: &str, about: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(source.len().to_be_bytes());
    digest.update(source);
    digest.update(about);
    hex::encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn receipt(id: &str, kept: Kept) -> Receipt {
        let of = Identity { consumer: "packer", source: "/orders", id, subject: "order/7" };
        Receipt::new(of, "r".to_owned(), DateTime::UNIX_EPOCH, kept)
    }

    #[test]
    fn what_is_found_says_why_a_message_is_not_taken() {
        let found = |id: &str, number: Option<u64>| Some(Found { id: id.to_owned(), number });
        let each = Kept::Each { expires: DateTime::UNIX_EPOCH };
        let latest = || Kept::Latest { sequence: "5".to_owned() };
        let gapless = |number| Kept::Gapless { number };
        for (kept, found, why) in [
            (each, found("a", None), NotTaken::Duplicate),
            (latest(), found("a", None), NotTaken::Duplicate),
            (latest(), found("b", None), NotTaken::Superseded),
            (gapless(3), found("a", Some(3)), NotTaken::Duplicate),
            (Kept::Beside { window: Duration::ZERO }, found("a", None), NotTaken::Duplicate),
            (gapless(3), found("a", Some(4)), NotTaken::Duplicate),
            (gapless(3), found("b", Some(3)), NotTaken::SameNumber),
            (gapless(3), found("b", Some(4)), NotTaken::Superseded),
            (gapless(3), found("b", Some(7)), NotTaken::Superseded),
            (gapless(3), found("b", Some(1)), NotTaken::Early { expects: 2 }),
            (gapless(3), None, NotTaken::Early { expects: 1 }),
        ] {
            assert_eq!(receipt("a", kept.clone()).refused(found.as_ref()), why, "{kept:?} {found:?}");
        }
    }

    #[test]
    fn receipt_of_one_set_aside_is_next_to_it() {
        let at = heard_at("locker dead packer 0a1b", "d1");
        assert_eq!((at.workflow.as_str(), at.item.as_str()), ("locker dead packer 0a1b", "heard/d1"));
        let kept = Kept::Beside { window: Duration::ZERO };
        let names = ("/orders", "m-1");
        let time = DateTime::UNIX_EPOCH;
        let receipt = Receipt::of_set_aside(at.clone(), "r".to_owned(), names, time, kept.clone());
        let (source, id) = ("/orders".to_owned(), "m-1".to_owned());
        assert_eq!(receipt, Receipt { at, revision: "r".to_owned(), source, id, received: time, kept });
    }

    proptest! {
        /// Two messages share a place only if they are one message to one consumer, or of one
        /// subject.
        #[test]
        fn different_messages_have_different_places(one in "[ab/ ]{0,4}", other in "[ab/ ]{0,4}", third in "[ab/ ]{0,4}", fourth in "[ab/ ]{0,4}") {
            let place = |source: &str, id: &str| {
                let of = Identity { consumer: "c", source, id, subject: "s" };
                Receipt::new(of, String::new(), DateTime::UNIX_EPOCH, Kept::Each { expires: DateTime::UNIX_EPOCH }).at
            };
            prop_assert_eq!(place(&one, &other) == place(&third, &fourth), one == third && other == fourth);
        }
    }
}
