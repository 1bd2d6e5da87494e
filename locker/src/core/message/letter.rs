//! A message in the table: committed and not sent yet, or received and not processed.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

use super::attributes::Attributes;
use super::id;
use super::ticks::Tick;
use crate::core::class::Class;
pub use crate::core::listed::MessageState;
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::core::workflow::place::{MessagePlace, Partition, Place};
use crate::core::workflow::step::RecordId;
use crate::core::{cause, restored, time};

/// Until then the process that committed a message sends it; afterwards a relay may.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// The time from the expiry of a message until no call contains it. A call begins before the
/// expiry and takes 10 seconds at most; the rest is for clocks that differ.
const CALLS_END: Duration = Duration::from_secs(60);

/// The partition of the messages of a subject that were committed outside workflows.
pub(crate) fn partition_of(subject: &str) -> String {
    Partition::Outbox { subject: &id::as_id(subject) }.to_string()
}

/// The partition of the messages that a consumer keeps: the messages of one group, or one message
/// without a group.
pub(crate) fn partition_of_consumer(consumer: &str, order: &Order<'_>) -> String {
    let (kind, about) = match order {
        Order::Group(group) => ("group", group),
        Order::None(id) => ("message", id),
    };
    let digest = hex::encode(Sha256::digest(format!("{kind} {about}")));
    Partition::Dead { consumer, digest: &digest }.to_string()
}

/// Whether all messages of a partition are of one subject or group, unless it is that of a
/// workflow.
pub(crate) fn is_of_one_subject(partition: &str) -> bool {
    matches!(Partition::parse(partition), Ok(Partition::Outbox { .. } | Partition::Dead { .. }))
}

/// Whether it is too late to send a message that expires at this time.
pub(crate) fn is_over(expires: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    expires.is_some_and(|expires| expires <= now)
}

/// Returns whether a message expired before any call that still runs.
pub(crate) fn is_long_over(expires: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    is_over(expires.map(|expires| time::after(expires, CALLS_END)), now)
}

/// The due time of a message, from its sort key in the index.
pub(crate) fn due_of(listed: &str) -> Option<DateTime<Utc>> {
    // No consumer's name and no time contains a slash.
    time::from_text(listed.split_once('/').map_or(listed, |(_, due)| due))
}

/// The first and the last sort key in the index of the messages that wait for a consumer and were
/// due before now. Times are stored in milliseconds.
pub(crate) fn due_for_consumer(consumer: &str, now: DateTime<Utc>) -> (String, String) {
    let before = time::before(now, Duration::from_millis(1));
    (format!("{consumer}/"), format!("{consumer}/{}", time::to_text(before)))
}

/// The sort keys in the index of the messages that wait for the consumers after the one with this
/// sort key. `None`: it is not the sort key of a waiting message.
pub(crate) fn waits_after(listed: &str) -> Option<(String, String)> {
    // The character after the slash, and the last printable one, which no name contains.
    let (consumer, _) = listed.split_once('/')?;
    Some((format!("{consumer}0"), "~".to_owned()))
}

/// The consumer that keeps the messages of a partition. `None`: they are to be sent.
pub(crate) fn consumer_of(partition: &str) -> Option<&str> {
    match Partition::parse(partition) {
        Ok(Partition::Dead { consumer, .. }) => Some(consumer),
        _ => None,
    }
}

/// The name of the message in this place.
pub(crate) fn work_of(partition: &str, item: &str) -> Work {
    let place = match Place::parse(item) {
        Ok(Place::Message(place) | Place::Archived(place)) => place.to_string(),
        _ => item.to_owned(),
    };
    Work::Message { of: partition.to_owned(), place }
}

/// The sort key of a message by its place, and its sort key while it is archived. `None`: no
/// message has such a place.
pub(crate) fn items_of(place: &str) -> Option<[String; 2]> {
    let place = MessagePlace::parse(place)?;
    Some([Place::Message(place), Place::Archived(place)].map(|place| place.to_string()))
}

/// Milliseconds since 1970, from which the sort keys of messages begin.
fn millis_of(at: DateTime<Utc>) -> u64 {
    at.timestamp_millis().max(0).unsigned_abs()
}

