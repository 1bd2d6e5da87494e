//! The verbs that end or extend an acquired token.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::end::{End, EndError};
use super::guard::{Held, Lock};
use crate::core::answer::{self, AnswerError};
use crate::core::cause;
use crate::core::retention::{Retention, unlisted_ttl};
use crate::core::time;
use crate::core::token::decide::{self, Ended};
use crate::core::token::record::{Record, TokenState};
use crate::core::token::write::{Finish, Kept, NewToken, Write};
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::history::{self, Call};
use crate::settings::check_expect_within;
use crate::store::{TokenSize, Written};

impl Lock {
    /// Stores the answer. Every later caller with the same key gets it.
    ///
    /// The outcome is logged before anything is written, so the log has it even if the table does
    /// not.
    ///
    /// # Errors
    ///
    /// [`EndError`]. The work is done nevertheless: return its answer to your caller, and do not
    /// run it again. [`Error::LostOwnership`]: another attempt owns the token or has ended it, and
    /// nothing was changed. [`Error::Answer`]: the answer cannot be stored as JSON or is too large;
    /// [`EndError::into_lock`] returns the lock, so that you can store a reference instead.
    /// [`Error::Unknown`]: call [`EndError::again`]. [`Error::Record`]: the token cannot be read;
    /// inspect and repair it, the outcome is in the log.
    ///
    /// # Crash window
    ///
    /// A process that dies between the work and this write leaves the token in progress. The
    /// outcome is in the log only if the process had started this call.
    ///
    /// # Cancel safety
    ///
    /// If dropped while waiting for a reply, the answer may or may not be stored; both are safe.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index). An answer that does not fit into the token's
    /// write unit is stored in a separate item: 1 more request, and 1 write unit for each KB.
    pub async fn complete<T: Serialize + ?Sized>(self, answer: &T) -> Result<(), EndError> {
        let json = answer::to_json(answer);
        self.finish(Finish::Success, json).await
    }

    /// Stores a failure as the answer. Every later caller with the same key gets this failure.
    ///
    /// If an operator has to act before the key gets an answer, call [`hold`](Self::hold) instead.
    ///
    /// # Errors
    ///
    /// Same as [`complete`](Self::complete), as are crash window, cancel safety and cost.
    pub async fn fail<E: Serialize + ?Sized>(self, failure: &E) -> Result<(), EndError> {
        let json = answer::to_json(failure);
        self.finish(Finish::Failure, json).await
    }

    /// Stores a failure that waits for an operator.
    ///
    /// `status` becomes `error`; the token is listed, and never deleted, until an operator
    /// resolves, releases or closes it. If the failure is the answer, call [`fail`](Self::fail)
    /// instead.
    ///
    /// # Errors
    ///
    /// Same as [`complete`](Self::complete), as are crash window and cancel safety.
    ///
    /// # Cost
    ///
    /// 1 request and 3 write units: the entry of the index moves.
    pub async fn hold<E: Serialize + ?Sized>(self, failure: &E) -> Result<(), EndError> {
        self.hold_because(failure, &cause::of_failure(failure)).await
    }

    pub(crate) async fn hold_because<E: Serialize + ?Sized>(
        self,
        failure: &E,
        cause: &str,
    ) -> Result<(), EndError> {
        let json = answer::to_json(failure);
        let finish = self.needs_operator(cause);
        self.finish(finish, json).await
    }

    /// Releases the token: nothing happened, and another caller may try again.
    ///
    /// After a takeover ([`predecessor`](Self::predecessor)), releasing also asserts that the
    /// previous owner's work did not happen. If you cannot be sure, call
    /// [`leave_in_doubt`](Self::leave_in_doubt).
    ///
    /// # Errors
    ///
    /// [`EndError`]. [`Error::LostOwnership`]: another attempt owns the token or has ended it, and
    /// nothing was changed. [`Error::Unknown`]: a reply was lost; call [`EndError::again`]. If it
    /// has nothing to send, the token is no longer yours, and it is unknown whether this call or a
    /// later owner released it.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index).
    pub async fn release(self) -> Result<(), EndError> {
        self.release_because(None).await
    }

