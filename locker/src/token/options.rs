//! A token about to be begun: a key, and how to treat it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tracing::Instrument as _;

use super::begin::{Due, Plan, outcome};
use super::begun::Begun;
use super::locker::Locker;
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{InvalidKey, Key};
use crate::core::record::Record;
use crate::core::time;
use crate::error::{BoxError, Error};
use crate::history::Call;
use crate::settings::{self, InvalidSetting, Retention};

/// What a probe found out about overdue work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// It did not happen and will not: running it again is safe.
    Safe,
    /// It happened, it may yet happen, or nobody knows.
    Unsafe,
}

pub(super) type Probe =
    Arc<dyn Fn(Record) -> Pin<Box<dyn Future<Output = Result<Probed, BoxError>> + Send>> + Send + Sync>;

#[derive(Clone)]
pub(super) struct TakeOver {
    pub(super) grace: Duration,
    pub(super) probe: Option<Probe>,
}

/// A token about to be begun: a key and how to treat it.
///
/// Made by [`Locker::token`]. Every setting has a default; the common case needs none.
#[derive(Clone)]
#[must_use = "a token does nothing until it is begun or run"]
pub struct Token {
    pub(super) locker: Locker,
    pub(super) key: Result<Key, InvalidKey>,
    pub(super) keep_extended: bool,
    owner: Option<String>,
    expect_within: Option<Duration>,
    retention: Option<Retention>,
    fingerprint: Option<Result<Fingerprint, crate::AnswerError>>,
    take_over: Option<TakeOver>,
    wait_for: Option<Duration>,
    deadline: Option<DateTime<Utc>>,
    read_first: bool,
}

impl Token {
    pub(super) const fn new(locker: Locker, key: Result<Key, InvalidKey>) -> Self {
        Self {
            locker,
            key,
            keep_extended: false,
            owner: None,
            expect_within: None,
            retention: None,
            fingerprint: None,
            take_over: None,
            wait_for: None,
            deadline: None,
            read_first: false,
        }
    }

    /// Put the key under a tenant. Take it from the authoriser, never from the request.
    pub fn tenant(mut self, tenant: impl fmt::Display) -> Self {
        self.key = self.key.and_then(|key| key.tenant(tenant));
        self
    }

    /// Hold it under this name, such as `order_update/<request id>`: where to look in the logs.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long the work should take, from 1 second to 366 days. Past that, the token is overdue and
    /// the scanner reports it.
    pub const fn expect_within(mut self, expected: Duration) -> Self {
        self.expect_within = Some(expected);
        self
    }

    /// How long the answer is kept, from its completion on: from 1 minute to 10 years.
    pub const fn retain_for(mut self, kept: Duration) -> Self {
        self.retention = Some(Retention::For(kept));
        self
    }

    /// Keep the answer for ever.
    pub const fn retain_forever(mut self) -> Self {
        self.retention = Some(Retention::Forever);
        self
    }

