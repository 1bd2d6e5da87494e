//! Settings: plain data, validated when a [`Locker`](crate::Locker) is built.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::argument::InvalidSetting;
use crate::core::retention::Retention;
use crate::core::time;

/// The default of [`Settings::attempt_timeout`].
pub(crate) const ATTEMPT_TIMEOUT: Duration = SECOND;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Defaults of a [`Locker`](crate::Locker), some of which a call can override.
///
/// ```
/// let mut settings = locker::Settings::default();
/// settings.shards = 4;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// How long work is expected to take; past it, a token is overdue. Default: 60 seconds.
    pub expect_within: Duration,
    /// How long an answer is kept. Default: 30 days, which is longer than any AWS queue keeps a
    /// message.
    pub retention: Retention,
    /// How long the audit record of an operator's act is kept; it outlives the token. Default: 400
    /// days.
    pub audit_retention: Retention,
    /// Number of values of `status` over which unfinished work is spread in the index. Default: 1,
    /// which supports about 500 tokens a second. You can raise it at any time, first in processes
    /// that only list. Until each process has the new number, processes with the old number do not
    /// list all work. **Never lower it** while unfinished tokens remain, or listings no longer find
    /// them.
    pub shards: u16,
    /// Whether this process spreads its writes over the [`shards`](Self::shards). Default: `true`.
    ///
    /// With `false`, it writes only to the value of `status` that each process lists. So its
    /// `shards` may exceed those of other processes. The command `locker` does this.
    pub spread_writes: bool,
    /// How long one request may take, including the connection. Default: 1 second.
    pub attempt_timeout: Duration,
    /// How long a call retries before it reports that the outcome is unknown. Default: 5 seconds; a
    /// deadline given to the call can shorten it.
    pub give_up_after: Duration,
    /// The pause before the first retry; it doubles with each one, with full jitter. Default: 25
    /// milliseconds.
    pub backoff_base: Duration,
    /// The longest pause between retries. Default: 1 second.
    pub backoff_cap: Duration,
    /// The largest difference between the clocks of two machines. It is added to every grace before
    /// a takeover. Default: 5 seconds.
    pub max_clock_skew: Duration,
    /// The owner of tokens, unless a call sets it. Default: the name of the Lambda function and its
    /// log stream, or the program and its process id.
    pub owner: String,
    /// The form of keys in logs. Default: the key itself, so that an operator can find the token.
    pub keys_in_logs: KeysInLogs,
    /// The end of the restore, if the table was restored from a backup. Default: `None`.
    ///
    /// The table has forgotten every write after its snapshot. While this is set, the table is
    /// closed for requests from before this time, or up to
    /// [`max_clock_skew`](Self::max_clock_skew) after it: their keys are held for an operator, and
    /// callers receive [`Begun::Restored`](crate::Begun::Restored). A request has the time that
    /// [`requested_at`](crate::BeginBuilder::requested_at) passes; a request without a time is from
    /// before this time. Set the same time in each process that uses the table. A time that is more
    /// than `max_clock_skew` in the future is refused. Remove the setting when no caller retries an
    /// older request.
    pub restored: Option<DateTime<Utc>>,
    /// Ask DynamoDB what each request consumed, and record it in the metrics
    /// [`consumedWriteUnits`](crate::metrics) and [`consumedReadUnits`](crate::metrics). Default:
    /// `false`.
    pub consumed_capacity: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expect_within: MINUTE,
            retention: Retention::For(30 * DAY),
            audit_retention: Retention::For(400 * DAY),
            shards: 1,
            spread_writes: true,
            attempt_timeout: ATTEMPT_TIMEOUT,
            give_up_after: 5 * SECOND,
            backoff_base: Duration::from_millis(25),
            backoff_cap: SECOND,
            max_clock_skew: 5 * SECOND,
            owner: default_owner(),
            keys_in_logs: KeysInLogs::Clear,
            restored: None,
            consumed_capacity: false,
        }
    }
}

/// The form of keys in logs and spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeysInLogs {
    /// The key itself.
    Clear,
    /// [`Key::digest`](crate::Key::digest): it identifies the key and does not contain it.
    Digest,
}

impl Settings {
    /// The number of values of `status` over which writes are spread.
    pub(crate) const fn write_shards(&self) -> u16 {
        if self.spread_writes { self.shards } else { 1 }
    }

