//! Classes of failure: what a failure of the work means for the token.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::cause;
use crate::core::class::Class;

/// An error of the work that has a [`Class`] and can be stored and replayed.
///
/// Implement it for your error type, or wrap any serialisable value in a [`Failure`].
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
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` does not say what it means for the token",
    note = "wrap it, such as `Failure::transient(error)`, `Failure::permanent(error)` or `Failure::in_doubt(error)`, or implement `Classify`"
)]
pub trait Classify: Serialize + DeserializeOwned {
    /// The class of this failure. If you cannot be sure that nothing happened, return
    /// [`Class::InDoubt`].
    fn class(&self) -> Class;

    /// A short text that says what failed. It is stored on tokens in doubt or held and on workflows
    /// that wait, listed for operators, and logged; keep secrets and personal data out of it. It is
    /// cut at 200 bytes, and its line breaks become spaces.
    ///
    /// The default is the stored form, a string as it is and anything else as JSON: implement it if
    /// that says too much.
    fn cause(&self) -> String {
        cause::of_failure(self)
    }

    /// A code that names the cause, such as `card.declined`, by which [`status`](crate::operator)
    /// groups what failed, whatever the text says. It stands in square brackets before the cause
    /// wherever that is stored, listed or logged. Letters, digits, `.`, `-` and `_`, 64 at most;
    /// anything else becomes `-`. The default is none: texts are grouped if they differ by ids and
    /// numbers only.
    fn code(&self) -> Option<String> {
        None
    }

    /// The pause that the provider asked for, such as in `Retry-After`. Steps of a workflow wait at
    /// least this long, and a workflow waits for at most
    /// [`Limits::backoff_cap`](crate::workflow::Limits::backoff_cap); tokens ignore it.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// The class under which a [`Consumer`](crate::inbox::Consumer) keeps a message whose transient
    /// failure it gives up. [`Class::InDoubt`] if an attempt may have done something, and trying
    /// again is harmless nevertheless, since its effect recognises a repetition.
    fn given_up(&self) -> Class {
        self.class()
    }
}

/// What a failure says of itself, as it is stored and logged.
pub(crate) fn said(error: &impl Classify) -> String {
    match error.code() {
        Some(code) => cause::shortened(&format!("[{}] {}", cause::as_code(&code), error.cause())),
        None => cause::shortened(&error.cause()),
    }
}

/// A failure of a stated class, with any value as its error.
///
/// ```
/// use locker::Failure;
///
/// let reply: Result<u32, &str> = Err("card declined");
/// let failure = reply.map_err(|error| Failure::permanent(error.to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure<E = String> {
    /// The class of the failure.
    pub class: Class,
    /// The error itself.
    pub error: E,
    /// The pause that the provider asked for. Not stored.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// The code that names the cause; see [`Classify::code`]. Stored as part of the cause only.
    #[serde(skip)]
    pub code: Option<String>,
    /// The class when it is given up; see [`Classify::given_up`]. Not stored.
    #[serde(skip)]
    pub given_up: Option<Class>,
}

impl<E> Failure<E> {
    /// A transient failure: nothing happened, and the token is released.
    pub const fn transient(error: E) -> Self {
        Self { class: Class::Transient, error, retry_after: None, code: None, given_up: None }
    }

    /// A permanent failure: it is stored as the answer.
    pub const fn permanent(error: E) -> Self {
        Self { class: Class::Permanent, error, retry_after: None, code: None, given_up: None }
    }

    /// A failure that needs an operator: it is stored, and the token is held.
    pub const fn needs_operator(error: E) -> Self {
        Self { class: Class::NeedsOperator, error, retry_after: None, code: None, given_up: None }
    }

    /// A failure in doubt: it is unknown whether the work happened, and the token stays in
    /// progress.
    pub const fn in_doubt(error: E) -> Self {
        Self { class: Class::InDoubt, error, retry_after: None, code: None, given_up: None }
    }

    /// A failure of a class that is determined at run time.
    pub const fn of(class: Class, error: E) -> Self {
        Self { class, error, retry_after: None, code: None, given_up: None }
    }

    /// Name the cause, such as `card.declined`: what failed is [grouped](crate::operator) by it.
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Keep a message as of this class, when a [`Consumer`](crate::inbox::Consumer) gives the
    /// failure up; see [`Classify::given_up`].
    #[must_use]
    pub fn given_up_as(self, class: Class) -> Self {
        Self { given_up: Some(class), ..self }
    }

    /// Set the pause that the provider asked for, such as in `Retry-After`. A workflow waits for
    /// [`Limits::backoff_cap`](crate::workflow::Limits::backoff_cap) at most, a
    /// [`Consumer`](crate::inbox::Consumer) for 11 hours.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }
}

/// Sets the class of the error of a result, so that `?` makes it a [`Failure`].
///
/// ```
/// use locker::{Failure, OfClass as _};
///
/// fn amount(text: &str) -> Result<u64, Failure> {
///     Ok(text.parse::<u64>().permanent()?)
/// }
/// assert_eq!(amount("many").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub trait OfClass<T> {
    /// Nothing happened: the work may be done again.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class transient, with the text of the error.
    fn transient(self) -> Result<T, Failure>;

    /// The failure is the answer: it is stored, and every later caller receives it.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class permanent, with the text of the error.
    fn permanent(self) -> Result<T, Failure>;

    /// It is unknown whether the work happened, such as after a lost reply.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class in doubt, with the text of the error.
    fn in_doubt(self) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> OfClass<T> for Result<T, E> {
    fn transient(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::transient(error.to_string()))
    }

    fn permanent(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::permanent(error.to_string()))
    }

    fn in_doubt(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::in_doubt(error.to_string()))
    }
}

impl<E: Serialize + DeserializeOwned> Classify for Failure<E> {
    fn class(&self) -> Class {
        self.class
    }

    fn cause(&self) -> String {
        cause::of_failure(&self.error)
    }

    fn code(&self) -> Option<String> {
        self.code.clone()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn given_up(&self) -> Class {
        self.given_up.unwrap_or(self.class)
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// An error of your own that has a class. Its [cause](Classify::cause) is the text.
///
/// A failure is no [`std::error::Error`], so that this conversion is possible.
impl<E: Classify + std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            class: error.class(),
            error: Classify::cause(&error),
            retry_after: error.retry_after(),
            code: error.code(),
            given_up: Some(error.given_up()),
        }
    }
}

/// A failure as an error, for code that returns a [`BoxError`](crate::BoxError).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Boxed<E: fmt::Debug + fmt::Display>(Failure<E>);

impl<E: fmt::Debug + fmt::Display + Send + Sync + 'static> From<Failure<E>>
    for Box<dyn std::error::Error + Send + Sync>
{
    fn from(failure: Failure<E>) -> Self {
        Box::new(Boxed(failure))
    }
}

/// The failure of code whose errors have no class: in doubt, unless the error is a [`Failure`].
#[cfg(feature = "lambda")]
pub(crate) fn of_any(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    match error.into().downcast::<Boxed<String>>() {
        Ok(boxed) => boxed.0,
        Err(error) => Failure::in_doubt(error.to_string()),
    }
}
