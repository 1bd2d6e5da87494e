//! What a refused write means: its condition failed, and the item that came back says why.

use chrono::{DateTime, Utc};

use super::record::{KeyUse, Record, TokenState};
use super::write::{Finish, Write};
use crate::core::fingerprint::{Fingerprint, FingerprintKey, UnreadableFingerprint};
use crate::core::time;

/// What a begin asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) attempt: &'a str,
    pub(crate) fingerprint: Option<&'a Fingerprint>,
    pub(crate) fingerprint_keys: &'a [FingerprintKey],
    /// A record past its `ttl` at this time counts as absent.
    pub(crate) expired_at: DateTime<Utc>,
    /// A token due before this time may be taken over. `None`: never.
    pub(crate) take_over_due_before: Option<DateTime<Utc>>,
    /// Only a token whose provider's key was first used after this time may be taken over. `None`:
    /// any.
    pub(crate) key_used_after: Option<DateTime<Utc>>,
}

/// What a begin found instead of an absent token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The token of this very begin: an earlier request was applied and its reply was lost.
    Mine,
    /// A record that counts as absent: ask again, with a later time.
    Absent,
    /// A stored answer.
    Completed,
    /// A failure that is the answer, or one that waits for an operator.
    Failed,
    /// The same key with a different request.
    Mismatch,
    /// Another caller's work in progress.
    InProgress,
    /// Another caller's work that is overdue, which this begin may take over.
    Overdue,
    /// Released, with a memory of the provider's key: begin over it, and keep that.
    Remembered,
}

/// Interpret the record that refused a begin.
pub(crate) fn found(record: &Record, asking: &Asking<'_>) -> Result<Found, UnreadableFingerprint> {
    if record.is_held_by(asking.attempt) {
        return Ok(Found::Mine);
    }
    if record.state == TokenState::Released && record.key_use != KeyUse::FIRST {
        return Ok(Found::Remembered);
    }
    if record.counts_as_absent(asking.expired_at) {
        return Ok(Found::Absent);
    }
    if let (Some(mine), Some(stored)) = (asking.fingerprint, &record.fingerprint)
        && !mine.matches(stored, asking.fingerprint_keys)?
    {
        return Ok(Found::Mismatch);
    }
    Ok(match record.state {
        TokenState::Completed => Found::Completed,
        TokenState::Failed | TokenState::Held => Found::Failed,
        TokenState::Released => Found::Absent,
        TokenState::InProgress => match asking.take_over_due_before {
            Some(limit)
                if record.promised_completion() < limit
                    && asking.key_used_after.is_none_or(|since| record.key_since() > since) =>
            {
                Found::Overdue
            }
            _ => Found::InProgress,
        },
    })
}

/// Whether a refused end had already been applied by an earlier request of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Lost,
    /// It may have been applied and then overwritten.
    Unknown,
}

/// Interpret the record that refused a finish, release, extend, resolve or free.
///
/// `after_silence`: an earlier request of this call got no clear reply, so it may have been
/// applied.
pub(crate) fn ended(write: &Write, record: Option<&Record>, after_silence: bool) -> Ended {
    let done = match (write, record) {
        (Write::Finish { attempt, at, finish, .. }, Some(record)) => {
            let state = match finish {
                Finish::Success => TokenState::Completed,
                Finish::Failure => TokenState::Failed,
                Finish::Hold { .. } => TokenState::Held,
            };
            record.attempt.as_deref() == Some(attempt)
                && record.state == state
                && record.actual_completion == Some(*at)
                && record.intervention.is_none()
        }
        (Write::Doubt { attempt, promised, .. }, Some(record)) => {
            record.is_held_by(attempt) && record.promised == Some(*promised)
        }
        (Write::Extend { attempt, due, .. }, Some(record)) => {
            record.is_held_by(attempt) && record.expected_completion >= *due
        }
        // Absent, as we asked. (Whether another caller can have taken it over and released it
        // depends on the due time, which is checked by the caller of this function.)
        (Write::Release { .. }, None) => after_silence,
        (Write::Release { attempt, keep: Some(_), .. }, Some(record))
            if record.state == TokenState::Released && record.attempt.as_deref() == Some(attempt) =>
        {
            record.intervention.is_none()
        }
        // Begun again since. A takeover from us, or an end by an operator, would be recorded on it.
        (Write::Release { attempt, .. }, Some(record)) => {
            after_silence
                && record.attempt.as_deref() != Some(attempt)
                && record.taken_over_from.as_deref() != Some(attempt)
                && record.intervention.is_none()
        }
        (
            Write::Resolve { operator, .. } | Write::Close { operator, .. } | Write::Free { operator, .. },
            Some(record),
        ) => record.intervention.as_ref() == Some(operator),
        _ => false,
    };
    // A tombstone may be begun over at once, a held token resolved, and an answer deleted: then
    // nothing shows whether ours was there before. Only a takeover directly from us proves that it
    // was not.
    let overwritten = match (write, record) {
        (Write::Resolve { .. } | Write::Close { .. } | Write::Free { .. }, _) => true,
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

/// How long a caller that found work in progress should wait before it asks again: as long as it
/// has been in progress, so that a short request is asked for soon and a long one seldom.
pub(crate) fn retry_after(record: &Record, now: DateTime<Utc>) -> std::time::Duration {
    const SOONEST: std::time::Duration = std::time::Duration::from_secs(1);
    const LATEST: std::time::Duration = std::time::Duration::from_secs(60);
    time::between(record.created, now).clamp(SOONEST, LATEST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::key::Key;
    use crate::core::token::record::Seen;

    #[test]
    fn the_pause_grows_with_the_age_of_the_work() {
        let created = DateTime::<Utc>::UNIX_EPOCH;
        let expected_completion = created + chrono::TimeDelta::hours(1);
        let record = Record {
            key: Key::stored("order/7".to_owned()),
            locked_by: "owner".to_owned(),
            attempt: None,
            created,
            expected_completion,
            actual_completion: None,
            state: TokenState::InProgress,
            body: None,
            expires: None,
            fingerprint: None,
            retention: None,
            taken_over_from: None,
            within: None,
            intervention: None,
            resolution: None,
            form: None,
            class: None,
            cause: None,
            promised: None,
            key_use: KeyUse::FIRST,
            seen: Seen {
                attempt: None,
                status: None,
                created: String::new(),
                expected_completion: String::new(),
            },
        };
        let after = |seconds| retry_after(&record, created + chrono::TimeDelta::seconds(seconds));
        let pauses = [-5, 0, 1, 7, 60, 4000].map(after);
        assert_eq!(pauses, [1, 1, 1, 7, 60, 60].map(Duration::from_secs));
    }
}
