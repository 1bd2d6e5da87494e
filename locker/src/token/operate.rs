//! What a person does to a token: one conditional write, guarded by what the person saw.

use serde_json::Value;

use super::end::overwritten;
use super::locker::Locker;
use crate::core::answer;
use crate::core::decide::{self, Ended};
use crate::core::record::{Intervention, Record, State};
use crate::core::write::Write;
use crate::error::Error;
use crate::history::{self, Call};
use crate::metrics;
use crate::settings::check_text;
use crate::store::{Applied, TokenSize};

/// Who acts, and why. Both are kept on the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    by: String,
    reason: String,
}

impl Person {
    /// Somebody with a reason.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::Text`](crate::InvalidSetting::Text) if either is empty or longer than 1,000 bytes.
    pub fn new(by: impl Into<String>, reason: impl Into<String>) -> Result<Self, crate::InvalidSetting> {
        let (by, reason) = (by.into(), reason.into());
        check_text("name", &by, "who acts")?;
        check_text("reason", &reason, "why, for whoever reads the record next")?;
        Ok(Self { by, reason })
    }

    pub(crate) fn at(&self, at: chrono::DateTime<chrono::Utc>) -> Intervention {
        Intervention { by: self.by.clone(), reason: self.reason.clone(), at }
    }

    const fn bytes(&self) -> usize {
        self.by.len() + self.reason.len()
    }
}

impl Locker {
    /// Say that work in progress or failed work is done, with its answer. Everyone who comes later gets
    /// that answer, for as long as the token was begun to be kept, and whoever still holds the token finds
    /// that it is lost.
    ///
    /// `record` is the token as the person saw it; if it has changed since, nothing is written.
    ///
    /// # Errors
    ///
    /// [`Error::Changed`] with the token as it is now. [`Error::Ended`] if there is nothing to resolve.
    /// [`Error::Unknown`]: look at the token; the person's name on it tells.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index).
    pub async fn resolve(&self, record: &Record, person: &Person, answer: &Value) -> Result<(), Error> {
        const VERB: &str = "resolve";
        if !matches!(record.state, State::InProgress | State::Failed) {
            return Err(Error::Ended { verb: VERB, state: record.state });
        }
        let person_at = person.at(self.now());
        let retention = record.retention.unwrap_or(self.settings().retention);
        let ttl = retention.ttl(person_at.at);
        let attempt = self.new_id();
        let json = answer::to_json(answer)?;
        let digest = history::digest(&json);
        let body = self.place(TokenSize::of(record, &attempt, person.bytes()), json, ttl, None).await?;
        let (key, seen) = (record.key.clone(), record.seen.clone());
        let write = Write::Resolve { key, attempt, seen, person: person_at, body, ttl };
        let call = Call::write(self, &write, &person.by, digest.as_deref());
        let resolved = self.intervene(write, record).await;
        call.ended(resolved.as_ref().copied());
        resolved
    }

    /// Let go of a token, whatever its state, so that the work may be done anew. The record stays to
    /// show who and why, counts as absent, and is replaced by the next begin.
    ///
    /// **Only a person who knows that the work did not happen should do this**, or who wants it to
    /// happen twice.
    ///
    /// `record` is the token as the person saw it; if it has changed since, nothing is written.
    ///
    /// # Errors
    ///
    /// [`Error::Changed`] with the token as it is now. [`Error::Ended`] if it was released already.
    /// [`Error::Unknown`]: a reply was lost; look at the token before you decide anew.
    ///
    /// # Cost
    ///
    /// 1 request and 2 write units (table and index), 1 for a token that has ended. A failure that lies
    /// beside its token costs another request, and 1 write unit for each KB, to let it expire.
    pub async fn release(&self, record: &Record, person: &Person) -> Result<(), Error> {
        const VERB: &str = "release by hand";
        if record.state == State::Released {
            return Err(Error::Ended { verb: VERB, state: record.state });
        }
        let person_at = person.at(self.now());
        let ttl = self.settings().retention.ttl(person_at.at);
        let (key, seen) = (record.key.clone(), record.seen.clone());
        let write = Write::Free { key, seen, person: person_at, ttl };
        let call = Call::write(self, &write, &person.by, None);
        let released = self.intervene(write, record).await;
        call.ended(released.as_ref().copied());
        released
    }

    async fn intervene(&self, write: Write, record: &Record) -> Result<(), Error> {
        let applied = self.store().write(&write, self.until(None)).await?;
        if let Applied::No { record: now, after_silence } = applied {
            match decide::ended(&write, now.as_deref(), after_silence) {
                Ended::Done => {}
                Ended::Unknown => return Err(overwritten(&write)),
                Ended::Lost => {
                    self.drop_answer(&write, None).await;
                    return Err(Error::Changed { verb: write.verb(), record: now });
                }
            }
        }
        self.expire_answer(record).await;
        metrics::count_outcome(metrics::ENDED, &record.key, write.outcome());
        tracing::info!(
            lock.token = self.shown(&record.key),
            lock.owner = record.locked_by,
            lock.outcome = write.outcome(),
            "a person ended the token"
        );
        Ok(())
    }
}