    pub(crate) async fn release_because(self, cause: Option<&str>) -> Result<(), EndError> {
        match self.into_release(cause) {
            Some(end) => end.send().await,
            None => Ok(()),
        }
    }

    fn into_release(mut self, cause: Option<&str>) -> Option<End> {
        let held = self.held.take()?;
        self.session.log_end(&held.token, "released", cause);
        // A record that remembers the provider's key stays as long as an operator's acts do.
        let kept = held.token.retention.longer(self.session.settings().audit_retention);
        let keep = held.remembers_key().then(|| Kept { ttl: kept.ttl(self.session.now()) });
        let write = Write::Release { key: held.token.key.clone(), attempt: held.token.attempt.clone(), keep };
        Some(End::new(self.session.clone(), held, write, None))
    }

    /// Leaves the token in doubt with a cause, because it is unknown whether the work happened.
    ///
    /// The token stays in progress, with the cause, and is listed as overdue from now on. No other
    /// caller does the work unless it chose to take over; a takeover counts from the due time that
    /// the token had before. The cause is cut at 200 bytes; keep secrets out of it.
    ///
    /// Returns no error. The write is tried one time. If it fails, the token is listed when it is
    /// due. The log contains the cause in each case. The write of an
    /// [unlisted](crate::BeginBuilder::unlisted) token is tried until the deadline; if it fails,
    /// the token is as after a crash.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the token is listed once it is due.
    ///
    /// # Cost
    ///
    /// 1 request and 3 write units: the entry of the index moves.
    pub fn leave_in_doubt(self, cause: impl fmt::Display) -> impl Future<Output = ()> + Send {
        let cause = cause.to_string();
        async move { drop(self.doubt(cause).await) }
    }

