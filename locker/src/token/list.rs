//! Listing tokens: overdue, in progress, held.

use chrono::{DateTime, Utc};

use super::locker::Locker;
use crate::core::token::audit;
use crate::core::token::record::{self, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::{shard, time};
use crate::failure::Class;
use crate::listing::{Entry, ListBuilder, Listed};
use crate::store::Layout;

/// How many tokens are listed where a caller does not say.
const LIMIT: usize = 1000;

impl Locker {
    /// Lists overdue tokens, oldest due time first, over all shards.
    ///
    /// Reads only what is overdue: the index is sorted by due time.
    pub fn overdue(&self) -> ListBuilder<TokenSummary> {
        self.in_progress().only_due()
    }

    /// Lists all tokens in progress, oldest due time first, over all shards.
    pub fn in_progress(&self) -> ListBuilder<TokenSummary> {
        self.list(TokenState::InProgress)
    }

    /// Lists the tokens that are held for an operator, oldest due time first, over all shards.
    pub fn held(&self) -> ListBuilder<TokenSummary> {
        self.list(TokenState::Held)
    }

    /// Lists operators' acts since a time, oldest first: who did what to which token, and why.
    ///
    /// An audit record outlives its token ([`Settings::audit_retention`](crate::Settings::audit_retention)).
    pub fn audit(&self, since: impl Into<DateTime<Utc>>) -> ListBuilder<AuditRecord> {
        let list = ListBuilder::new(self.session().clone(), &Layout::TOKENS, shard::AUDIT, LIMIT);
        list.since(since.into())
    }

    fn list(&self, state: TokenState) -> ListBuilder<TokenSummary> {
        ListBuilder::new(self.session().clone(), &Layout::TOKENS, state.status_base(), LIMIT)
    }
}

/// What a listing shows of a token. The index is eventually consistent: read the token before you act on it.
#[derive(Clone)]
#[non_exhaustive]
pub struct TokenSummary {
    /// The key of the token.
    pub token: String,
    /// In progress or held.
    pub state: TokenState,
    /// The owner.
    pub locked_by: Option<String>,
    /// When it was begun.
    pub created: Option<DateTime<Utc>>,
    /// When its work should be done. A token in doubt is overdue from the time of the doubt on.
    pub expected_completion: Option<DateTime<Utc>>,
    /// The class of its last failure: in doubt, or waiting for an operator.
    pub class: Option<Class>,
    /// Why it is held or in doubt.
    pub cause: Option<String>,
    /// Identifies the state that is shown; see [`Record::revision`](crate::Record::revision). `None` if the entry is
    /// incomplete.
    pub revision: Option<String>,
}

/// The audit record of an operator's act on a token, as a listing shows it.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The key of the token.
    pub token: String,
    /// When the operator acted.
    pub at: Option<DateTime<Utc>>,
    /// What the operator did.
    pub resolution: Option<Resolution>,
    /// The operator's name.
    pub by: Option<String>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The owner of the token that the operator saw.
    pub locked_by: Option<String>,
    /// The attempt that the operator saw.
    pub attempt: Option<String>,
    /// Why the token was held or in doubt.
    pub cause: Option<String>,
}

impl std::fmt::Debug for AuditRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditRecord")
            .field("token", &format_args!("#{}", crate::core::key::digest_of(&self.token)))
            .field("at", &self.at)
            .field("resolution", &self.resolution)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl Listed for AuditRecord {
    fn of(Entry(row): Entry) -> Self {
        Self {
            token: audit::token_of(&row.key).to_owned(),
            at: time::from_text(&row.due),
            resolution: row.resolution.as_deref().and_then(Resolution::named),
            by: row.resolved_by,
            reason: row.resolved_reason,
            locked_by: row.locked_by,
            attempt: row.attempt,
            cause: row.cause,
        }
    }
}

impl std::fmt::Debug for TokenSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSummary")
            .field("token", &format_args!("#{}", crate::core::key::digest_of(&self.token)))
            .field("state", &self.state)
            .field("expected_completion", &self.expected_completion)
            .finish_non_exhaustive()
    }
}

impl Listed for TokenSummary {
    fn of(Entry(row): Entry) -> Self {
        let held = shard::base_of(&row.status) == Some(shard::ERROR);
        let created = row.created_text.as_deref();
        // An index of an older layout has no attempts, without which a revision would never fit.
        let revision = created
            .zip(row.attempt.as_deref())
            .map(|(created, attempt)| record::revision(created, &row.due, Some(attempt), Some(&row.status)));
        Self {
            class: row.class.as_deref().and_then(Class::named),
            cause: row.cause,
            revision,
            token: row.key,
            state: if held { TokenState::Held } else { TokenState::InProgress },
            locked_by: row.locked_by,
            created: row.created,
            expected_completion: time::from_text(&row.due),
        }
    }
}
