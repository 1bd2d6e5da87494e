//! A provider with books, such as a bank: it recognises an idempotency key for a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::{Clock, Failure, SystemClock};

use crate::faults::{Calls, Effect, Line};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a provider has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The idempotency key.
    pub key: String,
    /// What was done.
    pub what: String,
    /// What the caller was given. No other entry has the same.
    pub receipt: String,
    /// When it was done.
    pub at: DateTime<Utc>,
}

/// A provider that keeps books of what it has really done. Clones have the same books.
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

/// What a provider has done, and how long it knows of it.
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

    /// `None`: it refuses the key.
    fn apply(&mut self, key: &str, what: &str, now: DateTime<Utc>) -> Option<String> {
        let window = TimeDelta::from_std(self.recognises_for).unwrap_or(TimeDelta::MAX);
        let known = self.entries.iter().rev().find(|entry| entry.key == key && now - entry.at < window);
        if let Some(known) = known {
            return Some(known.receipt.clone());
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
    /// A provider with empty books and the time of this machine. It recognises a key for 24 hours,
    /// and all calls go well.
    #[must_use]
    pub fn new() -> Self {
        let books = Arc::new(Mutex::new(Books::knowing_keys_for(DAY)));
        Self::with_line(books, Arc::new(Calls::default()), Arc::new(SystemClock))
    }

    pub(crate) fn with_line(books: Arc<Mutex<Books>>, line: Arc<dyn Line>, clock: Arc<dyn Clock>) -> Self {
        Self { books, line, clock }
    }

    /// The same books, reached by these calls.
    #[must_use]
    pub fn over(self, calls: &Calls) -> Self {
        Self { line: Arc::new(calls.clone()), ..self }
    }

    /// The same books, with this clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// How long it recognises an idempotency key. Zero: it knows no keys, and each call is another
    /// effect.
    #[must_use]
    pub fn recognises_for(self, time: Duration) -> Self {
        locked(&self.books).recognises_for = time;
        self
    }

    /// Do something under an idempotency key, such as a charge or a refund, and get a receipt. For
    /// as long as it [recognises](Self::recognises_for) the key, the same key is the same effect.
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

    /// Ask what came of a key: the receipt, if something was done under it.
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

    /// Do nothing under this key from now on, and never: what arrives later is a permanent failure.
    /// Returns the receipt of what was done before, if anything was. A compensation of a step in
    /// doubt does this first: after it, the step cannot happen any more.
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

    /// Everything that was done, in order.
    #[must_use]
    pub fn books(&self) -> Vec<Entry> {
        locked(&self.books).entries.clone()
    }

    /// How often something was done.
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
