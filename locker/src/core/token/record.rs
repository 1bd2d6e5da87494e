//! A lock token as read from the table.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::resolution::Resolution;
use crate::core::answer::Body;
use crate::core::class::Class;
use crate::core::form::Form;
use crate::core::key::Key;
use crate::core::name;
use crate::core::retention::Retention;
use crate::core::shard;
use crate::core::token::work::Work;

/// A lock token as it is stored.
///
/// `Debug` shows the state and the times; the key appears as a digest, the answer as its length.
#[derive(Debug, Clone)]
pub struct Record {
    pub(crate) key: Key,
    pub(crate) locked_by: String,
    pub(crate) attempt: Option<String>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expected_completion: DateTime<Utc>,
    pub(crate) actual_completion: Option<DateTime<Utc>>,
    pub(crate) state: TokenState,
    pub(crate) body: Option<Body>,
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) fingerprint: Option<StoredFingerprint>,
    /// The retention that the token was begun with; `None` on records of other writers.
    pub(crate) retention: Option<Retention>,
    pub(crate) taken_over_from: Option<String>,
    pub(crate) within: Option<Work>,
    pub(crate) intervention: Option<Intervention>,
    pub(crate) resolution: Option<Resolution>,
    pub(crate) form: Option<Form>,
    pub(crate) class: Option<Class>,
    pub(crate) cause: Option<String>,
    /// The due time before the token was left in doubt.
    pub(crate) promised: Option<DateTime<Utc>>,
    pub(crate) key_use: KeyUse,
    pub(crate) seen: Seen,
}

/// The state of a lock token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TokenState {
    /// Work is in progress, or its process died. `status` is `inProgress`.
    InProgress,
    /// The work succeeded and its answer is stored. `status` is absent.
    Completed,
    /// The work failed, and that failure is the answer. `status` is absent.
    Failed,
    /// The work failed, and its failure waits for an operator. `status` is `error`.
    Held,
    /// An operator released it, or its owner did after an earlier attempt had used the provider's
    /// key. It counts as absent. The record stays: it shows the operator and the reason, and keeps
    /// the version of the key.
    Released,
}

impl TokenState {
    /// The name of the state, as the command prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "inProgress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Released => "released",
        }
    }

    /// The value of `status` in an unfinished state, before the number of the shard.
    pub(crate) const fn status_base(self) -> &'static str {
        match self {
            Self::Held => shard::ERROR,
            _ => shard::IN_PROGRESS,
        }
    }

    /// Whether the state is final. Only a record in a final state counts as absent once it has
    /// expired.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Released)
    }
}

/// The audit record of an operator's act: who acted, why, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intervention {
    /// The operator's name.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// The time of the act.
    pub at: DateTime<Utc>,
}

/// A fingerprint as stored; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoredFingerprint {
    pub(crate) text: String,
    /// Identifies the secret that a keyed fingerprint was made with.
    pub(crate) check: Option<String>,
}

impl StoredFingerprint {
    /// Creates a fingerprint that does not identify its secret, as the items of workflows store it.
    #[cfg(feature = "workflow")]
    pub(crate) fn unchecked(text: &str) -> Self {
        Self { text: text.to_owned(), check: None }
    }
}

impl KeyUse {
    pub(crate) const FIRST: Self = Self { version: 1, since: None };
}

/// The key that the provider is given: which version of it, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyUse {
    /// From 1: the token's key itself. Higher: a provider's refusal is on record under each one
    /// before.
    pub(crate) version: u32,
    /// The first use of the key by an attempt, if an earlier attempt than that of the record used
    /// it.
    pub(crate) since: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for StoredFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredFingerprint(..)")
    }
}

/// Stored texts that a later write compares, so that it applies only to the record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) attempt: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) created: String,
    pub(crate) expected_completion: String,
}

impl Seen {
    /// Ten hexadecimal digits.
    pub(crate) fn revision(&self, key: &str) -> String {
        let Self { created, expected_completion, attempt, status } = self;
        revision(key, [created, expected_completion], attempt.as_deref(), status.as_deref())
    }
}

/// Returns the revision of a token: a digest of its key and of stored texts. Every write of the
/// token changes at least one of these texts.
pub(crate) fn revision(
    key: &str,
    [created, due]: [&str; 2],
    attempt: Option<&str>,
    status: Option<&str>,
) -> String {
    let parts = [key, created, due, attempt.unwrap_or_default(), status.unwrap_or_default()].join("\n");
    short_digest(&parts)
}

/// Ten hexadecimal digits.
pub(crate) fn short_digest(text: &str) -> String {
    digest_of(text.as_bytes())
}

/// Returns the digest of bytes, in the same form.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..5])
}

