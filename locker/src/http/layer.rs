//! The layer, and who calls.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tower_layer::Layer;

use super::config::HttpSettings;
use super::service::IdempotencyService;
use crate::token::Locker;

/// Says who sent a request, so that nobody meets another's keys.
///
/// Take the identity from what the authoriser proved (claims, a signed header of the gateway), never from
/// what the caller writes. `None` refuses the request with 401. Implemented by closures.
pub trait Identify: Send + Sync {
    /// The caller's identity: printable ASCII and spaces.
    fn identify(&self, request: &Parts) -> Option<String>;
}

impl<F: Fn(&Parts) -> Option<String> + Send + Sync> Identify for F {
    fn identify(&self, request: &Parts) -> Option<String> {
        self(request)
    }
}

/// Makes the requests of a service once-only. See the [module](self::super).
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(super) locker: Locker,
    pub(super) identify: Arc<dyn Identify>,
    pub(super) settings: Arc<HttpSettings>,
}

impl IdempotencyLayer {
    /// A layer with the default [`HttpSettings`].
    ///
    /// There is no default identity: with none, one caller could read another's answers by guessing keys.
    pub fn new(locker: Locker, identify: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { locker, identify: Arc::new(identify), settings: Arc::default() }
    }

    /// Use these settings.
    #[must_use]
    pub fn settings(mut self, settings: HttpSettings) -> Self {
        self.settings = Arc::new(settings);
        self
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService::new(inner, self.clone())
    }
}
