//! Settings of a function, read from its environment once, at start.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::aws::Sqs;
use locker::message::Router;
use locker::workflow::{Builder, Limits, Workflows};
use locker::{KeysInLogs, Locker, Settings};

use crate::orders::Shop;
use crate::payments::Payments;
use crate::purchase::{ORDER_PLACED, Purchase, Purchases};
use crate::secrets::Secrets;

/// How long packers have. After it, an operator looks for the parcel.
const PACKED_WITHIN: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Why a function cannot start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvironment {
    /// A variable is not set.
    #[error("{0} is not set; the template sets it")]
    Missing(&'static str),
    /// A variable has a value that is not allowed.
    #[error("{0} is not {1}; correct it in the template")]
    Value(&'static str, &'static str),
    /// The payment provider's address cannot be used.
    #[error("PAYMENTS_URL cannot be used: {0}")]
    Payments(locker::BoxError),
    /// A secret cannot be read, or is not what it should be.
    #[error("the secret that {variable} names cannot be used: {cause}; correct the secret or the template")]
    Secret {
        /// The variable that names the secret.
        variable: &'static str,
        /// What is wrong, without the secret.
        cause: String,
    },
    /// An order may outlast the function.
    #[error(
        "PAYMENTS_TIMEOUT_MS and FUNCTION_TIMEOUT_MS do not fit: an order may take {order:?}, and Lambda ends the \
         function after {function:?}; correct them in the template"
    )]
    Timeouts {
        /// How long an order may take.
        order: Duration,
        /// After how long Lambda ends the function.
        function: Duration,
    },
    /// The SDK client cannot be made.
    #[error(transparent)]
    Client(#[from] locker::client::MissingVariable),
    /// The library refuses the settings.
    #[error(transparent)]
    Locker(#[from] locker::InvalidSetting),
}

/// The message, because `main` prints its error with `Debug`.
impl std::fmt::Debug for InvalidEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Create a DynamoDB client. Create it once: everything built from it shares its connections.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn client() -> Result<Client, InvalidEnvironment> {
    Ok(locker::client::lambda()?)
}

/// Create a locker on the table `LOCKER_TABLE`, with `LOCKER_SHARDS` shards, whose logs show keys as `LOCKER_KEYS_IN_LOGS`
/// says: `clear` or `digest`.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn locker(client: &Client, secrets: &Secrets) -> Result<Locker, InvalidEnvironment> {
    let (table, settings) = table(&environment, "LOCKER_TABLE")?;
    let locker = Locker::builder(client, table).settings(settings);
    Ok(locker.with_fingerprint_keys(secrets.fingerprints.clone()).build()?)
}

/// Create the shop: a locker as [`locker()`] creates it, and the provider of [`payments`].
///
/// `FUNCTION_TIMEOUT_MS` (30,000, the longest that API Gateway waits) is the timeout of the function, in which the
/// provider's answer and the requests of two tokens have to fit: a function that Lambda ends earlier leaves its charge in
/// doubt.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn shop(client: &Client, secrets: &Secrets) -> Result<Shop, InvalidEnvironment> {
    let mut shop = Shop::new(locker(client, secrets)?, payments(secrets)?);
    shop.expect_within = expect_within()?;
    fits(&environment, &shop)?;
    Ok(shop)
}

/// Whether this deployment accepts purchases: the table of their workflows or of their rows is set.
#[must_use]
pub fn has_purchases() -> bool {
    let set = |name| environment(name).is_some_and(|value| !value.is_empty());
    set("LOCKER_WORKFLOWS_TABLE") || set("ORDERS_TABLE")
}