    /// Leaves the token in doubt. Returns the error if the table does not surely have the doubt.
    pub(crate) async fn doubt(mut self, cause: String) -> Result<(), Error> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let cause = cause::shortened(&cause);
        metrics::count(metrics::IN_DOUBT, &held.token.key);
        tracing::error!(
            lock.token = self.session.shown(held.token.key.as_str()),
            lock.owner = held.token.locked_by,
            lock.attempt = held.token.attempt,
            lock.outcome = "inDoubt",
            cause,
            lock.due = %held.token.expected_completion,
            "it is unknown whether the work happened; the token stays in progress"
        );
        // It was unlisted because another record would be listed in its place. For a doubt there
        // may be none.
        let list_as =
            held.is_unlisted().then(|| self.session.status(TokenState::InProgress, &held.token.key));
        self.session.doubt(&held, held.promised, cause, list_as).await
    }

    /// Gives back a token that was taken over. This attempt did nothing, and the effects of the
    /// previous attempt are as unknown as before. Another caller may take the token over at once.
    /// Returns the error if the token was not surely given back.
    pub(crate) async fn give_back(mut self, cause: String) -> Result<(), Error> {
        let Some(held) = self.held.take() else { return Ok(()) };
        metrics::count(metrics::IN_DOUBT, &held.token.key);
        self.session.log_end(&held.token, "givenBack", Some(&cause));
        let before = held.predecessor.as_deref();
        let promised = before.map_or(held.promised, Record::promised_completion);
        // The attempt before is in doubt.
        let first = before.and_then(Record::cause).unwrap_or("the attempt before ended without an outcome");
        let cause = cause::shortened(&format!("{first}; the attempt that took over did nothing: {cause}"));
        self.session.doubt(&held, promised, cause, None).await
    }

    /// Gives up the token of a begin whose outcome is unknown, because the work did not run.
    /// `until` limits the time. Returns whether the token was certainly given up. A request of the
    /// begin that arrives later may still acquire it.
    pub(crate) async fn withdraw(mut self, until: DateTime<Utc>) -> bool {
        let Some(mut held) = self.held.take() else { return true };
        held.deadline = Some(until);
        let lock = Self::taken_back(self.session.clone(), held);
        if lock.predecessor().is_some() {
            let given_back = lock.give_back("its begin got no clear reply".to_owned()).await;
            return matches!(given_back, Ok(()) | Err(Error::LostOwnership { .. }));
        }
        let Some(end) = lock.into_release(Some("its begin got no clear reply")) else { return true };
        // If the begin was not applied, there is nothing to release.
        end.again().send().await.is_ok()
    }

    /// Leaves the token to the next caller that takes over with this grace, which may take over at
    /// once.
    ///
    /// Use it only if the effect of the work has its own record, which is listed. A token that was
    /// listed before it was taken over stays listed.
    #[cfg(feature = "http")]
    pub(crate) async fn set_aside(mut self, cause: String, grace: Duration) {
        let Some(held) = self.held.take() else { return };
        self.session.log_end(&held.token, "setAside", Some(&cause));
        // The margin contains the skew twice, so a caller with a slow clock may take over at once
        // as well.
        let skew = self.session.skew();
        let margin = grace.saturating_add(skew).saturating_add(skew).saturating_add(Duration::from_millis(1));
        let promised = time::stored(time::before(self.session.now(), margin));
        let before = held.predecessor.as_deref().filter(|record| record.is_listed());
        let list_as = before
            .filter(|_| held.is_unlisted())
            .map(|_| self.session.status(TokenState::InProgress, &held.token.key));
        let cause = match before.and_then(Record::cause) {
            Some(first) => format!("{first}; and then: {cause}"),
            None => cause,
        };
        drop(self.session.doubt(&held, promised, cause::shortened(&cause), list_as).await);
    }

    /// Postpones the expected completion to this long from now, 1 second to 366 days. Never brings
    /// it nearer.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the lock is dropped too, and no outcome of the work can be stored.
    /// So put no timeout around it: its [deadline](crate::BeginBuilder::deadline) bounds it.
    ///
    /// # Errors
    ///
    /// [`EndError`]. [`Error::LostOwnership`]: the token was taken over or ended, so stop working
    /// if you can. After any other error, [`EndError::into_lock`] returns the lock: continue the
    /// work, or end it.
    ///
    /// # Cost
    ///
    /// 1 request and 3 write units: the entry of the index moves.
    pub async fn extend(mut self, expected: Duration) -> Result<Self, EndError> {
        match self.push_due(self.session.now(), expected).await {
            Ok(()) => Ok(self),
            Err(error @ Error::LostOwnership { .. }) => {
                self.held = None;
                Err(EndError::lost(error))
            }
            Err(error) => Err(EndError::kept(error, self)),
        }
    }

    /// Extends to this long from `now`, without consuming the lock.
    pub(crate) async fn push_due(&mut self, now: DateTime<Utc>, expected: Duration) -> Result<(), Error> {
        check_expect_within(expected)?;
        let due = time::stored(time::after(now, expected));
        let Some(held) = self.held.as_mut().filter(|held| held.token.expected_completion < due) else {
            return Ok(());
        };
        held.promised = held.promised.max(due);
        let ttl = held.is_unlisted().then(|| unlisted_ttl(due));
        let (key, attempt) = (held.token.key.clone(), held.token.attempt.clone());
        let write = Write::Extend { key, attempt, due, ttl };
        let call = Call::write(&self.session, &write, &held.token.locked_by, None);
        let extended = self.session.extend(&write, held).await;
        call.ended(extended.as_ref().copied());
        extended?;
        Arc::make_mut(&mut held.token).expected_completion = due;
        held.expected = expected;
        Ok(())
    }

    pub(crate) fn needs_operator(&self, cause: &str) -> Finish {
        let status = self.held().map(|held| self.session.status(TokenState::Held, &held.token.key));
        Finish::Hold { status: status.unwrap_or_default(), cause: cause::shortened(cause) }
    }

    /// Logs how the work ended, then stores it: a large answer first, then the token that points to
    /// it.
    pub(crate) async fn finish(
        mut self,
        finish: Finish,
        json: Result<String, AnswerError>,
    ) -> Result<(), EndError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let retention = match &finish {
            Finish::Success | Finish::Failure => held.token.retention,
            Finish::Hold { .. } => Retention::Forever,
        };
        let cause = match (&finish, &json) {
            (Finish::Success, _) | (_, Err(_)) => None,
            (Finish::Hold { cause, .. }, _) => Some(cause.clone()),
            (Finish::Failure, Ok(json)) => Some(cause::shortened(&cause::of_json(json))),
        };
        self.session.log_end(&held.token, finish.outcome(), cause.as_deref());
        let at = self.session.now();
        let ttl = retention.ttl(at);
        let digest = json.as_ref().ok().and_then(|json| history::digest(json));
        let placed = match json {
            Ok(json) => {
                let size = size(&held.token, finish.cause());
                self.session.place(size, json, ttl, held.deadline).await
            }
            Err(error) => Err(error.into()),
        };
        let body = match placed {
            Ok(body) => body,
            Err(error) => {
                self.held = Some(held);
                return Err(EndError::kept(error, self));
            }
        };
        let (key, attempt) = (held.token.key.clone(), held.token.attempt.clone());
        let write = Write::Finish { key, attempt, at, finish, body, ttl };
        End::new(self.session.clone(), held, write, digest).send().await
    }
}

