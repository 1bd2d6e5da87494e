//! The record by which an inbox remembers a message, and the outcome if a record exists.

use std::cmp::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use super::id::{InvalidMessage, named};
use crate::core::workflow::place::{Partition, Place};
use crate::core::workflow::step::RecordId;

/// The record of a message that an inbox takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) at: RecordId,
    pub(crate) revision: String,
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) received: DateTime<Utc>,
    pub(crate) kept: Kept,
}

/// The rule by which a receipt is kept, and its place in the order of its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// One receipt for each message, until this time.
    Each { expires: DateTime<Utc> },
    /// One receipt for a message that a consumer keeps in the table, dead or queued after other
    /// messages. It stays while the message is in the table, and for this time after that.
    /// `letter`: the sort key of the message, if its body is still in its queue.
    Beside { window: Duration, letter: Option<String> },
    /// One receipt for the newest message of a subject.
    Latest { number: u64 },
    /// One receipt for all messages of a subject up to this number.
    Gapless { number: u64 },
}

/// What distinguishes a message from all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    source: &'a str,
    id: &'a str,
}

impl<'a> Identity<'a> {
    /// The identity of an event. Without a source or an id, different events would have the same
    /// identity.
    pub(crate) fn of_event(source: &'a str, id: &'a str) -> Result<Self, InvalidMessage> {
        Ok(Self { source: named("source", source)?, id: named("id", id)? })
    }

    /// The identity of a message that is not an event, by the id that its broker gave it. Its
    /// source is empty, so it differs from every event.
    pub(crate) fn of_delivery(id: &'a str) -> Result<Self, InvalidMessage> {
        Ok(Self { source: "", id: named("id", id)? })
    }

    pub(crate) const fn source(&self) -> &'a str {
        self.source
    }

    pub(crate) const fn id(&self) -> &'a str {
        self.id
    }

    pub(crate) fn digest(&self) -> String {
        digest_of(self.source, self.id)
    }
}

/// The reason why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// It was.
    Duplicate,
    /// A newer one was.
    Superseded,
    /// Another message with the same number was.
    SameNumber,
    /// The message with this number comes first.
    Early { expects: u64 },
}

impl Receipt {
    /// The receipt of a message for a consumer. `subject`: the subject of the message, or its id if
    /// it has none.
    pub(crate) fn new(
        (consumer, of, subject): (&str, Identity<'_>, &str),
        revision: String,
        received: DateTime<Utc>,
        kept: Kept,
    ) -> Self {
        let Identity { source, id } = of;
        let (digest, place) = match kept {
            Kept::Each { .. } | Kept::Beside { .. } => (of.digest(), Place::Received),
            Kept::Latest { .. } => (digest_of(source, subject), Place::Latest),
            Kept::Gapless { .. } => (digest_of(source, subject), Place::Number),
        };
        let partition = Partition::Inbox { consumer, digest: &digest };
        let at = RecordId::at(&partition.to_string(), place);
        Self { at, revision, source: source.to_owned(), id: id.to_owned(), received, kept }
    }

    /// The receipt of a message that a consumer keeps in this partition. It stays after an operator
    /// has acted on the message.
    pub(crate) fn of_received(
        at: RecordId,
        revision: String,
        (source, id): (&str, &str),
        received: DateTime<Utc>,
        kept: Kept,
    ) -> Self {
        Self { at, revision, source: source.to_owned(), id: id.to_owned(), received, kept }
    }

    /// The reason why the message is refused, by the receipt that was found in its place.
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

/// The receipt that is stored in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) number: Option<u64>,
}

/// A receipt that is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The sort key of its message, if the body of the message is, or was, in its queue.
    pub(crate) letter: Option<String>,
}

/// The place of the receipt of a message with this identity that a consumer keeps in this
/// partition.
pub(crate) fn heard_at(partition: &str, identity: &str) -> RecordId {
    RecordId::at(partition, Place::Heard(identity))
}

/// The digest of both texts. The length of the first is part of it, so two different pairs never
/// have the same digest.
fn digest_of(source: &str, about: &str) -> String {
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
        let of = Identity::of_event("/orders", id).unwrap();
        Receipt::new(("packer", of, "order/7"), "r".to_owned(), DateTime::UNIX_EPOCH, kept)
    }

    #[test]
    fn identity_of_a_delivery_has_no_source() {
        let event = Identity::of_event("/orders", "m-1").unwrap();
        assert_eq!((event.source(), event.id()), ("/orders", "m-1"));
        let delivery = Identity::of_delivery("m-1").unwrap();
        assert_eq!((delivery.source(), delivery.id()), ("", "m-1"));
        assert_ne!(event.digest(), delivery.digest());
    }

    #[test]
    fn stored_receipt_decides_why_a_message_is_not_processed() {
        let found = |id: &str, number: Option<u64>| Some(Found { id: id.to_owned(), number });
        let each = Kept::Each { expires: DateTime::UNIX_EPOCH };
        let latest = Kept::Latest { number: 5 };
        let gapless = |number| Kept::Gapless { number };
        for (kept, found, why) in [
            (each, found("a", None), NotTaken::Duplicate),
            (latest.clone(), found("a", None), NotTaken::Duplicate),
            (latest.clone(), found("b", None), NotTaken::Superseded),
            (gapless(3), found("a", Some(3)), NotTaken::Duplicate),
            (Kept::Beside { window: Duration::ZERO, letter: None }, found("a", None), NotTaken::Duplicate),
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
    fn receipt_of_a_dead_letter_is_next_to_it() {
        let at = heard_at("locker dead packer 0a1b", "d1");
        assert_eq!((at.workflow.as_str(), at.item.as_str()), ("locker dead packer 0a1b", "heard/d1"));
        let kept = Kept::Beside { window: Duration::ZERO, letter: None };
        let names = ("/orders", "m-1");
        let time = DateTime::UNIX_EPOCH;
        let receipt = Receipt::of_received(at.clone(), "r".to_owned(), names, time, kept.clone());
        let (source, id) = ("/orders".to_owned(), "m-1".to_owned());
        assert_eq!(receipt, Receipt { at, revision: "r".to_owned(), source, id, received: time, kept });
    }

    #[test]
    fn identity_without_one_of_its_parts_is_refused() {
        for refused in [Identity::of_event("", "1"), Identity::of_event("/o", ""), Identity::of_delivery("")]
        {
            assert!(matches!(refused, Err(InvalidMessage::Nameless { .. })), "{refused:?}");
        }
        let (event, delivery) = (Identity::of_event("/o", "1").unwrap(), Identity::of_delivery("1").unwrap());
        assert_ne!(event.digest(), delivery.digest());
    }

    proptest! {
        /// Two messages share a place only if they are one message to one consumer, or of one
        /// subject.
        #[test]
        fn different_messages_have_different_places(one in "[ab/ ]{0,4}", other in "[ab/ ]{0,4}", third in "[ab/ ]{0,4}", fourth in "[ab/ ]{0,4}") {
            let place = |source: &str, id: &str| {
                let of = Identity::of_event(source, id).ok()?;
                let kept = Kept::Each { expires: DateTime::UNIX_EPOCH };
                Some(Receipt::new(("c", of, "s"), String::new(), DateTime::UNIX_EPOCH, kept).at)
            };
            if let (Some(place), Some(of_other)) = (place(&one, &other), place(&third, &fourth)) {
                prop_assert_eq!(place == of_other, one == third && other == fourth);
            }
        }
    }
}
