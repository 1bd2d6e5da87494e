//! Listing tokens: overdue, in progress, held.

use chrono::{DateTime, Utc};

use super::locker::Locker;
use crate::core::class::Class;
#[cfg(feature = "operator")]
use crate::core::token::record::Record;
use crate::core::token::record::{self, TokenState};
use crate::core::token::work::Work;
use crate::core::{answer, shard, time};
use crate::error::Error;
use crate::session::AuditRecord;
use crate::session::listing::{Entry, ListBuilder, Listed, TOKENS_AND_ACTS};
use crate::store::Layout;

impl Locker {
    /// Lists overdue tokens, oldest due time first, over all shards.
    ///
    /// Reads only overdue tokens: the index is sorted by due time.
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

    /// Lists operators' acts since a time, oldest first: the operator, the act, the token and the
    /// reason.
    ///
    /// An audit record outlives its token
    /// ([`Settings::audit_retention`](crate::Settings::audit_retention)).
    pub fn audit(&self, since: impl Into<DateTime<Utc>>) -> ListBuilder<AuditRecord> {
        let list = ListBuilder::new(self.session().clone(), &Layout::TOKENS, shard::AUDIT, TOKENS_AND_ACTS);
        list.since(since.into())
    }

    /// Reads the answer that an operator gave with an act, or else the answer that the token had
    /// before the act, as JSON text. `None`: there was no answer, or it has expired.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Answer`] if the stored answer is
    /// damaged.
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read, and 1 more for an answer in a separate item: 1 read unit for
    /// each 4 KB.
    pub async fn given(&self, act: &AuditRecord) -> Result<Option<String>, Error> {
        if act.is_of_workflow {
            return Ok(None);
        }
        let session = self.session();
        let read = session.store().given_to_token(&act.key, &act.id, session.until(None));
        Ok(read.await?.map(answer::decode).transpose()?)
    }

    fn list(&self, state: TokenState) -> ListBuilder<TokenSummary> {
        ListBuilder::new(self.session().clone(), &Layout::TOKENS, state.status_base(), TOKENS_AND_ACTS)
    }
}

/// A token in a listing. The index is eventually consistent: read the token before you act on it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenSummary {
    /// The key of the token.
    pub token: String,
    /// In progress or held; and ended, in a list of results.
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
    /// The token or the workflow whose work began it.
    pub within: Option<Work>,
    /// Identifies the state that is shown; see [`Record::revision`](crate::Record::revision).
    /// `None` if the entry is incomplete.
    pub revision: Option<String>,
}

#[cfg(feature = "operator")]
impl TokenSummary {
    /// The summary of a token as it was read.
    pub(crate) fn of_record(record: &Record) -> Self {
        Self {
            token: record.key.as_str().to_owned(),
            state: record.state,
            locked_by: Some(record.locked_by.clone()),
            created: Some(record.created),
            expected_completion: Some(record.expected_completion),
            class: record.class,
            cause: record.cause.clone(),
            within: record.within.clone(),
            revision: Some(record.revision()),
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
        let revision = created.zip(row.attempt.as_deref()).map(|(created, attempt)| {
            record::revision(&row.key, [created, &row.due], Some(attempt), Some(&row.status))
        });
        Self {
            class: row.class.as_deref().and_then(Class::named),
            cause: row.cause,
            within: row.within,
            revision,
            token: row.key,
            state: if held { TokenState::Held } else { TokenState::InProgress },
            locked_by: row.locked_by,
            created: row.created,
            expected_completion: time::from_text(&row.due),
        }
    }
}
