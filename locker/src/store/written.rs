//! The outcome of a write.

/// The outcome of a conditional write.
#[derive(Debug)]
pub(crate) enum Written<T> {
    /// It was applied, now or by an earlier request of this call.
    Done,
    /// Its condition failed. `found`: what is stored instead. `after_silence`: an earlier request
    /// of this call may have been applied and overwritten since, or may yet arrive.
    Refused { found: T, after_silence: bool },
}