impl Record {
    /// The key of the token.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The current or last owner, such as `order_update/<request id>`: where to look in the logs.
    #[must_use]
    pub fn locked_by(&self) -> &str {
        &self.locked_by
    }

    /// The id of the begin that wrote the record. `None` on records of other writers.
    #[must_use]
    pub fn attempt(&self) -> Option<&str> {
        self.attempt.as_deref()
    }

    /// The idempotency key that the last attempt gave the provider, so that a probe or an operator
    /// can ask about it: [`Attempt::idempotency_key`](crate::Attempt::idempotency_key).
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        name::shared_provider_key(&self.key, self.key_use.version)
    }

    /// When the token was begun.
    #[must_use]
    pub const fn created(&self) -> DateTime<Utc> {
        self.created
    }

    /// When the work is expected to be complete; past it, the token is overdue.
    #[must_use]
    pub const fn expected_completion(&self) -> DateTime<Utc> {
        self.expected_completion
    }

    /// When the work ended, if it has.
    #[must_use]
    pub const fn actual_completion(&self) -> Option<DateTime<Utc>> {
        self.actual_completion
    }

    /// Identifies this state of the token: every later write changes it. The command prints it, and
    /// its verbs take it, so that an operator acts on the state that was shown.
    #[must_use]
    pub fn revision(&self) -> String {
        self.seen.revision(self.key.as_str())
    }

    /// The class of the last failure, if the token is held or in doubt.
    #[must_use]
    pub const fn class(&self) -> Option<Class> {
        self.class
    }

    /// Why the token is held or in doubt, in at most 200 bytes.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The form of the answer that the token was begun for.
    #[must_use]
    pub const fn form(&self) -> Option<&Form> {
        self.form.as_ref()
    }

    /// Whether its owner left the token in doubt: it ended, and it is unknown whether the work
    /// happened.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.promised.is_some() && matches!(self.state, TokenState::InProgress)
    }

    /// Whether it is held because its table was restored: the table may have forgotten that the
    /// work happened. See [`Settings::restored`](crate::Settings::restored).
    #[must_use]
    pub fn is_held_by_restore(&self) -> bool {
        self.state == TokenState::Held && self.class == Some(Class::InDoubt)
    }

    /// Whether listings have the token: it is held or in doubt, or in progress and begun without
    /// [`unlisted`](crate::BeginBuilder::unlisted).
    #[must_use]
    pub fn is_listed(&self) -> bool {
        let base = self.seen.status.as_deref().and_then(shard::base_of);
        base.is_some_and(|base| base != shard::UNLISTED)
    }

    /// Returns the due time that a takeover counts from: the time that begin or extend set.
    pub(crate) fn promised_completion(&self) -> DateTime<Utc> {
        self.promised.unwrap_or(self.expected_completion)
    }

    /// When an attempt was first given the provider's key.
    pub(crate) fn key_since(&self) -> DateTime<Utc> {
        self.key_use.since.unwrap_or(self.created)
    }

    /// The state of the token.
    #[must_use]
    pub const fn state(&self) -> TokenState {
        self.state
    }

    /// When the record may be deleted (attribute `ttl`). `None` while it is held, or in progress
    /// and listed.
    #[must_use]
    pub const fn expires(&self) -> Option<DateTime<Utc>> {
        self.expires
    }

    /// The attempt that the token was taken over from, if it was.
    #[must_use]
    pub fn taken_over_from(&self) -> Option<&str> {
        self.taken_over_from.as_deref()
    }

    /// Returns the token or the workflow whose work began this token, if it is known.
    #[must_use]
    pub const fn within(&self) -> Option<&Work> {
        self.within.as_ref()
    }

    /// Returns the act of an operator, if an operator acted on the token. A token that its owner
    /// released has a resolution too, and no [`intervention`](Self::intervention).
    #[must_use]
    pub const fn resolution(&self) -> Option<Resolution> {
        self.resolution
    }

    /// Whether an operator gave the answer, so that it can be corrected.
    #[must_use]
    pub fn is_answered_by_operator(&self) -> bool {
        self.state == TokenState::Completed
            && matches!(self.resolution, Some(Resolution::Resolved | Resolution::Corrected))
    }

    /// Whether an operator erased the answer or the failure.
    #[must_use]
    pub const fn is_redacted(&self) -> bool {
        matches!(self.body, Some(Body::Redacted))
    }

    /// The name, the reason and the time of an operator's act on the token, if there was one.
    #[must_use]
    pub const fn intervention(&self) -> Option<&Intervention> {
        self.intervention.as_ref()
    }

    /// Whether the token is in progress and past its expected completion.
    #[must_use]
    pub fn is_overdue(&self, now: DateTime<Utc>) -> bool {
        self.state == TokenState::InProgress && self.expected_completion < now
    }

    /// Whether the record counts as absent: released, or terminal and past its `ttl` but not yet
    /// deleted by DynamoDB. Mirrors the condition of a begin: in whole seconds, and strictly past.
    pub(crate) fn counts_as_absent(&self, expired_at: DateTime<Utc>) -> bool {
        let expired = self.expires.is_some_and(|expires| expires.timestamp() < expired_at.timestamp());
        self.state == TokenState::Released || (self.state.is_terminal() && expired)
    }

    pub(crate) fn is_held_by(&self, attempt: &str) -> bool {
        self.state == TokenState::InProgress && self.attempt.as_deref() == Some(attempt)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::core::answer::Encoded;

    pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    /// In progress under attempt `a-1`, begun at 10 and due at 100.
    pub(crate) fn begun() -> Record {
        let status = Some("inProgress".to_owned());
        Record {
            key: Key::stored("order/7".to_owned()),
            locked_by: "orders/1".to_owned(),
            attempt: Some("a-1".to_owned()),
            created: at(10),
            expected_completion: at(100),
            actual_completion: None,
            state: TokenState::InProgress,
            body: None,
            expires: None,
            fingerprint: None,
            retention: None,
            taken_over_from: None,
            within: None,
            intervention: None,
            resolution: None,
            form: None,
            class: None,
            cause: None,
            promised: None,
            key_use: KeyUse::FIRST,
            seen: Seen {
                attempt: Some("a-1".to_owned()),
                status,
                created: "10".to_owned(),
                expected_completion: "100".to_owned(),
            },
        }
    }

    /// Ended in this state by attempt `a-1` at 50.
    pub(crate) fn ended_in(state: TokenState) -> Record {
        let body = Some(Body::Inline(Encoded::plain("7".to_owned())));
        Record { state, body, actual_completion: Some(at(50)), ..begun() }
    }

    pub(crate) fn by(name: &str) -> Intervention {
        Intervention { by: name.to_owned(), reason: "paid by hand".to_owned(), at: at(60) }
    }

    const STATES: [TokenState; 5] = [
        TokenState::InProgress,
        TokenState::Completed,
        TokenState::Failed,
        TokenState::Held,
        TokenState::Released,
    ];

    #[test]
    fn only_a_restored_table_holds_a_token_in_doubt() {
        let held = |class| Record { class, ..ended_in(TokenState::Held) }.is_held_by_restore();
        assert_eq!([Some(Class::InDoubt), Some(Class::Permanent), None].map(held), [true, false, false]);
        let failed = Record { class: Some(Class::InDoubt), ..ended_in(TokenState::Failed) };
        assert!(!failed.is_held_by_restore());
    }

    #[test]
    fn states_have_their_stored_words_and_ends() {
        assert_eq!(STATES.map(TokenState::as_str), ["inProgress", "completed", "failed", "held", "released"]);
        assert_eq!(STATES.map(TokenState::is_terminal), [false, true, true, false, true]);
        assert_eq!(TokenState::InProgress.status_base(), "inProgress");
        assert_eq!(TokenState::Held.status_base(), "error");
    }

    #[test]
    fn begun_record_tells_what_is_known() {
        let record = begun();
        assert_eq!((record.key().as_str(), record.locked_by()), ("order/7", "orders/1"));
        assert_eq!((record.attempt(), record.idempotency_key().as_str()), (Some("a-1"), "order/7"));
        assert_eq!((record.created(), record.expected_completion()), (at(10), at(100)));
        assert_eq!((record.state(), record.actual_completion()), (TokenState::InProgress, None));
        assert_eq!((record.expires(), record.taken_over_from(), record.within()), (None, None, None));
        assert_eq!((record.class(), record.cause(), record.form()), (None, None, None));
        assert_eq!((record.resolution(), record.intervention()), (None, None));
        assert_eq!((record.promised_completion(), record.key_since()), (at(100), at(10)));
    }

    #[test]
    fn full_record_tells_each_of_its_fields() {
        let within = Work::Token("order/6".to_owned());
        let record = Record {
            expires: Some(at(900)),
            taken_over_from: Some("a-0".to_owned()),
            within: Some(within.clone()),
            intervention: Some(by("ann")),
            resolution: Some(Resolution::Resolved),
            form: Some(Form::HTTP),
            class: Some(Class::InDoubt),
            cause: Some("no reply".to_owned()),
            promised: Some(at(90)),
            key_use: KeyUse { version: 2, since: Some(at(5)) },
            ..ended_in(TokenState::Completed)
        };
        assert_eq!((record.state(), record.actual_completion()), (TokenState::Completed, Some(at(50))));
        assert_eq!((record.expires(), record.taken_over_from()), (Some(at(900)), Some("a-0")));
        assert_eq!((record.within(), record.form()), (Some(&within), Some(&Form::HTTP)));
        assert_eq!((record.class(), record.cause()), (Some(Class::InDoubt), Some("no reply")));
        assert_eq!(record.resolution(), Some(Resolution::Resolved));
        assert_eq!(record.intervention(), Some(&by("ann")));
        assert_eq!((record.promised_completion(), record.key_since()), (at(90), at(5)));
        assert_eq!(record.idempotency_key(), "order/7 ~v2");
    }

    #[test]
    fn each_stored_text_changes_the_revision() {
        let first = begun();
        let digits = first.revision();
        assert!(digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
        assert_eq!(digits, revision("order/7", ["10", "100"], Some("a-1"), Some("inProgress")));
        assert_ne!(digits, revision("order/7", ["11", "100"], Some("a-1"), Some("inProgress")));
        assert_ne!(digits, revision("order/7", ["10", "101"], Some("a-1"), Some("inProgress")));
        assert_ne!(digits, revision("order/7", ["10", "100"], Some("a-2"), Some("inProgress")));
        assert_ne!(digits, revision("order/7", ["10", "100"], Some("a-1"), None));
        assert_ne!(digits, revision("order/8", ["10", "100"], Some("a-1"), Some("inProgress")));
        assert_ne!(short_digest("a"), short_digest("b"));
    }

    #[test]
    fn fingerprint_is_not_in_debug_text() {
        let print = StoredFingerprint { text: "sha256:00ff".to_owned(), check: None };
        assert_eq!(format!("{print:?}"), "StoredFingerprint(..)");
    }

    #[test]
    #[cfg(feature = "workflow")]
    fn unchecked_fingerprint_keeps_its_text() {
        let print = StoredFingerprint { text: "sha256:00ff".to_owned(), check: None };
        assert!(StoredFingerprint::unchecked("sha256:00ff") == print);
    }

    #[test]
    fn only_work_in_progress_is_in_doubt() {
        let left = |state| Record { state, promised: Some(at(90)), ..begun() };
        assert_eq!(STATES.map(|state| left(state).is_in_doubt()), [true, false, false, false, false]);
        assert!(!begun().is_in_doubt());
    }

    #[test]
    fn unlisted_and_ended_records_are_in_no_listing() {
        let with = |status: Option<&str>| {
            let status = status.map(str::to_owned);
            Record { seen: Seen { status, ..begun().seen }, ..begun() }.is_listed()
        };
        assert!(with(Some("inProgress")) && with(Some("inProgress_3")) && with(Some("error")));
        assert!(!with(Some("inProgressUnlisted")) && !with(Some("inProgressUnlisted_3")) && !with(None));
    }

    #[test]
    fn only_an_answer_by_an_operator_can_be_corrected() {
        let ended = |state, resolution| Record { resolution, ..ended_in(state) }.is_answered_by_operator();
        assert!(ended(TokenState::Completed, Some(Resolution::Resolved)));
        assert!(ended(TokenState::Completed, Some(Resolution::Corrected)));
        assert!(!ended(TokenState::Completed, None));
        assert!(!ended(TokenState::Failed, Some(Resolution::Resolved)));
        assert!(!ended(TokenState::Failed, Some(Resolution::Closed)));
    }

    #[test]
    fn only_work_in_progress_is_overdue_after_its_due_time() {
        assert!(!begun().is_overdue(at(99)) && !begun().is_overdue(at(100)) && begun().is_overdue(at(101)));
        let late = STATES.map(|state| Record { state, ..begun() }.is_overdue(at(200)));
        assert_eq!(late, [true, false, false, false, false]);
    }

    #[test]
    fn final_record_counts_as_absent_one_second_after_its_expiry() {
        let kept = |state| Record { expires: Some(at(900)), ..ended_in(state) };
        let absent = |seconds| STATES.map(|state| kept(state).counts_as_absent(at(seconds)));
        assert_eq!(absent(899), [false, false, false, false, true]);
        assert_eq!(absent(900), [false, false, false, false, true]);
        assert_eq!(absent(901), [false, true, true, false, true]);
        let within_the_second = at(900) + TimeDelta::milliseconds(999);
        assert!(!kept(TokenState::Completed).counts_as_absent(within_the_second));
        assert!(!ended_in(TokenState::Completed).counts_as_absent(at(9_000_000)));
    }

    #[test]
    fn attempt_holds_only_its_work_in_progress() {
        assert!(begun().is_held_by("a-1") && !begun().is_held_by("a-2"));
        assert!(!Record { attempt: None, ..begun() }.is_held_by("a-1"));
        assert!(!ended_in(TokenState::Completed).is_held_by("a-1"));
    }
}
