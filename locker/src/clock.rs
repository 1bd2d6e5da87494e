//! The source of time and of ids. Tests supply their own.

use std::fmt;

use chrono::{DateTime, Utc};

/// A source of the current time.
///
/// It determines stored times, due times and expiry. Pauses and timeouts use tokio's clock, which a
/// test can pause.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> DateTime<Utc>;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn now(&self) -> DateTime<Utc> {
        std::time::SystemTime::now().into()
    }
}

/// A source of attempt ids and jitter.
pub trait Ids: fmt::Debug + Send + Sync {
    /// A globally unique id: 20 to 36 printable ASCII characters. A transaction accepts no longer
    /// token.
    ///
    /// If two begins had the same id, each would treat the token of the other as its own, and the
    /// work would run twice.
    fn attempt(&self) -> String;

    /// A random number from 0 to 1, for the pauses between retries.
    fn jitter(&self) -> f64;
}

/// Random ids (UUID version 4) from the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RandomIds;

impl Ids for RandomIds {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn attempt(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn jitter(&self) -> f64 {
        fastrand::f64()
    }
}