/// Whether messages that were received have an order, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order<'a> {
    /// The group in which a queue keeps it.
    Group(&'a str),
    /// None. Each message has its own place, by this identity.
    None(&'a str),
}

/// The place of the body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BodyAt {
    /// In the item of the message.
    #[default]
    Item,
    /// In a claim-check store.
    Claim,
    /// In the queue that delivered the message, which must not delete it.
    Queue,
}

impl BodyAt {
    /// As stored and as shown. `None`: in the item.
    pub(crate) const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Item => None,
            Self::Claim => Some("claim"),
            Self::Queue => Some("queue"),
        }
    }

    pub(crate) fn named(name: Option<&str>) -> Option<Self> {
        [Self::Item, Self::Claim, Self::Queue].into_iter().find(|at| at.as_str() == name)
    }
}

/// The beginning of the cause of a dead letter whose body is still in its queue.
const IN_QUEUE: &str =
    "its body is left to its queue, too large for the table (set a claim check, redrive or discard it): ";

/// The cause of a dead letter as it is stored.
pub(super) fn caused_at(body_at: BodyAt, why: &str) -> String {
    let prefix = if body_at == BodyAt::Queue { IN_QUEUE } else { "" };
    cause::shortened(&format!("{prefix}{why}"))
}

/// The cause after the body left the queue.
pub(super) fn cause_out_of_queue(cause: &str) -> &str {
    cause.strip_prefix(IN_QUEUE).unwrap_or(cause)
}

/// A stored message. Only its [transitions](Letter::on) change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter(pub(super) LetterData);

/// The attributes of a stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LetterData {
    pub(crate) at: RecordId,
    /// Identifies the message: each copy that is sent has it, and no other message.
    pub(crate) id: String,
    /// The source of the event. Empty: a received message that is no event.
    pub(crate) source: String,
    /// Changes with every write.
    pub(crate) revision: String,
    pub(crate) topic: String,
    /// Messages of one subject are sent in the order of their sort keys.
    pub(crate) subject: String,
    /// The number that its commit assigned, or an automatic one: see [`id::sequence`].
    pub(crate) sequence: String,
    /// JSON. Of a received message, the text as received. If the body is in a claim-check store,
    /// its claim; if the body is still in its queue, empty.
    pub(crate) body: String,
    pub(crate) body_at: BodyAt,
    /// The data of the broker about a received message, without the body: JSON.
    pub(crate) delivery: Option<String>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) trace: Option<String>,
    /// The attributes that its sender added. A received message has them in its body.
    pub(crate) attributes: Attributes,
    /// The message is not sent from this time on.
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) state: MessageState,
    /// The time from which a relay, or its consumer, may take it.
    pub(crate) next_due: DateTime<Utc>,
    /// The relay that sends it, or the consumer that handles it.
    pub(crate) locked_by: Option<String>,
    /// How many times it was taken, or tried to be sent.
    pub(crate) attempts: u32,
    /// When the first of these attempts was.
    pub(crate) first_try: Option<DateTime<Utc>>,
    /// Until then code decides about the dead message, and no other caller acts on it.
    pub(crate) held_until: Option<DateTime<Utc>>,
    /// The class of the failure, of a message that was received. Of an outgoing message: in doubt
    /// if an attempt had no reply, so that its target may have it.
    pub(crate) class: Option<Class>,
    /// The cause of the last failure.
    pub(crate) cause: Option<String>,
    /// How many times an operator had it sent or processed again after it was dead.
    pub(crate) redrives: u32,
    pub(crate) intervention: Option<Intervention>,
}

/// The checked content of a message. The body may be private.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) source: String,
    pub(crate) topic: String,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) trace: Option<String>,
    /// Of a counter that the caller keeps for the subject.
    pub(crate) number: Option<u64>,
    pub(crate) attributes: Attributes,
    /// It is sent this much later, in no order.
    pub(crate) delay: Option<Duration>,
    pub(crate) expires: Option<DateTime<Utc>>,
}

/// A message that is committed.
#[derive(Clone)]
pub(crate) struct Committed<'a> {
    pub(crate) origin: Origin<'a>,
    /// Its place in the commit.
    pub(crate) place: usize,
    /// The attempt of its commit.
    pub(crate) attempt: &'a str,
    pub(crate) revision: String,
    pub(crate) content: &'a Content,
    pub(crate) now: DateTime<Utc>,
    /// The place of the commit in its process. The place of a step is never before the latest
    /// commit of its workflow, even if the clock was set back.
    pub(crate) tick: Tick,
}

