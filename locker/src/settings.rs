//! Settings: plain data, checked when a [`Locker`](crate::Locker) is built.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::time;

/// The default of [`Settings::attempt_timeout`].
pub(crate) const ATTEMPT_TIMEOUT: Duration = SECOND;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a [`Locker`](crate::Locker) behaves where a call does not say otherwise.
///
/// ```
/// let mut settings = locker::Settings::default();
/// settings.shards = 4;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// How long work is expected to take; past it a token is overdue. 60 seconds.
    pub expect_within: Duration,
    /// How long an answer is kept. 30 days: longer than any queue of AWS keeps a message.
    pub retention: Retention,
    /// Over how many values of `status` unfinished work is spread in the index. 1 carries about 500
    /// tokens a second. Raise it while running as you like, everywhere that lists first; **never
    /// lower it** while unfinished tokens remain, or listings lose sight of them.
    pub shards: u16,
    /// How long one request may take, connecting included. 1 second.
    pub attempt_timeout: Duration,
    /// How long a call keeps trying until it answers that it does not know. 5 seconds; a deadline
    /// given to the call can make it shorter.
    pub give_up_after: Duration,
    /// The pause before the second try; it doubles from there, with full jitter. 25 milliseconds.
    pub backoff_base: Duration,
    /// The longest pause between tries. 1 second.
    pub backoff_cap: Duration,
    /// How far apart the clocks of two machines may be. It is added to every grace before a
    /// takeover. 5 seconds.
    pub max_clock_skew: Duration,
    /// Who holds the tokens, where a call does not say. By default the name of the Lambda function
    /// and its log stream, or the program and its process id.
    pub owner: String,
    /// What logs show of a key. The key itself, so that an operator can find the token.
    pub keys_in_logs: KeysInLogs,
    /// Ask DynamoDB what each request consumed, and count it in the metrics
    /// [`CONSUMED_WRITE_UNITS`](crate::metrics::CONSUMED_WRITE_UNITS) and
    /// [`CONSUMED_READ_UNITS`](crate::metrics::CONSUMED_READ_UNITS). Off.
    pub consumed_capacity: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expect_within: MINUTE,
            retention: Retention::For(30 * DAY),
            shards: 1,
            attempt_timeout: ATTEMPT_TIMEOUT,
            give_up_after: 5 * SECOND,
            backoff_base: Duration::from_millis(25),
            backoff_cap: SECOND,
            max_clock_skew: 5 * SECOND,
            owner: default_owner(),
            keys_in_logs: KeysInLogs::Clear,
            consumed_capacity: false,
        }
    }
}

/// How long an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// From its completion on. DynamoDB deletes it some time later, and it counts as absent from then on.
    For(Duration),
    /// For ever.
    Forever,
}

impl Retention {
    /// The `ttl` of something that ends at a time: epoch seconds, rounded up.
    pub(crate) fn ttl(self, ended: DateTime<Utc>) -> Option<i64> {
        match self {
            Self::Forever => None,
            Self::For(kept) => Some(time::after(ended, kept).timestamp().saturating_add(1)),
        }
    }
}

/// What logs and spans show of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysInLogs {
    /// The key.
    Clear,
    /// [`Key::digest`](crate::Key::digest): enough to find it again, not to read it.
    Digest,
}

/// Why a setting or an argument was refused. Nothing was sent; mend it and call again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSetting {
    /// A duration outside the range that makes sense.
    #[error("{name} is {}; it must be from {} to {}{hint}", readable(*given), readable(*least), readable(*most))]
    Duration {
        /// Which one.
        name: &'static str,
        /// What was given.
        given: Duration,
        /// The least that is taken.
        least: Duration,
        /// The most that is taken.
        most: Duration,
        /// What to do instead, if there is something.
        hint: &'static str,
    },
    /// A number outside its range.
    #[error("shards is {given}; it must be from 1 to 1000")]
    Shards {
        /// What was given.
        given: u16,
    },
    /// An owner that could not be shown in a listing.
    #[error("the owner is 1 to 256 bytes without control characters, such as order_update/<request id>")]
    Owner,
    /// A table name that DynamoDB does not take.
    #[error("a table name is 3 to 255 letters, digits, -, _ and ., or the ARN of a table")]
    Table,
    /// The name of a workflow.
    #[error("the name of the workflow: {0}")]
    Name(crate::core::workflow::name::InvalidName),
    /// Versions of a key are counted from 1.
    #[error("key_version is 0; versions of a key are counted from 1")]
    KeyVersion,
    /// No attempts at all.
    #[error("attempts is 0; a workflow needs at least one")]
    Attempts,
    /// A deadline that has passed, so there is no time to do anything.
    #[error("the deadline has passed; nothing was begun")]
    Deadline,
    /// A text of a person that is empty or too long.
    #[error("the {name} is 1 to 1000 bytes; say {what}")]
    Text {
        /// Which one.
        name: &'static str,
        /// What it is for.
        what: &'static str,
    },
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        check_expect_within(self.expect_within)?;
        check_retention(self.retention)?;
        check_owner(&self.owner)?;
        in_range("attempt_timeout", self.attempt_timeout, Duration::from_millis(1), MINUTE, "")?;
        in_range("give_up_after", self.give_up_after, Duration::from_millis(1), MINUTE, "")?;
        in_range("backoff_base", self.backoff_base, Duration::from_millis(1), MINUTE, "")?;
        in_range("backoff_cap", self.backoff_cap, self.backoff_base, MINUTE, "")?;
        in_range("max_clock_skew", self.max_clock_skew, Duration::ZERO, DAY, "")?;
        match self.shards {
            1..=1000 => Ok(()),
            given => Err(InvalidSetting::Shards { given }),
        }
    }
}

