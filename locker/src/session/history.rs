//! The history of calls on tokens and their outcomes, as `tracing` events.
//!
//! The target is [`TARGET`], the level DEBUG; while no subscriber enables it, nothing is computed.
//! Each call emits one event before it writes the token and one with its outcome, under the same
//! `call`. A call without an outcome was interrupted: it may have been applied, or may still be.
//! `docs/evidence/reliability.md` describes the format.
//!
//! | field | on | is |
//! |---|---|---|
//! | `history` | both | `invoke` or `outcome` |
//! | `call` | both | the id of the call |
//! | `op` | both | `begin`, `complete`, `fail`, `hold`, `release`, `extend`, `resolve`, `correct`, `close`, `releaseByOperator`, `redact` |
//! | `token` | both | the key, as logs show it |
//! | `owner` | both | the owner that calls |
//! | `attempt` | both | the attempt that calls, or that an operator creates or ends |
//! | `at` | both | the time, in microseconds |
//! | `digest` | both | the first 16 digits of the SHA-256 of the JSON of the answer that is stored or returned |
//! | `ttl` | invoke | when the token may be deleted if the call is applied (epoch seconds) |
//! | `outcome` | outcome | begin: `acquired`, `tookOver`, `completed`, `failed`, `held`, `inProgress`, `mismatch`; others: `ok`, `lost`, `changed`; all: `unknown`, `unavailable`, `denied`, `refused` |
//! | `found` | outcome | the attempt of the record that was found |

use chrono::SecondsFormat;
use sha2::{Digest as _, Sha256};
use tracing::Level;

use crate::core::key::Key;
use crate::core::token::record::Record;
use crate::core::token::resolution::Resolution;
use crate::core::token::write::{Finish, Write};
use crate::error::Error;
use crate::session::Session;

/// The target of every event of the history.
pub(crate) const TARGET: &str = "locker::history";

fn is_on() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// The digest of an answer, if the history is enabled.
pub(crate) fn digest(json: &str) -> Option<String> {
    is_on().then(|| hex::encode(&Sha256::digest(json)[..8]))
}

/// A call in flight; empty while the history is disabled.
#[must_use = "a call without an outcome counts as interrupted"]
pub(crate) struct Call(Option<Box<Invoked>>);

struct Invoked {
    session: Session,
    id: String,
    op: &'static str,
    token: String,
    owner: String,
    attempt: Option<String>,
}

#[derive(Default)]
pub(crate) struct Reported<'a> {
    pub(crate) outcome: &'static str,
    pub(crate) found: Option<&'a str>,
    pub(crate) digest: Option<String>,
}

impl Call {
    pub(crate) fn begin(session: &Session, key: &Key, owner: &str, attempt: &str) -> Self {
        Self::invoke(session, "begin", key, owner, Some(attempt), None, None)
    }

    /// Records a write that ends or extends a token. `digest`: of the answer that it stores.
    pub(crate) fn write(session: &Session, write: &Write, owner: &str, digest: Option<&str>) -> Self {
        let (op, key, attempt, ttl) = match write {
            Write::Finish { key, attempt, finish, ttl, .. } => {
                let op = match finish {
                    Finish::Success => "complete",
                    Finish::Failure => "fail",
                    Finish::Hold { .. } => "hold",
                };
                (op, key, Some(attempt), *ttl)
            }
            Write::Release { key, attempt, .. } => ("release", key, Some(attempt), None),
            Write::Extend { key, attempt, .. } => ("extend", key, Some(attempt), None),
            Write::Resolve { key, attempt, ttl, verb, .. } => {
                let op = if *verb == Resolution::Corrected { "correct" } else { "resolve" };
                (op, key, Some(attempt), *ttl)
            }
            Write::Close { key, seen, ttl, .. } => ("close", key, seen.attempt.as_ref(), *ttl),
            Write::Free { key, seen, ttl, .. } => ("releaseByOperator", key, seen.attempt.as_ref(), *ttl),
            Write::Redact { key, attempt, .. } => ("redact", key, Some(attempt), None),
            _ => return Self(None),
        };
        Self::invoke(session, op, key, owner, attempt.map(String::as_str), digest, ttl)
    }

    fn invoke(
        session: &Session,
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
            session: session.clone(),
            id: session.new_id(),
            op,
            token: session.shown(key.as_str()),
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

    /// The outcome, as the layer that made the call reads it.
    pub(crate) fn told<'a>(self, told: impl FnOnce() -> Reported<'a>) {
        if let Self(Some(call)) = &self {
            call.outcome(told());
        }
    }

    /// `Ok(Err(..))`: the token had changed; this is its record now.
    pub(crate) fn intervened(self, applied: Result<&Result<(), Option<Box<Record>>>, &Error>) {
        let Self(Some(call)) = self else { return };
        call.outcome(match applied {
            Ok(Ok(())) => Reported { outcome: "ok", ..Reported::default() },
            Ok(Err(now)) => {
                let found = now.as_deref().and_then(Record::attempt);
                Reported { outcome: "changed", found, digest: None }
            }
            Err(error) => Reported::of(error),
        });
    }

    pub(crate) fn ended(self, ended: Result<(), &Error>) {
        let Self(Some(call)) = self else { return };
        call.outcome(match ended {
            Ok(()) => Reported { outcome: "ok", ..Reported::default() },
            Err(error) => Reported::of(error),
        });
    }
}

impl<'a> Reported<'a> {
    pub(crate) fn of(error: &'a Error) -> Self {
        let (outcome, record) = match error {
            Error::Unknown { .. } | Error::Deleted { .. } => ("unknown", None),
            Error::Unavailable { .. } | Error::Contended { .. } | Error::Gone { .. } => ("unavailable", None),
            Error::Denied { .. } => ("denied", None),
            Error::LostOwnership { record, .. } => ("lost", record.as_deref()),
            _ => ("refused", None),
        };
        Self { outcome, found: record.and_then(Record::attempt), digest: None }
    }
}

impl Invoked {
    fn at(&self) -> String {
        self.session.clock().now().to_rfc3339_opts(SecondsFormat::Micros, true)
    }

    fn outcome(&self, reported: Reported<'_>) {
        tracing::debug!(
            target: TARGET,
            history = "outcome",
            call = self.id,
            op = self.op,
            token = self.token,
            owner = self.owner,
            attempt = self.attempt,
            outcome = reported.outcome,
            found = reported.found,
            digest = reported.digest,
            at = self.at(),
        );
    }
}
