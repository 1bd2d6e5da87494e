//! How large an item is, as DynamoDB counts it.

use super::attribute as a;
use crate::core::record::Record;

/// One write unit.
const UNIT: usize = 1024;

/// What a completion adds to a token besides the answer itself: actualCompletion, outcome,
/// resultCodec, ttl, and the name of `result`.
const COMPLETION: usize = a::ACTUAL_COMPLETION.len()
    + TIME
    + a::OUTCOME.len()
    + a::SUCCESS.len()
    + a::RESULT_CODEC.len()
    + "json+gzip".len()
    + a::TTL.len()
    + NUMBER
    + a::RESULT.len();
const TIME: usize = "2026-11-21T11:09:09.120Z".len();
const NUMBER: usize = 21;

/// How many bytes an answer may have and still not add a write unit to its token.
///
/// A refused put is billed at the size of the item that refuses it, so every replay and every
/// conflict would pay for a larger token.
pub(crate) fn room_for_answer(token: &TokenSize<'_>) -> usize {
    let without = token.bytes() + COMPLETION;
    without.next_multiple_of(UNIT) - without
}

/// What the size of a token depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenSize<'a> {
    pub(crate) key: &'a str,
    pub(crate) locked_by: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) fingerprint: Option<&'a str>,
    pub(crate) taken_over_from: Option<&'a str>,
    /// The texts of a person, if one ends it.
    pub(crate) person: usize,
}

impl<'a> TokenSize<'a> {
    /// The size of a stored record, ended by a person who says so much.
    pub(crate) fn of(record: &'a Record, attempt: &'a str, person: usize) -> Self {
        Self {
            key: record.key.as_str(),
            locked_by: &record.locked_by,
            attempt,
            fingerprint: record.fingerprint.as_ref().map(|print| print.0.as_str()),
            taken_over_from: record.taken_over_from.as_deref(),
            person,
        }
    }

    fn bytes(&self) -> usize {
        let optional = |name: &str, value: Option<&str>| value.map_or(0, |value| name.len() + value.len());
        let person = if self.person == 0 {
            0
        } else {
            a::RESOLUTION.len()
                + a::RESOLVED.len()
                + a::RESOLVED_BY.len()
                + a::RESOLVED_AT.len()
                + TIME
                + a::RESOLVED_REASON.len()
                + self.person
        };
        a::LOCK_TOKEN.len() + self.key.len()
            + a::LOCKED_BY.len() + self.locked_by.len()
            + a::ATTEMPT.len() + self.attempt.len()
            + a::CREATED.len() + TIME
            + a::EXPECTED_COMPLETION.len() + TIME
            + a::VERSION.len() + NUMBER
            + a::RETENTION.len() + NUMBER
            // While in progress; a failed token keeps it.
            + a::STATUS.len() + "inProgress_1000".len()
            + optional(a::FINGERPRINT, self.fingerprint)
            + optional(a::TAKEN_OVER_FROM, self.taken_over_from)
            + person
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::time;

    #[test]
    fn an_answer_in_the_token_adds_no_unit() {
        for key in [10, 300, 700, 1024] {
            let key = "k".repeat(key);
            let token = TokenSize {
                key: &key,
                locked_by: "order_update/8f5c",
                attempt: "123e4567-e89b-12d3-a456-426614174000",
                fingerprint: None,
                taken_over_from: None,
                person: 0,
            };
            let without = token.bytes() + COMPLETION;
            let with = without + room_for_answer(&token);
            assert_eq!(without.div_ceil(UNIT), with.div_ceil(UNIT));
        }
    }

    #[test]
    fn stored_times_have_the_width_that_is_counted() {
        assert_eq!(time::to_text(chrono::DateTime::UNIX_EPOCH).len(), TIME);
    }
}
