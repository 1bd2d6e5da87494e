//! Settings of the layer.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// Whether a request needs a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Required {
    /// A request without a key is refused.
    Yes,
    /// A request without a key is passed to the handler, unprotected.
    No,
}

/// Settings of the layer: plain data, with defaults from [`Default`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The protected methods. Default: POST and PATCH; the others are idempotent by definition.
    pub methods: Vec<Method>,
    /// Whether a protected request needs a key. Default: yes.
    pub required: Required,
    /// How long the handler is expected to take, from 1 second to 366 days. Default: 60 seconds.
    ///
    /// Set the longest time of the handler: a request that takes longer is reported as overdue. A
    /// [`Deadline`](super::Deadline) does not change this time.
    pub expect_within: Duration,
    /// The largest request body, in bytes, that is read before it is hashed. Default: 1 MiB.
    ///
    /// If the request has a [`Deadline`](super::Deadline), the deadline bounds the time.
    pub max_request_bytes: usize,
    /// The largest response body, in bytes, that is read into memory to be stored. Default: 4 MiB.
    ///
    /// DynamoDB limits the *stored* response to 400 KB after compression. A response beyond either
    /// limit is passed on to its caller. Once the response is whole, its token is held, and later
    /// requests get [`Problem::ResponseTooLarge`](super::Problem::ResponseTooLarge). A
    /// [resumable](Self::resumable) handler runs again instead.
    ///
    /// A response beyond the limit of this setting is passed on like a [stream](Self::streams).
    pub max_response_bytes: usize,
    /// The content types of responses that are streams: passed on while the handler sends them, and
    /// not stored. See [`Disposition::Stream`](super::Disposition::Stream). Default:
    /// `text/event-stream` and `application/grpc*`.
    ///
    /// A `*` at the end matches any text. A response of another type is stored before its caller
    /// gets the first byte. If its body has not ended [`expect_within`](Self::expect_within) after
    /// the handler answered, it becomes a stream. If the request has a
    /// [`Deadline`](super::Deadline), the caller gets [`Problem::InDoubt`](super::Problem::InDoubt)
    /// before the deadline instead.
    pub streams: Vec<String>,
    /// The response headers that are stored. Default: `Cache-Control`, `Content-Disposition`,
    /// `Content-Encoding`, `Content-Language`, `Content-Location`, `Content-Type`, `ETag`,
    /// `Last-Modified`, `Link`, `Location`, `Retry-After` and `Vary`.
    ///
    /// Add your own. A header that authorises or sets a cookie, or that belongs to one connection,
    /// is never stored, even if it is listed. All other trailers are stored. A response with a
    /// trailer that is never stored is not stored either, and later requests get
    /// [`Problem::NotKept`](super::Problem::NotKept).
    pub headers: Vec<HeaderName>,
    /// Compare JSON bodies by their content: the order of fields and white space make no
    /// difference. Default: no, bodies are compared byte by byte.
    ///
    /// A body that is not JSON is compared by its bytes. So is a body in which an object has a name
    /// twice. Numbers are compared as they are written. A closure replaces this comparison: see
    /// [`IdempotencyLayer::fingerprint`](super::IdempotencyLayer::fingerprint). If you change this
    /// setting, a request from before the change and its retry after the change are a mismatch.
    pub canonical_json: bool,
    /// Assert that inside the layer only guards and limits answer 401, 403, 425, 429 and 503,
    /// before the handler acts. Default: no.
    ///
    /// Their tokens are then released. Set this only if no handler returns or passes on such a
    /// status after an effect, and no time limit inside the layer answers with it. Otherwise the
    /// effect happens twice.
    pub guards_inside: bool,
    /// Hold 500 and 501 for an operator. Default: yes. If not, they are stored like any other
    /// answer.
    pub hold_internal_errors: bool,
    /// Assert that a repeat of the handler is safe. Default: `None`, it is not.
    pub resumable: Option<Resumable>,
}

/// A handler that is safe to repeat: the next request with the key takes an overdue token over, and
/// runs the handler again.
///
/// A separate token or workflow protects every effect in the handler, or the provider recognises
/// the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumable {
    pub(super) grace: Duration,
    pub(super) has_one_effect: bool,
    pub(super) recognised: Option<Duration>,
}

impl Resumable {
    /// **One** token or workflow protects all that the handler does. The token of a request is
    /// taken over this long after its expected completion.
    ///
    /// The inner token or workflow has the record for the operator, so the token of the request is
    /// not listed. By default, the next request with the key takes the token over at once after a
    /// handler that was cut short, or a response that is in doubt, held or too large. The same
    /// holds for a response other than 2xx and 3xx to a request that took over an earlier one. The
    /// token keeps its fingerprint. If the customer never returns, only the inner record stays
    /// listed.
    ///
    /// The layer follows a [`Disposition`](super::Disposition) that the handler or the closure
    /// sets: `Hold` and `InDoubt` list the token.
    #[must_use]
    pub const fn one_effect(grace: Duration) -> Self {
        Self { grace, has_one_effect: true, recognised: None }
    }

