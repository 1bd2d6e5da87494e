//! The environment of a function, read once at start. One error names everything that is wrong.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::Limits;
use locker::{KeysInLogs, Settings};

/// Why a function cannot start.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct CannotStart(pub(crate) String);

impl CannotStart {
    pub(crate) fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }

    pub(crate) fn missing(variable: &str) -> Self {
        Self(format!("{variable} is not set; the template sets it"))
    }
}

/// The message, because `main` prints its error with `Debug`.
impl std::fmt::Debug for CannotStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The variables of a function. A text that is not set is empty. The chapter on the sample shop in
/// the book lists the defaults.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) table: String,
    pub(crate) workflows_table: String,
    pub(crate) orders_table: String,
    /// Of tokens and workflows.
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) concurrency: Option<usize>,
    pub(crate) payments_url: String,
    pub(crate) payments_timeout: Duration,
    pub(crate) function_timeout: Duration,
    pub(crate) payments_secret: String,
    pub(crate) fingerprint_secret: String,
    pub(crate) secrets_endpoint: String,
    pub(crate) packing_queue: String,
    pub(crate) sqs_endpoint: String,
}

impl Environment {
    pub(crate) fn read() -> Result<Self, CannotStart> {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, CannotStart> {
        let mut variables = Variables { get, wrong: Vec::new() };
        let environment = variables.environment();
        let wrong = variables.wrong;
        if wrong.is_empty() { Ok(environment) } else { Err(CannotStart(wrong.join("\n"))) }
    }
}

/// The variables, and an error message for each wrong variable.
struct Variables<F> {
    get: F,
    wrong: Vec<String>,
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn environment(&mut self) -> Environment {
        let mut settings = Settings::default();
        // A default instead of an unreadable value would hide tokens from listings.
        settings.shards = self.number("LOCKER_SHARDS", 1..=1000).unwrap_or(1);
        settings.restored = self.moment("LOCKER_RESTORED");
        settings.expect_within = self.millis("LOCKER_EXPECT_MS", 1000, 60_000);
        settings.keys_in_logs = match self.text("LOCKER_KEYS_IN_LOGS").as_str() {
            "" | "clear" => KeysInLogs::Clear,
            "digest" => KeysInLogs::Digest,
            _ => {
                self.refuse("LOCKER_KEYS_IN_LOGS", "clear or digest");
                KeysInLogs::Digest
            }
        };
        let mut limits = Limits::default();
        limits.attempts = self.number("LOCKER_ATTEMPTS", 1..=1000).unwrap_or(limits.attempts);
        let hours = self.number("LOCKER_RETRY_HOURS", 0..=8760);
        limits.retry_for = hours.map_or(limits.retry_for, |hours: u64| Duration::from_secs(hours * 3600));
        let packing_queue = self.text("PACKING_QUEUE_URL");
        let is_fifo = packing_queue.starts_with("http") && packing_queue.ends_with(".fifo");
        if !packing_queue.is_empty() && !is_fifo {
            self.refuse("PACKING_QUEUE_URL", "the URL of a FIFO queue, which ends with .fifo");
        }
        Environment {
            table: self.text("LOCKER_TABLE"),
            workflows_table: self.text("LOCKER_WORKFLOWS_TABLE"),
            orders_table: self.text("ORDERS_TABLE"),
            settings,
            limits,
            concurrency: self.number("LOCKER_CONCURRENCY", 1..=1000),
            payments_url: self.text("PAYMENTS_URL"),
            // A timeout of zero would leave every charge in doubt, and no invocation lasts longer
            // than 15 minutes.
            payments_timeout: self.millis("PAYMENTS_TIMEOUT_MS", 1, 5000),
            // API Gateway waits 30 seconds at most.
            function_timeout: self.millis("FUNCTION_TIMEOUT_MS", 1000, 30_000),
            payments_secret: self.text("PAYMENTS_SECRET_ARN"),
            fingerprint_secret: self.text("LOCKER_FINGERPRINT_SECRET_ARN"),
            secrets_endpoint: self.text("AWS_ENDPOINT_URL_SECRETS_MANAGER"),
            packing_queue,
            sqs_endpoint: self.text("AWS_ENDPOINT_URL_SQS"),
        }
    }