/// A received message that the table keeps.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedLetter<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) order: Order<'a>,
    /// The digest of its sender and its id, or of the id of its broker.
    pub(crate) identity: &'a str,
    pub(crate) id: &'a str,
    /// Empty if it is no event.
    pub(crate) source: &'a str,
    pub(crate) revision: String,
    /// The type of the event, or a fixed word if it is no event.
    pub(crate) topic: &'a str,
    pub(crate) body: &'a str,
    pub(crate) body_at: BodyAt,
    pub(crate) delivery: String,
    pub(crate) trace: Option<String>,
    pub(crate) now: DateTime<Utc>,
    /// The time of the newest message before it in its place.
    pub(crate) after: Option<DateTime<Utc>>,
    pub(crate) receives: u32,
    /// Why it is dead. `None`: an earlier message of its group is dead.
    pub(crate) dead: Option<(Class, String)>,
}

/// Where a message was committed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// With a step of a workflow.
    Step {
        /// The partition.
        workflow: &'a str,
        /// The number of the step in the workflow.
        number: u32,
        name: &'a str,
    },
    /// With a transaction of the caller's own.
    Outbox,
}

impl Deref for Letter {
    type Target = LetterData;

    fn deref(&self) -> &LetterData {
        &self.0
    }
}

impl Letter {
    /// A message that is committed now.
    pub(crate) fn committed(new: Committed<'_>) -> Self {
        let Committed { origin, place, attempt, content, now, tick, .. } = new;
        let delay = content.delay.unwrap_or_default();
        let (tick, created) = (Tick { at: time::after(tick.at, delay), ..tick }, time::after(now, delay));
        let id = id::of_message(attempt, place);
        // No other commit has this place: its attempt is its own.
        let of_outbox = |partition: &str| {
            let (millis, number) = (millis_of(tick.at), tick.number);
            let place = MessagePlace::Outbox { millis, number, position: place, attempt };
            RecordId::at(partition, Place::Message(place))
        };
        let at = match origin {
            // In its own partition: no message of its subject waits for it, and it waits for none.
            _ if content.delay.is_some() => of_outbox(&partition_of(&id)),
            Origin::Step { workflow, number, name } => {
                let place = MessagePlace::Step { number, position: place, step: name };
                RecordId::at(workflow, Place::Message(place))
            }
            Origin::Outbox => of_outbox(&partition_of(&content.subject)),
        };
        Self(LetterData {
            at,
            id,
            source: content.source.clone(),
            revision: new.revision,
            topic: content.topic.clone(),
            subject: content.subject.clone(),
            sequence: match content.number {
                Some(number) => id::sequence_of(number),
                None => id::sequence(tick, place, attempt),
            },
            body: content.body.clone(),
            body_at: BodyAt::Item,
            delivery: None,
            created,
            trace: content.trace.clone(),
            attributes: content.attributes.clone(),
            expires: content.expires,
            state: MessageState::Unsent,
            next_due: if content.delay.is_some() { created } else { time::after(now, GRACE) },
            locked_by: None,
            attempts: 0,
            first_try: None,
            held_until: None,
            class: None,
            cause: None,
            redrives: 0,
            intervention: None,
        })
    }

    /// A received message that a consumer stores now.
    pub(crate) fn received(new: ReceivedLetter<'_>) -> Self {
        // Its place is after the newest message, even if the clock is slow.
        let created = new.after.map_or(new.now, |last| new.now.max(last + TimeDelta::milliseconds(1)));
        let (subject, millis) = match new.order {
            Order::Group(group) => (group, millis_of(created)),
            // The same place for each copy.
            Order::None(_) => (new.id, 0),
        };
        let workflow = partition_of_consumer(new.consumer, &new.order);
        let place = MessagePlace::Dead { millis, identity: new.identity };
        let (class, cause) = new.dead.map(|(class, cause)| (class, caused_at(new.body_at, &cause))).unzip();
        Self(LetterData {
            at: RecordId::at(&workflow, Place::Message(place)),
            id: new.id.to_owned(),
            source: new.source.to_owned(),
            revision: new.revision,
            topic: new.topic.to_owned(),
            subject: subject.to_owned(),
            sequence: id::sequence(Tick { at: created, number: 0 }, 0, new.identity),
            body: new.body.to_owned(),
            body_at: new.body_at,
            delivery: Some(new.delivery),
            created,
            trace: new.trace,
            attributes: Attributes::new(),
            expires: None,
            state: if cause.is_some() { MessageState::Dead } else { MessageState::Waiting },
            // A wrong clock of an earlier message must not delay it.
            next_due: new.now,
            locked_by: None,
            attempts: if cause.is_some() { new.receives } else { 0 },
            first_try: None,
            held_until: None,
            class,
            cause,
            redrives: 0,
            intervention: None,
        })
    }