    /// **Several** tokens or workflows protect the effects of the handler. The token of a request
    /// is taken over this long after its expected completion.
    ///
    /// A handler that is cut short between two effects has no record but the token of the request.
    /// So that is listed once it is overdue. By default, a handler that is cut short, and a
    /// response that is in doubt, held or too large, leave it in doubt; the next request with the
    /// key takes the token over after the grace. A request that took an earlier one over and is
    /// released, or is by default answered with another status than 2xx and 3xx, gives the token
    /// back: it stays listed, and the next request takes it over at once. If the rest has to be
    /// done although the customer never returns, make it a workflow.
    #[must_use]
    pub const fn several_effects(grace: Duration) -> Self {
        Self { grace, has_one_effect: false, recognised: None }
    }

    /// **Asserts that every effect of the handler is sent with
    /// [`attempt.idempotency_key()`](crate::Attempt::idempotency_key), to a provider that
    /// recognises the key for this long**, such as 24 hours. An effect without the key happens
    /// twice.
    ///
    /// The time counts from the first attempt that had the key. Within this time, the next request
    /// takes an overdue token over and runs the handler again, and the provider recognises the key.
    /// A token is not taken over if the handler might end after that time
    /// ([`expect_within`](HttpSettings::expect_within)). Then an operator decides.
    ///
    /// In all other respects this equals [`several_effects`](Self::several_effects) without a
    /// grace.
    #[must_use]
    pub const fn recognised_for(recognised: Duration) -> Self {
        Self { grace: Duration::ZERO, has_one_effect: false, recognised: Some(recognised) }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            required: Required::Yes,
            expect_within: Duration::from_secs(60),
            max_request_bytes: 1024 * 1024,
            max_response_bytes: 4 * 1024 * 1024,
            streams: vec!["text/event-stream".to_owned(), "application/grpc*".to_owned()],
            headers: vec![
                header::CACHE_CONTROL,
                header::CONTENT_DISPOSITION,
                header::CONTENT_ENCODING,
                header::CONTENT_LANGUAGE,
                header::CONTENT_LOCATION,
                header::CONTENT_TYPE,
                header::ETAG,
                header::LAST_MODIFIED,
                header::LINK,
                header::LOCATION,
                header::RETRY_AFTER,
                header::VARY,
            ],
            canonical_json: false,
            guards_inside: false,
            hold_internal_errors: true,
            resumable: None,
        }
    }
}

impl HttpSettings {
    /// Whether a token or workflow inside the handler has the record of all that it does.
    pub(super) fn is_recorded_inside(&self) -> bool {
        self.resumable.is_some_and(|resumable| resumable.has_one_effect)
    }

    /// Whether a response is a stream, by its content type.
    pub(super) fn is_stream(&self, headers: &HeaderMap) -> bool {
        let Some(Ok(of)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
        let of = of.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.streams.iter().map(|listed| listed.to_ascii_lowercase()).any(|listed| {
            match listed.strip_suffix('*') {
                Some(start) => of.starts_with(start),
                None => of == listed,
            }
        })
    }

    /// Whether a response header is stored.
    pub(super) fn keeps(&self, name: &HeaderName) -> bool {
        self.headers.contains(name) && is_replayable(name)
    }
}

/// Returns whether a response header may be stored and replayed. A header that authorises may not.
/// Nor may a header of one connection: it would contradict the replayed body.
pub(super) fn is_replayable(name: &HeaderName) -> bool {
    const NEVER: [HeaderName; 13] = [
        header::SET_COOKIE,
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        header::WWW_AUTHENTICATE,
        header::PROXY_AUTHENTICATE,
        HeaderName::from_static("authentication-info"),
        HeaderName::from_static("proxy-authentication-info"),
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::TRAILER,
        header::UPGRADE,
        header::DATE,
    ];
    !NEVER.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_stream(settings: &HttpSettings, of: &str) -> bool {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_str(of).unwrap())];
        settings.is_stream(&HeaderMap::from_iter(headers))
    }

    #[test]
    fn content_type_without_its_parameters_decides_whether_a_response_streams() {
        let mut settings = HttpSettings::default();
        for of in [
            "text/event-stream",
            "Text/Event-Stream; charset=utf-8",
            "application/grpc",
            "application/grpc-web+proto",
        ] {
            assert!(is_stream(&settings, of), "{of}");
        }
        for of in ["text/event-streams", "text/plain", "application/json", ""] {
            assert!(!is_stream(&settings, of), "{of}");
        }
        assert!(!settings.is_stream(&HeaderMap::new()));
        settings.streams = vec!["Application/X-NDJSON".to_owned()];
        assert!(is_stream(&settings, "application/x-ndjson") && !is_stream(&settings, "text/event-stream"));
    }
}