/// Create the purchases: workflows in `LOCKER_WORKFLOWS_TABLE` with `LOCKER_SHARDS` shards, rows in `ORDERS_TABLE`.
///
/// They send to the [`router`], and wait for their packers, if there is a queue. A run is expected to take `LOCKER_EXPECT_MS` (60,000). A workflow is quarantined after `LOCKER_RETRY_HOURS` (72) without
/// progress and `LOCKER_ATTEMPTS` (10) runs, or after as many runs in a row that killed or hung their driver.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn purchases(client: &Client, secrets: &Secrets) -> Result<Purchases, InvalidEnvironment> {
    let (table, mut settings) = table(&environment, "LOCKER_WORKFLOWS_TABLE")?;
    let orders_table = rows(&environment)?;
    settings.expect_within = expect_within()?;
    let workflows = Workflows::builder(client, table).settings(settings).limits(limits(&environment)?);
    let router = router()?;
    let packed_within = router.is_some().then_some(PACKED_WITHIN);
    let workflows = router.into_iter().fold(workflows, Builder::sending);
    let workflows = workflows.with_fingerprint_keys(secrets.fingerprints.clone()).build()?;
    let code =
        Purchase { payments: payments(secrets)?, dynamodb: client.clone(), orders_table, packed_within };
    Ok(Purchases { workflows, code })
}

/// Where messages are sent: `order/placed` to the queue `PACKING_QUEUE_URL`, at `AWS_ENDPOINT_URL_SQS` if that is set. `None`: there is
/// no such queue, and purchases tell nobody.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn router() -> Result<Option<Router>, InvalidEnvironment> {
    Ok(packing()?.map(|packing| Router::new("/orders").route(ORDER_PLACED, packing)))
}

/// The queue of the packers: `PACKING_QUEUE_URL`, at `AWS_ENDPOINT_URL_SQS` if that is set. `None`: there is none.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn packing() -> Result<Option<Sqs>, InvalidEnvironment> {
    let Some(url) = queue(&environment)? else { return Ok(None) };
    let config = locker::client::config()?;
    let mut sqs = aws_sdk_sqs::config::Builder::from(&config);
    if let Some(endpoint) = optional(&environment, "AWS_ENDPOINT_URL_SQS")? {
        sqs.set_endpoint_url(Some(endpoint));
    }
    Ok(Some(Sqs::queue(&aws_sdk_sqs::Client::from_conf(sqs.build()), url)))
}

/// The [`router`] of a relay, which has nothing to do without a queue.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn routes() -> Result<Router, InvalidEnvironment> {
    router()?.ok_or(InvalidEnvironment::Missing("PACKING_QUEUE_URL"))
}

/// The workflows in `LOCKER_WORKFLOWS_TABLE` with `LOCKER_SHARDS` shards, for functions that drive none.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn workflows(client: &Client) -> Result<Workflows, InvalidEnvironment> {
    let (table, settings) = table(&environment, "LOCKER_WORKFLOWS_TABLE")?;
    Ok(Workflows::builder(client, table).settings(settings).build()?)
}

/// The table of order rows: `ORDERS_TABLE`.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn orders_table() -> Result<String, InvalidEnvironment> {
    rows(&environment)
}

/// Create a client of the payment provider at `PAYMENTS_URL`, with the timeout `PAYMENTS_TIMEOUT_MS` (5,000) and the
/// credential among the secrets, if there is one.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn payments(secrets: &Secrets) -> Result<Payments, InvalidEnvironment> {
    let payments = payments_of(&environment)?;
    match &secrets.payments {
        Some(credential) => payments.with_credential(credential).map_err(InvalidEnvironment::Payments),
        None => Ok(payments),
    }
}

/// How long a task is expected to take, past which it is missing: `LOCKER_EXPECT_MS` (60,000).
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn expect_within() -> Result<Duration, InvalidEnvironment> {
    let range = "a number of milliseconds from 1000 to 900000";
    let expected = number(&environment, "LOCKER_EXPECT_MS", 1000..=900_000, range)?;
    Ok(Duration::from_millis(expected.unwrap_or(60_000)))
}

/// How many workflows a function drives, or deletes, at a time, if it is set: `LOCKER_CONCURRENCY`.
///
/// # Errors
///
/// [`InvalidEnvironment`], which names the variable.
pub fn concurrency() -> Result<Option<usize>, InvalidEnvironment> {
    concurrency_of(&environment)
}

