//! The size of an item, as DynamoDB counts it.

use crate::core::form::Form;
use crate::core::token::record::{KeyUse, Record, StoredFingerprint};
use crate::store::schema::attribute as a;

/// The size of one write unit, in bytes.
const UNIT: usize = 1024;

/// The bytes that a completion adds to a token besides the answer itself: actualCompletion, outcome,
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

/// The maximum size of an answer that does not add a write unit to its token, in bytes.
///
/// DynamoDB bills a refused put at the size of the item that refused it, so a larger token would make every
/// replay and every conflict more expensive.
pub(crate) fn room_for_answer(token: &TokenSize<'_>) -> usize {
    let without = token.bytes() + COMPLETION;
    without.next_multiple_of(UNIT) - without
}

/// The parts of a token that determine its size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenSize<'a> {
    pub(crate) key: &'a str,
    pub(crate) locked_by: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) fingerprint: Option<&'a StoredFingerprint>,
    pub(crate) form: Option<&'a Form>,
    pub(crate) key_use: KeyUse,
    /// Bytes of the cause of a doubt or a held failure.
    pub(crate) cause: usize,
    pub(crate) taken_over_from: Option<&'a str>,
    /// Bytes of the operator's texts, if an operator ends it.
    pub(crate) operator: usize,
}

impl<'a> TokenSize<'a> {
    /// The size of a stored record that an operator ends, with texts of this many bytes.
    pub(crate) fn of(record: &'a Record, attempt: &'a str, operator: usize) -> Self {
        Self {
            key: record.key.as_str(),
            locked_by: &record.locked_by,
            attempt,
            fingerprint: record.fingerprint.as_ref(),
            form: record.form.as_ref(),
            key_use: record.key_use,
            cause: 0,
            taken_over_from: record.taken_over_from.as_deref(),
            operator,
        }
    }

    fn bytes(&self) -> usize {
        let optional = |name: &str, value: Option<&str>| value.map_or(0, |value| name.len() + value.len());
        let operator = if self.operator == 0 {
            0
        } else {
            a::RESOLUTION.len()
                + "corrected".len()
                + a::RESOLVED_BY.len()
                + a::RESOLVED_AT.len()
                + TIME
                + a::RESOLVED_REASON.len()
                + self.operator
        };
        a::LOCK_TOKEN.len() + self.key.len()
            + a::LOCKED_BY.len() + self.locked_by.len()
            + a::ATTEMPT.len() + self.attempt.len()
            + a::CREATED.len() + TIME
            + a::EXPECTED_COMPLETION.len() + TIME
            + a::VERSION.len() + NUMBER
            + a::RETENTION.len() + NUMBER
            // Present while in progress; a held token keeps it.
            + a::STATUS.len() + "inProgress_1000".len()
            + optional(a::FINGERPRINT, self.fingerprint.map(|print| print.text.as_str()))
            + optional(a::FINGERPRINT_CHECK, self.fingerprint.and_then(|print| print.check.as_deref()))
            + optional(a::FORM, self.form.map(Form::as_str))
            + if self.cause > 0 { a::CLASS.len() + "needsOperator".len() + a::CAUSE.len() + self.cause } else { 0 }
            + if self.key_use.version > 1 { a::KEY_VERSION.len() + NUMBER } else { 0 }
            + if self.key_use.since.is_some() { a::KEY_SINCE.len() + TIME } else { 0 }
            + optional(a::TAKEN_OVER_FROM, self.taken_over_from)
            + operator
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
                form: None,
                key_use: KeyUse::FIRST,
                cause: 0,
                taken_over_from: None,
                operator: 0,
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
