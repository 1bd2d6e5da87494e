//! How the layer behaves.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode, header};

/// What a response means for its token.
///
/// A handler puts one into the extensions of its response to say so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is the answer: stored, and given to everyone after.
    Store,
    /// Nothing happened: the token is released, and the same key may be tried again.
    Release,
    /// Nobody knows whether it happened: the token stays in progress, and is listed once it is due.
    InDoubt,
}

/// Whether a request needs a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// Without one it is refused.
    Yes,
    /// Without one it goes through, unprotected.
    No,
}

/// How the layer behaves. Plain data, with the defaults of [`Default`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Which methods are protected. POST and PATCH: the others are idempotent by their definition.
    pub methods: Vec<Method>,
    /// Whether a protected request needs a key. Yes.
    pub required: Required,
    /// How long the handler should take. 60 seconds.
    pub expect_within: Duration,
    /// The largest request body, in bytes, read before anything is hashed. 1 MiB.
    pub max_request_bytes: usize,
    /// The largest response body that is read to be stored, in bytes. A larger one is passed on, and its
    /// token stays in progress for a person. 4 MiB.
    pub max_response_bytes: usize,
    /// The response headers that are stored. `Content-Type`, `Content-Encoding`, `Content-Language`,
    /// `Location`, `ETag`.
    pub headers: Vec<HeaderName>,
    /// What a response means for its token, by its status. [`HttpSettings::by_status`].
    pub outcomes: fn(StatusCode) -> Outcome,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            required: Required::Yes,
            expect_within: Duration::from_secs(60),
            max_request_bytes: 1024 * 1024,
            max_response_bytes: 4 * 1024 * 1024,
            headers: vec![
                header::CONTENT_TYPE,
                header::CONTENT_ENCODING,
                header::CONTENT_LANGUAGE,
                header::LOCATION,
                header::ETAG,
            ],
            outcomes: Self::by_status,
        }
    }
}

impl HttpSettings {
    /// 408, 425, 429 and 503 say that nothing happened, and are not stored. All else is the answer,
    /// 4xx and 5xx included, as Stripe has it: once-only is safer than hopeful.
    #[must_use]
    pub const fn by_status(status: StatusCode) -> Outcome {
        match status {
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => Outcome::Release,
            _ => Outcome::Store,
        }
    }

    /// Whether a header of a response is stored. What authorises never is, whatever was chosen.
    pub(super) fn keeps(&self, name: &HeaderName) -> bool {
        const NEVER: [HeaderName; 5] = [
            header::SET_COOKIE,
            header::AUTHORIZATION,
            header::PROXY_AUTHORIZATION,
            header::WWW_AUTHENTICATE,
            header::PROXY_AUTHENTICATE,
        ];
        self.headers.contains(name) && !NEVER.contains(name)
    }
}
