//! The attempt that the work is part of, as the work sees it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::answer::{self, AnswerError};
use crate::core::key::Key;
use crate::core::name;
use crate::core::token::item::TokenItem;
use crate::core::token::record::KeyUse;
use crate::core::token::work::Work;
use crate::core::token::write::NewToken;
use crate::session::Request;

/// The bytes that fit into the item of every token. A longer answer is compressed.
const ROOM: usize = 512;

/// The attempt that the work is part of: its key, its id, and whether it took the token over.
#[derive(Debug, Clone)]
pub struct Attempt {
    key: Key,
    id: String,
    key_use: KeyUse,
    took_over: bool,
    requested: Option<DateTime<Utc>>,
    opened: Option<DateTime<Utc>>,
}

impl Attempt {
    /// Returns the attempt of a token that was acquired. `None`: its lock has ended.
    pub(crate) fn of(token: Option<&NewToken>, took_over: bool) -> Self {
        Self {
            key: token.map_or_else(|| Key::stored(""), |token| token.key.clone()),
            id: token.map(|token| token.attempt.clone()).unwrap_or_default(),
            key_use: token.map_or(KeyUse::FIRST, |token| token.key_use),
            took_over,
            requested: token.and_then(|token| token.requested),
            opened: token.and_then(|token| token.opened),
        }
    }

    /// Returns the work of this attempt as the task of everything that it begins.
    pub(crate) fn request(&self) -> Request {
        Request { work: Some(self.work()), requested: self.requested, opened: self.opened }
    }

    /// The key of the token.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The id of this begin, as stored in `attempt`. It is new for every begin: for logs, not for a
    /// provider.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the token was taken over from an overdue attempt, which may already have done the
    /// work.
    #[must_use]
    pub const fn took_over(&self) -> bool {
        self.took_over
    }

    /// Returns this token, for work that a spawned task begins:
    /// [`BeginBuilder::within`](crate::BeginBuilder::within).
    #[must_use]
    pub fn work(&self) -> Work {
        Work::Token(self.key.as_str().to_owned())
    }

    /// Checks that an answer or a failure of the work can be stored.
    ///
    /// If it cannot be stored, store it elsewhere and return a reference, or return less. Otherwise
    /// [`run`](crate::BeginBuilder::run) holds the token of the answer.
    ///
    /// # Errors
    ///
    /// [`AnswerError::TooLarge`] or [`AnswerError::Encode`].
    ///
    /// # Cost
    ///
    /// No request. An answer of more than about half a KB is compressed.
    pub fn check_answer<T: Serialize + ?Sized>(&self, answer: &T) -> Result<(), AnswerError> {
        let item = TokenItem::Answer { token: self.key.as_str(), id: &self.id }.to_string();
        let most = answer::most_bytes(item.len());
        answer::encode(answer::to_json(answer)?, ROOM, most)?;
        Ok(())
    }

    /// The idempotency key for a provider that supports one, such as Stripe.
    ///
    /// It is the same for every attempt at this token, so the provider recognises a repeated
    /// request, even after an operator released the token. It is the token's key if that has at
    /// most 255 bytes, and its SHA-256 otherwise. If your provider accepts fewer bytes, send a
    /// digest of the whole key: the first part of a key is the same for many tokens. The key of a
    /// request contains the name of its caller. It changes only if an
    /// operator released the token [with a new key](crate::Locker::release_with_new_key), or
    /// released a failure that was the answer: the provider refused the first key, and would return
    /// the refusal again.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        name::shared_provider_key(&self.key, self.key_use.version)
    }
}
