//! A panic of a handler fails its own message, and no other.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::core::class::Class;
use crate::core::panicked;
use crate::failure::{self, Classify};

/// Why a message was not handled.
pub(super) struct Failed {
    pub(super) class: Class,
    /// The class if there is no further attempt.
    pub(super) given_up: Class,
    pub(super) cause: String,
    /// The pause that the handler asked for.
    pub(super) pause: Option<Duration>,
}

impl Failed {
    pub(super) fn of<E: Classify>(error: &E) -> Self {
        let (class, cause) = (error.class(), failure::said(error));
        let given_up = if class == Class::Transient { error.given_up() } else { class };
        Self { class, given_up, cause, pause: error.retry_after() }
    }

    pub(super) fn unreadable(error: serde_json::Error) -> Self {
        Self::at_once(Class::NeedsOperator, format!("it cannot be read: {error}"))
    }

    /// A failure without a further attempt.
    pub(super) const fn at_once(class: Class, cause: String) -> Self {
        Self { class, given_up: class, cause, pause: None }
    }
}

/// Returns the result of a handler. After a panic, the message is in doubt.
pub(super) async fn handled<E: Classify>(handler: impl Future<Output = Result<(), E>>) -> Result<(), Failed> {
    match Box::pin(caught(handler)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failed::of(&error)),
        Err(cause) => Err(Failed::at_once(Class::InDoubt, cause)),
    }
}

/// Returns the result of a handler, or the message of its panic.
pub(crate) async fn caught<F: Future>(handler: F) -> Result<F::Output, String> {
    let caught = AssertUnwindSafe(handler).catch_unwind().await;
    caught.map_err(|panic| format!("its handler panicked: {}", panicked::text_of(&*panic)))
}
