//! What happens to the token after the handler, by what it returned.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use http::{StatusCode, response};

use super::settings::HttpSettings;

/// What happens to the token after the handler.
///
/// A handler that knows what it did inserts one into the extensions of its response. Without it,
/// [`IdempotencyLayer::dispositions`](super::IdempotencyLayer::dispositions) decides, and then the class of the
/// status:
///
/// | response | default | why |
/// |---|---|---|
/// | 405, 411, 413, 414, 415, 417, 421, 426, 431 | [`Release`](Self::Release) | routers, frameworks and layers answer these before a handler acts |
/// | an empty 404 where axum matched no route (feature `axum`) | [`Release`](Self::Release) | no handler ran |
/// | 401, 403 | [`Store`](Self::Store) | a handler may pass on the refusal of another service |
/// | 425, 429, 503 | [`InDoubt`](Self::InDoubt) | a handler may pass them on after its effect; proxies answer 503 after a reset |
/// | 408, 502, 504, an error of the service, a panic, a body that breaks off | [`InDoubt`](Self::InDoubt) | a time limit answers 408 or 504 for a handler that it cut short |
/// | 500, 501 | [`Hold`](Self::Hold) | a failure that no code expected; it is replayed, and listed until an operator closes it |
/// | every other status | [`Store`](Self::Store) | the response is the answer |
///
/// [`HttpSettings::guards_inside`] releases 401, 403, 425, 429 and 503; [`HttpSettings::hold_internal_errors`] stores
/// 500 and 501 instead; [`HttpSettings::resumable`] releases where the default is `InDoubt` or `Hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The response is the answer: it is stored, and replayed to later requests.
    Store,
    /// The response is replayed to later requests, and an operator has to act: the token is listed until an
    /// operator resolves or releases it.
    Hold,
    /// Nothing happened: the token is released, and the same key may be tried again.
    Release,
    /// It is unknown whether anything happened: the token stays in progress for an operator.
    InDoubt,
}

/// An error that the inner service returned instead of a response.
pub struct HandlerError<'a> {
    error: &'a dyn Any,
    text: &'a dyn fmt::Display,
}

impl<'a> HandlerError<'a> {
    pub(super) fn of<E: fmt::Display + 'static>(error: &'a E) -> Self {
        Self { error, text: error }
    }

    /// The error as its own type, which is the `Error` of the inner service: often [`BoxError`](crate::BoxError).
    #[must_use]
    pub fn downcast_ref<E: 'static>(&self) -> Option<&'a E> {
        self.error.downcast_ref()
    }
}

impl fmt::Display for HandlerError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Debug for HandlerError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({})", self.text)
    }
}

/// What the handler returned, without the body.
pub(super) type Returned<'a> = Result<&'a response::Parts, &'a HandlerError<'a>>;

/// The rule of [`IdempotencyLayer::dispositions`](super::IdempotencyLayer::dispositions).
pub(super) type Rule = Arc<dyn Fn(Returned<'_>) -> Option<Disposition> + Send + Sync>;

impl HttpSettings {
    /// The class of what the handler returned. `unrouted`: the router answered, and no handler.
    pub(super) fn class(&self, returned: Returned<'_>, unrouted: bool) -> Disposition {
        let class = match returned {
            Ok(parts) => self.class_of(parts.status, unrouted),
            Err(_) => Disposition::InDoubt,
        };
        match class {
            // What protects the effect has the record, and one line of a listing is enough.
            Disposition::InDoubt | Disposition::Hold if self.is_recorded_inside() => Disposition::Release,
            // A repeat goes on, which a held token would not let it do.
            Disposition::Hold if self.resumable.is_some() => Disposition::InDoubt,
            class => class,
        }
    }

    fn class_of(&self, status: StatusCode, unrouted: bool) -> Disposition {
        match status.as_u16() {
            405 | 411 | 413 | 414 | 415 | 417 | 421 | 426 | 431 => Disposition::Release,
            404 if unrouted => Disposition::Release,
            401 | 403 | 425 | 429 | 503 if self.guards_inside => Disposition::Release,
            408 | 425 | 429 | 502 | 503 | 504 => Disposition::InDoubt,
            500 | 501 if self.hold_internal_errors => Disposition::Hold,
            _ => Disposition::Store,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Disposition::{self, Hold, InDoubt, Release, Store};
    use super::*;
    use crate::http::Resumable;

    fn class(settings: &HttpSettings, status: u16) -> Disposition {
        let (parts, ()) = http::Response::builder().status(status).body(()).unwrap().into_parts();
        settings.class(Ok(&parts), false)
    }

    #[test]
    fn every_status_has_its_class_and_only_answers_from_before_a_handler_release() {
        let settings = HttpSettings::default();
        for status in 200..=599 {
            let expected = match status {
                405 | 411 | 413 | 414 | 415 | 417 | 421 | 426 | 431 => Release,
                408 | 425 | 429 | 502 | 503 | 504 => InDoubt,
                500 | 501 => Hold,
                _ => Store,
            };
            assert_eq!(class(&settings, status), expected, "{status}");
        }
    }

    #[test]
    fn a_setting_changes_its_own_classes_only() {
        let default = HttpSettings::default();
        let guards = HttpSettings { guards_inside: true, ..HttpSettings::default() };
        let stored = HttpSettings { hold_internal_errors: false, ..HttpSettings::default() };
        let grace = std::time::Duration::ZERO;
        let resumable = |resumable| HttpSettings { resumable: Some(resumable), ..HttpSettings::default() };
        let (one, several) =
            (resumable(Resumable::one_effect(grace)), resumable(Resumable::several_effects(grace)));
        for status in 200..=599 {
            let before = class(&default, status);
            let guard = [401, 403, 425, 429, 503].contains(&status);
            assert_eq!(class(&guards, status), if guard { Release } else { before }, "{status}");
            let internal = [500, 501].contains(&status);
            assert_eq!(class(&stored, status), if internal { Store } else { before }, "{status}");
            let open = matches!(before, InDoubt | Hold);
            assert_eq!(class(&one, status), if open { Release } else { before }, "{status}");
            assert_eq!(class(&several, status), if open { InDoubt } else { before }, "{status}");
        }
    }

    #[test]
    fn an_error_of_the_service_is_in_doubt() {
        let text = "elapsed".to_owned();
        let error = HandlerError::of(&text);
        assert_eq!(HttpSettings::default().class(Err(&error), true), InDoubt);
        assert_eq!(error.downcast_ref::<String>(), Some(&text));
        assert_eq!(format!("{error} {error:?}"), "elapsed HandlerError(elapsed)");
    }
}
