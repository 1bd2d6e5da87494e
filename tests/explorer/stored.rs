//! A token as stored in the table, read without the library.

use serde_json::Value;

/// What an invariant looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) attempt: String,
    pub(super) state: StoredState,
    pub(super) due: String,
    pub(super) ttl: Option<i64>,
    /// The whole item: two are equal if nothing was changed.
    pub(super) item: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredState {
    InProgress,
    Failed,
    Done,
    /// It was released, and its record remembers the key of the provider. It is free.
    Released,
}

impl Stored {
    pub(super) fn of(item: Value) -> Self {
        let text = |name: &str| item[name]["S"].as_str().map(str::to_owned);
        let state = match text("status") {
            Some(status) if status.starts_with("inProgress") => StoredState::InProgress,
            Some(_) => StoredState::Failed,
            None if text("resolution").as_deref() == Some("released") => StoredState::Released,
            None => StoredState::Done,
        };
        Self {
            attempt: text("attempt").unwrap_or_default(),
            // What a takeover counts from.
            due: text("promisedCompletion").or_else(|| text("expectedCompletion")).unwrap_or_default(),
            ttl: item["ttl"]["N"].as_str().and_then(|ttl| ttl.parse().ok()),
            state,
            item,
        }
    }

    pub(super) fn is_held_by(&self, attempt: &str) -> bool {
        self.state == StoredState::InProgress && self.attempt == attempt
    }
}
