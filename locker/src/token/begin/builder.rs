//! The builder of a begin: a key and its options.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tracing::Instrument as _;

use super::begun::Begun;
use super::plan::{Due, Plan, outcome};
use super::rounds::{NotBegun, Sent};
use super::take_over::{Probe, Probed, TakeOver};
use crate::core::answer::AnswerError;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::fingerprint::Fingerprint;
use crate::core::form::Form;
use crate::core::key::{IntoKey, Key};
use crate::core::private::Private;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::record::Record;
use crate::core::token::work::Work;
use crate::error::{BoxError, Error};
use crate::session::history::{Call, Reported};
use crate::session::{self, Session};
use crate::settings;
use crate::token::locker::Locker;

impl Locker {
    /// Names a token.
    ///
    /// Nothing is sent until you call a verb of the [`BeginBuilder`]; that verb also reports an
    /// invalid key.
    pub fn token(&self, key: impl IntoKey) -> BeginBuilder {
        BeginBuilder::new(self.session().clone(), key.into_key())
    }
}

/// Builds a begin from a key and options.
///
/// Created by [`Locker::token`]. Every option has a default.
#[derive(Debug, Clone)]
#[must_use = "a token does nothing until it is begun or run"]
pub struct BeginBuilder {
    pub(crate) session: Session,
    pub(crate) key: Result<Key, InvalidArgument>,
    pub(crate) keep_extended: bool,
    owner: Option<String>,
    expect_within: Option<Duration>,
    retention: Option<Retention>,
    fingerprint: Option<Result<Fingerprint, AnswerError>>,
    take_over: Option<TakeOver>,
    wait_for: Option<Duration>,
    deadline: Option<DateTime<Utc>>,
    read_first: bool,
    pub(crate) form: Option<Form>,
    is_unlisted: bool,
    recognised_for: Option<Duration>,
    within: Option<Work>,
    requested: Option<DateTime<Utc>>,
}

impl BeginBuilder {
    pub(crate) const fn new(session: Session, key: Result<Key, InvalidArgument>) -> Self {
        Self {
            session,
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
            form: None,
            is_unlisted: false,
            recognised_for: None,
            within: None,
            requested: None,
        }
    }

    /// Puts the key under a tenant. Take the tenant from the authoriser, never from the request.
    pub fn tenant(mut self, tenant: impl fmt::Display) -> Self {
        self.key = self.key.and_then(|key| key.tenant(tenant));
        self
    }

    /// Sets the owner's name, such as `order_update/<request id>`, which identifies its logs: 1 to
    /// 256 bytes without control characters.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets how long the work should take, from 1 second to 366 days. After that the token is
    /// overdue, and the scanner reports it.
    pub const fn expect_within(mut self, expected: Duration) -> Self {
        self.expect_within = Some(expected);
        self
    }

