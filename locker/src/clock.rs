//! Where time and ids come from. Tests bring their own.

use std::fmt;

use chrono::{DateTime, Utc};

/// Tells the time of day.
///
/// Stored times and the judgement of "overdue" and "expired" come from here. Pauses and timeouts
/// come from tokio's clock, which a test can pause.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> DateTime<Utc>;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn now(&self) -> DateTime<Utc> {
        std::time::SystemTime::now().into()
    }
}

/// Makes attempt ids and jitter.
pub trait Ids: fmt::Debug + Send + Sync {
    /// A new id, never given before by anybody: 20 to 64 printable ASCII characters.
    ///
    /// Once-only rests on it. Two begins with one id would each take the other's token for their own.
    fn attempt(&self) -> String;

    /// A number in 0..1 for the pauses between tries.
    fn jitter(&self) -> f64;
}

/// Random ids (UUID version 4) from the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

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
