//! Writes as data: they are decided here, and only `store` translates them into requests.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::record::{Intervention, KeyUse, Seen, StoredFingerprint};
use super::resolution::Resolution;
use crate::core::answer::{Body, Encoded};
use crate::core::form::Form;
use crate::core::key::Key;
use crate::core::retention::Retention;
use crate::core::token::work::Work;

/// A token that a begin or a takeover writes.
#[derive(Debug, Clone)]
pub(crate) struct NewToken {
    pub(crate) key: Key,
    pub(crate) locked_by: String,
    pub(crate) attempt: String,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expected_completion: DateTime<Utc>,
    pub(crate) status: String,
    pub(crate) fingerprint: Option<StoredFingerprint>,
    pub(crate) form: Option<Form>,
    /// Why it is unknown whether the work happened: the cause of the doubt of the token that is
    /// taken over, or the restore of the table.
    pub(crate) cause: Option<String>,
    /// The token is not acquired: it is held for an operator, with this answer.
    pub(crate) held: Option<Encoded>,
    /// The time of the request, for all that its work begins. Not stored.
    pub(crate) requested: Option<DateTime<Utc>>,
    /// When an operator allowed its work, and all that its work begins. Not stored.
    pub(crate) opened: Option<DateTime<Utc>>,
    pub(crate) key_use: KeyUse,
    pub(crate) taken_over_from: Option<String>,
    pub(crate) within: Option<Work>,
    /// How long the answer will be kept; stored, so that an operator's resolve keeps it equally
    /// long.
    pub(crate) retention: Retention,
    /// The time from which an unlisted token may be deleted, since no caller may ever read it
    /// again.
    pub(crate) ttl: Option<i64>,
    /// A record past its `ttl` at this time counts as absent.
    pub(crate) expired_at: DateTime<Utc>,
}

/// The retention of a released record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) ttl: Option<i64>,
}

/// The key that the provider is given after an operator's release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextKey {
    /// The same, which was first given out at this time.
    Same { since: DateTime<Utc> },
    /// The next version.
    Next { version: u32 },
}

/// How work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// With an answer.
    Success,
    /// With a failure that is the answer.
    Failure,
    /// With a failure that waits for an operator, under this `status`.
    Hold { status: String, cause: String },
}

impl Finish {
    /// Why a token is held.
    pub(crate) fn cause(&self) -> Option<&str> {
        match self {
            Self::Hold { cause, .. } => Some(cause),
            Self::Success | Self::Failure => None,
        }
    }

    /// The outcome, as logs and metrics name it.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Hold { .. } => "held",
        }
    }
}

/// One request that changes one item.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    /// Put the token, unless there is one.
    Begin { token: Arc<NewToken> },
    /// Put the token over a token that an operator released after the provider had refused its key.
    BeginOver { token: Arc<NewToken>, seen: Seen },
    /// Put the token over an overdue one: the one seen, if it is still due before `due_before`.
    TakeOver { token: Arc<NewToken>, seen: Seen, due_before: DateTime<Utc> },
    /// Store how the work ended, if the attempt still owns the token.
    Finish { key: Key, attempt: String, at: DateTime<Utc>, finish: Finish, body: Body, ttl: Option<i64> },
    /// List the token from now on, if the attempt still owns it: the attempt ended, and it is
    /// unknown whether the work happened. Takeovers still count from `promised`. `list_as`: the
    /// `status` of a token that was unlisted.
    Doubt {
        key: Key,
        attempt: String,
        due: DateTime<Utc>,
        promised: DateTime<Utc>,
        cause: String,
        list_as: Option<String>,
    },
    /// Delete the token, if the attempt still owns it. `keep`: leave a released record instead,
    /// with this `ttl`, because it remembers that a provider refused its key.
    Release { key: Key, attempt: String, keep: Option<Kept> },
    /// Postpone the expected completion, if the attempt still owns the token. Never brings it
    /// nearer. `ttl`: the new one of an unlisted token.
    Extend { key: Key, attempt: String, due: DateTime<Utc>, ttl: Option<i64> },
    /// Store an operator's answer, or a corrected one, if the token is still the one seen. The new
    /// attempt fences off the former owner.
    Resolve {
        key: Key,
        attempt: String,
        seen: Seen,
        operator: Intervention,
        body: Body,
        ttl: Option<i64>,
        verb: Resolution,
    },
    /// Let the stored failure be the answer, if the token is still the one seen.
    Close { key: Key, seen: Seen, operator: Intervention, ttl: Option<i64> },
    /// Release the token for an operator, if it is still the one seen. The new attempt changes its
    /// revision.
    Free {
        key: Key,
        attempt: String,
        seen: Seen,
        operator: Intervention,
        ttl: Option<i64>,
        next_key: NextKey,
    },
    /// Erase the stored answer or failure, if the token is still the one seen. The state, the
    /// fingerprint, the use of the key and the retention stay. The new attempt changes its
    /// revision.
    Redact {
        key: Key,
        attempt: String,
        seen: Seen,
        operator: Intervention,
        /// Whether the work ended with an answer. Records of other writers do not store it.
        is_success: bool,
    },
    /// Erase the answer that the audit record of an earlier act repeats.
    RedactAudit { key: String },
    /// Store an answer in a separate item.
    PutAnswer { key: String, encoded: Encoded, ttl: Option<i64> },
    /// Set a `ttl` on an answer that its token no longer refers to: a reader may be about to fetch
    /// it.
    ExpireAnswer { key: String, ttl: i64 },
    /// Delete an answer that no token refers to.
    DropAnswer { key: String },
}

