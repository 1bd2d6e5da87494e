//! The audit records of operators' acts, on tokens and on workflows.

use chrono::{DateTime, Utc};

use crate::core::time;
use crate::core::token::item::TokenItem;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::session::listing::{Entry, Listed};
use crate::store::Row;

/// The audit record of an operator's act on a token, a workflow or a step, as a listing shows it.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The key of the token; or of the workflow as it is stored, followed by ` v2` under the second
    /// version.
    pub key: String,
    /// Whether it is about a workflow, and not about a token.
    pub is_of_workflow: bool,
    /// The name of the workflow's code. `None`: it is about a token, or the workflow had not
    /// started.
    pub name: Option<String>,
    /// The name of the step, if the act was on one; of a message, `message`, its place, its topic
    /// and its id.
    pub step: Option<String>,
    /// When the operator acted.
    pub at: Option<DateTime<Utc>>,
    /// The act of the operator.
    pub resolution: Option<Resolution>,
    /// The operator's name.
    pub by: Option<String>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The owner of the token, or the driver of the workflow, that the operator saw.
    pub locked_by: Option<String>,
    /// The attempt that the operator saw; of a workflow,
    /// [`Workflows::acts`](crate::workflow::Workflows::acts) has it, and a listing does not.
    pub attempt: Option<String>,
    /// Why the token was held or in doubt, or why the workflow waited or was in quarantine.
    pub cause: Option<String>,
    /// The token or the workflow whose work began it.
    pub within: Option<Work>,
    /// Where the record itself is stored.
    pub(crate) id: String,
}

impl AuditRecord {
    /// The token, the workflow or the message that it is about.
    #[must_use]
    pub fn work(&self) -> Work {
        match &self.step {
            _ if !self.is_of_workflow => Work::Token(self.key.clone()),
            Some(step) => {
                Work::of_audited(step, &self.key).unwrap_or_else(|| Work::Workflow(self.key.clone()))
            }
            None => Work::Workflow(self.key.clone()),
        }
    }

    pub(crate) fn of_row(row: Row) -> Self {
        let (key, id, is_of_workflow) = match row.item {
            Some(item) => (row.key, item, true),
            None => (TokenItem::parse(&row.key).token().to_owned(), row.key, false),
        };
        Self {
            key,
            is_of_workflow,
            name: row.name,
            step: row.step,
            at: time::from_text(&row.due),
            resolution: row.resolution.as_deref().and_then(Resolution::named),
            by: row.resolved_by,
            reason: row.resolved_reason,
            locked_by: row.locked_by,
            attempt: row.attempt,
            cause: row.cause,
            within: row.within,
            id,
        }
    }
}

impl Listed for AuditRecord {
    fn of(Entry(row): Entry) -> Self {
        Self::of_row(row)
    }
}

impl std::fmt::Debug for AuditRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditRecord")
            .field("key", &format_args!("#{}", crate::core::key::digest_of(&self.key)))
            .field("step", &self.step)
            .field("at", &self.at)
            .field("resolution", &self.resolution)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}
