//! Begin: one conditional put, and the reading of what refused it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::begun::{Begun, Holder, Replay, StoredFailure};
use super::classify::Class;
use super::lock::{Held, Lock};
use super::locker::Locker;
use crate::core::decide::{self, Asking, Found};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{InvalidKey, Key};
use crate::core::record::{Record, Seen, State};
use crate::core::time;
use crate::core::write::{NewToken, Write};
use crate::error::{BoxError, Error};
use crate::metrics;
use crate::settings::{self, InvalidSetting, Retention};
use crate::store::{Applied, Freshness};

/// How often begin asks again when the token changes under it.
const ROUNDS: u32 = 4;
/// The first and the longest pause between two looks of a waiting caller.
const LOOK_SOON: Duration = Duration::from_millis(50);
const LOOK_LATE: Duration = Duration::from_secs(1);
/// How long a waiting caller leaves a probe alone that said that it is not safe.
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// What a probe found out about overdue work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// It did not happen and will not: running it again is safe.
    Safe,
    /// It happened, it may yet happen, or nobody knows.
    Unsafe,
}

type Probe =
    Arc<dyn Fn(Record) -> Pin<Box<dyn Future<Output = Result<Probed, BoxError>> + Send>> + Send + Sync>;

#[derive(Clone)]
struct TakeOver {
    grace: Duration,
    probe: Option<Probe>,
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
        let begun = Box::pin(plan.begin()).instrument(span.clone()).await;
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

/// One call of begin, checked.
struct Plan {
    locker: Locker,
    key: Key,
    attempt: String,
    owner: String,
    due: Due,
    retention: Retention,
    fingerprint: Option<Fingerprint>,
    take_over: Option<TakeOver>,
    wait_for: Option<Duration>,
    deadline: Option<DateTime<Utc>>,
    read_first: bool,
}

/// When the work is due.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// So long after it is begun.
    Within(Duration),
    /// At a time, however long the caller waited for the token.
    At(DateTime<Utc>),
}

impl Due {
    /// A second is the least that anything is expected to take.
    fn from(self, now: DateTime<Utc>) -> Duration {
        match self {
            Self::Within(expected) => expected,
            Self::At(due) => time::between(now, due).max(Duration::from_secs(1)),
        }
    }
}

/// How a caller waits.
struct Patience {
    until: Instant,
    pause: Duration,
    /// The overdue record that the probe said was not safe, and until when it is not asked again.
    refused: Option<(Seen, Instant)>,
}

/// One round of begin.
enum Round {
    Over(Begun),
    /// Somebody is at work.
    Held(Box<Record>),
    /// What stood in the way is gone.
    Again,
}

impl Plan {
    async fn begin(&self) -> Result<Begun, Error> {
        let mut patience = self.wait_for.map(|wait| Patience {
            until: Instant::now() + self.bounded(wait),
            pause: LOOK_SOON,
            refused: None,
        });
        if self.read_first
            && let Some(begun) = self.peek().await?
        {
            return Ok(begun);
        }
        let mut rounds = 0;
        loop {
            let held = match self.put().await? {
                Round::Over(begun) => return Ok(begun),
                Round::Held(record) => Some(record),
                Round::Again => None,
            };
            let held = match (held, patience.as_mut()) {
                (Some(record), None) => return Ok(self.held(record)),
                (Some(record), Some(patience)) => match self.wait(record, patience).await? {
                    Round::Over(begun) => return Ok(begun),
                    Round::Held(record) => return Ok(self.held(record)),
                    Round::Again => true,
                },
                (None, _) => false,
            };
            // Waiting has its own end; only a token that keeps changing at once is given up.
            rounds = if held { 0 } else { rounds + 1 };
            if rounds == ROUNDS {
                let source = "the token changed under every try".into();
                return Err(Error::Unavailable { verb: "begin", tries: rounds, source });
            }
        }
    }

