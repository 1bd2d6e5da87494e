//! Errors as problem details (RFC 9457).

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header, response};
use serde_json::json;

use crate::core::answer::AnswerError;
use crate::error::Error;

/// A problem that the layer itself reports to the caller, or that a handler reports for a token
/// which it began itself.
///
/// | type | status | `is_transient` | what the caller does |
/// |---|---|---|---|
/// | `urn:locker:problem:key-missing` | 400 | false | send an idempotency key |
/// | `urn:locker:problem:key-invalid` | 400 | false | send a key that is allowed |
/// | `urn:locker:problem:identity-too-long` | 400 | false | contact an operator |
/// | `urn:locker:problem:body-unreadable` | 400 | true | retry |
/// | `urn:locker:problem:unidentified` | 401 | false | authenticate |
/// | `urn:locker:problem:in-progress` | 409 | true | retry with the same key after `retry_after` seconds |
/// | `urn:locker:problem:overdue` | 409 | see below | ask again with the same key after `retry_after` seconds |
/// | `urn:locker:problem:held` | 409 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:restored` | 409 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:no-response` | 409 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:not-kept` | 409 | false | do not use a new key: the request was processed |
/// | `urn:locker:problem:response-too-large` | 409 | false | do not use a new key: the request was processed |
/// | `urn:locker:problem:failed` | 409 | false | send another request |
/// | `urn:locker:problem:body-too-large` | 413 | false | send a smaller body |
/// | `urn:locker:problem:path-too-long` | 414 | false | use a shorter path |
/// | `urn:locker:problem:key-reused` | 422 | false | send the first request unchanged; use a new key only for a different request |
/// | `urn:locker:problem:in-doubt` | 500 | see below | ask again with the same key; do not use a new key |
/// | `urn:locker:problem:answer-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:record-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:fingerprint-unreadable` | 500 | false | wait for an operator; do not use a new key |
/// | `urn:locker:problem:internal` | 500 | false | contact an operator; do not use a new key |
/// | `urn:locker:problem:not-now` | 503 | see below | retry with the same key |
/// | `urn:locker:problem:unavailable` | 503 | true | retry with the same key |
/// | `urn:locker:problem:unknown` | 503 | true | retry with the same key |
/// | `urn:locker:problem:not-run` | 503 | false | retry with the same key; if it is taken, contact an operator |
///
/// `is_transient` is true if a retry with the same key helps without an operator. A request that is
/// overdue or in doubt is transient only if a later request with the key takes it over
/// ([`HttpSettings::resumable`](super::HttpSettings::resumable)). A request that failed for now is
/// transient only if its token was released or given back. The URIs are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The request has no key in this place, such as `the header Idempotency-Key`, and one is
    /// required.
    KeyMissing(String),
    /// The key is not allowed, for this reason.
    KeyInvalid(String),
    /// The identity of the caller has this many bytes, and is too long for the key of a token.
    IdentityTooLong(usize),
    /// The name of the operation, such as the path, has this many bytes, and is too long for the
    /// key of a token.
    PathTooLong(usize),
    /// The request body could not be read completely, or not in time.
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
    /// The table of tokens was restored, and may have forgotten that the request was processed. It
    /// waits for an operator.
    Restored,
    /// The first request with this key has ended with an answer that is not a response, such as one
    /// that an operator gave in another form.
    NoResponse,
    /// The first request with this key was processed with this status, and its response is not
    /// kept: it was a stream, or has trailers that are never stored.
    NotKept(StatusCode),
    /// The first request with this key was processed, and an operator erased its response.
    Redacted,
    /// The first request with this key was processed with this status, and its response was too
    /// large to be stored.
    ResponseTooLarge(StatusCode),
    /// The work of this request failed permanently.
    Failed,
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
    /// The record that is stored under this key cannot be read.
    RecordUnreadable,
    /// The stored fingerprint cannot be compared with this request.
    FingerprintUnreadable,
    /// The work of this request failed, and may succeed later.
    NotNow {
        /// Whether a retry does the work: its token was released, or after a takeover given back.
        released: bool,
    },
    /// The table of tokens cannot be reached now.
    Unavailable,
    /// It is unknown whether the key was recorded.
    Unknown,
    /// The handler did not run for this request, and it is unknown whether its key was recorded.
    NotRun,
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
            Error::Unknown { .. } | Error::Deleted { .. } => Self::Unknown,
            Error::Answer(AnswerError::Redacted) => Self::Redacted,
            Error::Answer(_) => Self::AnswerUnreadable,
            Error::Record { .. } => Self::RecordUnreadable,
            Error::Fingerprint { .. } => Self::FingerprintUnreadable,
            _ => Self::Internal,
        }
    }
}

