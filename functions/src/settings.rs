//! Settings from the environment of a function: read once, at start.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::workflow::{Limits, Workflows};
use locker::{Locker, Settings};

use crate::payments::Payments;
use crate::purchase::{Purchase, Purchases};

/// Why a function cannot start.
#[derive(thiserror::Error)]
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

/// The sentence: this is what is printed of an error that `main` returns.
impl std::fmt::Debug for InvalidEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A client of DynamoDB. Make one: whatever is made of it shares its connections.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn client() -> Result<Client, InvalidEnvironment> {
    Ok(locker::client::lambda()?)
}

/// A locker over the table that `LOCKER_TABLE` names, over `LOCKER_SHARDS` shards.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn locker(client: &Client) -> Result<Locker, InvalidEnvironment> {
    let (table, settings) = table(&environment, "LOCKER_TABLE")?;
    Ok(Locker::builder(client, table).settings(settings).build()?)
}

/// Whether this deployment takes purchases: it names a table for their workflows, or one for their rows.
#[must_use]
pub fn has_purchases() -> bool {
    let set = |name| environment(name).is_some_and(|value| !value.is_empty());
    set("LOCKER_WORKFLOWS_TABLE") || set("ORDERS_TABLE")
}

/// Purchases: workflows in `LOCKER_WORKFLOWS_TABLE` over `LOCKER_SHARDS` shards, rows in `ORDERS_TABLE`. A drive
/// takes `LOCKER_EXPECT_MS`, and after `LOCKER_ATTEMPTS` (10) of them a workflow is parked.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn purchases(client: &Client) -> Result<Purchases, InvalidEnvironment> {
    let (table, mut settings) = table(&environment, "LOCKER_WORKFLOWS_TABLE")?;
    let orders_table = rows(&environment)?;
    settings.expect_within = expect_within()?;
    let workflows =
        Workflows::builder(client, table).settings(settings).limits(limits(&environment)?).build()?;
    let code = Purchase { payments: payments()?, dynamodb: client.clone(), orders_table };
    Ok(Purchases { workflows, code })
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

fn table(variables: Variables<'_>, name: &'static str) -> Result<(String, Settings), InvalidEnvironment> {
    let mut settings = Settings::default();
    // A default for what cannot be read would hide tokens from a listing.
    settings.shards = number(variables, "LOCKER_SHARDS", 1..=1000, "a number from 1 to 1000")?.unwrap_or(1);
    Ok((required(variables, name)?, settings))
}

fn rows(variables: Variables<'_>) -> Result<String, InvalidEnvironment> {
    required(variables, "ORDERS_TABLE")
}

fn limits(variables: Variables<'_>) -> Result<Limits, InvalidEnvironment> {
    let mut limits = Limits::default();
    let attempts = number(variables, "LOCKER_ATTEMPTS", 1..=1000, "a number from 1 to 1000")?;
    limits.attempts = attempts.unwrap_or(limits.attempts);
    Ok(limits)
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
