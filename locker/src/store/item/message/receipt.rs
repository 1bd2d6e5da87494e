//! Conversion of receipts of an inbox to items and back.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::invalid::InvalidRecord;
use crate::core::message::receipt::{Found, Kept, Receipt, Remembered};
use crate::core::message::window::WINDOW;
use crate::core::time;
use crate::store::item::reader::Reader;
use crate::store::item::value::{Item, moment, number, text};
use crate::store::item::writer::Writer;
use crate::store::schema::attribute as a;

pub(crate) fn receipt_item(receipt: &Receipt) -> Item {
    let mut item = Writer::at(&receipt.at.workflow, &receipt.at.item);
    item.put(a::REVISION, text(&receipt.revision));
    item.put(a::MESSAGE_ID, text(&receipt.id));
    item.put(a::SOURCE, text(&receipt.source));
    item.put(a::CREATED, moment(receipt.received));
    match &receipt.kept {
        Kept::Each { expires } => item.put(a::TTL, number(expires.timestamp())),
        Kept::Beside { window, letter } => {
            item.put(a::RETENTION, number(window.as_secs()));
            item.text(a::LETTER, letter.as_deref());
        }
        Kept::Latest { number: counted } | Kept::Gapless { number: counted } => {
            item.put(a::NUMBER, number(counted))
        }
    }
    item.item()
}

pub(crate) fn receipt_of(item: &Item) -> Result<Found, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    Ok(Found { id: reader.required(a::MESSAGE_ID)?.to_owned(), number: reader.number(a::NUMBER)? })
}

/// Returns the receipt of a message that leaves the table now, and the revision that was read. The
/// receipt is kept for its window from now on.
pub(crate) fn receipt_left(
    mut item: Item,
    revision: &str,
    now: DateTime<Utc>,
) -> Result<(Item, String), InvalidRecord> {
    let reader = Reader::of_ours(&item)?;
    let window = reader.number(a::RETENTION)?.map_or(WINDOW, Duration::from_secs);
    let seen = reader.required(a::REVISION)?.to_owned();
    item.remove(a::LETTER);
    item.insert(a::REVISION.to_owned(), text(revision));
    item.insert(a::TTL.to_owned(), number(time::after(now, window).timestamp()));
    Ok((item, seen))
}

/// The sort key of the message in a receipt, if its body is still in its queue. `None`: the receipt
/// was to be kept until before this time.
pub(crate) fn remembered_of(
    item: &Item,
    expired_at: DateTime<Utc>,
) -> Result<Option<Remembered>, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    // A receipt without an end is kept for ever.
    let is_kept = reader.number::<i64>(a::TTL)?.is_none_or(|until| until >= expired_at.timestamp());
    let letter = reader.owned(a::LETTER)?;
    Ok(is_kept.then_some(Remembered { letter }))
}
