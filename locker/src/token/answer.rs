//! Storing and reading answers, in the token's item or in a separate one.

use chrono::{DateTime, Utc};

use crate::core::answer::{self, AnswerError, Body, Encoded};
use crate::core::key::Key;
use crate::core::shard;
use crate::core::token::item::TokenItem;
use crate::core::token::record::{Record, TokenState};
use crate::core::token::write::{NewToken, Write};
use crate::error::Error;
use crate::session::Session;
use crate::store::{TokenSize, Until, room_for_answer};

/// How much longer than its token a separate answer is kept, in seconds, so that no reader finds a
/// token without its answer.
const MARGIN: i64 = 24 * 60 * 60;

impl Session {
    /// The value of `status` for a token in progress or held.
    pub(crate) fn status(&self, state: TokenState, key: &Key) -> String {
        shard::status(state.status_base(), key.as_str(), self.settings().write_shards())
    }

    /// The value of `status` for a token that is begun.
    pub(crate) fn in_progress(&self, key: &Key, is_unlisted: bool) -> String {
        let base = if is_unlisted { shard::UNLISTED } else { shard::IN_PROGRESS };
        shard::status(base, key.as_str(), self.settings().write_shards())
    }

    /// Logs the outcome before it is written to the table.
    pub(crate) fn log_end(&self, token: &NewToken, outcome: &'static str, cause: Option<&str>) {
        tracing::info!(
            lock.token = self.shown(token.key.as_str()),
            lock.owner = token.locked_by,
            lock.attempt = token.attempt,
            lock.outcome = outcome,
            cause,
            "the work ended"
        );
    }

    /// Prepares an answer for storage: inline if it fits into the token, otherwise in a separate
    /// item, which is written here.
    pub(crate) async fn place(
        &self,
        token: TokenSize<'_>,
        json: String,
        ttl: Option<i64>,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Body, Error> {
        let room = room_for_answer(&token);
        if json.len() <= room {
            return Ok(Body::Inline(Encoded::plain(json)));
        }
        let id = self.new_id();
        let key = TokenItem::Answer { token: token.key, id: &id }.to_string();
        let (encoded, fits) = answer::encode(json, room, answer::most_bytes(key.len()))?;
        if fits {
            return Ok(Body::Inline(encoded));
        }
        let (codec, bytes) = (encoded.codec, encoded.bytes.len());
        let ttl = ttl.map(|ttl| ttl.saturating_add(MARGIN));
        let write = Write::PutAnswer { key, encoded, ttl };
        match self.store().write(&write, self.until(deadline).for_end()).await {
            Ok(_) => Ok(Body::Beside { codec, id, bytes }),
            // The separate item may exist, but no token refers to it, so nothing ended.
            Err(Error::Unknown { verb, tries, source }) => Err(Error::Unavailable { verb, tries, source }),
            Err(error) => Err(error),
        }
    }

    /// The stored answer or failure of a record, as JSON text.
    pub(crate) async fn answer(&self, record: &Record, until: Until) -> Result<Option<String>, Error> {
        let encoded = match &record.body {
            None => return Ok(None),
            Some(Body::Redacted) => return Err(AnswerError::Redacted.into()),
            Some(Body::Inline(encoded)) => encoded.clone(),
            Some(Body::Beside { codec, id, .. }) => {
                self.store().read_answer(record.key.as_str(), id, *codec, until).await?
            }
        };
        Ok(Some(answer::decode(encoded)?))
    }

    /// Deletes an answer that no token refers to. If that fails, its `ttl`, if it has one, removes
    /// it later.
    pub(crate) async fn drop_answer(&self, write: &Write, deadline: Option<DateTime<Utc>>) {
        let (Write::Finish { key, body, .. } | Write::Resolve { key, body, .. }) = write else { return };
        let Some(key) = separate_answer(key, Some(body)) else { return };
        if let Err(error) = self.store().write(&Write::DropAnswer { key }, self.until(deadline)).await {
            tracing::debug!(%error, "an unused answer may remain");
        }
    }

    /// Sets an expiry on the separate answer or failure of a token that an operator acted on: a day
    /// after this time. A reader may have read the token before the act and fetch the answer after
    /// it.
    pub(crate) async fn expire_answer(&self, record: &Record, at: i64) {
        let Some(key) = separate_answer(&record.key, record.body.as_ref()) else { return };
        let write = Write::ExpireAnswer { key, ttl: at.saturating_add(MARGIN) };
        if let Err(error) = self.store().write(&write, self.until(None)).await {
            tracing::debug!(%error, "a former answer may remain");
        }
    }
}

/// The key of the separate item with the answer or the failure of a token.
pub(crate) fn separate_answer(token: &Key, body: Option<&Body>) -> Option<String> {
    let Some(Body::Beside { id, .. }) = body else { return None };
    Some(TokenItem::Answer { token: token.as_str(), id }.to_string())
}
