//! What a refused write means. The condition said no; the item that came back says why.

use chrono::{DateTime, Utc};

use super::fingerprint::{Fingerprint, FingerprintKey, UnreadableFingerprint};
use super::record::{Record, State};
use super::time;
use super::write::{Finish, Write};

/// What a caller of begin brings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) attempt: &'a str,
    pub(crate) fingerprint: Option<&'a Fingerprint>,
    pub(crate) fingerprint_keys: &'a [FingerprintKey],
    /// What is past its `ttl` at this time counts as absent.
    pub(crate) expired_at: DateTime<Utc>,
    /// Work that was due before this time may be taken over. `None`: never.
    pub(crate) take_over_due_before: Option<DateTime<Utc>>,
}

/// What begin found instead of nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// This very begin: an earlier request was applied and its reply was lost.
    Mine,
    /// Nothing that counts: ask again, with a later time.
    Absent,
    /// An answer.
    Completed,
    /// A failure that is the answer, or that waits for a person.
    Failed,
    /// The same key with another request.
    Mismatch,
    /// Somebody at work.
    InProgress,
    /// Somebody who should be done by now, and the caller chose to take over.
    Overdue,
}

/// Read what stands in the way of a begin.
pub(crate) fn found(record: &Record, asking: &Asking<'_>) -> Result<Found, UnreadableFingerprint> {
    if record.is_held_by(asking.attempt) {
        return Ok(Found::Mine);
    }
    if record.counts_as_absent(asking.expired_at) {
        return Ok(Found::Absent);
    }
    if let (Some(mine), Some(stored)) = (asking.fingerprint, &record.fingerprint)
        && !mine.matches(&stored.0, asking.fingerprint_keys)?
    {
        return Ok(Found::Mismatch);
    }
    Ok(match record.state {
        State::Completed => Found::Completed,
        State::CompletedErr | State::Failed => Found::Failed,
        State::Released => Found::Absent,
        State::InProgress => match asking.take_over_due_before {
            Some(limit) if record.expected_completion < limit => Found::Overdue,
            _ => Found::InProgress,
        },
    })
}

/// Whether a refused end was applied all the same, by an earlier request of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Lost,
    /// It may have been applied and then overwritten.
    Unknown,
}

/// Read what stands in the way of a finish, release, extend, resolve or free.
///
/// `after_silence`: an earlier request of this call got no clear reply, so it may have been applied.
pub(crate) fn ended(write: &Write, record: Option<&Record>, after_silence: bool) -> Ended {
    let done = match (write, record) {
        (Write::Finish { attempt, at, finish, .. }, Some(record)) => {
            let state = match finish {
                Finish::Success => State::Completed,
                Finish::Failure => State::CompletedErr,
                Finish::NeedsPerson { .. } => State::Failed,
            };
            record.attempt.as_deref() == Some(attempt)
                && record.state == state
                && record.actual_completion == Some(*at)
                && record.intervention.is_none()
        }
        (Write::Extend { attempt, due, .. }, Some(record)) => {
            record.is_held_by(attempt) && record.expected_completion >= *due
        }
        // Gone, and we had asked for that. (Whether somebody can have taken it over and let go of it, the
        // caller knows, who has the due time.)
        (Write::Release { .. }, None) => after_silence,
        // Begun anew since. Had it been taken over from us, or ended by a person, it would say so.
        (Write::Release { attempt, .. }, Some(record)) => {
            after_silence
                && record.attempt.as_deref() != Some(attempt)
                && record.taken_over_from.as_deref() != Some(attempt)
                && record.intervention.is_none()
        }
        (Write::Resolve { person, .. } | Write::Free { person, .. }, Some(record)) => {
            record.intervention.as_ref() == Some(person)
        }
        _ => false,
    };
    // A tombstone may be begun over at once, a failed token resolved, and an answer forgotten: then nothing
    // tells whether ours was there before. Only who took over from us directly says that it was not.
    let overwritten = match (write, record) {
        (Write::Resolve { .. } | Write::Free { .. }, _) => true,
        (Write::Finish { attempt, .. }, Some(record)) => {
            let (ours, before) = (record.attempt.as_deref(), record.taken_over_from.as_deref());
            record.intervention.is_some() || (ours != Some(attempt) && before != Some(attempt))
        }
        (Write::Finish { .. }, None) => true,
        _ => false,
    };
    match (done, after_silence && overwritten) {
        (true, _) => Ended::Done,
        (false, true) => Ended::Unknown,
        (false, false) => Ended::Lost,
    }
}

/// When somebody who found work in progress might ask again.
pub(crate) fn retry_after(record: &Record, now: DateTime<Utc>) -> std::time::Duration {
    const SOONEST: std::time::Duration = std::time::Duration::from_secs(1);
    const LATEST: std::time::Duration = std::time::Duration::from_secs(60);
    time::between(now, record.expected_completion).clamp(SOONEST, LATEST)
}