/// The source of variables.
pub(crate) type Variables<'a> = &'a dyn Fn(&'static str) -> Option<OsString>;

pub(crate) fn environment(name: &'static str) -> Option<OsString> {
    std::env::var_os(name)
}

fn table(variables: Variables<'_>, name: &'static str) -> Result<(String, Settings), InvalidEnvironment> {
    let mut settings = Settings::default();
    // A default instead of an unreadable value would hide tokens from listings.
    settings.shards = number(variables, "LOCKER_SHARDS", 1..=1000, "a number from 1 to 1000")?.unwrap_or(1);
    // Nor would a default instead of one keep keys out of the log.
    settings.keys_in_logs = match optional(variables, "LOCKER_KEYS_IN_LOGS")?.as_deref() {
        None | Some("clear") => KeysInLogs::Clear,
        Some("digest") => KeysInLogs::Digest,
        Some(_) => return Err(InvalidEnvironment::Value("LOCKER_KEYS_IN_LOGS", "clear or digest")),
    };
    Ok((required(variables, name)?, settings))
}

fn rows(variables: Variables<'_>) -> Result<String, InvalidEnvironment> {
    required(variables, "ORDERS_TABLE")
}

fn queue(variables: Variables<'_>) -> Result<Option<String>, InvalidEnvironment> {
    let url = optional(variables, "PACKING_QUEUE_URL")?;
    let is_fifo = |url: &String| url.starts_with("http") && url.ends_with(".fifo");
    match url {
        Some(url) if !is_fifo(&url) => Err(InvalidEnvironment::Value(
            "PACKING_QUEUE_URL",
            "the URL of a FIFO queue, which ends with .fifo",
        )),
        url => Ok(url),
    }
}

fn limits(variables: Variables<'_>) -> Result<Limits, InvalidEnvironment> {
    let mut limits = Limits::default();
    let attempts = number(variables, "LOCKER_ATTEMPTS", 1..=1000, "a number from 1 to 1000")?;
    limits.attempts = attempts.unwrap_or(limits.attempts);
    let hours = number(variables, "LOCKER_RETRY_HOURS", 0..=8760, "a number from 0 to 8760")?;
    limits.retry_for = hours.map_or(limits.retry_for, |hours: u64| Duration::from_secs(hours * 3600));
    Ok(limits)
}

fn concurrency_of(variables: Variables<'_>) -> Result<Option<usize>, InvalidEnvironment> {
    number(variables, "LOCKER_CONCURRENCY", 1..=1000, "a number from 1 to 1000")
}

fn payments_of(variables: Variables<'_>) -> Result<Payments, InvalidEnvironment> {
    // A timeout of zero would leave every charge in doubt, and no invocation lasts longer than 15 minutes.
    let range = "a number of milliseconds from 1 to 900000";
    let timeout = number(variables, "PAYMENTS_TIMEOUT_MS", 1..=900_000, range)?.unwrap_or(5000);
    let url = required(variables, "PAYMENTS_URL")?;
    Payments::new(url, Duration::from_millis(timeout)).map_err(InvalidEnvironment::Payments)
}

fn fits(variables: Variables<'_>, shop: &Shop) -> Result<(), InvalidEnvironment> {
    /// The begin and the end of the request's token, and those of the order's.
    const REQUESTS: u32 = 4;
    let range = "a number of milliseconds from 1000 to 900000";
    let function = number(variables, "FUNCTION_TIMEOUT_MS", 1000..=900_000, range)?.unwrap_or(30_000);
    let function = Duration::from_millis(function);
    let order = shop.payments.timeout() + shop.locker.settings().give_up_after * REQUESTS;
    if order <= function { Ok(()) } else { Err(InvalidEnvironment::Timeouts { order, function }) }
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

pub(crate) fn required(variables: Variables<'_>, name: &'static str) -> Result<String, InvalidEnvironment> {
    optional(variables, name)?.ok_or(InvalidEnvironment::Missing(name))
}

pub(crate) fn optional(
    variables: Variables<'_>,
    name: &'static str,
) -> Result<Option<String>, InvalidEnvironment> {
    let value = variables(name).filter(|value| !value.is_empty());
    value.map(OsString::into_string).transpose().map_err(|_| InvalidEnvironment::Value(name, "UTF-8"))
}

#[cfg(test)]
mod properties;