    fn text(&mut self, name: &str) -> String {
        (self.get)(name).unwrap_or_default().into_string().unwrap_or_else(|_| {
            self.refuse(name, "UTF-8");
            String::new()
        })
    }

    fn number<T: TryFrom<u64>>(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<T> {
        let text = self.text(name);
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() && !text.is_empty() {
            self.refuse(name, &format!("a number from {} to {}", range.start(), range.end()));
        }
        number.and_then(|number| T::try_from(number).ok())
    }

    /// A time that cannot be read is refused: without it, a restored table would be open.
    fn moment(&mut self, name: &str) -> Option<DateTime<Utc>> {
        let text = self.text(name);
        let time = DateTime::parse_from_rfc3339(&text).ok();
        if time.is_none() && !text.is_empty() {
            self.refuse(name, "a time such as 2026-11-27T08:30:00Z");
        }
        time.map(|time| time.to_utc())
    }

    fn millis(&mut self, name: &str, least: u64, default: u64) -> Duration {
        Duration::from_millis(self.number(name, least..=900_000).unwrap_or(default))
    }

    fn refuse(&mut self, name: &str, expected: &str) {
        self.wrong.push(format!("{name} is not {expected}; correct it in the template"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn wrong_values_are_refused_together_and_not_replaced() {
        let number = |range: &str| format!("a number from {range}");
        let not_utf8 = || OsString::from_vec(vec![b'4', 0xff]);
        for (name, values, expected) in [
            ("LOCKER_SHARDS", &["0", "1001", "-1", " 4", "18446744073709551617"][..], number("1 to 1000")),
            ("LOCKER_ATTEMPTS", &["0", "1001"], number("1 to 1000")),
            ("LOCKER_RETRY_HOURS", &["8761", "1e3"], number("0 to 8760")),
            ("LOCKER_CONCURRENCY", &["0", "many"], number("1 to 1000")),
            ("LOCKER_EXPECT_MS", &["999", "900001"], number("1000 to 900000")),
            ("PAYMENTS_TIMEOUT_MS", &["0", "900001", "5s"], number("1 to 900000")),
            ("FUNCTION_TIMEOUT_MS", &["999", "900001"], number("1000 to 900000")),
            ("LOCKER_KEYS_IN_LOGS", &["none", "Digest"], "clear or digest".to_owned()),
            (
                "PACKING_QUEUE_URL",
                &["packing.fifo", "https://sqs.eu-west-1.amazonaws.com/1/packing"],
                "the URL of a FIFO queue, which ends with .fifo".to_owned(),
            ),
        ] {
            for value in values {
                let get = |asked: &str| {
                    (asked == name).then(|| value.into()).or_else(|| (asked == "LOCKER_TABLE").then(not_utf8))
                };
                let said = Environment::of(get).unwrap_err().to_string();
                let wrong = format!("{name} is not {expected}; correct it in the template");
                let other = "LOCKER_TABLE is not UTF-8; correct it in the template";
                assert_eq!(BTreeSet::from_iter(said.lines()), BTreeSet::from([other, &wrong]), "{value}");
            }
        }
    }

    #[test]
    fn each_limit_is_read_in_its_unit() {
        let get = |name: &str| match name {
            "LOCKER_ATTEMPTS" => Some("7".into()),
            "LOCKER_RETRY_HOURS" => Some("72".into()),
            "LOCKER_RESTORED" => Some("2026-11-27T08:30:00Z".into()),
            _ => None,
        };
        let read = Environment::of(get).unwrap();
        let hours = read.limits.retry_for.as_secs() / 3600;
        assert_eq!((read.limits.attempts, hours), (7, 72));
        assert_eq!(read.settings.restored.map(|time| time.timestamp()), Some(1_795_768_200));
    }

    #[test]
    fn variables_that_are_not_set_or_empty_have_their_defaults() {
        for get in [|_: &str| None, |_: &str| Some(OsString::new())] {
            let read = Environment::of(get).unwrap();
            assert_eq!((read.settings.shards, read.settings.keys_in_logs), (1, KeysInLogs::Clear));
            let times = [read.settings.expect_within, read.payments_timeout, read.function_timeout];
            assert_eq!(times.map(|time| time.as_secs()), [60, 5, 30]);
            assert_eq!((read.limits, read.concurrency), (Limits::default(), None));
        }
    }
}
