//! Where an answer is put, and what becomes of it.

use chrono::{DateTime, Utc};

use super::locker::Locker;
use crate::core::answer::{self, Body, Encoded};
use crate::core::record::Record;
use crate::core::write::{NewToken, Write, answer_key};
use crate::error::Error;
use crate::store::{TokenSize, room_for_answer};

/// An answer outlives its token by so many seconds, so that no reader finds one without the other.
const MARGIN: i64 = 24 * 60 * 60;

impl Locker {
    /// The outcome, in the log before it is in the table. Source: seed 004.
    pub(super) fn log_end(&self, token: &NewToken, outcome: &'static str) {
        tracing::info!(
            lock.token = self.shown(&token.key),
            lock.owner = token.locked_by,
            lock.attempt = token.attempt,
            lock.outcome = outcome,
            "the work ended"
        );
    }

    /// Put an answer where it belongs: into the token, or first into an item of its own.
    pub(super) async fn place(
        &self,
        token: TokenSize<'_>,
        json: String,
        ttl: Option<i64>,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Body, Error> {
        let room = room_for_answer(&token);
        if json.len() <= room {
            answer::check_depth(&json)?;
            return Ok(Body::Inline(Encoded::plain(json)));
        }
        let id = self.new_id();
        #[cfg(feature = "mutants")]
        let id = crate::mutants::answer_id(id);
        let key = answer_key(token.key, &id);
        let (encoded, fits) = answer::encode(json, room, answer::most_bytes(key.len()))?;
        if fits {
            return Ok(Body::Inline(encoded));
        }
        let (codec, bytes) = (encoded.codec, encoded.bytes.len());
        let ttl = ttl.map(|ttl| ttl.saturating_add(MARGIN));
        let write = Write::PutAnswer { key, encoded, ttl };
        match self.store().write(&write, self.until(deadline).for_end()).await {
            Ok(_) => Ok(Body::Beside { codec, id, bytes }),
            #[cfg(feature = "mutants")]
            Err(Error::Unknown { .. }) if crate::mutants::takes_silence_for_stored() => {
                Ok(Body::Beside { codec, id, bytes })
            }
            // Whether the answer lies there does not matter: no token points to it, so nothing ended.
            Err(Error::Unknown { verb, tries, source }) => Err(Error::Unavailable { verb, tries, source }),
            Err(error) => Err(error),
        }
    }

    /// Delete an answer that no token came to point to. If that fails, its `ttl` does it, if it has one.
    pub(crate) async fn drop_answer(&self, write: &Write, deadline: Option<DateTime<Utc>>) {
        let (Write::Finish { key, body, .. } | Write::Resolve { key, body, .. }) = write else { return };
        let Body::Beside { id, .. } = body else { return };
        let drop = Write::DropAnswer { key: answer_key(key.as_str(), id) };
        if let Err(error) = self.store().write(&drop, self.until(deadline)).await {
            tracing::debug!(%error, "an unused answer stays behind");
        }
    }

    /// Let the answer of a record expire that a person resolved or released: its token no longer
    /// points to it, and a reader may still be on the way.
    pub(super) async fn expire_answer(&self, record: &Record) {
        let Some(Body::Beside { id, .. }) = &record.body else { return };
        let key = answer_key(record.key.as_str(), id);
        let ttl = self.now().timestamp().saturating_add(MARGIN);
        if let Err(error) = self.store().write(&Write::ExpireAnswer { key, ttl }, self.until(None)).await {
            tracing::debug!(%error, "a former answer stays behind");
        }
    }
}
