//! Errors as problem details (RFC 9457).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::error::Error;

/// A problem that the layer itself reports to the caller.
///
/// | type | status | `is_transient` | what the caller does |
/// |---|---|---|---|
/// | `urn:locker:problem:key-missing` | 400 | false | send an `Idempotency-Key` |
/// | `urn:locker:problem:key-invalid` | 400 | false | send a key that is allowed |
/// | `urn:locker:problem:body-unreadable` | 400 | true | retry |
/// | `urn:locker:problem:unidentified` | 401 | false | authenticate |
/// | `urn:locker:problem:in-progress` | 409 | true | retry with the same key after `retry_after` seconds |
/// | `urn:locker:problem:overdue` | 409 | see below | ask again with the same key after `retry_after` seconds |
/// | `urn:locker:problem:held` | 409 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:no-response` | 409 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:response-too-large` | 409 | false | do not use a new key: the request was processed |
/// | `urn:locker:problem:body-too-large` | 413 | false | send a smaller body |
/// | `urn:locker:problem:key-reused` | 422 | false | use a new key for a different request |
/// | `urn:locker:problem:in-doubt` | 500 | see below | ask again with the same key; do not use a new key |
/// | `urn:locker:problem:answer-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:record-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:fingerprint-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:internal` | 500 | false | contact an operator; do not use a new key |
/// | `urn:locker:problem:unavailable` | 503 | true | retry with the same key |
/// | `urn:locker:problem:unknown` | 503 | true | retry with the same key |
///
/// `is_transient` says that a retry with the same key helps without an operator. A request that is
/// overdue or in doubt is transient only if the layer is
/// [resumable](super::HttpSettings::resumable). The URIs are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The request has no key, and one is required.
    KeyMissing,
    /// The key is not allowed, for this reason.
    KeyInvalid(String),
    /// The request body could not be read completely.
    BodyUnreadable,
    /// The request has no identified caller to whom the key could belong.
    Unidentified,
    /// The first request with this key is in progress. Retry after this duration.
    InProgress(Duration),
    /// The first request with this key has not ended in the time that was expected, or it is
    /// unknown how it ended.
    Overdue {
        /// How long it has been overdue.
        since: Duration,
        /// Whether a later request takes it over.
        resumable: bool,
        /// Whether listings have it.
        listed: bool,
    },
    /// The first request with this key failed, and waits for an operator.
    Held,
    /// The first request with this key has ended with an answer that is not a response, such as one
    /// that an operator gave in another form.
    NoResponse,
    /// The first request with this key was processed with this status, and its response was too
    /// large to be stored.
    ResponseTooLarge(StatusCode),
    /// The request body is larger than this many bytes.
    BodyTooLarge(usize),
    /// The key was used for a different request.
    KeyReused,
    /// It is unknown whether this request was processed.
    InDoubt {
        /// Whether a later request takes it over.
        resumable: bool,
        /// Whether listings have it.
        listed: bool,
    },
    /// The stored answer is missing or damaged.
    AnswerUnreadable,
    /// What is stored under this key cannot be read.
    RecordUnreadable,
    /// The stored fingerprint cannot be compared with this request.
    FingerprintUnreadable,
    /// The table of tokens cannot be reached now.
    Unavailable,
    /// It is unknown whether the key was recorded.
    Unknown,
    /// The table of tokens cannot be used as it is configured.
    Internal,
}

impl From<&Error> for Problem {
    /// The problem of a request whose token could not be begun, or whose workflow could not be
    /// started.
    fn from(error: &Error) -> Self {
        match error {
            Error::Invalid(error) if error.is_key() => Self::KeyInvalid(error.to_string()),
            Error::Unavailable { .. }
            | Error::Contended { .. }
            | Error::Gone { .. }
            | Error::Expired { .. }
            | Error::Probe { .. } => Self::Unavailable,
            Error::Unknown { .. } => Self::Unknown,
            Error::Answer(_) => Self::AnswerUnreadable,
            Error::Record { .. } => Self::RecordUnreadable,
            Error::Fingerprint { .. } => Self::FingerprintUnreadable,
            _ => Self::Internal,
        }
    }
}

const SAME_KEY_ONLY: &str =
    "Do not send the request under a new Idempotency-Key: it may then be processed a second time.";

