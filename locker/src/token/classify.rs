//! What a failure of the work means for the token.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a failure of the work means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Nothing happened, and it may be tried again: the token is released.
    Transient,
    /// The failure is the answer: it is stored, and everyone after gets it.
    Permanent,
    /// The failure is stored and waits for a person: `status` becomes `error`.
    NeedsPerson,
    /// Nobody knows whether it happened: the token stays in progress, and the scanner reports it when
    /// it is due. Never run again by itself.
    InDoubt,
}

impl Class {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::NeedsPerson => "needsPerson",
            Self::InDoubt => "inDoubt",
        }
    }
}

/// An error of the work that knows its [`Class`], and comes back as itself when it is replayed.
///
/// Implement it on your own error, or wrap any serialisable value in a [`Failure`].
///
/// ```
/// use locker::{Class, Classify};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// enum ChargeError {
///     Declined,
///     NotSent,
///     NoReply,
/// }
///
/// impl Classify for ChargeError {
///     fn class(&self) -> Class {
///         match self {
///             Self::Declined => Class::Permanent,
///             Self::NotSent => Class::Transient,
///             Self::NoReply => Class::InDoubt,
///         }
///     }
/// }
/// ```
pub trait Classify: Serialize + DeserializeOwned {
    /// What this failure means for the token. If in doubt, say [`Class::InDoubt`].
    fn class(&self) -> Class;

    /// How long the provider asked to be left alone, as its `Retry-After` says. Steps of a workflow wait
    /// at least so long; tokens do not look at it.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// Any value as a failure of a stated class.
///
/// ```
/// use locker::Failure;
///
/// let reply: Result<u32, &str> = Err("card declined");
/// let failure = reply.map_err(|error| Failure::permanent(error.to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure<E = String> {
    /// What it means.
    pub class: Class,
    /// What it was.
    pub error: E,
    /// How long the provider asked to be left alone. Not stored.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl<E> Failure<E> {
    /// Nothing happened; the token is released.
    pub const fn transient(error: E) -> Self {
        Self { class: Class::Transient, error, retry_after: None }
    }

    /// The failure is the answer.
    pub const fn permanent(error: E) -> Self {
        Self { class: Class::Permanent, error, retry_after: None }
    }

    /// A person has to look.
    pub const fn needs_person(error: E) -> Self {
        Self { class: Class::NeedsPerson, error, retry_after: None }
    }

    /// Nobody knows whether it happened.
    pub const fn in_doubt(error: E) -> Self {
        Self { class: Class::InDoubt, error, retry_after: None }
    }

    /// Of a class that is only known when it happens.
    pub const fn of(class: Class, error: E) -> Self {
        Self { class, error, retry_after: None }
    }

    /// With what the provider asked for in `Retry-After`.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }
}

impl<E: Serialize + DeserializeOwned> Classify for Failure<E> {
    fn class(&self) -> Class {
        self.class
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Failure<E> {}
