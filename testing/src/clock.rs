//! Clocks for tests: a clock that the test sets, and a clock that follows the time of tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::{Clock, SystemClock};
use tokio::time::Instant;

/// A clock that stands still until the test moves it. Clones share the time.
///
/// It determines what is overdue, expired and due. Pauses between retries and timeouts of requests
/// use tokio's clock. Do not pause that with `start_paused` where an [`Embedded`](crate::Embedded)
/// answers: its threads are not seen by tokio, so that timeouts pass while it works. A
/// [`sweep`](crate::sweep), which answers in its own thread, does pause it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use lock_token_testing::{Embedded, TestClock};
/// use locker::{Begun, Locker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dynamodb = Embedded::memory()?.client();
/// locker::create_table(&dynamodb, "locks").await?;
/// let clock = TestClock::new();
/// let locker = Locker::builder(&dynamodb, "locks").with_clock(Arc::new(clock.clone())).build()?;
///
/// let token = || locker.token("report/7").expect_within(Duration::from_secs(60));
/// let Begun::Acquired(lock) = token().begin().await? else { panic!("it is new") };
/// lock.leave_in_doubt("the process ends here").await;
///
/// clock.advance(Duration::from_secs(3600));
/// let again = token().take_over_after(Duration::from_secs(60)).begin().await?;
/// assert!(matches!(again, Begun::Acquired(_)), "it is overdue, and is taken over");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// Creates a clock with the current time of this machine.
    ///
    /// A real DynamoDB deletes expired items by its own clock, so a test of expiry should start at
    /// the current time. The embedded one deletes none. A [`Provider`](crate::Provider) has a clock
    /// of its own: set this one with [`with_clock`](crate::Provider::with_clock).
    #[must_use]
    pub fn new() -> Self {
        Self::at(SystemClock.now())
    }

    /// Creates a clock with this time, in milliseconds.
    #[must_use]
    pub fn at(time: DateTime<Utc>) -> Self {
        Self(Arc::new(AtomicI64::new(time.timestamp_millis())))
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(millis(by))));
    }

    /// Sets the time. It may be in the past.
    pub fn set(&self, time: DateTime<Utc>) {
        self.0.store(time.timestamp_millis(), Ordering::SeqCst);
    }

    /// Returns the clock of another machine, which is slow by this much. It is independent: it
    /// stands still when this clock moves.
    #[must_use]
    pub fn behind(&self, by: Duration) -> Self {
        Self(Arc::new(AtomicI64::new(self.0.load(Ordering::SeqCst).saturating_sub(millis(by)))))
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The time of day by tokio's clock, which a paused runtime advances while all tasks wait.
///
/// With it, the pauses of a test and the times in its tables agree.
#[derive(Debug, Clone, Copy)]
pub struct PausedClock {
    base: DateTime<Utc>,
    begun: Instant,
}

impl PausedClock {
    /// Creates a clock with this time. In a paused runtime, call it inside the runtime.
    #[must_use]
    pub fn starting_at(base: DateTime<Utc>) -> Self {
        Self { base, begun: Instant::now() }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> DateTime<Utc> {
        self.base + TimeDelta::from_std(self.begun.elapsed()).unwrap_or_default()
    }
}