impl Problem {
    fn parts(&self) -> (StatusCode, &'static str, &'static str, bool) {
        use StatusCode as S;
        match self {
            Self::KeyMissing => (S::BAD_REQUEST, "key-missing", "Idempotency-Key is missing", false),
            Self::KeyInvalid(_) => (S::BAD_REQUEST, "key-invalid", "Idempotency-Key is not allowed", false),
            Self::BodyUnreadable => {
                (S::BAD_REQUEST, "body-unreadable", "The request body is incomplete", true)
            }
            Self::Unidentified => (S::UNAUTHORIZED, "unidentified", "The caller is not identified", false),
            Self::InProgress(_) => (S::CONFLICT, "in-progress", "The request is in progress", true),
            Self::Overdue { resumable, .. } => {
                (S::CONFLICT, "overdue", "The request has not ended as expected", *resumable)
            }
            Self::Held => (S::CONFLICT, "held", "The request needs an operator", false),
            Self::NoResponse => {
                (S::CONFLICT, "no-response", "The request has ended without a response", false)
            }
            Self::ResponseTooLarge(_) => (
                S::CONFLICT,
                "response-too-large",
                "The request was processed; its response was too large to be stored",
                false,
            ),
            Self::BodyTooLarge(_) => {
                (S::PAYLOAD_TOO_LARGE, "body-too-large", "The request body is too large", false)
            }
            Self::KeyReused => (
                S::UNPROCESSABLE_ENTITY,
                "key-reused",
                "Idempotency-Key was used for a different request",
                false,
            ),
            Self::InDoubt { resumable, .. } => (
                S::INTERNAL_SERVER_ERROR,
                "in-doubt",
                "It is unknown whether the request was processed",
                *resumable,
            ),
            Self::AnswerUnreadable => {
                (S::INTERNAL_SERVER_ERROR, "answer-unreadable", "The stored response cannot be read", false)
            }
            Self::RecordUnreadable => (
                S::INTERNAL_SERVER_ERROR,
                "record-unreadable",
                "The record of this Idempotency-Key cannot be read",
                false,
            ),
            Self::FingerprintUnreadable => (
                S::INTERNAL_SERVER_ERROR,
                "fingerprint-unreadable",
                "The request cannot be compared with the first one",
                false,
            ),
            Self::Unavailable => {
                (S::SERVICE_UNAVAILABLE, "unavailable", "The request cannot be processed now", true)
            }
            Self::Unknown => (
                S::SERVICE_UNAVAILABLE,
                "unknown",
                "It is unknown whether the Idempotency-Key was recorded",
                true,
            ),
            Self::Internal => {
                (S::INTERNAL_SERVER_ERROR, "internal", "Idempotency keys cannot be processed", false)
            }
        }
    }

    fn detail(&self) -> String {
        let same_key_only = |fact: &str| format!("{fact} {SAME_KEY_ONLY}");
        match self {
            Self::KeyMissing => {
                "This operation requires an Idempotency-Key header with a value that is unique to the request, such as a UUID."
                    .to_owned()
            }
            Self::KeyInvalid(reason) => reason.clone(),
            Self::BodyUnreadable => "The request body could not be read completely.".to_owned(),
            Self::Unidentified => {
                "An Idempotency-Key belongs to a caller, and this request does not identify one.".to_owned()
            }
            Self::InProgress(_) => "A request with this Idempotency-Key has not been answered yet.".to_owned(),
            Self::Overdue { resumable: true, .. } => {
                same_key_only("A request with this Idempotency-Key did not end in time; a later one with the same key continues it.")
            }
            Self::Overdue { resumable: false, listed: true, .. } => {
                same_key_only("A request with this Idempotency-Key did not end in time, and it is unknown what it did. It is listed for an operator.")
            }
            Self::Overdue { resumable: false, listed: false, .. } => {
                same_key_only("A request with this Idempotency-Key did not end in time, and it is unknown what it did. An operator has to look into it.")
            }
            Self::Held => same_key_only(
                "A request with this Idempotency-Key failed, and is listed for an operator.",
            ),
            Self::NoResponse => same_key_only(
                "A request with this Idempotency-Key has ended, and what is stored for it is not a response. An operator has to correct it.",
            ),
            Self::ResponseTooLarge(status) => same_key_only(&format!(
                "A request with this Idempotency-Key was answered with the status {}; its response can be given only once.",
                status.as_u16()
            )),
            Self::BodyTooLarge(limit) => format!("The request body may have at most {limit} bytes."),
            Self::KeyReused => "The request differs from the first one with this Idempotency-Key.".to_owned(),
            Self::InDoubt { resumable: true, .. } => {
                same_key_only("The response broke off; a later request with the same key continues it.")
            }
            Self::InDoubt { resumable: false, listed: true } => {
                same_key_only("The response broke off. The request is listed for an operator.")
            }
            Self::InDoubt { resumable: false, listed: false } => {
                same_key_only("The response broke off. An operator has to look into it.")
            }
            Self::AnswerUnreadable => same_key_only(
                "A request with this Idempotency-Key has ended, and its stored response is missing or damaged. An operator has to look into it.",
            ),
            Self::RecordUnreadable => same_key_only(
                "A request with this Idempotency-Key may have been processed. An operator has to look into it.",
            ),
            Self::FingerprintUnreadable => same_key_only(
                "A request with this Idempotency-Key was received before, and it is unknown whether it was the same. An operator has to look into it.",
            ),
            Self::Unavailable => {
                "The state of this Idempotency-Key could not be determined; retry with the same Idempotency-Key."
                    .to_owned()
            }
            Self::Unknown => {
                "The state of this Idempotency-Key is not known for certain; retry with the same Idempotency-Key.".to_owned()
            }
            Self::Internal => same_key_only(
                "The state of this Idempotency-Key could not be determined. An operator has to look into it.",
            ),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            // Rounded up: a request that comes a second too early is wasted.
            Self::InProgress(after) => Some(after.as_secs() + u64::from(after.subsec_nanos() > 0)),
            // The longer it has been, the less the next minute changes.
            Self::Overdue { since, .. } => Some(since.as_secs().clamp(60, 3600)),
            Self::Unavailable | Self::Unknown => Some(1),
            _ => None,
        }
    }

