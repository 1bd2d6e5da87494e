//! The size of an item, as DynamoDB counts it.

#[cfg(feature = "workflow")]
use aws_sdk_dynamodb::types::AttributeValue;

use crate::core::form::Form;
use crate::core::token::record::{KeyUse, Record, StoredFingerprint};
use crate::core::token::work::Work;
use crate::store::schema::attribute as a;

/// The size of one write unit, in bytes.
pub(super) const UNIT: usize = 1024;

/// The bytes that a completion adds to a token in addition to the answer itself: actualCompletion,
/// outcome, resultCodec, ttl, and the name of `result`.
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
/// DynamoDB bills a refused put at the size of the item that refused it, so a larger token would
/// make every replay and every conflict more expensive.
pub(crate) fn room_for_answer(token: &TokenSize<'_>) -> usize {
    let without = token.bytes() + COMPLETION;
    without.next_multiple_of(UNIT) - without
}

/// The bytes of an attribute, by the rules of DynamoDB. A number has at most one byte more than
/// half of its digits.
#[cfg(feature = "workflow")]
pub(super) fn attribute_bytes(name: &str, value: &AttributeValue) -> usize {
    let value = match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        // A header has no others.
        _ => 1,
    };
    name.len() + value
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
    pub(crate) within: Option<&'a Work>,
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
            within: record.within.as_ref(),
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
            + self.within.map_or(0, |within| a::WITHIN.len() + within.to_text().len())
            + operator
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::core::key::Key;
    use crate::core::retention::Retention;
    use crate::core::time;
    use crate::core::token::write::NewToken;
    use crate::store::item::{Item, from_token};

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
                within: None,
                operator: 0,
            };
            let without = token.bytes() + COMPLETION;
            let with = without + room_for_answer(&token);
            assert_eq!(without.div_ceil(UNIT), with.div_ceil(UNIT));
        }
    }

    fn token() -> NewToken {
        let now = chrono::DateTime::UNIX_EPOCH;
        NewToken {
            key: Key::stored("order/7".to_owned()),
            locked_by: "order_update/8f5c".to_owned(),
            attempt: "123e4567-e89b-12d3-a456-426614174000".to_owned(),
            created: now,
            expected_completion: now,
            status: "inProgress".to_owned(),
            fingerprint: None,
            form: None,
            cause: None,
            held: None,
            requested: None,
            opened: None,
            key_use: KeyUse::FIRST,
            taken_over_from: None,
            within: None,
            retention: Retention::Forever,
            ttl: None,
            expired_at: now,
        }
    }

    fn counted(token: &NewToken) -> usize {
        let size = TokenSize {
            key: token.key.as_str(),
            locked_by: &token.locked_by,
            attempt: &token.attempt,
            fingerprint: token.fingerprint.as_ref(),
            form: token.form.as_ref(),
            key_use: token.key_use,
            cause: token.cause.as_ref().map_or(0, String::len),
            taken_over_from: token.taken_over_from.as_deref(),
            within: token.within.as_ref(),
            operator: 0,
        };
        size.bytes()
    }

    /// By the rules of DynamoDB.
    fn stored(item: &Item) -> usize {
        let size = |value: &AttributeValue| match (value.as_s(), value.as_n()) {
            (Ok(text), _) => text.len(),
            (_, Ok(digits)) => digits.len().div_ceil(2) + 1,
            _ => panic!("no attribute of a token that is begun is {value:?}"),
        };
        item.iter().map(|(name, value)| name.len() + size(value)).sum()
    }

    #[test]
    fn each_attribute_that_a_token_may_have_is_counted() {
        let print = |check: Option<&str>| StoredFingerprint {
            text: format!("hmac-sha256:k1:{}", "a".repeat(64)),
            check: check.map(str::to_owned),
        };
        let with = |change: &dyn Fn(&mut NewToken)| {
            let mut token = token();
            change(&mut token);
            token
        };
        let since = Some(chrono::DateTime::UNIX_EPOCH);
        let print = &print;
        for (less, more) in [
            (with(&|_| {}), with(&|token| token.form = Some(Form::ONCE))),
            (with(&|_| {}), with(&|token| token.fingerprint = Some(print(None)))),
            (
                with(&|token| token.fingerprint = Some(print(None))),
                with(&|token| token.fingerprint = Some(print(Some("0a1b2c3d")))),
            ),
            (with(&|_| {}), with(&|token| token.cause = Some("no reply within 5 s".to_owned()))),
            (with(&|_| {}), with(&|token| token.key_use = KeyUse { version: 2, since: None })),
            (with(&|_| {}), with(&|token| token.key_use = KeyUse { version: 1, since })),
            (with(&|_| {}), with(&|token| token.taken_over_from = Some(token.attempt.clone()))),
            (with(&|_| {}), with(&|token| token.within = Some(Work::Workflow("order/7 v2".to_owned())))),
        ] {
            let stored = stored(&from_token(&more)) - stored(&from_token(&less));
            let counted = counted(&more) - counted(&less);
            assert!(stored > 0 && counted >= stored, "{counted} of {stored}: {more:?}");
        }
    }

    #[test]
    fn operators_texts_count_towards_the_size() {
        let token = token();
        let size = |operator| TokenSize {
            key: token.key.as_str(),
            locked_by: &token.locked_by,
            attempt: &token.attempt,
            fingerprint: None,
            form: None,
            key_use: KeyUse::FIRST,
            cause: 0,
            taken_over_from: None,
            within: None,
            operator,
        };
        let texts = ["ada", "the provider's books say so"];
        let names = [a::RESOLUTION, a::RESOLVED_BY, a::RESOLVED_AT, a::RESOLVED_REASON];
        let added = names.into_iter().chain(texts).map(str::len).sum::<usize>() + "corrected".len() + TIME;
        let operator = texts.into_iter().map(str::len).sum();
        assert_eq!(size(operator).bytes() - size(0).bytes(), added);
    }

    #[test]
    fn stored_times_have_the_width_that_is_counted() {
        assert_eq!(time::to_text(chrono::DateTime::UNIX_EPOCH).len(), TIME);
    }
}
