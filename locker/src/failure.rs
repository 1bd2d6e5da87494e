//! Classes of failures. The class decides what happens to the token.

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
    message = "the error `{Self}` has no class",
    note = "wrap it, such as `Failure::transient(error)`, `Failure::permanent(error)`, `Failure::needs_operator(error)` or `Failure::in_doubt(error)`, or implement `Classify`"
)]
pub trait Classify: Serialize + DeserializeOwned {
    /// Returns the class of this failure. If the work may have happened, return
    /// [`Class::InDoubt`].
    fn class(&self) -> Class;

    /// Returns a short text that describes the failure.
    ///
    /// It is stored in tokens that are held or in doubt, and in workflows that wait. Lists for
    /// operators and logs contain it, so keep secrets and personal data out of it. It is cut at 200
    /// bytes, and its line breaks become spaces.
    ///
    /// The default is the stored form: a string as it is, and any other value as JSON. Implement
    /// this method if the stored form contains too much.
    fn cause(&self) -> String {
        cause::of_failure(self)
    }

    /// Returns the code of the cause, such as `card.declined`.
    ///
    /// [`status`](crate::operator) groups failures with the same code, even if their texts differ.
    /// By default there is no code: texts form a group if they differ only by ids and numbers.
    ///
    /// The code has at most 64 letters, digits, `.`, `-` and `_`; any other character becomes `-`.
    /// Stored, listed and logged causes begin with the code in square brackets.
    fn code(&self) -> Option<String> {
        None
    }

    /// Returns the pause that the provider asks for, such as in `Retry-After`.
    ///
    /// A step of a workflow waits at least this long. If the whole workflow waits,
    /// [`Limits::backoff_cap`](crate::workflow::Limits::backoff_cap) limits the pause. Tokens
    /// ignore it.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Returns the class of the dead letter, if a [`Consumer`](crate::inbox::Consumer) gives up
    /// after transient failures.
    ///
    /// Return [`Class::InDoubt`] if an attempt may have had an effect. The failure can still be
    /// transient if the receiver of the effect recognises a repetition.
    fn given_up(&self) -> Class {
        self.class()
    }
}

/// Returns the code and the cause of a failure, as stored and logged.
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
    /// The pause that the provider asks for. Not stored.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// The code of the cause; see [`Classify::code`]. Stored only as part of the cause.
    #[serde(skip)]
    pub code: Option<String>,
    /// The class of the dead letter; see [`Classify::given_up`]. Not stored.
    #[serde(skip)]
    pub given_up: Option<Class>,
}

impl<E> Failure<E> {
    /// Returns a transient failure: nothing happened, and the token is released.
    pub const fn transient(error: E) -> Self {
        Self { class: Class::Transient, error, retry_after: None, code: None, given_up: None }
    }

    /// Returns a permanent failure: it is stored as the answer.
    pub const fn permanent(error: E) -> Self {
        Self { class: Class::Permanent, error, retry_after: None, code: None, given_up: None }
    }

    /// Returns a failure that needs an operator: it is stored, and the token is held.
    pub const fn needs_operator(error: E) -> Self {
        Self { class: Class::NeedsOperator, error, retry_after: None, code: None, given_up: None }
    }

    /// Returns a failure in doubt: it is unknown whether the work happened, and the token stays in
    /// progress.
    pub const fn in_doubt(error: E) -> Self {
        Self { class: Class::InDoubt, error, retry_after: None, code: None, given_up: None }
    }

    /// Returns a failure of this class.
    pub const fn of(class: Class, error: E) -> Self {
        Self { class, error, retry_after: None, code: None, given_up: None }
    }

    /// Sets the code of the cause, such as `card.declined`: it [groups](crate::operator) failures.
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Sets the class of the dead letter, if a [`Consumer`](crate::inbox::Consumer) gives up; see
    /// [`Classify::given_up`].
    #[must_use]
    pub fn given_up_as(self, class: Class) -> Self {
        Self { given_up: Some(class), ..self }
    }

    /// Sets the pause that the provider asks for, such as in `Retry-After`.
    ///
    /// A workflow waits at most [`Limits::backoff_cap`](crate::workflow::Limits::backoff_cap), and
    /// a [`Consumer`](crate::inbox::Consumer) at most 11 hours.
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
    /// Makes the error a transient failure: nothing happened, and the work may run again.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class transient, with the text of the error.
    fn transient(self) -> Result<T, Failure>;

    /// Makes the error a permanent failure: it is stored, and every later caller receives it.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class permanent, with the text of the error.
    fn permanent(self) -> Result<T, Failure>;

    /// Makes the error a failure that an operator has to look at; every later caller receives it.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of the class `NeedsOperator`, with the text of the error.
    fn needs_operator(self) -> Result<T, Failure>;

    /// Makes the error a failure in doubt: the work may have happened, such as after a lost reply.
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

    fn needs_operator(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::needs_operator(error.to_string()))
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

/// Converts your error with a class. Its [cause](Classify::cause) is the text of the failure.
///
/// `Failure` does not implement [`std::error::Error`], because this conversion would then conflict
/// with the conversion of a type into itself.
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

/// Returns the failure for an error without a class: in doubt, unless it is a [`Failure`].
#[cfg(feature = "lambda")]
pub(crate) fn of_any(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    match error.into().downcast::<Boxed<String>>() {
        Ok(boxed) => boxed.0,
        Err(error) => Failure::in_doubt(error.to_string()),
    }
}