    /// Build the response that reports the problem.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let (status, name, title, is_transient) = self.parts();
        let mut body = json!({
            "type": format!("urn:locker:problem:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail(),
            "is_transient": is_transient,
        });
        if let Some(seconds) = self.retry_after() {
            body["retry_after"] = seconds.into();
        }
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Problem> {
        vec![
            Problem::KeyMissing,
            Problem::KeyInvalid("odd".to_owned()),
            Problem::BodyUnreadable,
            Problem::Unidentified,
            Problem::InProgress(Duration::from_millis(1500)),
            Problem::Overdue { since: Duration::ZERO, resumable: false, listed: true },
            Problem::Overdue { since: Duration::ZERO, resumable: false, listed: false },
            Problem::Overdue { since: Duration::ZERO, resumable: true, listed: true },
            Problem::Held,
            Problem::NoResponse,
            Problem::ResponseTooLarge(StatusCode::CREATED),
            Problem::BodyTooLarge(8),
            Problem::KeyReused,
            Problem::InDoubt { resumable: false, listed: true },
            Problem::InDoubt { resumable: false, listed: false },
            Problem::InDoubt { resumable: true, listed: false },
            Problem::AnswerUnreadable,
            Problem::RecordUnreadable,
            Problem::FingerprintUnreadable,
            Problem::Unavailable,
            Problem::Unknown,
            Problem::Internal,
        ]
    }

    /// Whether a retry helps depends on the layer.
    fn depends(name: &str) -> bool {
        ["overdue", "in-doubt"].contains(&name)
    }

    fn json(problem: &Problem) -> serde_json::Value {
        serde_json::from_slice(problem.response().body()).unwrap()
    }

    #[test]
    fn no_problem_claims_that_nothing_happened() {
        for problem in all() {
            let text = json(&problem).to_string().to_lowercase();
            for claim in ["nothing", "did not run", "not been processed", "was not processed"] {
                assert!(!text.contains(claim), "{text}");
            }
        }
    }

    #[test]
    fn what_may_have_been_processed_is_not_to_be_sent_under_a_new_key() {
        for problem in all() {
            let (status, name, _, transient) = problem.parts();
            let before = matches!(status.as_u16(), 400 | 401 | 413 | 422) || transient;
            let body = json(&problem);
            let says = body["detail"].as_str().unwrap().contains("Do not send the request under a new");
            assert!(says != before || depends(name), "{body}");
        }
    }

    #[test]
    fn the_table_of_the_documentation_has_every_problem() {
        let source = include_str!("problem.rs");
        for problem in all() {
            let (status, name, _, transient) = problem.parts();
            let transient = if depends(name) { "see below".to_owned() } else { transient.to_string() };
            let row = format!("/// | `urn:locker:problem:{name}` | {} | {transient} |", status.as_u16());
            assert!(source.contains(&row), "{row}");
        }
    }

    #[test]
    fn an_overdue_request_is_asked_for_less_and_less_often() {
        let after = |seconds| {
            let since = Duration::from_secs(seconds);
            json(&Problem::Overdue { since, resumable: false, listed: true })["retry_after"].as_u64().unwrap()
        };
        assert_eq!([0, 59, 600, 86_400].map(after), [60, 60, 600, 3600]);
        assert_eq!(json(&Problem::InProgress(Duration::from_millis(1500)))["retry_after"], 2);
    }
}
