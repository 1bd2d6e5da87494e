//! The end of the token, by the outcome of the handler.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use http::{StatusCode, response};

use super::problem::NotTheEnd;
use super::settings::HttpSettings;

/// What happens to the token after the handler.
///
/// A handler can decide itself: it inserts a disposition into the extensions of its response.
/// Without it, [`IdempotencyLayer::dispositions`](super::IdempotencyLayer::dispositions) decides,
/// and then the class of the status:
///
/// | response | default | why |
/// |---|---|---|
/// | 405, 411, 413, 414, 415, 417, 421, 426, 431 | [`Release`](Self::Release) | routers, frameworks and layers answer these before a handler acts; a handler that passes one on after an effect has to insert [`InDoubt`](Self::InDoubt) |
/// | an empty 404 where axum matched no route (feature `axum`) | [`Release`](Self::Release) | no route ran; a fallback handler that acts has to insert [`Store`](Self::Store) |
/// | 401, 403 | [`Store`](Self::Store) | a handler may pass on the refusal of another service |
/// | [`Problem::response`](super::Problem::response), if it would be stored and is `in-progress`, `overdue`, `held`, `restored`, `no-response`, `in-doubt` or `...-unreadable` | [`InDoubt`](Self::InDoubt) | the token that the handler asked for may still get its answer |
/// | 425, 429, 503 | [`InDoubt`](Self::InDoubt) | a handler may pass them on after its effect; proxies answer 503 after a reset |
/// | 408, 502, 504, an error of the service, a panic, a body that is cut off | [`InDoubt`](Self::InDoubt) | a time limit answers 408 or 504 for a handler that it cut short |
/// | 500, 501 | [`Hold`](Self::Hold) | a failure that no code expected; it is replayed, and listed until an operator closes it |
/// | every other status | [`Store`](Self::Store) | the response is the answer |
///
/// [`HttpSettings::guards_inside`] releases 401, 403, 425, 429 and 503. If
/// [`HttpSettings::hold_internal_errors`] is `false`, 500 and 501 are stored.
/// [`HttpSettings::resumable`] changes the defaults: see [`Resumable`](super::Resumable).
///
/// If a response would be stored or held, and its content type is that of a stream
/// ([`HttpSettings::streams`]), it is passed on as with [`Stream`](Self::Stream).
///
/// The layer follows the handler and the closure, with these exceptions. For a body that is cut off
/// and for an error of the service, `Store`, `Hold` and `Stream` leave the token in doubt. For a
/// response that is too large, `Store` holds the token. `Release` does not apply to an earlier
/// attempt that the request took over. So after a takeover the token is kept, and the next request
/// takes it over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The response is the answer: it is stored, and replayed to later requests.
    Store,
    /// The response is replayed to later requests, and an operator has to act: the token is listed
    /// until an operator resolves, releases or closes it.
    Hold,
    /// Nothing happened: the token is released, and the same key may be tried again.
    Release,
    /// It is unknown whether anything happened: the token stays in progress for an operator.
    InDoubt,
    /// The response is passed on while the handler sends it, and is not stored. Its end completes
    /// the token. Later requests get [`Problem::NotKept`](super::Problem::NotKept), and no listing
    /// contains the token.
    ///
    /// A stream that is cut off leaves the token in doubt. While the stream is open, the token is
    /// extended. If the caller disconnects, the layer reads the rest of the stream for
    /// [`HttpSettings::expect_within`] at most. Then it drops the stream.
    Stream,
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

    /// The error as its own type, which is the `Error` of the inner service: often
    /// [`BoxError`](crate::BoxError).
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

/// A disposition, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) disposition: Disposition,
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The handler or the closure set it.
    Code,
    /// A [`Problem`](super::Problem) that is not the end of the request.
    Problem,
    /// The class of the outcome.
    Class,
}

impl Decided {
    pub(super) const fn said(disposition: Disposition) -> Self {
        Self { disposition, by: By::Code }
    }

    pub(super) const fn default(disposition: Disposition) -> Self {
        Self { disposition, by: By::Class }
    }

    const fn unanswered() -> Self {
        Self { disposition: Disposition::InDoubt, by: By::Problem }
    }

