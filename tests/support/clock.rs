//! A clock that moves only on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::{Clock, SystemClock};

/// Starts at the time of the machine, since an engine may delete what has expired by its own clock.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(SystemClock.now().timestamp_millis())))
    }

    /// Let time pass.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).expect("a test's time fits"), Ordering::SeqCst);
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Set the time, back if need be.
    pub(crate) fn set_millis(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    /// A machine whose clock is behind this one.
    #[must_use]
    pub fn behind(&self, by: Duration) -> Self {
        let now = self.0.load(Ordering::SeqCst) - i64::try_from(by.as_millis()).expect("a test's time fits");
        Self(Arc::new(AtomicI64::new(now)))
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).expect("a test's time fits")
    }
}
