//! Settings from the environment of a function: read once, at start.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use locker::{Locker, Settings};

use crate::payments::Payments;

/// Why a function cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvironment {
    /// A variable is not set.
    #[error("{0} is not set; the template sets it")]
    Missing(&'static str),
    /// A variable has a value that is not allowed.
    #[error("{0} is not {1}; mend it in the template")]
    Value(&'static str, &'static str),
    /// The payment provider's address cannot be used.
    #[error("PAYMENTS_URL cannot be used: {0}")]
    Payments(locker::BoxError),
    /// The SDK client cannot be made.
    #[error(transparent)]
    Client(#[from] locker::client::MissingVariable),
    /// The library refuses the settings.
    #[error(transparent)]
    Locker(#[from] locker::InvalidSetting),
}

/// A locker over the table that `LOCKER_TABLE` names, over `LOCKER_SHARDS` shards.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn locker() -> Result<Locker, InvalidEnvironment> {
    let (table, settings) = table(&environment)?;
    let client = locker::client::lambda()?;
    Ok(Locker::builder(&client, table).settings(settings).build()?)
}

/// A client of the payment provider at `PAYMENTS_URL`, that waits `PAYMENTS_TIMEOUT_MS` (5,000) for a reply.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn payments() -> Result<Payments, InvalidEnvironment> {
    payments_of(&environment)
}

/// How long a task should take, past which it is missing (`LOCKER_EXPECT_MS`, 60,000).
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn expect_within() -> Result<Duration, InvalidEnvironment> {
    let range = "a number of milliseconds from 1000 to 900000";
    let expected = number(&environment, "LOCKER_EXPECT_MS", 1000..=900_000, range)?;
    Ok(Duration::from_millis(expected.unwrap_or(60_000)))
}

/// Where variables come from.
type Variables<'a> = &'a dyn Fn(&'static str) -> Option<OsString>;

fn environment(name: &'static str) -> Option<OsString> {
    std::env::var_os(name)
}

fn table(variables: Variables<'_>) -> Result<(String, Settings), InvalidEnvironment> {
    let mut settings = Settings::default();
    // A default for what cannot be read would hide tokens from a listing.
    settings.shards = number(variables, "LOCKER_SHARDS", 1..=1000, "a number from 1 to 1000")?.unwrap_or(1);
    Ok((required(variables, "LOCKER_TABLE")?, settings))
}

fn payments_of(variables: Variables<'_>) -> Result<Payments, InvalidEnvironment> {
    // At zero every charge would be in doubt, and no invocation lasts longer than 15 minutes.
    let range = "a number of milliseconds from 1 to 900000";
    let timeout = number(variables, "PAYMENTS_TIMEOUT_MS", 1..=900_000, range)?.unwrap_or(5000);
    let url = required(variables, "PAYMENTS_URL")?;
    Payments::new(url, Duration::from_millis(timeout)).map_err(InvalidEnvironment::Payments)
}

fn number<T: FromStr + PartialOrd>(
    variables: Variables<'_>,
    name: &'static str,
    range: RangeInclusive<T>,
    expected: &'static str,
) -> Result<Option<T>, InvalidEnvironment> {
    let Some(text) = optional(variables, name)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.map(Some).ok_or(InvalidEnvironment::Value(name, expected))
}

fn required(variables: Variables<'_>, name: &'static str) -> Result<String, InvalidEnvironment> {
    optional(variables, name)?.ok_or(InvalidEnvironment::Missing(name))
}

fn optional(variables: Variables<'_>, name: &'static str) -> Result<Option<String>, InvalidEnvironment> {
    let value = variables(name).filter(|value| !value.is_empty());
    value.map(OsString::into_string).transpose().map_err(|_| InvalidEnvironment::Value(name, "UTF-8"))
}

#[cfg(test)]
mod properties;
