//! The history of calls: what was asked of a token, and what was answered, as events of `tracing`.
//!
//! Target [`TARGET`], level DEBUG; while nobody listens, nothing is computed. Each call writes one event
//! before it writes the token and one with its outcome, under the same `call`. A call without an outcome was
//! cut off: it may have happened, or happen yet. `docs/reliability.md` has the format, and
//! `locker history check` tells whether a history keeps the promises.
//!
//! | field | on | is |
//! |---|---|---|
//! | `history` | both | `invoke` or `outcome` |
//! | `call` | both | the id of the call |
//! | `op` | both | `begin`, `complete`, `completeErr`, `fail`, `release`, `extend`, `resolve`, `releaseByPerson` |
//! | `token` | both | the key, as logs show it |
//! | `owner` | both | who calls |
//! | `attempt` | both | the attempt that calls, or that a person makes or ends |
//! | `at` | both | when, in microseconds |
//! | `digest` | both | of the answer that is stored or told: the first 16 digits of the SHA-256 of its JSON |
//! | `ttl` | invoke | when the token may be forgotten if this is applied (epoch seconds) |
//! | `outcome` | outcome | begin: `acquired`, `tookOver`, `completed`, `failed`, `needsPerson`, `inProgress`, `mismatch`; others: `ok`, `lost`, `changed`; all: `unknown`, `unavailable`, `denied`, `refused` |
//! | `found` | outcome | the attempt of the record that was found there |

use chrono::SecondsFormat;
use sha2::{Digest as _, Sha256};
use tracing::Level;

use crate::core::key::Key;
use crate::core::record::Record;
use crate::core::write::{Finish, Write};
use crate::error::Error;
use crate::token::{Begun, Class, Locker};

/// The target of every event of the history.
pub const TARGET: &str = "locker::history";

fn is_on() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// The digest of an answer, if anybody wants to know.
pub(crate) fn digest(json: &str) -> Option<String> {
    is_on().then(|| hex::encode(&Sha256::digest(json)[..8]))
}

/// A call on its way; nothing while nobody listens.
#[must_use = "a call without an outcome counts as cut off"]
pub(crate) struct Call(Option<Box<Invoked>>);

struct Invoked {
    locker: Locker,
    id: String,
    op: &'static str,
    token: String,
    owner: String,
    attempt: Option<String>,
}

#[derive(Default)]
struct Told<'a> {
    outcome: &'static str,
    found: Option<&'a str>,
    digest: Option<String>,
}

impl Call {
    pub(crate) fn begin(locker: &Locker, key: &Key, owner: &str, attempt: &str) -> Self {
        Self::invoke(locker, "begin", key, owner, Some(attempt), None, None)
    }

    /// A write that ends or extends a token. `digest` is of the answer it stores.
    pub(crate) fn write(locker: &Locker, write: &Write, owner: &str, digest: Option<&str>) -> Self {
        let (op, key, attempt, ttl) = match write {
            Write::Finish { key, attempt, finish, ttl, .. } => {
                let op = match finish {
                    Finish::Success => "complete",
                    Finish::Failure => "completeErr",
                    Finish::NeedsPerson { .. } => "fail",
                };
                (op, key, Some(attempt), *ttl)
            }
            Write::Release { key, attempt } => ("release", key, Some(attempt), None),
            Write::Extend { key, attempt, .. } => ("extend", key, Some(attempt), None),
            Write::Resolve { key, attempt, ttl, .. } => ("resolve", key, Some(attempt), *ttl),
            Write::Free { key, seen, ttl, .. } => ("releaseByPerson", key, seen.attempt.as_ref(), *ttl),
            _ => return Self(None),
        };
        Self::invoke(locker, op, key, owner, attempt.map(String::as_str), digest, ttl)
    }

    fn invoke(
        locker: &Locker,
        op: &'static str,
        key: &Key,
        owner: &str,
        attempt: Option<&str>,
        digest: Option<&str>,
        ttl: Option<i64>,
    ) -> Self {
        if !is_on() {
            return Self(None);
        }
        let call = Box::new(Invoked {
            locker: locker.clone(),
            id: locker.new_id(),
            op,
            token: locker.shown(key),
            owner: owner.to_owned(),
            attempt: attempt.map(str::to_owned),
        });
        tracing::debug!(
            target: TARGET,
            history = "invoke",
            call = call.id,
            op,
            token = call.token,
            owner,
            attempt,
            digest,
            ttl,
            at = call.at(),
        );
        Self(Some(call))
    }

    pub(crate) fn begun(self, begun: &Result<Begun, Error>) {
        let Self(Some(call)) = self else { return };
        let told = |outcome, record, digest| Told { outcome, found: Record::attempt(record), digest };
        call.outcome(match begun {
            Ok(Begun::Acquired(lock)) => match lock.predecessor() {
                Some(record) => told("tookOver", record, None),
                None => Told { outcome: "acquired", ..Told::default() },
            },
            Ok(Begun::Completed(replay)) => told("completed", replay.record(), digest(replay.json())),
            Ok(Begun::Failed(failure)) => {
                let outcome = if failure.class() == Class::NeedsPerson { "needsPerson" } else { "failed" };
                told(outcome, failure.record(), digest(failure.json()))
            }
            Ok(Begun::InProgress(holder)) => told("inProgress", holder.record(), None),
            Ok(Begun::Mismatch(record)) => told("mismatch", record, None),
            Err(error) => Told::of(error),
        });
    }

    pub(crate) fn ended(self, ended: Result<(), &Error>) {
        let Self(Some(call)) = self else { return };
        call.outcome(match ended {
            Ok(()) => Told { outcome: "ok", ..Told::default() },
            Err(error) => Told::of(error),
        });
    }
}

impl<'a> Told<'a> {
    fn of(error: &'a Error) -> Self {
        let (outcome, record) = match error {
            Error::Unknown { .. } => ("unknown", None),
            Error::Unavailable { .. } => ("unavailable", None),
            Error::Denied { .. } => ("denied", None),
            Error::LostOwnership { record, .. } => ("lost", record.as_deref()),
            Error::Changed { record, .. } => ("changed", record.as_deref()),
            _ => ("refused", None),
        };
        Self { outcome, found: record.and_then(Record::attempt), digest: None }
    }
}

impl Invoked {
    fn at(&self) -> String {
        self.locker.clock().now().to_rfc3339_opts(SecondsFormat::Micros, true)
    }

    fn outcome(&self, told: Told<'_>) {
        tracing::debug!(
            target: TARGET,
            history = "outcome",
            call = self.id,
            op = self.op,
            token = self.token,
            owner = self.owner,
            attempt = self.attempt,
            outcome = told.outcome,
            found = told.found,
            digest = told.digest,
            at = self.at(),
        );
    }
}
