//! The audit record of an operator's act: a separate item, which outlives the token.

use super::item::TokenItem;
use super::record::{Intervention, Record};
use super::resolution::Resolution;
use crate::core::answer::Body;
use crate::core::shard;

/// An audit record as it is written.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) key: String,
    pub(crate) status: String,
    pub(crate) resolution: Resolution,
    pub(crate) operator: Intervention,
    /// The token that the operator read, without its answer.
    pub(crate) found: Box<Record>,
    /// The answer that the operator gave, or else the answer of the token.
    pub(crate) answer: Option<Body>,
    pub(crate) ttl: Option<i64>,
}

impl Audit {
    pub(crate) fn new(
        resolution: Resolution,
        found: &Record,
        operator: Intervention,
        answer: Option<Body>,
        (id, shards, ttl): (&str, u16, Option<i64>),
    ) -> Self {
        let token = found.key.as_str();
        // An audit record lives longer than its token, and must not contain an erased answer.
        let is_kept = resolution != Resolution::Redacted;
        let of_token = || found.body.clone().filter(|body| is_kept && *body != Body::Redacted);
        Self {
            key: TokenItem::Audit { token, id }.to_string(),
            status: shard::status(shard::AUDIT, token, shards),
            resolution,
            operator,
            found: Box::new(Record { body: None, ..found.clone() }),
            answer: answer.or_else(of_token),
            ttl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::answer::Encoded;
    use crate::core::token::record::TokenState;
    use crate::core::token::record::tests::{by, ended_in};

    fn answer(json: &str) -> Body {
        Body::Inline(Encoded::plain(json.to_owned()))
    }

    #[test]
    fn audit_record_has_the_answer_unless_it_is_erased() {
        for (resolution, stored, given, kept) in [
            (Resolution::Released, answer("7"), None, Some(answer("7"))),
            (Resolution::Corrected, answer("7"), Some(answer("8")), Some(answer("8"))),
            (Resolution::Redacted, answer("7"), None, None),
            (Resolution::Released, Body::Redacted, None, None),
        ] {
            let found = Record { body: Some(stored), ..ended_in(TokenState::Completed) };
            let audit = Audit::new(resolution, &found, by("ann"), given, ("e-1", 1, None));
            assert_eq!((audit.answer, audit.found.body), (kept, None), "{resolution:?}");
        }
    }
}