    /// Sets how long the answer is kept after its completion, from 1 minute to 3,660 days, or
    /// forever (default: [`Settings::retention`](crate::Settings::retention)).
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Identifies the request by its canonical JSON, so that the same key with a different request
    /// is a mismatch. Leave out what differs between retries, such as the time of sending.
    ///
    /// Fingerprints are compared only if both the caller and the record have one.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, request: &T) -> Self {
        self.fingerprint = Some(Fingerprint::of_json(request));
        self
    }

    /// Identifies the request by its bytes, unchanged; see [`fingerprint`](Self::fingerprint).
    pub fn fingerprint_bytes(mut self, request: impl AsRef<[u8]>) -> Self {
        self.fingerprint = Some(Ok(Fingerprint::of_bytes(request)));
        self
    }

    /// Takes the token over if it is overdue by more than this grace (0 to 366 days) plus the
    /// allowance for clock skew ([`Settings::max_clock_skew`](crate::Settings::max_clock_skew)).
    /// The default is never.
    ///
    /// **This gives up at-most-once.** The previous owner may be slow instead of dead. Then both do
    /// the work, and only the new owner can store an answer. Use it where repeated work is
    /// harmless, or where the provider recognises
    /// [`Attempt::idempotency_key`](crate::Attempt::idempotency_key).
    pub fn take_over_after(mut self, grace: Duration) -> Self {
        self.take_over = Some(TakeOver { grace, probe: Private(None) });
        self
    }

    /// Takes the token over if it is overdue as in [`take_over_after`](Self::take_over_after) and
    /// the probe returns [`Probed::Safe`]. In the probe, ask the provider whether the work was
    /// done, under [`Record::idempotency_key`](crate::Record::idempotency_key), which is the one
    /// that it was given.
    pub fn take_over_if<F, Fut>(mut self, grace: Duration, probe: F) -> Self
    where
        F: Fn(Record) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed, BoxError>> + Send + 'static,
    {
        let probe: Probe = Arc::new(move |record| Box::pin(probe(record)));
        self.take_over = Some(TakeOver { grace, probe: Private(Some(probe)) });
        self
    }

    /// Sets how long the provider recognises
    /// [`Attempt::idempotency_key`](crate::Attempt::idempotency_key), such as 24 hours, counted
    /// from the attempt that first had it. The token is not taken over where the work might end
    /// after that, since the provider would take the key for a new one. Has no effect without
    /// [`take_over_after`](Self::take_over_after) or [`take_over_if`](Self::take_over_if).
    pub const fn recognised_for(mut self, recognised: Duration) -> Self {
        self.recognised_for = Some(recognised);
        self
    }

    /// If the key is in progress, wait up to this long for its result, polling with jitter, instead
    /// of returning [`Begun::InProgress`] at once: from 1 millisecond to a day. Each poll is a read
    /// of 1 unit.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Stops trying at this time, such as a second before the deadline of a Lambda invocation
    /// (`Context::deadline`), and acquires no token after it. Only the outcome of work that has run
    /// is still written after this time, in one try of at most 250 milliseconds.
    ///
    /// The deadline bounds requests and waiting, not the work. Without
    /// [`expect_within`](Self::expect_within), the expected completion is the deadline plus the
    /// allowance for clock skew.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Reads the token before trying to write it. Cheaper if most calls are replays, more expensive
    /// if most are new: the read costs half a read unit and 1 more request.
    ///
    /// The read is eventually consistent. For about a second after an operator has corrected or
    /// released a result, a caller may receive the former result.
    pub const fn read_first(mut self) -> Self {
        self.read_first = true;
        self
    }

    /// Sets the form of the answer, which an operator's answer has to have. [`run`](Self::run) sets
    /// the name of its type of answer, unless you set another.
    pub fn form(mut self, form: Form) -> Self {
        self.form = Some(form);
        self
    }

    /// Keeps the token out of listings and of the scanner while it is in progress.
    ///
    /// Use it if **every effect of the work has its own token or workflow**, which is listed. Then
    /// an operator sees one line for one effect, and no second line for the work around it. It
    /// needs [`take_over_after`](Self::take_over_after) or [`take_over_if`](Self::take_over_if),
    /// since no operator sees that its process died: without one, `begin` returns
    /// [`Error::Invalid`](crate::Error::Invalid).
    ///
    /// The token is listed once it is left in doubt or held, and stays listed if it is taken over.
    /// If its process died and no caller takes it over, DynamoDB deletes it: its `ttl` is a week
    /// after the expected completion. Work that takes longer has to [`extend`](crate::Lock::extend)
    /// it. It cannot be combined with [`recognised_for`](Self::recognised_for): the deletion of the
    /// token would delete the age of the key as well.
    pub const fn unlisted(mut self) -> Self {
        self.is_unlisted = true;
        self
    }

    /// Sets the token or the workflow that this work is part of, so that an operator sees them
    /// together. Work that is begun on the task of another token's [`run`](Self::run) has it by
    /// default; work on a spawned task does not.
    pub fn within(mut self, within: Work) -> Self {
        self.within = Some(within);
        self
    }

    /// Sets when the caller made this request first, for a table that was restored
    /// ([`Settings::restored`](crate::Settings::restored)). Retries of a request have the time of
    /// its first try: the time in a message, or a time that a trusted caller sends. If several
    /// requests have the same key, pass the time of the first of them: a newer request does the
    /// work again.
    ///
    /// By default, work that is begun on the task of another token's [`run`](Self::run), of a
    /// handler of the HTTP layer or of a consumer, or of a workflow has the time of that work. All
    /// other requests have no time, and a restored table refuses them while it is closed. If an
    /// operator allowed the work after the restore, the time does not matter.
    pub fn requested_at(mut self, time: impl Into<DateTime<Utc>>) -> Self {
        self.requested = Some(time.into());
        self
    }

    /// In [`run`](Self::run), keep extending the token while the work runs, however long it takes.
    /// For long-lived processes; a Lambda function has a deadline anyway.
    pub const fn keep_extended(mut self) -> Self {
        self.keep_extended = true;
        self
    }

    /// Tries to acquire the token.
    ///
    /// # Errors
    ///
    /// [`Error`]: there is no outcome; see there what to do. After [`Error::Unknown`], do not do
    /// the work. The begin may have acquired the token, and has tried to release it. If the release
    /// was applied, the next caller acquires the token. If this begin took the token over, it has
    /// tried to give the token back instead, and only a caller that takes over acquires it.
    /// Otherwise the token stays in progress, and the scanner reports it once it is overdue.
    ///
    /// # Crash window
    ///
    /// A process that dies after the put leaves the token in progress: no other caller does the
    /// work unless it chose to take over, and the scanner reports the token once it is overdue.
    ///
    /// # Cancel safety
    ///
    /// If dropped while waiting for a reply, it may have acquired the token; see the crash window.
    ///
    /// # Cost
    ///
    /// 1 request. Acquired: 2 write units (table and index). Refused: the stored item's size in
    /// write units, which is 1 unless its key is very long, and 1 more request for an answer in a
    /// separate item. Taking over: 2 requests. Unknown: 1 more request. A quarter of the time, at
    /// most 1 second, is reserved for it.
    ///
    /// Source: Adrian Hesketh, "Idempotency in Lambda - 2", "Try and obtain a lock token".
    pub async fn begin(self) -> Result<Begun, Error> {
        self.begin_or_withdraw().await.map_err(|not_begun| not_begun.error)
    }

    /// [`begin`](Self::begin). If the outcome is unknown, the error also states whether the token
    /// was certainly released.
    pub(crate) async fn begin_or_withdraw(self) -> Result<Begun, NotBegun> {
        let plan = self.plan()?;
        let mut sent = Sent::default();
        match plan.recorded(&mut sent).await {
            Ok(begun) => Ok(begun),
            Err(error @ Error::Unknown { .. }) => {
                let is_withdrawn = Box::pin(plan.withdraw(sent)).await;
                Err(NotBegun { error, is_withdrawn })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks every option before anything is sent.
    fn plan(self) -> Result<Plan, Error> {
        let key = self.key?;
        let now = self.session.now();
        let defaults = self.session.settings();
        let owner = self.owner.unwrap_or_else(|| defaults.owner.clone());
        settings::check_owner(&owner)?;
        self.session.check_deadline("begin", self.deadline)?;
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
        if self.is_unlisted && (self.take_over.is_none() || self.recognised_for.is_some()) {
            return Err(InvalidSetting::Unlisted.into());
        }
        Ok(Plan {
            attempt: self.session.new_id(),
            key,
            owner,
            due,
            retention,
            fingerprint: self.fingerprint.transpose()?,
            take_over: self.take_over,
            wait_for: self.wait_for,
            deadline: self.deadline,
            read_first: self.read_first,
            form: self.form,
            is_unlisted: self.is_unlisted,
            recognised_for: self.recognised_for,
            within: self.within.or_else(session::within),
            requested: self.requested.or_else(session::requested),
            opened: session::opened(),
            session: self.session,
        })
    }
}

impl Plan {
    /// Begin, and record the outcome in the span, the history and the metrics.
    async fn recorded(&self, sent: &mut Sent) -> Result<Begun, Error> {
        let span = tracing::info_span!(
            "locker.begin",
            lock.token = self.session.shown(self.key.as_str()),
            lock.owner = self.owner,
            lock.attempt = self.attempt,
            lock.outcome = tracing::field::Empty,
        );
        let call = Call::begin(&self.session, &self.key, &self.owner, &self.attempt);
        let begun = Box::pin(self.begin(sent)).instrument(span.clone()).await;
        call.told(|| begun.as_ref().map_or_else(Reported::of, Begun::told));
        span.record("lock.outcome", outcome(&begun));
        if let Ok(begun) = &begun {
            self.count(begun);
        }
        begun
    }
}