    /// Returns when the table received the message, or an operator last acted on it.
    pub(crate) fn requested(&self) -> DateTime<Utc> {
        restored::requested(self.created, self.opened())
    }

    /// Returns when an operator last acted on it. A message that waits was redriven by this act.
    pub(crate) fn opened(&self) -> Option<DateTime<Utc>> {
        self.intervention.as_ref().map(|act| act.at)
    }

    /// Whether its delay has not ended.
    pub(crate) fn is_delayed(&self, now: DateTime<Utc>) -> bool {
        self.created > now
    }

    /// Whether it is too late to send it.
    pub(crate) fn has_expired(&self, now: DateTime<Utc>) -> bool {
        is_over(self.expires, now)
    }

    /// Whether an earlier attempt had no reply.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.class == Some(Class::InDoubt)
    }

    /// Whether code decides about it now.
    pub(crate) fn is_held(&self, now: DateTime<Utc>) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }

    /// The value of `status`, without the shard suffix.
    pub(crate) fn status(&self) -> &'static str {
        self.state.status(self.next_due != time::after(self.created, GRACE))
    }

    /// Returns whether `stored` is this message without a later write.
    pub(crate) fn is_unchanged(&self, stored: &Self) -> bool {
        self.at == stored.at && self.revision == stored.revision
    }

    /// Whether its body is still in its queue.
    pub(crate) fn is_in_queue(&self) -> bool {
        self.body_at == BodyAt::Queue
    }

    /// Its name among tokens, workflows and messages.
    pub(crate) fn work(&self) -> Work {
        work_of(&self.at.workflow, &self.at.item)
    }

    /// Its identity among the messages that a consumer keeps.
    pub(crate) fn identity(&self) -> &str {
        match self.at.place() {
            Ok(
                Place::Message(MessagePlace::Dead { identity, .. })
                | Place::Archived(MessagePlace::Dead { identity, .. }),
            ) => identity,
            _ => "",
        }
    }

    /// The state in which it is to be sent or processed.
    pub(crate) const fn pending(&self) -> MessageState {
        if self.0.delivery.is_some() { MessageState::Waiting } else { MessageState::Unsent }
    }

    /// The sort key in the index. The messages that wait for one consumer are next to each other,
    /// so that its run reads no messages of other consumers: `packer/2026-11-23T08:00:00.000Z`.
    pub(crate) fn listed_due(&self) -> String {
        let due = time::to_text(self.next_due);
        match (self.state, consumer_of(&self.at.workflow)) {
            (MessageState::Waiting, Some(consumer)) => format!("{consumer}/{due}"),
            _ => due,
        }
    }

    /// Where it is stored once it is archived, or restored.
    pub(super) fn moved(&self, is_archived: bool) -> RecordId {
        let place = match self.at.place() {
            Ok(Place::Message(place) | Place::Archived(place)) if is_archived => Place::Archived(place),
            Ok(Place::Message(place) | Place::Archived(place)) => Place::Message(place),
            _ => return self.at.clone(),
        };
        RecordId::at(&self.at.workflow, place)
    }

    /// A message as read from the table.
    pub(crate) const fn stored(data: LetterData) -> Self {
        Self(data)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::token::record::tests::by;

    pub(in crate::core::message) fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    pub(crate) fn content() -> Content {
        Content {
            source: "/orders".to_owned(),
            topic: "order/placed".to_owned(),
            subject: "order/7".to_owned(),
            body: "{}".to_owned(),
            trace: None,
            number: None,
            attributes: Attributes::new(),
            delay: None,
            expires: None,
        }
    }

    fn new<'a>(origin: Origin<'a>, content: &'a Content) -> Committed<'a> {
        Committed {
            origin,
            place: 1,
            attempt: "a-1",
            revision: "r-1".to_owned(),
            content,
            now: at(10),
            tick: Tick { at: at(10), number: 3 },
        }
    }

    /// Committed at 10 by step 2 of the workflow `order/7`.
    pub(in crate::core::message) fn committed() -> Letter {
        let origin = Origin::Step { workflow: "order/7", number: 2, name: "reserve" };
        Letter::committed(new(origin, &content()))
    }

    pub(in crate::core::message) fn aside(order: Order<'_>) -> ReceivedLetter<'_> {
        ReceivedLetter {
            consumer: "packer",
            order,
            identity: "d1",
            id: "m-1",
            source: "/orders",
            revision: "r-1".to_owned(),
            topic: "order/placed",
            body: "{}",
            body_at: BodyAt::Item,
            delivery: "{}".to_owned(),
            trace: None,
            now: at(10),
            after: None,
            receives: 4,
            dead: Some((Class::Permanent, "no  such\norder".to_owned())),
        }
    }

    #[test]
    fn message_knows_its_delay_its_doubt_and_its_later_writes() {
        let letter = committed();
        assert!(!letter.is_delayed(at(10)) && letter.is_delayed(at(9)));
        let of_class = |class| Letter(LetterData { class, ..letter.0.clone() });
        assert!(of_class(Some(Class::InDoubt)).is_in_doubt());
        assert!(!of_class(Some(Class::Permanent)).is_in_doubt() && !letter.is_in_doubt());
        let moved = Letter(LetterData { at: letter.moved(true), ..letter.0.clone() });
        let written = Letter(LetterData { revision: "r-2".to_owned(), ..letter.0.clone() });
        assert!(letter.is_unchanged(&letter.clone()));
        assert!(!letter.is_unchanged(&moved) && !letter.is_unchanged(&written));
    }

    #[test]
    fn archived_message_returns_to_its_place() {
        let letter = committed();
        let archived = letter.moved(true);
        assert_ne!(archived, letter.at);
        assert_eq!(Letter(LetterData { at: archived, ..letter.0.clone() }).moved(false), letter.at);
        assert_eq!(letter.moved(false), letter.at);
    }

    #[test]
    fn message_of_a_step_is_stored_with_its_workflow() {
        let letter = committed();
        assert_eq!(
            letter.at,
            RecordId { workflow: "order/7".to_owned(), item: "message/00000002/001/reserve".to_owned() }
        );
        assert_eq!(
            (letter.id.as_str(), letter.sequence.as_str()),
            ("a-1.1", "000000000010000-0000000003-001-a-1")
        );
        assert_eq!((letter.state, letter.pending()), (MessageState::Unsent, MessageState::Unsent));
        assert_eq!((letter.created, letter.next_due), (at(10), at(40)));
        assert_eq!((letter.identity(), letter.source.as_str()), ("", "/orders"));
        let work = Work::Message { of: "order/7".to_owned(), place: "00000002/001/reserve".to_owned() };
        assert_eq!(letter.work(), work);
        assert_eq!(Letter::stored(letter.0.clone()), letter);
    }

    #[test]
    fn message_of_an_outbox_is_stored_with_its_subject() {
        let content = Content { number: Some(9), ..content() };
        let letter = Letter::committed(new(Origin::Outbox, &content));
        assert_eq!(letter.at.workflow, "locker outbox order/7");
        assert_eq!(letter.at.item, "message/0000000000100000000000003/001/a-1");
        assert_eq!(letter.sequence, "00000000000000000009");
    }

    #[test]
    fn place_never_precedes_the_commit_before_it() {
        let (tick, content) = (Tick { at: at(20), number: 3 }, content());
        let letter = Letter::committed(Committed { tick, ..new(Origin::Outbox, &content) });
        assert_eq!(letter.at.item, "message/0000000000200000000000003/001/a-1");
        assert_eq!((letter.created, letter.next_due), (at(10), at(40)));
    }

    #[test]
    fn delayed_message_is_by_itself_and_due_when_its_delay_ends() {
        let content = Content { delay: Some(Duration::from_secs(60)), ..content() };
        let step = Origin::Step { workflow: "order/7", number: 2, name: "reserve" };
        for origin in [step, Origin::Outbox] {
            let letter = Letter::committed(new(origin, &content));
            assert_eq!(letter.at.workflow, "locker outbox a-1.1");
            assert_eq!(letter.at.item, "message/0000000000700000000000003/001/a-1");
            assert_eq!((letter.created, letter.next_due), (at(70), at(70)));
            assert_eq!((letter.id.as_str(), letter.subject.as_str()), ("a-1.1", "order/7"));
            assert!(letter.sequence.starts_with("000000000070000-"), "{}", letter.sequence);
        }
    }

    #[test]
    fn dead_letter_follows_the_last_one_of_its_group() {
        let group = Order::Group("order/7");
        for (after, created, item) in [
            (None, at(10), "message/000000000010000/000/d1"),
            (Some(at(9)), at(10), "message/000000000010000/000/d1"),
            (Some(at(10)), at(10) + TimeDelta::milliseconds(1), "message/000000000010001/000/d1"),
            (Some(at(20)), at(20) + TimeDelta::milliseconds(1), "message/000000000020001/000/d1"),
        ] {
            let letter = Letter::received(ReceivedLetter { after, ..aside(group) });
            assert_eq!((letter.created, letter.at.item.as_str()), (created, item));
            assert_eq!((letter.next_due, letter.subject.as_str()), (at(10), "order/7"));
        }
    }

    #[test]
    fn messages_that_wait_for_one_consumer_are_next_to_each_other_in_the_index() {
        let waiting = |consumer| {
            Letter::received(ReceivedLetter { consumer, dead: None, ..aside(Order::Group("order/7")) })
                .listed_due()
        };
        let (from, to) = due_for_consumer("pack", at(11));
        let is_due = |listed: &str| from.as_str() <= listed && listed <= to.as_str();
        for (consumer, own) in
            [("pack", true), ("packer", false), ("pac", false), ("pack0", false), ("pack-", false)]
        {
            let listed = waiting(consumer);
            assert_eq!((is_due(&listed), due_of(&listed)), (own, Some(at(10))), "{listed}");
        }
        assert!(!is_due(&format!("pack/{}", time::to_text(at(11)))));
        let (after, last) = waits_after(&waiting("pack")).unwrap();
        let follows = |consumer| (after.as_str()..=last.as_str()).contains(&waiting(consumer).as_str());
        assert_eq!(["pac", "pack", "packer", "zoo"].map(follows), [false, false, true, true]);
        let dead = Letter::received(aside(Order::Group("order/7")));
        assert_eq!(dead.listed_due(), time::to_text(at(10)));
        assert_eq!((due_of(&dead.listed_due()), due_of("tea")), (Some(at(10)), None));
        assert_eq!(waits_after(&dead.listed_due()), None);
    }

    #[test]
    fn dead_message_keeps_why_and_how_often_it_was_received() {
        let dead = Letter::received(aside(Order::Group("order/7")));
        assert_eq!((dead.state, dead.attempts), (MessageState::Dead, 4));
        assert_eq!((dead.class, dead.cause.as_deref()), (Some(Class::Permanent), Some("no such order")));
        assert_eq!((dead.identity(), dead.pending()), ("d1", MessageState::Waiting));
        let behind = Letter::received(ReceivedLetter { dead: None, ..aside(Order::Group("order/7")) });
        assert_eq!((behind.state, behind.attempts), (MessageState::Waiting, 0));
        assert_eq!((behind.class, behind.cause.as_deref()), (None, None));
    }

    #[test]
    fn message_without_order_has_one_place() {
        let first = Letter::received(aside(Order::None("m-1")));
        let again = Letter::received(ReceivedLetter { now: at(99), ..aside(Order::None("m-1")) });
        assert_eq!(first.at, again.at);
        assert_eq!(
            (first.at.item.as_str(), first.subject.as_str()),
            ("message/000000000000000/000/d1", "m-1")
        );
    }

    #[test]
    fn cause_says_that_a_body_is_left_to_its_queue_while_it_is() {
        let new = ReceivedLetter { body_at: BodyAt::Queue, ..aside(Order::Group("order/7")) };
        let dead = Letter::received(new);
        let cause = dead.cause.as_deref().unwrap();
        assert!(dead.is_in_queue() && cause.starts_with(IN_QUEUE), "{cause}");
        assert_eq!(cause_out_of_queue(cause), "no such order");
        assert_eq!(cause_out_of_queue("no such order"), "no such order");
        let long = caused_at(BodyAt::Queue, &"x".repeat(300));
        assert!(long.starts_with(IN_QUEUE) && long.ends_with("x…"), "{long}");
        assert_eq!(caused_at(BodyAt::Item, " no  order"), "no order");
        for at in [BodyAt::Item, BodyAt::Claim, BodyAt::Queue] {
            assert_eq!(BodyAt::named(at.as_str()), Some(at));
        }
        assert_eq!(BodyAt::named(Some("shelf")), None);
    }

    #[test]
    fn time_before_1970_has_no_milliseconds() {
        assert_eq!([at(-1), at(0), at(2)].map(millis_of), [0, 0, 2000]);
    }

    #[test]
    fn message_expires_at_its_time() {
        let content = Content { expires: Some(at(50)), ..content() };
        let letter = Letter::committed(new(Origin::Outbox, &content));
        assert_eq!([49, 50, 51].map(|now| letter.has_expired(at(now))), [false, true, true]);
        let is_long = |now| is_long_over(letter.expires, at(now));
        assert_eq!([50, 109, 110].map(is_long), [false, false, true]);
        assert!(!is_long_over(None, at(i64::from(u32::MAX))));
        assert!(!committed().has_expired(at(i64::from(u32::MAX))));
    }

    #[test]
    fn dead_message_is_held_until_its_time() {
        let letter = Letter(LetterData { held_until: Some(at(50)), ..committed().0 });
        assert_eq!([49, 50, 51].map(|now| letter.is_held(at(now))), [true, false, false]);
        assert!(!committed().is_held(at(0)));
    }

    #[test]
    fn act_of_an_operator_is_the_latest_request() {
        let acted = Letter(LetterData { intervention: Some(by("ada")), ..committed().0 });
        assert_eq!((acted.opened(), acted.requested()), (Some(at(60)), at(60)));
        assert_eq!((committed().opened(), committed().requested()), (None, at(10)));
    }

    #[test]
    fn unsent_message_with_another_due_time_is_listed_as_retrying() {
        let paused = Letter(LetterData { next_due: at(41), ..committed().0 });
        assert_eq!((committed().status(), paused.status()), ("unsent", "retrying"));
    }

    #[test]
    fn long_subject_has_a_digest_in_its_partition() {
        assert_eq!(partition_of("order/7"), "locker outbox order/7");
        assert!(partition_of(&"x".repeat(200)).starts_with("locker outbox sha256:"));
    }

    #[test]
    fn partitions_of_a_consumer_share_their_beginning() {
        let [group, one, other] = [Order::Group("7"), Order::None("7"), Order::None("8")]
            .map(|it| partition_of_consumer("packer", &it));
        assert!(group != one && one != other, "{group} {one} {other}");
        for partition in [&group, &one, &other] {
            assert!(partition.starts_with("locker dead packer "), "{partition}");
            assert_eq!(consumer_of(partition), Some("packer"));
        }
    }

    #[test]
    fn only_outboxes_and_dead_letters_are_of_one_subject() {
        for (partition, is_of_one, consumer) in [
            ("locker outbox order/7", true, None),
            ("locker dead packer 0a1b", true, Some("packer")),
            ("locker inbox packer 0a1b", false, None),
            ("order/7", false, None),
            ("", false, None),
        ] {
            assert_eq!(is_of_one_subject(partition), is_of_one, "{partition}");
            assert_eq!(consumer_of(partition), consumer, "{partition}");
        }
    }

    #[test]
    fn place_of_a_message_leads_to_its_item() {
        let items = ["message/00000002/001/reserve", "archived/00000002/001/reserve"];
        assert_eq!(items_of("00000002/001/reserve"), Some(items.map(str::to_owned)));
        assert_eq!(items_of("reserve"), None);
        let work = |place: &str| Work::Message { of: "order/7".to_owned(), place: place.to_owned() };
        assert_eq!(work_of("order/7", "message/00000002/001/reserve"), work("00000002/001/reserve"));
        assert_eq!(work_of("order/7", "step/reserve"), work("step/reserve"));
    }
}