    /// Put the token; if it is refused, read why.
    async fn put(&self) -> Result<Round, Error> {
        self.check_deadline()?;
        let token = self.new_token(None);
        let until = self.locker.until(self.deadline);
        match self.locker.store().write(Write::Begin { token: token.clone() }, until).await? {
            Applied::Yes => Ok(self.acquired(token, None)),
            Applied::No { record: None, .. } => Ok(Round::Again),
            Applied::No { record: Some(record), .. } => match self.judge(record).await? {
                Judged::Mine(record) => Ok(self.acquired(self.recovered(&record), None)),
                Judged::Overdue(record) => self.take_over(record).await,
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// Put the token over the overdue one, if that is still as it was seen.
    async fn take_over(&self, record: Box<Record>) -> Result<Round, Error> {
        if let Some(probe) = self.take_over.as_ref().and_then(|take_over| take_over.probe.as_ref()) {
            let probed = probe(record.as_ref().clone()).await.map_err(|source| Error::Probe { source })?;
            if probed == Probed::Unsafe {
                return Ok(Round::Held(record));
            }
        }
        self.check_deadline()?;
        let token = self.new_token(Some(&record));
        let due_before = self.due_before(token.created).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let write = Write::TakeOver { token: token.clone(), seen: record.seen.clone(), due_before };
        match self.locker.store().write(write, self.locker.until(self.deadline)).await? {
            Applied::Yes => Ok(self.acquired(token, Some(record))),
            Applied::No { record: None, .. } => Ok(Round::Again),
            Applied::No { record: Some(now), .. } => match self.judge(now).await? {
                Judged::Mine(mine) => Ok(self.acquired(self.recovered(&mine), Some(record))),
                Judged::Overdue(_) => Ok(Round::Again),
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// A terminal record, read at half the price. Anything else proves nothing.
    async fn peek(&self) -> Result<Option<Begun>, Error> {
        let until = self.locker.until(self.deadline);
        let record = self.locker.store().read(self.key.as_str(), Freshness::Eventual, until).await?;
        match record {
            Some(record) if record.state.is_terminal() => match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Over(begun)) => Ok(Some(begun)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Look again and again, until there is an answer, or something to try, or no patience.
    async fn wait(&self, held: Box<Record>, patience: &mut Patience) -> Result<Round, Error> {
        let mut held = held;
        if self.due_before(self.locker.now()).is_some_and(|limit| held.expected_completion < limit) {
            patience.refused = Some((held.seen.clone(), Instant::now() + PROBE_AGAIN));
        }
        loop {
            let left = patience.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Round::Held(held));
            }
            // Half of it jitters, so that many who wait do not look at once.
            let jittered = patience.pause.mul_f64(0.5 + self.locker.store().jitter() / 2.0);
            tokio::time::sleep(jittered.min(left)).await;
            patience.pause = (patience.pause * 2).min(LOOK_LATE);
            let until = self.locker.until(self.deadline);
            let Some(record) = self.locker.store().read(self.key.as_str(), Freshness::Strong, until).await?
            else {
                return Ok(Round::Again);
            };
            match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Held(record)) => held = record,
                Judged::Round(round) => return Ok(round),
                Judged::Overdue(record) if patience.refuses(&record) => held = record,
                Judged::Mine(_) | Judged::Overdue(_) => return Ok(Round::Again),
            }
        }
    }

    async fn judge(&self, record: Box<Record>) -> Result<Judged, Error> {
        let now = self.locker.now();
        let asking = Asking {
            attempt: &self.attempt,
            fingerprint: self.fingerprint.as_ref(),
            fingerprint_keys: self.locker.fingerprint_keys(),
            expired_at: self.locker.expired_at(),
            take_over_due_before: self.due_before(now),
        };
        Ok(match decide::found(&record, &asking)? {
            Found::Mine => Judged::Mine(record),
            Found::Absent => Judged::Round(Round::Again),
            Found::Overdue => Judged::Overdue(record),
            Found::InProgress => Judged::Round(Round::Held(record)),
            Found::Mismatch => Judged::Round(Round::Over(Begun::Mismatch(record))),
            Found::Completed | Found::Failed => Judged::Round(Round::Over(self.ended(record).await?)),
        })
    }

    async fn ended(&self, record: Box<Record>) -> Result<Begun, Error> {
        let json =
            self.locker.answer_until(&record, self.locker.until(self.deadline)).await?.unwrap_or_default();
        Ok(match record.state {
            State::Completed => Begun::Completed(Replay { record, json }),
            State::Failed => Begun::Failed(StoredFailure { record, json, class: Class::NeedsPerson }),
            _ => Begun::Failed(StoredFailure { record, json, class: Class::Permanent }),
        })
    }

    fn held(&self, record: Box<Record>) -> Begun {
        let retry_after = decide::retry_after(&record, self.locker.now());
        Begun::InProgress(Holder { record, retry_after })
    }

    fn acquired(&self, token: NewToken, predecessor: Option<Box<Record>>) -> Round {
        let held = Held {
            expected: time::between(token.created, token.expected_completion),
            token,
            deadline: self.deadline,
            predecessor,
        };
        Round::Over(Begun::Acquired(Lock::new(self.locker.clone(), held)))
    }

    fn new_token(&self, predecessor: Option<&Record>) -> NewToken {
        let created = self.locker.now();
        let fingerprint = self.fingerprint.as_ref().map(|print| print.stored(self.locker.fingerprint_keys()));
        let before = |record: &Record| record.attempt.clone().unwrap_or_else(|| "unknown".to_owned());
        NewToken {
            key: self.key.clone(),
            locked_by: self.owner.clone(),
            attempt: self.attempt.clone(),
            created,
            expected_completion: time::stored(time::after(created, self.due.from(created))),
            status: self.locker.status(State::InProgress, &self.key),
            // A caller that brings no request does not erase what the token is for.
            fingerprint: fingerprint
                .or_else(|| predecessor?.fingerprint.as_ref().map(|stored| stored.0.clone())),
            taken_over_from: predecessor.map(before),
            retention: self.retention,
            expired_at: self.locker.expired_at(),
        }
    }

    /// The token as an earlier request of this call stored it, its reply lost.
    fn recovered(&self, record: &Record) -> NewToken {
        NewToken {
            created: record.created,
            expected_completion: record.expected_completion,
            taken_over_from: record.taken_over_from.clone(),
            ..self.new_token(None)
        }
    }

    /// Taking a token with no time left to work would leave it to the scanner.
    fn check_deadline(&self) -> Result<(), Error> {
        match self.deadline {
            Some(deadline) if deadline <= self.locker.now() => Err(InvalidSetting::Deadline.into()),
            _ => Ok(()),
        }
    }

    fn due_before(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let take_over = self.take_over.as_ref()?;
        let margin = take_over.grace.saturating_add(self.locker.settings().max_clock_skew);
        Some(time::before(now, margin))
    }

    fn bounded(&self, wait: Duration) -> Duration {
        self.deadline.map_or(wait, |deadline| wait.min(time::between(self.locker.now(), deadline)))
    }

    fn count(&self, begun: &Begun) {
        let key = &self.key;
        match begun {
            Begun::Acquired(lock) => metrics::count_acquired(key, lock.predecessor().is_some()),
            Begun::Completed(_) => metrics::count_outcome(metrics::REPLAYED, key, "success"),
            Begun::Failed(failure) => {
                metrics::count_outcome(metrics::REPLAYED, key, failure.class().as_str())
            }
            Begun::InProgress(_) => metrics::count(metrics::IN_PROGRESS, key),
            Begun::Mismatch(_) => metrics::count(metrics::MISMATCHED, key),
        }
    }
}

impl Patience {
    fn refuses(&self, record: &Record) -> bool {
        self.refused.as_ref().is_some_and(|(seen, until)| *seen == record.seen && Instant::now() < *until)
    }
}

enum Judged {
    Mine(Box<Record>),
    Overdue(Box<Record>),
    Round(Round),
}

const fn outcome(begun: &Result<Begun, Error>) -> &'static str {
    match begun {
        Ok(Begun::Acquired(_)) => "acquired",
        Ok(Begun::Completed(_)) => "completed",
        Ok(Begun::Failed(_)) => "failed",
        Ok(Begun::InProgress(_)) => "inProgress",
        Ok(Begun::Mismatch(_)) => "mismatch",
        Err(Error::Unknown { .. }) => "unknown",
        Err(_) => "error",
    }
}