/// In the extensions of a response with this status: the token that its problem is about may still
/// get its answer. By its status, such as 409, the response would be stored as the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotTheEnd(StatusCode);

impl NotTheEnd {
    pub(super) fn mark<B>(response: &mut Response<B>) {
        let mark = Self(response.status());
        response.extensions_mut().insert(mark);
    }

    /// Whether the response has the mark. A handler that changed the status has decided itself.
    pub(super) fn is_in(parts: &response::Parts) -> bool {
        parts.extensions.get().is_some_and(|Self(status)| *status == parts.status)
    }
}

const SAME_KEY_ONLY: &str =
    "Do not send the request under a new idempotency key: it may then be processed a second time.";

impl Problem {
    fn parts(&self) -> (StatusCode, &'static str, &'static str, bool) {
        use StatusCode as S;
        match self {
            Self::KeyMissing(_) => (S::BAD_REQUEST, "key-missing", "The idempotency key is missing", false),
            Self::KeyInvalid(_) => {
                (S::BAD_REQUEST, "key-invalid", "The idempotency key is not allowed", false)
            }
            Self::IdentityTooLong(_) => {
                (S::BAD_REQUEST, "identity-too-long", "The identity of the caller is too long", false)
            }
            Self::PathTooLong(_) => (S::URI_TOO_LONG, "path-too-long", "The path is too long", false),
            Self::BodyUnreadable => {
                (S::BAD_REQUEST, "body-unreadable", "The request body is incomplete", true)
            }
            Self::Unidentified => (S::UNAUTHORIZED, "unidentified", "The caller is not identified", false),
            Self::InProgress(_) => (S::CONFLICT, "in-progress", "The request is in progress", true),
            Self::Overdue { resumable, .. } => {
                (S::CONFLICT, "overdue", "The request has not ended as expected", *resumable)
            }
            Self::Held => (S::CONFLICT, "held", "The request needs an operator", false),
            Self::Restored => (
                S::CONFLICT,
                "restored",
                "It is unknown whether the request was processed before data was restored",
                false,
            ),
            Self::NoResponse => {
                (S::CONFLICT, "no-response", "The request has ended without a response", false)
            }
            Self::NotKept(_) | Self::Redacted => {
                (S::CONFLICT, "not-kept", "The request was processed; its response is not kept", false)
            }
            Self::Failed => (S::CONFLICT, "failed", "The request failed", false),
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
                "The idempotency key was used for a different request",
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
                "The record of this idempotency key cannot be read",
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
                "It is unknown whether the idempotency key was recorded",
                true,
            ),
            Self::NotNow { released } => {
                (S::SERVICE_UNAVAILABLE, "not-now", "The request failed for now", *released)
            }
            Self::NotRun => (
                S::SERVICE_UNAVAILABLE,
                "not-run",
                "The request did not run, and its idempotency key may be taken",
                false,
            ),
            Self::Internal => {
                (S::INTERNAL_SERVER_ERROR, "internal", "Idempotency keys cannot be processed", false)
            }
        }
    }

    /// What is wrong, without data of the request.
    pub(super) fn title(&self) -> &'static str {
        self.parts().2
    }

    fn detail(&self) -> String {
        let same_key_only = |fact: &str| format!("{fact} {SAME_KEY_ONLY}");
        match self {
            Self::KeyMissing(place) => format!(
                "This operation requires {place}, with a value that is unique to the request, such as a UUID."
            ),
            Self::KeyInvalid(reason) => reason.clone(),
            Self::IdentityTooLong(bytes) => format!(
                "The identity of the caller has {bytes} bytes, which is too long for an idempotency key. The operator of this service has to identify callers by a shorter text."
            ),
            Self::PathTooLong(bytes) => format!(
                "The path or the name of this operation has {bytes} bytes, which is too long for an idempotency key."
            ),
            Self::BodyUnreadable => "The request body could not be read completely, or not in time.".to_owned(),
            Self::Unidentified => {
                "An idempotency key belongs to a caller, and this request does not identify one.".to_owned()
            }
            Self::InProgress(_) => {
                "A request with this idempotency key has not been answered yet.".to_owned()
            }
            Self::Overdue { resumable: true, .. } => {
                same_key_only("A request with this idempotency key did not end in time; a later one with the same key continues it.")
            }
            Self::Overdue { resumable: false, listed: true, .. } => {
                same_key_only("A request with this idempotency key did not end in time, and it is unknown what it did. It is listed for an operator.")
            }
            Self::Overdue { resumable: false, listed: false, .. } => {
                same_key_only("A request with this idempotency key did not end in time, and it is unknown what it did. An operator has to look into it.")
            }
            Self::Held => same_key_only(
                "A request with this idempotency key failed, and is listed for an operator.",
            ),
            Self::Restored => same_key_only(
                "The records of this service were restored from a backup, and a request of this age may have been processed already. It is listed for an operator.",
            ),
            Self::NoResponse => same_key_only(
                "A request with this idempotency key has ended, and what is stored for it is not a response. An operator has to correct it.",
            ),
            Self::NotKept(status) => same_key_only(&format!(
                "The request with this idempotency key was processed and answered with the status {}; its response is not kept.",
                status.as_u16()
            )),
            Self::Redacted => same_key_only(
                "The request with this idempotency key was processed; its response was erased and is not kept.",
            ),
            Self::ResponseTooLarge(status) => same_key_only(&format!(
                "A request with this idempotency key was answered with the status {}; its response can be given only once.",
                status.as_u16()
            )),
            Self::Failed => "The request was processed and failed.".to_owned(),
            Self::BodyTooLarge(limit) => format!("The request body may have at most {limit} bytes."),
            Self::KeyReused => {
                "The request differs from the first one with this idempotency key, and the first one may have been processed. If this is a retry, send the first request unchanged: under a new key it may be processed a second time. A different request needs a key of its own."
                    .to_owned()
            }
            Self::InDoubt { resumable: true, .. } => {
                same_key_only("The request ended without a response; a later one with the same key continues it.")
            }
            Self::InDoubt { resumable: false, listed: true } => {
                same_key_only("The request ended without a response. It is listed for an operator.")
            }
            Self::InDoubt { resumable: false, listed: false } => {
                same_key_only("The request ended without a response. An operator has to look into it.")
            }
            Self::AnswerUnreadable => same_key_only(
                "A request with this idempotency key has ended, and its stored response is missing or damaged. An operator has to look into it.",
            ),
            Self::RecordUnreadable => same_key_only(
                "A request with this idempotency key may have been processed. An operator has to look into it.",
            ),
            Self::FingerprintUnreadable => same_key_only(
                "A request with this idempotency key was received before, and it is unknown whether it was the same. An operator has to look into it.",
            ),
            Self::NotNow { released: true } => {
                "The request failed, and may succeed later; retry with the same idempotency key.".to_owned()
            }
            Self::NotNow { released: false } => same_key_only(
                "The request failed, and it is unknown whether its idempotency key was released. If a retry finds the request in progress, an operator has to look into it.",
            ),
            Self::Unavailable => {
                "The state of this idempotency key could not be determined; retry with the same idempotency key."
                    .to_owned()
            }
            Self::Unknown => {
                "The state of this idempotency key is not known for certain; retry with the same idempotency key.".to_owned()
            }
            Self::NotRun => same_key_only(
                "The handler did not run for this request, and it is unknown whether the idempotency key was recorded. If a retry with the same key finds a request in progress, an operator has to release it.",
            ),
            Self::Internal => same_key_only(
                "The state of this idempotency key could not be determined. An operator has to look into it.",
            ),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            // Rounded up: a request that comes a second too early is wasted.
            Self::InProgress(after) => Some(after.as_secs() + u64::from(after.subsec_nanos() > 0)),
            // The longer it has been, the less the next minute changes.
            Self::Overdue { since, .. } => Some(since.as_secs().clamp(60, 3600)),
            Self::Unavailable | Self::Unknown | Self::NotNow { released: true } => Some(1),
            _ => None,
        }
    }

    const fn may_be_followed_by_an_answer(&self) -> bool {
        matches!(
            self,
            Self::InProgress(_)
                | Self::Overdue { .. }
                | Self::Held
                | Self::Restored
                | Self::NoResponse
                | Self::InDoubt { .. }
                | Self::AnswerUnreadable
                | Self::RecordUnreadable
                | Self::FingerprintUnreadable
        )
    }

    /// Builds the response that reports the problem: status, `Retry-After` and problem document.
    ///
    /// If a handler behind the layer returns it unchanged and the token may still get its answer,
    /// as after `in-progress` or `held`, the layer does not store it by default: see
    /// [`Disposition`](super::Disposition).
    ///
    /// The body is of the type that your service answers with, such as `axum::body::Body`,
    /// `lambda_http::Body` or `Bytes`.
    #[must_use]
    pub fn response<B: From<String>>(&self) -> Response<B> {
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
        let mut response = Response::new(B::from(body.to_string()));
        *response.status_mut() = status;
        if self.may_be_followed_by_an_answer() {
            NotTheEnd::mark(&mut response);
        }
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
            Problem::KeyMissing("the header Idempotency-Key".to_owned()),
            Problem::KeyInvalid("odd".to_owned()),
            Problem::IdentityTooLong(2000),
            Problem::PathTooLong(2000),
            Problem::BodyUnreadable,
            Problem::Unidentified,
            Problem::InProgress(Duration::from_millis(1500)),
            Problem::Overdue { since: Duration::ZERO, resumable: false, listed: true },
            Problem::Overdue { since: Duration::ZERO, resumable: false, listed: false },
            Problem::Overdue { since: Duration::ZERO, resumable: true, listed: true },
            Problem::Held,
            Problem::Restored,
            Problem::NoResponse,
            Problem::NotKept(StatusCode::OK),
            Problem::Redacted,
            Problem::ResponseTooLarge(StatusCode::CREATED),
            Problem::Failed,
            Problem::BodyTooLarge(8),
            Problem::KeyReused,
            Problem::InDoubt { resumable: false, listed: true },
            Problem::InDoubt { resumable: false, listed: false },
            Problem::InDoubt { resumable: true, listed: false },
            Problem::AnswerUnreadable,
            Problem::RecordUnreadable,
            Problem::FingerprintUnreadable,
            Problem::NotNow { released: true },
            Problem::NotNow { released: false },
            Problem::Unavailable,
            Problem::Unknown,
            Problem::NotRun,
            Problem::Internal,
        ]
    }

    /// Whether a retry helps depends on the layer.
    fn depends(name: &str) -> bool {
        ["overdue", "in-doubt", "not-now"].contains(&name)
    }

    fn json(problem: &Problem) -> serde_json::Value {
        serde_json::from_str(problem.response::<String>().body()).unwrap()
    }

    #[test]
    fn only_a_request_that_did_not_run_says_so() {
        // An earlier request with the key may have run.
        assert!(json(&Problem::NotRun)["detail"].as_str().unwrap().contains("did not run for this request"));
        for problem in all().into_iter().filter(|problem| *problem != Problem::NotRun) {
            let text = json(&problem).to_string().to_lowercase();
            for claim in ["nothing", "did not run", "not been processed", "was not processed"] {
                assert!(!text.contains(claim), "{text}");
            }
        }
    }

    #[test]
    fn problem_of_a_possible_effect_forbids_a_new_key() {
        for problem in all() {
            let (status, name, _, transient) = problem.parts();
            // A failure that is the answer may be followed by another request.
            let before =
                matches!(status.as_u16(), 400 | 401 | 413 | 414 | 422) || transient || name == "failed";
            let body = json(&problem);
            let says = body["detail"].as_str().unwrap().contains("Do not send the request under a new");
            assert!(says != before || depends(name), "{body}");
        }
    }

    #[test]
    fn reused_key_says_that_the_first_request_may_have_been_processed() {
        let body = json(&Problem::KeyReused);
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains("the first one may have been processed"), "{detail}");
        assert!(detail.contains("under a new key it may be processed a second time"), "{detail}");
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
    fn a_problem_is_the_end_unless_the_token_may_still_get_an_answer() {
        let open = ["in-progress", "overdue", "held", "restored", "no-response", "in-doubt"];
        for problem in all() {
            let (_, name, ..) = problem.parts();
            let (parts, _) = problem.response::<String>().into_parts();
            let expected = open.contains(&name) || name.ends_with("-unreadable") && name != "body-unreadable";
            assert_eq!(NotTheEnd::is_in(&parts), expected, "{name}");
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
