//! From the failures of a message to an item and back.

use chrono::{DateTime, Utc};

use crate::core::invalid::InvalidRecord;
use crate::core::message::failures::Failures;
use crate::store::item::reader::Reader;
use crate::store::item::value::{Item, number, text};
use crate::store::item::writer::Writer;
use crate::store::schema::attribute as a;

pub(crate) fn failures_item(failures: &Failures) -> Item {
    let mut item = Writer::at(&failures.at.workflow, &failures.at.item);
    item.put(a::REVISION, text(&failures.revision));
    item.put(a::ATTEMPTS, number(failures.count));
    item.put(a::TTL, number(failures.expires.timestamp()));
    item.item()
}

/// Returns the count and the revision. If the retention ended before `now`, the count is 0.
pub(crate) fn failures_of(item: &Item, now: DateTime<Utc>) -> Result<(u32, String), InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let is_over = reader.number::<i64>(a::TTL)?.is_some_and(|until| until < now.timestamp());
    let count = if is_over { 0 } else { reader.number(a::ATTEMPTS)?.unwrap_or_default() };
    Ok((count, reader.required(a::REVISION)?.to_owned()))
}