impl Session {
    /// Lists the token from now on. Tried once, because the token is listed when it is due anyway.
    /// The write for an unlisted token is retried.
    async fn doubt(
        &self,
        held: &Held,
        promised: DateTime<Utc>,
        cause: String,
        list_as: Option<String>,
    ) -> Result<(), Error> {
        // Listings are strict: a token that is due now is not overdue yet.
        let due = time::before(self.now(), Duration::from_millis(1));
        let (key, attempt) = (held.token.key.clone(), held.token.attempt.clone());
        let until = self.until(held.deadline).for_end();
        let until = if list_as.is_some() { until } else { until.once() };
        let otherwise = if held.is_unlisted() { "is unlisted" } else { "is listed once it is due" };
        let write = Write::Doubt { key, attempt, due, promised, cause, list_as };
        let error = match self.store().write(&write, until).await {
            Ok(Written::Done) => return Ok(()),
            Ok(Written::Refused { found: record, .. }) => {
                metrics::count(metrics::LOST_OWNERSHIP, &held.token.key);
                Error::LostOwnership { verb: write.verb(), record }
            }
            Err(error) => error,
        };
        let problem = match &error {
            Error::LostOwnership { .. } | Error::Unknown { .. } => error.to_string(),
            error => format!("{error}; the token {otherwise}"),
        };
        tracing::warn!(
            lock.token = self.shown(held.token.key.as_str()),
            lock.attempt = held.token.attempt,
            lock.due = %held.token.expected_completion,
            problem,
            "it is not certain that the doubt was stored"
        );
        Err(error)
    }

    async fn extend(&self, write: &Write, held: &Held) -> Result<(), Error> {
        let until = self.until(held.deadline).for_end();
        if let Written::Refused { found: record, after_silence } = self.store().write(write, until).await?
            && decide::ended(write, record.as_deref(), after_silence) != Ended::Done
        {
            metrics::count(metrics::LOST_OWNERSHIP, &held.token.key);
            return Err(Error::LostOwnership { verb: write.verb(), record });
        }
        metrics::count(metrics::EXTENDED, &held.token.key);
        Ok(())
    }
}

fn size<'a>(token: &'a NewToken, cause: Option<&str>) -> TokenSize<'a> {
    TokenSize {
        key: token.key.as_str(),
        locked_by: &token.locked_by,
        attempt: &token.attempt,
        fingerprint: token.fingerprint.as_ref(),
        form: token.form.as_ref(),
        cause: cause.map_or_else(|| token.cause.as_ref().map_or(0, String::len), str::len),
        key_use: token.key_use,
        taken_over_from: token.taken_over_from.as_deref(),
        within: token.within.as_ref(),
        operator: 0,
    }
}
