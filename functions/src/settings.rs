//! Settings from the environment of a function: read once, at start.

use std::time::Duration;

use locker::{Locker, Settings};

/// Why a function cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvironment {
    /// A variable is not set.
    #[error("{0} is not set; the template sets it")]
    Missing(&'static str),
    /// A variable has a value that is not allowed.
    #[error("{0} is not {1}")]
    Value(&'static str, &'static str),
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
    let mut settings = Settings::default();
    if let Some(shards) = optional("LOCKER_SHARDS") {
        settings.shards =
            shards.parse().map_err(|_| InvalidEnvironment::Value("LOCKER_SHARDS", "a number"))?;
    }
    let client = locker::client::lambda()?;
    Ok(Locker::builder(&client, required("LOCKER_TABLE")?).settings(settings).build()?)
}

/// Where the payment provider is (`PAYMENTS_URL`), and how long it may take (`PAYMENTS_TIMEOUT_MS`, 5,000).
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn payments() -> Result<(String, Duration), InvalidEnvironment> {
    let wrong = |_| InvalidEnvironment::Value("PAYMENTS_TIMEOUT_MS", "a number of milliseconds");
    let timeout = optional("PAYMENTS_TIMEOUT_MS").map_or(Ok(5000), |text| text.parse().map_err(wrong))?;
    Ok((required("PAYMENTS_URL")?, Duration::from_millis(timeout)))
}

/// How long a task should take, past which it is missing (`LOCKER_EXPECT_MS`, 60,000).
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn expect_within() -> Result<Duration, InvalidEnvironment> {
    let wrong = |_| InvalidEnvironment::Value("LOCKER_EXPECT_MS", "a number of milliseconds");
    optional("LOCKER_EXPECT_MS")
        .map_or(Ok(60_000), |text| text.parse().map_err(wrong))
        .map(Duration::from_millis)
}

fn required(name: &'static str) -> Result<String, InvalidEnvironment> {
    optional(name).ok_or(InvalidEnvironment::Missing(name))
}

fn optional(name: &'static str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
