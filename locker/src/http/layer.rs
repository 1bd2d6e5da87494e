//! The layer, the identity of its callers, and the extensions of a request.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use http::request::Parts;

use super::disposition::{Disposition, HandlerError, Rule};
use super::key::KeySource;
use super::operation::Operation;
use super::settings::HttpSettings;
use crate::core::private::Private;
use crate::token::Locker;

/// Identifies the sender of a request, so that callers do not share keys.
///
/// Take the identity from a proof of the authoriser (claims, a signed header of the gateway), never
/// from a text that the caller sends. A retry must have the same identity, so remove what changes,
/// such as the session of an assumed role, unless it names a person. If the identity is `None`,
/// empty, or not allowed in a key, the request is refused with 401. Closures implement this trait.
pub trait Identify: Send + Sync {
    /// The caller's identity: printable ASCII and spaces.
    fn identify(&self, request: &Parts) -> Option<String>;
}

impl<F: Fn(&Parts) -> Option<String> + Send + Sync> Identify for F {
    fn identify(&self, request: &Parts) -> Option<String> {
        self(request)
    }
}

/// An extension of a request: the end of its invocation. If a body does not end, the layer answers
/// before the deadline. It begins no token after the deadline. An end that is late is tried once,
/// for 250 milliseconds at most.
///
/// Insert it before the request reaches the layer. The handler can read it as well. See
/// [`BeginBuilder::deadline`](crate::BeginBuilder::deadline).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub DateTime<Utc>);

/// An extension of a request: the owner of its token, such as `orders/<request id>`.
///
/// Insert it before the request reaches the layer. See
/// [`BeginBuilder::owner`](crate::BeginBuilder::owner).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner(pub String);

/// An extension of a request: when its caller sent it first, for a table that was restored.
///
/// Insert it before the request reaches the layer, from a time that you trust, such as a signed
/// header. A restored table holds requests without this time while it is closed. See
/// [`BeginBuilder::requested_at`](crate::BeginBuilder::requested_at).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedAt(pub DateTime<Utc>);

/// Returns the bytes that identify a request.
type Same = dyn Fn(&Parts, &[u8]) -> Vec<u8> + Send + Sync;

/// A layer that makes the requests of a service once-only. See the [module](self::super).
#[derive(Debug, Clone)]
pub struct IdempotencyLayer {
    pub(super) locker: Locker,
    pub(super) operation: Operation,
    pub(super) key: KeySource,
    pub(super) identify: Private<Arc<dyn Identify>>,
    pub(super) same: Private<Option<Arc<Same>>>,
    pub(super) rule: Private<Option<Rule>>,
    pub(super) settings: Arc<HttpSettings>,
}

impl IdempotencyLayer {
    /// Creates a layer with the default [`HttpSettings`].
    ///
    /// The operation is a fixed name such as `"order/create"`, or an [`Operation`] that depends on
    /// the request. There is no default for it: two operations under one name would share tokens.
    /// Nor is there a default identity: a caller could read another's answers by guessing keys.
    #[must_use]
    pub fn new(
        locker: Locker,
        operation: impl Into<Operation>,
        identify: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            locker,
            operation: operation.into(),
            key: KeySource::default(),
            identify: Private(Arc::new(identify)),
            same: Private(None),
            rule: Private(None),
            settings: Arc::default(),
        }
    }

    /// Replaces the settings.
    ///
    /// Nothing is checked here: with a time outside its limits, each request with a key gets
    /// [`Problem::Internal`](super::Problem::Internal), and the log contains the reason.
    #[must_use]
    pub fn settings(mut self, settings: HttpSettings) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Takes the key of a request from another place than the header `Idempotency-Key`, such as the
    /// id of a webhook.
    #[must_use]
    pub fn key(mut self, key: KeySource) -> Self {
        self.key = key;
        self
    }

    /// Identifies a request by the bytes that the closure returns for its head and its body. The
    /// same key with other bytes is a mismatch. Default: the parameters of the query, in any order,
    /// and the body, byte by byte.
    ///
    /// Leave out parts that differ between retries of one request, such as the boundary of a
    /// multipart form or the time of sending. If you change the closure, a request from before the
    /// change and its retry after the change are a mismatch.
    ///
    /// ```
    /// # use locker::http::IdempotencyLayer;
    /// fn by_amount(layer: IdempotencyLayer) -> IdempotencyLayer {
    ///     layer.fingerprint(|_, body| {
    ///         let order = serde_json::from_slice::<serde_json::Value>(body);
    ///         let Ok(order) = order else { return body.to_vec() };
    ///         // Without `sentAt`, which is another time in every retry.
    ///         serde_json::json!([order["account"], order["amount"]]).to_string().into_bytes()
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn fingerprint(
        mut self,
        identify: impl Fn(&Parts, &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        self.same = Private(Some(Arc::new(identify)));
        self
    }

    /// Decides about the token, by the response or by the error of the inner service.
    ///
    /// If the closure returns `None`, the class of the status decides; see [`Disposition`]. A
    /// `Disposition` in the response's extensions comes first. An error has no response to store,
    /// so [`Store`](Disposition::Store), [`Hold`](Disposition::Hold) and
    /// [`Stream`](Disposition::Stream) leave the token in doubt. [`Release`](Disposition::Release)
    /// asserts that nothing happened.
    #[must_use]
    pub fn dispositions<F>(mut self, rule: F) -> Self
    where
        F: Fn(Result<&http::response::Parts, &HandlerError<'_>>) -> Option<Disposition>
            + Send
            + Sync
            + 'static,
    {
        self.rule = Private(Some(Arc::new(rule)));
        self
    }
}
