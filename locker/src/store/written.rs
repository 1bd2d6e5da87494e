//! The outcome of a write.

use crate::core::invalid::InvalidRecord;
use crate::error::Error;

/// The outcome of a conditional write.
#[derive(Debug)]
pub(crate) enum Written<T> {
    /// It was applied, now or by an earlier request of this call.
    Done,
    /// Its condition failed. `found`: the item that is stored instead. `after_silence`: an earlier
    /// request of this call got no reply. It may have been applied and then overwritten, or may
    /// still arrive.
    Refused { found: T, after_silence: bool },
}

/// The stored record that refused a write.
///
/// # Errors
///
/// The record cannot be read. After a silence, it is unknown whether this write was applied.
pub(crate) fn found<T>(
    record: Result<T, InvalidRecord>,
    (verb, tries): (&'static str, u32),
    after_silence: bool,
) -> Result<T, Error> {
    record.map_err(|error| match after_silence {
        true => Error::Unknown { verb, tries, source: error.into() },
        false => error.into(),
    })
}
