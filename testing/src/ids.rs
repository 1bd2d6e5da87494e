//! Ids and jitter without randomness.

use std::sync::atomic::{AtomicU64, Ordering};

use locker::Ids;

/// Attempt ids that are the same in each run of a test, such as `attempt-0000000000000001`, and
/// jitter that is always one half.
///
/// The processes of a test share one instance, or each has its own prefix: two begins with the same
/// id would each treat the other's token as their own.
///
/// ```
/// use std::sync::Arc;
/// use lock_token_testing::{Embedded, NumberedIds};
/// use locker::{Begun, Locker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dynamodb = Embedded::memory()?.client();
/// locker::create_table(&dynamodb, "locks").await?;
/// let ids = Arc::new(NumberedIds::new("attempt"));
/// let locker = Locker::builder(&dynamodb, "locks").with_ids(ids).build()?;
///
/// let Begun::Acquired(lock) = locker.token("report/7").begin().await? else { panic!("it is new") };
/// assert_eq!(lock.attempt().id(), "attempt-0000000000000000");
/// lock.complete(&"sent").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct NumberedIds {
    prefix: String,
    next: AtomicU64,
}

impl NumberedIds {
    /// Creates ids with this prefix: 3 to 19 printable ASCII characters. They are counted from 0.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), next: AtomicU64::new(0) }
    }

    /// Continues the count from this number.
    pub fn count_from(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }
}

impl Default for NumberedIds {
    fn default() -> Self {
        Self::new("attempt")
    }
}

impl Ids for NumberedIds {
    fn attempt(&self) -> String {
        format!("{}-{:016}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}
