//! Errors as problem details (RFC 9457).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

/// What the layer itself answers.
///
/// | type | status | `is_transient` | what the caller does |
/// |---|---|---|---|
/// | `urn:locker:problem:key-missing` | 400 | false | send an `Idempotency-Key` |
/// | `urn:locker:problem:key-invalid` | 400 | false | send another one |
/// | `urn:locker:problem:body-unreadable` | 400 | true | send it again |
/// | `urn:locker:problem:unidentified` | 401 | false | say who you are |
/// | `urn:locker:problem:in-progress` | 409 | true | send it again after `retry_after` seconds |
/// | `urn:locker:problem:held` | 409 | false | wait for a person |
/// | `urn:locker:problem:body-too-large` | 413 | false | send less |
/// | `urn:locker:problem:key-reused` | 422 | false | use a new key for another request |
/// | `urn:locker:problem:unavailable` | 503 | true | send it again; the handler did not run |
/// | `urn:locker:problem:internal` | 500 | false | tell the operators; the handler did not run |
///
/// The URIs are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A key is required.
    KeyMissing,
    /// The key is not allowed, for this reason.
    KeyInvalid(String),
    /// The body broke off.
    BodyUnreadable,
    /// Nobody to whom the key could belong.
    Unidentified,
    /// The first request with this key is being worked on.
    InProgress(Duration),
    /// The first request failed in a way that a person has to look at.
    Held,
    /// The body is larger than this many bytes.
    BodyTooLarge(usize),
    /// The key was used for another request.
    KeyReused,
    /// The tokens are out of reach.
    Unavailable,
    /// The tokens cannot be used as things are.
    Internal,
}

impl Problem {
    fn parts(&self) -> (StatusCode, &'static str, &'static str, bool) {
        match self {
            Self::KeyMissing => (StatusCode::BAD_REQUEST, "key-missing", "Idempotency-Key is missing", false),
            Self::KeyInvalid(_) => {
                (StatusCode::BAD_REQUEST, "key-invalid", "Idempotency-Key is not allowed", false)
            }
            Self::BodyUnreadable => (StatusCode::BAD_REQUEST, "body-unreadable", "The body broke off", true),
            Self::Unidentified => {
                (StatusCode::UNAUTHORIZED, "unidentified", "The caller is not identified", false)
            }
            Self::InProgress(_) => {
                (StatusCode::CONFLICT, "in-progress", "The request is being worked on", true)
            }
            Self::Held => {
                (StatusCode::CONFLICT, "held", "The request failed, and a person has to look", false)
            }
            Self::BodyTooLarge(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large", false)
            }
            Self::KeyReused => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "key-reused",
                "Idempotency-Key was used for another request",
                false,
            ),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Nothing was done; try again", true)
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Nothing was done", false),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::KeyMissing => {
                "This operation needs an Idempotency-Key header with a value that is unique to the request, such as a UUID."
                    .to_owned()
            }
            Self::KeyInvalid(reason) => reason.clone(),
            Self::BodyUnreadable => "The request's body could not be read to its end.".to_owned(),
            Self::Unidentified => "An Idempotency-Key belongs to a caller, and this request names none.".to_owned(),
            Self::InProgress(_) => "A request with this Idempotency-Key has not been answered yet.".to_owned(),
            Self::Held => "A request with this Idempotency-Key failed, and its outcome is being looked into.".to_owned(),
            Self::BodyTooLarge(limit) => format!("At most {limit} bytes are taken."),
            Self::KeyReused => "The request differs from the first one with this Idempotency-Key.".to_owned(),
            Self::Unavailable => "The store of answers could not be reached.".to_owned(),
            Self::Internal => "The store of answers cannot be used.".to_owned(),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            // Rounded up: a second too early is a request for nothing.
            Self::InProgress(after) => Some(after.as_secs() + u64::from(after.subsec_nanos() > 0)),
            Self::Unavailable => Some(1),
            _ => None,
        }
    }

    /// The response.
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