    /// Recognise the request by its canonical JSON, so that the same key with another request is a
    /// mismatch. Leave out what differs between retries, such as a time of sending.
    ///
    /// Compared where both the caller and the record have one.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, request: &T) -> Self {
        self.fingerprint = Some(Fingerprint::of_json(request));
        self
    }

    /// Recognise the request by its bytes as they are.
    pub fn fingerprint_bytes(mut self, request: impl AsRef<[u8]>) -> Self {
        self.fingerprint = Some(Ok(Fingerprint::of_bytes(request)));
        self
    }

    /// Take the token over when it is overdue by more than this grace and the allowance for clock
    /// skew ([`Settings::max_clock_skew`](crate::Settings::max_clock_skew)).
    ///
    /// **This gives up at-most-once.** The first owner may be slow and not dead, and then both do the
    /// work; only one of them can store an answer. Use it where doing the work twice is harmless, or
    /// where the provider recognises [`Attempt::idempotency_key`](crate::Attempt::idempotency_key).
    /// The default is never.
    pub fn take_over_after(mut self, grace: Duration) -> Self {
        self.take_over = Some(TakeOver { grace, probe: None });
        self
    }

    /// Take the token over when it is overdue as in [`take_over_after`](Self::take_over_after), and
    /// the probe says that it is safe: ask the provider whether the thing was done.
    pub fn take_over_if<F, Fut>(mut self, grace: Duration, probe: F) -> Self
    where
        F: Fn(Record) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed, BoxError>> + Send + 'static,
    {
        let probe: Probe = Arc::new(move |record| Box::pin(probe(record)));
        self.take_over = Some(TakeOver { grace, probe: Some(probe) });
        self
    }

    /// If somebody is at work, wait so long for their answer, looking again with jitter, instead of
    /// returning [`Begun::InProgress`] at once. Each look is a read of 1 unit.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Stop trying at this time, and take no token after it, such as the deadline of a Lambda invocation (`Context::deadline`).
    ///
    /// It bounds the requests and the waiting, not the work. Where nothing says how long the work
    /// should take, it is expected by then, plus the allowance for clock skew.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Look before putting. Cheaper where most calls are replays, dearer where most are new: a look
    /// costs half a read unit and one request more.
    pub const fn read_first(mut self) -> Self {
        self.read_first = true;
        self
    }

    /// In [`run`](Self::run): extend the token while the work goes on, however long it takes. For
    /// processes that stay; a function of AWS Lambda has a deadline anyway.
    pub const fn keep_extended(mut self) -> Self {
        self.keep_extended = true;
        self
    }

    /// Try to take the token.
    ///
    /// # Errors
    ///
    /// [`Error`]: the question was not answered. After [`Error::Unknown`] do not do the work.
    ///
    /// # Crash window
    ///
    /// A process that dies after the put leaves the token in progress: nobody else does the work, and
    /// the scanner reports it once it is due.
    ///
    /// # Cancel safety
    ///
    /// Dropped while waiting for the reply, it may have taken the token; see the crash window.
    ///
    /// # Cost
    ///
    /// 1 request. Acquired: 2 write units (table and index). Refused: the stored item's size in write
    /// units, 1 unless its key is very long; and 1 request more for an answer that lies beside its token.
    /// Taking over: 2 requests. Source: seed 004, "Try and obtain a lock token".
    pub async fn begin(self) -> Result<Begun, Error> {
        let plan = self.plan()?;
        let span = tracing::info_span!(
            "locker.begin",
            lock.token = plan.locker.shown(&plan.key),
            lock.owner = plan.owner,
            lock.attempt = plan.attempt,
            lock.outcome = tracing::field::Empty,
        );
        let call = Call::begin(&plan.locker, &plan.key, &plan.owner, &plan.attempt);
        let begun = Box::pin(plan.begin()).instrument(span.clone()).await;
        call.begun(&begun);
        span.record("lock.outcome", outcome(&begun));
        if let Ok(begun) = &begun {
            plan.count(begun);
        }
        begun
    }

    /// Check everything before anything is sent.
    fn plan(self) -> Result<Plan, Error> {
        let key = self.key?;
        let now = self.locker.now();
        let defaults = self.locker.settings();
        let owner = self.owner.unwrap_or_else(|| defaults.owner.clone());
        settings::check_owner(&owner)?;
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(InvalidSetting::Deadline.into());
        }
        let due = match (self.expect_within, self.deadline) {
            (None, Some(deadline)) => Due::At(time::after(deadline, defaults.max_clock_skew)),
            (expected, _) => Due::Within(expected.unwrap_or(defaults.expect_within)),
        };
        settings::check_expect_within(due.from(now))?;
        let retention = self.retention.unwrap_or(defaults.retention);
        settings::check_retention(retention)?;
        if let Some(take_over) = &self.take_over {
            settings::check_grace(take_over.grace)?;
        }
        if let Some(wait_for) = self.wait_for {
            settings::check_wait(wait_for)?;
        }
        Ok(Plan {
            attempt: self.locker.new_id(),
            key,
            owner,
            due,
            retention,
            fingerprint: self.fingerprint.transpose()?,
            take_over: self.take_over,
            wait_for: self.wait_for,
            deadline: self.deadline,
            read_first: self.read_first,
            locker: self.locker,
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("key", &self.key).finish_non_exhaustive()
    }
}
