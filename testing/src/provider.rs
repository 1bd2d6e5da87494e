//! A provider with records, such as a bank. It recognises an idempotency key for a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::{Clock, Failure, SystemClock};

use crate::faults::{Calls, Effect, Line};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An effect that a provider executed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The idempotency key.
    pub key: String,
    /// The description of the effect.
    pub what: String,
    /// The receipt that the caller received. It is unique.
    pub receipt: String,
    /// The time of the effect.
    pub at: DateTime<Utc>,
}

/// A provider that records each effect that it executed. Clones share the records.
///
/// ```
/// use lock_token_testing::{CallFate, Calls, Embedded, Provider};
/// use locker::Locker;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dynamodb = Embedded::memory()?.client();
/// locker::create_table(&dynamodb, "locks").await?;
/// let locker = Locker::new(&dynamodb, "locks")?;
/// let calls = Calls::default();
/// let bank = Provider::new().over(&calls);
///
/// calls.next([CallFate::ReplyLost]);
/// let charge = async || {
///     let charged = locker.token("order/7").run(|attempt| bank.apply(&attempt.idempotency_key(), "charge"));
///     charged.await
/// };
/// assert!(charge().await.is_err(), "it is unknown whether the card was charged");
/// assert!(charge().await.is_err(), "so the card is not charged again");
/// assert_eq!(bank.count("charge"), 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Provider {
    books: Arc<Mutex<Books>>,
    line: Arc<dyn Line>,
    clock: Arc<dyn Clock>,
}

/// The records of a provider, and the time for which it recognises a key.
#[derive(Debug)]
pub(crate) struct Books {
    entries: Vec<Entry>,
    recognises_for: Duration,
    refused: HashSet<String>,
}

impl Books {
    pub(crate) fn knowing_keys_for(recognises_for: Duration) -> Self {
        Self { entries: Vec::new(), recognises_for, refused: HashSet::new() }
    }

    /// Returns the receipt. `None`: the provider refuses the key.
    fn apply(&mut self, key: &str, what: &str, now: DateTime<Utc>) -> Option<String> {
        let window = TimeDelta::from_std(self.recognises_for).unwrap_or(TimeDelta::MAX);
        let known = self.entries.iter().rev().find(|entry| entry.key == key && now - entry.at < window);
        if let Some(known) = known {
            // Another request under the same key is a mistake of the caller.
            return (known.what == what).then(|| known.receipt.clone());
        }
        if self.refused.contains(key) {
            return None;
        }
        let receipt = format!("receipt-{}", self.entries.len() + 1);
        let entry = Entry { key: key.to_owned(), what: what.to_owned(), receipt: receipt.clone(), at: now };
        self.entries.push(entry);
        Some(receipt)
    }
}

impl Provider {
    /// Creates a provider without records and with the time of this machine. It recognises a key
    /// for 24 hours, and all calls succeed.
    #[must_use]
    pub fn new() -> Self {
        let books = Arc::new(Mutex::new(Books::knowing_keys_for(DAY)));
        Self::with_line(books, Arc::new(Calls::default()), Arc::new(SystemClock))
    }

    pub(crate) fn with_line(books: Arc<Mutex<Books>>, line: Arc<dyn Line>, clock: Arc<dyn Clock>) -> Self {
        Self { books, line, clock }
    }

    /// Returns a provider with the same records that is reached through these calls.
    #[must_use]
    pub fn over(self, calls: &Calls) -> Self {
        Self { line: Arc::new(calls.clone()), ..self }
    }

    /// Returns a provider with the same records and this clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets how long the provider recognises an idempotency key. Zero: it recognises no keys, and
    /// each call is a new effect.
    #[must_use]
    pub fn recognises_for(self, time: Duration) -> Self {
        locked(&self.books).recognises_for = time;
        self
    }

    /// Executes an effect under an idempotency key, such as a charge or a refund, and returns a
    /// receipt.
    ///
    /// While the provider [recognises](Self::recognises_for) the key, a repeated key has no new
    /// effect, and another effect under the key is refused. A call that was
    /// [declined](crate::CallFate::Declined) leaves no record: the same key may succeed later.
    ///
    /// # Errors
    ///
    /// A transient or permanent [`Failure`] if nothing happened, and one in doubt if that is
    /// unknown.
    pub fn apply(
        &self,
        key: &str,
        what: &str,
    ) -> impl Future<Output = Result<String, Failure>> + Send + use<> {
        let shown = format!("{what} under {key}");
        let (books, clock) = (Arc::clone(&self.books), Arc::clone(&self.clock));
        let (key, what) = (key.to_owned(), what.to_owned());
        let effect: Effect = Box::new(move || locked(&books).apply(&key, &what, clock.now()));
        let line = Arc::clone(&self.line);
        async move {
            let refused = || Failure::permanent(format!("{shown} is refused"));
            line.call(shown.clone(), effect).await?.ok_or_else(refused)
        }
    }

    /// Looks up a key. Returns the receipt, if an effect was executed under the key.
    ///
    /// # Errors
    ///
    /// Same as [`apply`](Self::apply).
    pub fn find(&self, key: &str) -> impl Future<Output = Result<Option<String>, Failure>> + Send + use<> {
        let (books, shown, key) = (Arc::clone(&self.books), format!("a look for {key}"), key.to_owned());
        let effect: Effect = Box::new(move || {
            let of_key = |entry: &&Entry| entry.key == key;
            locked(&books).entries.iter().rev().find(of_key).map(|entry| entry.receipt.clone())
        });
        let line = Arc::clone(&self.line);
        async move { line.call(shown, effect).await }
    }

    /// Refuses this key from now on: a call that arrives later is a permanent failure.
    ///
    /// Returns the receipt of an earlier effect, if there was one. A compensation of a step in
    /// doubt calls this first: after it, the step can no longer take effect.
    ///
    /// # Errors
    ///
    /// Same as [`apply`](Self::apply).
    pub fn refuse(&self, key: &str) -> impl Future<Output = Result<Option<String>, Failure>> + Send + use<> {
        let (books, shown, key) = (Arc::clone(&self.books), format!("refuse {key}"), key.to_owned());
        let effect: Effect = Box::new(move || {
            let mut books = locked(&books);
            books.refused.insert(key.clone());
            books.entries.iter().rev().find(|entry| entry.key == key).map(|entry| entry.receipt.clone())
        });
        let line = Arc::clone(&self.line);
        async move { line.call(shown, effect).await }
    }

    /// Returns all effects, in order.
    #[must_use]
    pub fn books(&self) -> Vec<Entry> {
        locked(&self.books).entries.clone()
    }

    /// Returns how often an effect was executed.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        locked(&self.books).entries.iter().filter(|entry| entry.what == what).count()
    }
}

impl Default for Provider {
    fn default() -> Self {
        Self::new()
    }
}

fn locked(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
