//! The meaning of a refused write: its condition failed, and the returned item shows the reason.

use chrono::{DateTime, Utc};

use super::record::{KeyUse, Record, TokenState};
use super::write::{Finish, Write};
use crate::core::fingerprint::{Fingerprint, FingerprintKey, UnreadableFingerprint};
use crate::core::time;

/// The options of a begin.
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

/// The record that a begin found instead of an absent token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The token of this very begin: an earlier request was applied and its reply was lost.
    Mine,
    /// A record that counts as absent: ask again, with a later time.
    Absent,
    /// A stored answer.
    Completed,
    /// A failure that is the answer, or a failure that waits for an operator.
    Failed,
    /// Held, because the table was restored and may have forgotten the work.
    Restored,
    /// The same key with a different request.
    Mismatch,
    /// Another caller's work in progress.
    InProgress,
    /// Another caller's work that is overdue, which this begin may take over.
    Overdue,
    /// Released, with a memory of the provider's key: begin over it, and keep that.
    Remembered,
}

/// Interprets the record that refused a begin.
pub(crate) fn found(record: &Record, asking: &Asking<'_>) -> Result<Found, UnreadableFingerprint> {
    if record.is_held_by(asking.attempt) {
        return Ok(Found::Mine);
    }
    if record.state == TokenState::Released && record.key_use != KeyUse::FIRST {
        // The provider may know the released request by its key, and this request would get the
        // same key.
        let is_given_out = record.key_use.since.is_some();
        return Ok(if is_given_out && is_other(record, asking)? {
            Found::Mismatch
        } else {
            Found::Remembered
        });
    }
    if record.counts_as_absent(asking.expired_at) {
        return Ok(Found::Absent);
    }
    // Before the state: another request must neither get this answer nor take this work over.
    if is_other(record, asking)? {
        return Ok(Found::Mismatch);
    }
    Ok(match record.state {
        TokenState::Completed => Found::Completed,
        TokenState::Held if record.is_held_by_restore() => Found::Restored,
        TokenState::Failed | TokenState::Held => Found::Failed,
        TokenState::Released => Found::Absent,
        // Before the promised time, the owner or its last request to the provider may be at work:
        // an owner leaves its token in doubt early. A provider that forgets the key before the work
        // has ended would do the work of both attempts.
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

/// Whether the record is of another request.
fn is_other(record: &Record, asking: &Asking<'_>) -> Result<bool, UnreadableFingerprint> {
    match (asking.fingerprint, &record.fingerprint) {
        (Some(mine), Some(stored)) => Ok(!mine.matches(stored, asking.fingerprint_keys)?),
        _ => Ok(false),
    }
}

/// Whether a refused end had already been applied by an earlier request of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Lost,
    /// It may have been applied and then overwritten.
    Unknown,
}

/// Interprets the record that refused a finish, release, extend, resolve or free.
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
            Write::Resolve { operator, .. }
            | Write::Close { operator, .. }
            | Write::Free { operator, .. }
            | Write::Redact { operator, .. },
            Some(record),
        ) => record.intervention.as_ref() == Some(operator),
        _ => false,
    };
    // A tombstone may be begun over at once, a held token resolved, and an answer deleted: then
    // nothing shows whether ours was there before. Only a takeover directly from us proves that it
    // was not.
    let overwritten = match (write, record) {
        (Write::Resolve { .. } | Write::Close { .. } | Write::Free { .. } | Write::Redact { .. }, _) => true,
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
    use crate::core::class::Class;
    use crate::core::token::record::tests::{at, begun, by, ended_in};
    use crate::core::token::record::{Intervention, StoredFingerprint};
    use crate::core::token::resolution::Resolution;
    use crate::core::token::write::tests::{body, finish, key};
    use crate::core::token::write::{Kept, NextKey};

    const ASKING: Asking<'static> = Asking {
        attempt: "a-2",
        fingerprint: None,
        fingerprint_keys: &[],
        expired_at: DateTime::UNIX_EPOCH,
        take_over_due_before: None,
        key_used_after: None,
    };

    #[test]
    fn begin_finds_what_the_state_says() {
        for (state, expected) in [
            (TokenState::InProgress, Found::InProgress),
            (TokenState::Completed, Found::Completed),
            (TokenState::Failed, Found::Failed),
            (TokenState::Held, Found::Failed),
            (TokenState::Released, Found::Absent),
        ] {
            let record = Record { state, ..begun() };
            assert_eq!(found(&record, &ASKING), Ok(expected), "{state:?}");
        }
    }

    #[test]
    fn begin_finds_that_a_restore_holds_the_token() {
        let held = Record { class: Some(Class::InDoubt), ..ended_in(TokenState::Held) };
        assert_eq!(found(&held, &ASKING), Ok(Found::Restored));
    }

    #[test]
    fn begin_finds_its_own_work_only_in_progress() {
        let asking = Asking { attempt: "a-1", ..ASKING };
        assert_eq!(found(&begun(), &asking), Ok(Found::Mine));
        assert_eq!(found(&ended_in(TokenState::Completed), &asking), Ok(Found::Completed));
    }

    #[test]
    fn released_token_with_another_key_version_is_remembered() {
        let with = |state| Record { key_use: KeyUse { version: 2, since: None }, ..ended_in(state) };
        assert_eq!(found(&with(TokenState::Released), &ASKING), Ok(Found::Remembered));
        assert_eq!(found(&with(TokenState::Completed), &ASKING), Ok(Found::Completed));
    }

    #[test]
    fn released_key_that_was_given_out_is_for_the_same_request_only() {
        let (mine, other) = (Fingerprint::of_bytes("mine"), Fingerprint::of_bytes("other"));
        let with = |print: &Fingerprint, key_use| Record {
            fingerprint: Some(print.stored(&[])),
            key_use,
            ..ended_in(TokenState::Released)
        };
        let asking = Asking { fingerprint: Some(&mine), ..ASKING };
        let given_out = KeyUse { version: 1, since: Some(at(10)) };
        let renewed = KeyUse { version: 2, since: None };
        assert_eq!(found(&with(&mine, given_out), &asking), Ok(Found::Remembered));
        assert_eq!(found(&with(&other, given_out), &asking), Ok(Found::Mismatch));
        assert_eq!(found(&with(&other, given_out), &ASKING), Ok(Found::Remembered));
        assert_eq!(found(&with(&other, renewed), &asking), Ok(Found::Remembered));
    }

    #[test]
    fn answer_past_its_expiry_is_absent() {
        let record = Record { expires: Some(at(900)), ..ended_in(TokenState::Completed) };
        assert_eq!(found(&record, &Asking { expired_at: at(900), ..ASKING }), Ok(Found::Completed));
        assert_eq!(found(&record, &Asking { expired_at: at(901), ..ASKING }), Ok(Found::Absent));
    }

    #[test]
    fn another_request_gets_no_answer_and_takes_nothing_over() {
        let (mine, other) = (Fingerprint::of_bytes("mine"), Fingerprint::of_bytes("other"));
        let of =
            |print: &Fingerprint, record: Record| Record { fingerprint: Some(print.stored(&[])), ..record };
        let asking = Asking { fingerprint: Some(&mine), take_over_due_before: Some(at(200)), ..ASKING };
        let completed = || ended_in(TokenState::Completed);
        assert_eq!(found(&of(&mine, completed()), &asking), Ok(Found::Completed));
        assert_eq!(found(&completed(), &asking), Ok(Found::Completed));
        assert_eq!(found(&of(&other, completed()), &ASKING), Ok(Found::Completed));
        assert_eq!(found(&of(&mine, begun()), &asking), Ok(Found::Overdue));
        assert_eq!(found(&of(&other, completed()), &asking), Ok(Found::Mismatch));
        assert_eq!(found(&of(&other, begun()), &asking), Ok(Found::Mismatch));
        let unreadable = StoredFingerprint { text: "md5:00".to_owned(), check: None };
        let record = Record { fingerprint: Some(unreadable), ..completed() };
        assert_eq!(found(&record, &asking), Err(UnreadableFingerprint::Form));
    }

    #[test]
    fn only_work_due_before_the_limit_is_overdue() {
        let before = |seconds| Asking { take_over_due_before: Some(at(seconds)), ..ASKING };
        assert_eq!(found(&begun(), &before(100)), Ok(Found::InProgress));
        assert_eq!(found(&begun(), &before(101)), Ok(Found::Overdue));
        // Work in doubt is due at the time that its begin promised.
        let in_doubt = Record { promised: Some(at(90)), ..begun() };
        assert_eq!(found(&in_doubt, &before(90)), Ok(Found::InProgress));
        assert_eq!(found(&in_doubt, &before(91)), Ok(Found::Overdue));
    }

    #[test]
    fn work_with_an_old_key_is_not_taken_over() {
        let used_after = |seconds| Asking {
            take_over_due_before: Some(at(200)),
            key_used_after: Some(at(seconds)),
            ..ASKING
        };
        assert_eq!(found(&begun(), &used_after(9)), Ok(Found::Overdue));
        assert_eq!(found(&begun(), &used_after(10)), Ok(Found::InProgress));
        assert_eq!(found(&begun(), &used_after(11)), Ok(Found::InProgress));
    }

    fn release(keep: Option<Kept>) -> Write {
        Write::Release { key: key(), attempt: "a-1".to_owned(), keep }
    }

    /// The outcome of a refused write: first without silence before it, then after silence.
    fn both(write: &Write, record: Option<&Record>) -> [Ended; 2] {
        [ended(write, record, false), ended(write, record, true)]
    }

    const DONE: [Ended; 2] = [Ended::Done, Ended::Done];
    const LOST: [Ended; 2] = [Ended::Lost, Ended::Lost];
    const DONE_AFTER_SILENCE: [Ended; 2] = [Ended::Lost, Ended::Done];
    const UNKNOWN_AFTER_SILENCE: [Ended; 2] = [Ended::Lost, Ended::Unknown];

    #[test]
    fn finish_is_done_only_if_the_record_has_its_outcome() {
        let hold = Finish::Hold { status: "error".to_owned(), cause: "no reply".to_owned() };
        for (how, state) in [
            (Finish::Success, TokenState::Completed),
            (Finish::Failure, TokenState::Failed),
            (hold, TokenState::Held),
        ] {
            assert_eq!(both(&finish(how), Some(&ended_in(state))), DONE, "{state:?}");
        }
        let success = finish(Finish::Success);
        assert_eq!(both(&success, Some(&ended_in(TokenState::Failed))), LOST);
        assert_eq!(both(&success, Some(&begun())), LOST);
        let later = Record { actual_completion: Some(at(51)), ..ended_in(TokenState::Completed) };
        assert_eq!(both(&success, Some(&later)), LOST);
    }

    #[test]
    fn finish_without_a_trace_is_unknown_after_silence() {
        let success = finish(Finish::Success);
        assert_eq!(both(&success, None), UNKNOWN_AFTER_SILENCE);
        let completed = ended_in(TokenState::Completed);
        let corrected = Record { intervention: Some(by("ann")), ..completed.clone() };
        assert_eq!(both(&success, Some(&corrected)), UNKNOWN_AFTER_SILENCE);
        let after = |before: Option<&str>| Record {
            attempt: Some("a-2".to_owned()),
            taken_over_from: before.map(str::to_owned),
            ..completed.clone()
        };
        assert_eq!(both(&success, Some(&after(None))), UNKNOWN_AFTER_SILENCE);
        assert_eq!(both(&success, Some(&after(Some("a-0")))), UNKNOWN_AFTER_SILENCE);
        assert_eq!(both(&success, Some(&after(Some("a-1")))), LOST, "taken over before it ended");
    }

    #[test]
    fn doubt_is_done_only_if_its_promise_is_recorded() {
        let doubt = Write::Doubt {
            key: key(),
            attempt: "a-1".to_owned(),
            due: at(40),
            promised: at(90),
            cause: "no reply".to_owned(),
            list_as: None,
        };
        let left = |seconds| Record { promised: Some(at(seconds)), ..begun() };
        assert_eq!(both(&doubt, Some(&left(90))), DONE);
        assert_eq!(both(&doubt, Some(&left(91))), LOST);
        let other = Record { attempt: Some("a-2".to_owned()), ..left(90) };
        assert_eq!(both(&doubt, Some(&other)), LOST);
        assert_eq!(both(&doubt, None), LOST);
    }

    #[test]
    fn extend_is_done_if_the_work_is_due_no_earlier() {
        let extend = |due| Write::Extend { key: key(), attempt: "a-1".to_owned(), due: at(due), ttl: None };
        assert_eq!(both(&extend(99), Some(&begun())), DONE);
        assert_eq!(both(&extend(100), Some(&begun())), DONE);
        assert_eq!(both(&extend(101), Some(&begun())), LOST);
        let other = Record { attempt: Some("a-2".to_owned()), ..begun() };
        assert_eq!(both(&extend(99), Some(&other)), LOST);
        assert_eq!(both(&extend(99), None), LOST);
    }

    #[test]
    fn release_is_done_if_nothing_shows_that_it_was_lost() {
        let release = release(None);
        assert_eq!(both(&release, None), DONE_AFTER_SILENCE);
        assert_eq!(both(&release, Some(&begun())), LOST);
        assert_eq!(both(&release, Some(&ended_in(TokenState::Released))), LOST);
        let again = || Record { attempt: Some("a-2".to_owned()), ..begun() };
        assert_eq!(both(&release, Some(&again())), DONE_AFTER_SILENCE);
        let taken_over = Record { taken_over_from: Some("a-1".to_owned()), ..again() };
        assert_eq!(both(&release, Some(&taken_over)), LOST);
        let by_hand = Record { intervention: Some(by("ann")), ..again() };
        assert_eq!(both(&release, Some(&by_hand)), LOST);
    }

    #[test]
    fn kept_release_is_done_if_its_record_is_released() {
        let release = release(Some(Kept { ttl: None }));
        let released = || ended_in(TokenState::Released);
        assert_eq!(both(&release, Some(&released())), DONE);
        let by_hand = Record { intervention: Some(by("ann")), ..released() };
        assert_eq!(both(&release, Some(&by_hand)), LOST);
        assert_eq!(both(&release, Some(&begun())), LOST);
        let other = Record { attempt: Some("a-2".to_owned()), ..released() };
        assert_eq!(both(&release, Some(&other)), DONE_AFTER_SILENCE);
    }

    #[test]
    fn act_that_the_record_names_is_done() {
        let (attempt, seen, operator) = ("a-3".to_owned(), begun().seen, by("ann"));
        let resolve = Write::Resolve {
            key: key(),
            attempt: attempt.clone(),
            seen: seen.clone(),
            operator: operator.clone(),
            body: body(),
            ttl: None,
            verb: Resolution::Resolved,
        };
        let close = Write::Close { key: key(), seen: seen.clone(), operator: operator.clone(), ttl: None };
        let next_key = NextKey::Same { since: at(10) };
        let redact = Write::Redact {
            key: key(),
            attempt: attempt.clone(),
            seen: seen.clone(),
            operator: operator.clone(),
            is_success: true,
        };
        let free = Write::Free { key: key(), attempt, seen, operator, ttl: None, next_key };
        let acted = |intervention: Option<Intervention>| Record { intervention, ..begun() };
        for write in [resolve, close, redact, free] {
            assert_eq!(both(&write, Some(&acted(Some(by("ann"))))), DONE, "{write:?}");
            assert_eq!(both(&write, Some(&acted(Some(by("bob"))))), UNKNOWN_AFTER_SILENCE, "{write:?}");
            assert_eq!(both(&write, Some(&acted(None))), UNKNOWN_AFTER_SILENCE, "{write:?}");
            assert_eq!(both(&write, None), UNKNOWN_AFTER_SILENCE, "{write:?}");
        }
    }

    #[test]
    fn the_pause_grows_with_the_age_of_the_work() {
        let after = |seconds: i64| retry_after(&begun(), at(seconds + 10));
        let pauses = [-5, 0, 1, 7, 60, 4000].map(after);
        assert_eq!(pauses, [1, 1, 1, 7, 60, 60].map(Duration::from_secs));
    }
}