    /// Another disposition from the same source.
    pub(super) const fn becomes(self, disposition: Disposition) -> Self {
        Self { disposition, ..self }
    }
}

/// How a lock is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Store,
    Hold,
    Release,
    InDoubt,
    /// Kept for the next request, which takes it over at once. The inner token or workflow has the
    /// record.
    SetAside,
    /// Kept as it was before this request took it over.
    GiveBack,
}

/// The outcome of the handler, without the body.
pub(super) type Returned<'a> = Result<&'a response::Parts, &'a HandlerError<'a>>;

/// The rule of [`IdempotencyLayer::dispositions`](super::IdempotencyLayer::dispositions).
pub(super) type Rule = Arc<dyn Fn(Returned<'_>) -> Option<Disposition> + Send + Sync>;

impl HttpSettings {
    /// The default for the outcome of the handler. `unrouted`: the router answered, and no handler
    /// ran.
    pub(super) fn class(&self, returned: Returned<'_>, unrouted: bool) -> Decided {
        let Ok(parts) = returned else { return Decided::default(Disposition::InDoubt) };
        match self.class_of(parts.status, unrouted) {
            Disposition::Store if NotTheEnd::is_in(parts) => Decided::unanswered(),
            class => Decided::default(class),
        }
    }

    /// How the lock is ended. `status`: of the response, if there is one. `took_over`: whether an
    /// earlier attempt of the request may have acted.
    pub(super) fn ending(&self, decided: Decided, status: Option<StatusCode>, took_over: bool) -> Ending {
        let Decided { disposition, by } = decided;
        let is_said = by == By::Code;
        let is_recorded_inside = self.is_recorded_inside();
        let kept = if is_recorded_inside { Ending::SetAside } else { Ending::GiveBack };
        let is_refusal = !status.is_some_and(|status| status.is_success() || status.is_redirection());
        match disposition {
            // They are about this attempt, and not about the attempt before.
            Disposition::Release if took_over => kept,
            Disposition::Store if took_over && is_refusal && !is_said => kept,
            Disposition::InDoubt if took_over && by == By::Problem => kept,
            // The inner token or workflow has the record, so the token of the request is not
            // listed.
            Disposition::InDoubt | Disposition::Hold if is_recorded_inside && !is_said => Ending::SetAside,
            // A repeat continues the work. A held token would prevent that.
            Disposition::Hold if self.resumable.is_some() && !is_said => Ending::InDoubt,
            Disposition::Store | Disposition::Stream => Ending::Store,
            Disposition::Hold => Ending::Hold,
            Disposition::Release => Ending::Release,
            Disposition::InDoubt => Ending::InDoubt,
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
    use super::Disposition::{self, Hold, InDoubt, Release, Store, Stream};
    use super::*;
    use crate::http::{Problem, Resumable};

    fn class(settings: &HttpSettings, status: u16) -> Disposition {
        let (parts, ()) = http::Response::builder().status(status).body(()).unwrap().into_parts();
        settings.class(Ok(&parts), false).disposition
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
        for status in 200..=599 {
            let before = class(&default, status);
            let guard = [401, 403, 425, 429, 503].contains(&status);
            assert_eq!(class(&guards, status), if guard { Release } else { before }, "{status}");
            let internal = [500, 501].contains(&status);
            assert_eq!(class(&stored, status), if internal { Store } else { before }, "{status}");
        }
    }

    /// `None`, one effect, several effects, a provider that recognises the key.
    fn each() -> [HttpSettings; 4] {
        let (grace, day) = (std::time::Duration::ZERO, std::time::Duration::from_secs(86_400));
        let each =
            [Resumable::one_effect(grace), Resumable::several_effects(grace), Resumable::recognised_for(day)];
        let [one, several, recognised] = each.map(Some);
        [None, one, several, recognised]
            .map(|resumable| HttpSettings { resumable, ..HttpSettings::default() })
    }

    #[test]
    fn set_disposition_is_applied_and_frees_no_earlier_attempt() {
        let same = |disposition| match disposition {
            Store | Stream => Ending::Store,
            Hold => Ending::Hold,
            Release => Ending::Release,
            InDoubt => Ending::InDoubt,
        };
        for settings in each() {
            for status in [200, 409, 503] {
                let status = StatusCode::from_u16(status).ok();
                for disposition in [Store, Hold, Release, InDoubt, Stream] {
                    let decided = Decided::said(disposition);
                    assert_eq!(settings.ending(decided, status, false), same(disposition));
                    if disposition != Release {
                        assert_eq!(settings.ending(decided, status, true), same(disposition));
                    }
                }
            }
        }
        let kept = each().map(|settings| settings.ending(Decided::said(Release), None, true));
        assert_eq!(kept, [Ending::GiveBack, Ending::SetAside, Ending::GiveBack, Ending::GiveBack]);
    }

    #[test]
    fn a_default_of_a_resumable_handler_frees_nothing_that_may_have_happened() {
        use Ending as E;
        for (took_over, disposition, status, expected) in [
            (false, Store, 201, [E::Store; 4]),
            (false, Store, 409, [E::Store; 4]),
            (false, Release, 405, [E::Release; 4]),
            (false, InDoubt, 504, [E::InDoubt, E::SetAside, E::InDoubt, E::InDoubt]),
            (false, Hold, 500, [E::Hold, E::SetAside, E::InDoubt, E::InDoubt]),
            (true, Store, 201, [E::Store; 4]),
            (true, Store, 303, [E::Store; 4]),
            (true, Store, 409, [E::GiveBack, E::SetAside, E::GiveBack, E::GiveBack]),
            (true, Release, 405, [E::GiveBack, E::SetAside, E::GiveBack, E::GiveBack]),
            (true, InDoubt, 504, [E::InDoubt, E::SetAside, E::InDoubt, E::InDoubt]),
            (true, Hold, 500, [E::Hold, E::SetAside, E::InDoubt, E::InDoubt]),
        ] {
            let (decided, status) = (Decided::default(disposition), StatusCode::from_u16(status).ok());
            let endings = each().map(|settings| settings.ending(decided, status, took_over));
            assert_eq!(endings, expected, "{took_over} {disposition:?} {status:?}");
        }
    }

    #[test]
    fn a_problem_that_is_not_the_end_is_never_stored_by_default() {
        use Ending as E;
        let held = |status: u16| {
            let mut response = Problem::Held.response::<String>();
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response.into_parts().0
        };
        for (took_over, expected) in [
            (false, [E::InDoubt, E::SetAside, E::InDoubt, E::InDoubt]),
            (true, [E::GiveBack, E::SetAside, E::GiveBack, E::GiveBack]),
        ] {
            let endings = each().map(|settings| {
                let parts = held(409);
                settings.ending(settings.class(Ok(&parts), false), Some(parts.status), took_over)
            });
            assert_eq!(endings, expected, "{took_over}");
        }
        // A handler that gives it another status decides itself.
        let settings = HttpSettings { hold_internal_errors: false, ..HttpSettings::default() };
        assert_eq!(settings.class(Ok(&held(202)), false), Decided::default(Store));
        // A status that is not stored keeps its class.
        let in_doubt =
            Problem::InDoubt { resumable: false, listed: true }.response::<String>().into_parts().0;
        assert_eq!(HttpSettings::default().class(Ok(&in_doubt), false), Decided::default(Hold));
        assert_eq!(settings.class(Ok(&in_doubt), false), Decided::unanswered());
    }

    #[test]
    fn only_a_release_frees_a_token() {
        for settings in each() {
            for disposition in [Store, Hold, InDoubt, Stream] {
                for decided in [Decided::said(disposition), Decided::default(disposition)] {
                    for took_over in [false, true] {
                        let ending = settings.ending(decided, StatusCode::from_u16(200).ok(), took_over);
                        assert_ne!(ending, Ending::Release, "{decided:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_error_of_the_service_is_in_doubt() {
        let text = "elapsed".to_owned();
        let error = HandlerError::of(&text);
        assert_eq!(HttpSettings::default().class(Err(&error), true), Decided::default(InDoubt));
        assert_eq!(error.downcast_ref::<String>(), Some(&text));
        assert_eq!(format!("{error} {error:?}"), "elapsed HandlerError(elapsed)");
    }
}