pub(crate) fn check_expect_within(given: Duration) -> Result<(), InvalidSetting> {
    in_range("expect_within", given, SECOND, 366 * DAY, "")
}

// A retention shorter than the retry loop could let an answer expire before its writer has heard
// that it was stored.
pub(crate) fn check_retention(retention: Retention) -> Result<(), InvalidSetting> {
    match retention {
        Retention::Forever => Ok(()),
        Retention::For(given) => {
            in_range("the retention", given, MINUTE, 3660 * DAY, "; to keep answers for ever, say so")
        }
    }
}

pub(crate) fn check_grace(given: Duration) -> Result<(), InvalidSetting> {
    in_range("the grace", given, Duration::ZERO, 366 * DAY, "")
}

pub(crate) fn check_wait(given: Duration) -> Result<(), InvalidSetting> {
    in_range("wait_for", given, Duration::from_millis(1), DAY, "")
}

pub(crate) fn check_owner(owner: &str) -> Result<(), InvalidSetting> {
    let fits = (1..=256).contains(&owner.len()) && !owner.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(InvalidSetting::Owner) }
}

pub(crate) fn check_table(table: &str) -> Result<(), InvalidSetting> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let named = (3..=255).contains(&table.len()) && table.bytes().all(plain);
    let arn = table.starts_with("arn:") && table.len() <= 1024;
    if named || arn { Ok(()) } else { Err(InvalidSetting::Table) }
}

pub(crate) fn check_text(name: &'static str, text: &str, what: &'static str) -> Result<(), InvalidSetting> {
    match text.trim().len() {
        1..=1000 => Ok(()),
        _ => Err(InvalidSetting::Text { name, what }),
    }
}

pub(crate) fn check_duration(
    name: &'static str,
    given: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), InvalidSetting> {
    in_range(name, given, least, most, "")
}

fn in_range(
    name: &'static str,
    given: Duration,
    least: Duration,
    most: Duration,
    hint: &'static str,
) -> Result<(), InvalidSetting> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(InvalidSetting::Duration { name, given, least, most, hint })
}

/// Days where there are many, and what `Debug` shows otherwise.
fn readable(duration: Duration) -> String {
    if duration < 2 * DAY {
        format!("{duration:?}")
    } else {
        format!("{} days", duration.as_secs() / DAY.as_secs())
    }
}

fn default_owner() -> String {
    let lambda =
        std::env::var("AWS_LAMBDA_FUNCTION_NAME").ok().zip(std::env::var("AWS_LAMBDA_LOG_STREAM_NAME").ok());
    let owner = lambda.map_or_else(
        || {
            let program = std::env::current_exe().ok();
            let program = program.as_ref().and_then(|path| path.file_stem()?.to_str());
            format!("{}/{}", program.unwrap_or("program"), std::process::id())
        },
        |(function, stream)| format!("{function}/{stream}"),
    );
    if check_owner(&owner).is_ok() { owner } else { format!("program/{}", std::process::id()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_allowed() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn zero_and_absurd_durations_say_what_is_allowed() {
        assert_eq!(
            refused(|settings| settings.expect_within = Duration::ZERO),
            "expect_within is 0ns; it must be from 1s to 366 days"
        );
        assert_eq!(
            refused(|settings| settings.retention = Retention::For(Duration::MAX)),
            "the retention is 213503982334601 days; it must be from 60s to 3660 days; to keep answers for ever, say so"
        );
        assert_eq!(
            refused(|settings| settings.retention = Retention::For(SECOND)),
            "the retention is 1s; it must be from 60s to 3660 days; to keep answers for ever, say so"
        );
        assert_eq!(refused(|settings| settings.shards = 0), "shards is 0; it must be from 1 to 1000");
        assert!(
            refused(|settings| settings.owner = "a\nb".into()).starts_with("the owner is 1 to 256 bytes")
        );
    }

    #[test]
    fn table_names_are_checked_before_any_request() {
        for table in ["locks", "my.locks-2", "arn:aws:dynamodb:eu-west-1:123456789012:table/locks"] {
            assert_eq!(check_table(table), Ok(()), "{table}");
        }
        for table in ["", "ab", "locks table", "löcks"] {
            assert_eq!(check_table(table), Err(InvalidSetting::Table), "{table}");
        }
    }
}