    pub(crate) fn check(&self, now: DateTime<Utc>) -> Result<(), InvalidSetting> {
        check_expect_within(self.expect_within)?;
        check_retention(self.retention)?;
        check_retention(self.audit_retention)?;
        check_owner(&self.owner)?;
        in_range("attempt_timeout", self.attempt_timeout, Duration::from_millis(1), MINUTE, "")?;
        in_range("give_up_after", self.give_up_after, Duration::from_millis(1), MINUTE, "")?;
        in_range("backoff_base", self.backoff_base, Duration::from_millis(1), MINUTE, "")?;
        in_range("backoff_cap", self.backoff_cap, self.backoff_base, MINUTE, "")?;
        in_range("max_clock_skew", self.max_clock_skew, Duration::ZERO, DAY, "")?;
        check_restored(self.restored, time::after(now, self.max_clock_skew))?;
        match self.shards {
            1..=1000 => Ok(()),
            given => Err(InvalidSetting::Shards { given }),
        }
    }
}

// If the time were in the future, each new request would be held, also after an operator released
// its key.
fn check_restored(given: Option<DateTime<Utc>>, latest: DateTime<Utc>) -> Result<(), InvalidSetting> {
    match given.filter(|given| *given > latest) {
        Some(given) => Err(InvalidSetting::Restored { given }),
        None => Ok(()),
    }
}

pub(crate) fn check_expect_within(given: Duration) -> Result<(), InvalidSetting> {
    in_range("expect_within", given, SECOND, 366 * DAY, "")
}

// A retention shorter than the retry loop could let an answer expire before its writer receives
// the reply that it was stored.
pub(crate) fn check_retention(retention: Retention) -> Result<(), InvalidSetting> {
    match retention {
        Retention::Forever => Ok(()),
        Retention::For(given) => {
            let hint = "; use forever to keep answers indefinitely";
            in_range("retention", given, MINUTE, 3660 * DAY, hint)
        }
    }
}

pub(crate) fn check_grace(given: Duration) -> Result<(), InvalidSetting> {
    in_range("grace", given, Duration::ZERO, 366 * DAY, "")
}

pub(crate) fn check_wait(given: Duration) -> Result<(), InvalidSetting> {
    in_range("wait_for", given, Duration::from_millis(1), DAY, "")
}

/// How long code waits for an event.
#[cfg(feature = "workflow")]
pub(crate) fn check_within(given: Duration) -> Result<(), InvalidSetting> {
    in_range("within", given, Duration::from_millis(1), 366 * DAY, "")
}

#[cfg(feature = "workflow")]
pub(crate) fn check_event_id(id: &str) -> Result<(), InvalidSetting> {
    let fits = (1..=256).contains(&id.len()) && !id.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(InvalidSetting::EventId) }
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

#[cfg(feature = "workflow")]
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
        settings.check(DateTime::UNIX_EPOCH).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_allowed() {
        assert_eq!(Settings::default().check(DateTime::UNIX_EPOCH), Ok(()));
    }

    #[test]
    fn zero_and_absurd_durations_say_what_is_allowed() {
        assert_eq!(
            refused(|settings| settings.expect_within = Duration::ZERO),
            "expect_within must be between 1s and 366 days, got 0ns"
        );
        assert_eq!(
            refused(|settings| settings.retention = Retention::For(Duration::MAX)),
            "retention must be between 60s and 3660 days, got 213503982334601 days; use forever to keep answers indefinitely"
        );
        assert_eq!(
            refused(|settings| settings.retention = Retention::For(SECOND)),
            "retention must be between 60s and 3660 days, got 1s; use forever to keep answers indefinitely"
        );
        assert!(
            refused(|settings| settings.audit_retention = Retention::For(SECOND))
                .starts_with("retention must be between 60s and 3660 days, got 1s")
        );
        assert_eq!(
            refused(|settings| settings.backoff_cap = Duration::from_millis(24)),
            "backoff_cap must be between 25ms and 60s, got 24ms"
        );
        assert_eq!(refused(|settings| settings.shards = 0), "shards must be between 1 and 1000, got 0");
        assert!(
            refused(|settings| settings.owner = "a\nb".into())
                .starts_with("the owner must be 1 to 256 bytes")
        );
    }

    #[test]
    fn an_end_of_a_restore_in_the_future_is_refused() {
        let skew = Settings::default().max_clock_skew;
        let latest = time::after(DateTime::UNIX_EPOCH, skew);
        let settings = Settings { restored: Some(latest), ..Settings::default() };
        assert_eq!(settings.check(DateTime::UNIX_EPOCH), Ok(()));
        assert_eq!(
            refused(|settings| settings.restored = Some(time::after(latest, SECOND))),
            "restored is the end of a restore, and 1970-01-01T00:00:06.000Z is in the future; set the time at which the restore ended"
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