impl Write {
    /// The outcome of the token, as metrics count it.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Finish { finish, .. } => finish.outcome(),
            Self::Resolve { verb, .. } => verb.as_str(),
            Self::Close { .. } => Resolution::Closed.as_str(),
            Self::Redact { .. } => Resolution::Redacted.as_str(),
            Self::Release { .. } | Self::Free { .. } => "released",
            _ => "resolved",
        }
    }

    /// The verb, as logs and errors name it.
    pub(crate) const fn verb(&self) -> &'static str {
        match self {
            Self::Begin { .. } | Self::BeginOver { .. } => "begin",
            Self::TakeOver { .. } => "take over",
            Self::Finish { finish: Finish::Success, .. } => "complete",
            Self::Finish { finish: Finish::Failure, .. } => "fail",
            Self::Finish { finish: Finish::Hold { .. }, .. } => "hold",
            Self::Doubt { .. } => "leave in doubt",
            Self::Release { .. } => "release",
            Self::Extend { .. } => "extend",
            Self::Resolve { verb: Resolution::Corrected, .. } => "correct",
            Self::Resolve { .. } => "resolve",
            Self::Close { .. } => "close",
            Self::Free { .. } => "release by hand",
            Self::Redact { .. } => "redact",
            Self::RedactAudit { .. } => "redact an audit record",
            Self::PutAnswer { .. } => "store the answer",
            Self::ExpireAnswer { .. } => "expire a former answer",
            Self::DropAnswer { .. } => "drop an unused answer",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::token::record::tests::{at, begun, by};

    pub(crate) fn key() -> Key {
        Key::stored("order/7".to_owned())
    }

    pub(crate) fn body() -> Body {
        Body::Inline(Encoded::plain("7".to_owned()))
    }

    pub(crate) fn finish(finish: Finish) -> Write {
        Write::Finish { key: key(), attempt: "a-1".to_owned(), at: at(50), finish, body: body(), ttl: None }
    }

    fn hold() -> Finish {
        Finish::Hold { status: "error".to_owned(), cause: "no reply".to_owned() }
    }

    fn resolve(verb: Resolution) -> Write {
        let (attempt, seen, operator) = ("a-3".to_owned(), begun().seen, by("ann"));
        Write::Resolve { key: key(), attempt, seen, operator, body: body(), ttl: None, verb }
    }

    #[test]
    fn only_a_hold_has_a_cause() {
        assert_eq!((Finish::Success.cause(), Finish::Failure.cause()), (None, None));
        assert_eq!(hold().cause(), Some("no reply"));
    }

    #[test]
    fn each_end_has_its_verb_and_its_outcome() {
        let seen = begun().seen;
        let close = Write::Close { key: key(), seen: seen.clone(), operator: by("ann"), ttl: None };
        let free = Write::Free {
            key: key(),
            attempt: "a-3".to_owned(),
            seen,
            operator: by("ann"),
            ttl: None,
            next_key: NextKey::Next { version: 2 },
        };
        let redact = Write::Redact {
            key: key(),
            attempt: "a-3".to_owned(),
            seen: begun().seen,
            operator: by("ann"),
            is_success: true,
        };
        let release = Write::Release { key: key(), attempt: "a-1".to_owned(), keep: None };
        for (write, verb, outcome) in [
            (finish(Finish::Success), "complete", "success"),
            (finish(Finish::Failure), "fail", "failure"),
            (finish(hold()), "hold", "held"),
            (resolve(Resolution::Resolved), "resolve", "resolved"),
            (resolve(Resolution::Corrected), "correct", "corrected"),
            (close, "close", "closed"),
            (free, "release by hand", "released"),
            (redact, "redact", "redacted"),
            (release, "release", "released"),
        ] {
            assert_eq!((write.verb(), write.outcome()), (verb, outcome));
        }
    }
}
