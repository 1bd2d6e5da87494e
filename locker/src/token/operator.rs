//! Operators' verbs on tokens: each is one transaction of the token and its audit record, guarded
//! by the record that the operator saw.

use std::time::Duration;

use chrono::DateTime;
use serde_json::Value;

use super::answer::separate_answer;
use super::lock::end::overwritten;
use super::locker::Locker;
use crate::core::answer::{self, Body};
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::act::{self, Facts, Of, TokenAct};
use crate::core::token::audit::Audit;
use crate::core::token::decide::{self, Ended};
use crate::core::token::item::TokenItem;
use crate::core::token::record::{Intervention, KeyUse, Record, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::write::{NextKey, Write};
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::history::{self, Call};
use crate::session::{Intervened, Operator};
use crate::store::{TokenSize, Written};

/// Copies that are erased in one transaction with the token. A transaction has at most 100 actions.
const MOST_COPIES: usize = 80;

/// The time after which the index lists an act for certain enough: its delay is normally under a
/// second.
const LISTED_AFTER: Duration = Duration::from_secs(60);

/// How far the clock of an operator may be behind, so that a redact still finds the operator's
/// acts.
const SLOWEST_CLOCK: Duration = Duration::from_secs(24 * 60 * 60);

impl Locker {
    /// Completes an **overdue, in-doubt or held** token with an operator's answer. A token that an
    /// operator released, and whose work no attempt has done since, can be completed as well: that
    /// takes a wrong release back.
    ///
    /// Every later caller gets that answer, for the retention that the token was begun with. The
    /// attempt that owned the token gets [`Error::LostOwnership`].
    ///
    /// `record` is the token as the operator saw it. If the token has changed since, nothing is
    /// written and the result is [`Intervened::Changed`]; if it has already ended or its work may
    /// still be running, [`Intervened::NotPossible`]. For work that is not overdue there is
    /// [`resolve_running`](Self::resolve_running).
    ///
    /// # Errors
    ///
    /// [`Error::Form`]: the answer does not have the form that the token was begun for; nothing was
    /// sent. [`Error::Answer`]: the answer is too large or nested too deep; the token was not
    /// changed. [`Error::Unknown`]: read the token; its audit record shows whether this was
    /// applied. [`Error::Record`]: the stored token cannot be read. [`Error::Denied`],
    /// [`Error::Unavailable`]: the token was not changed.
    ///
    /// # Cost
    ///
    /// 1 transaction: 4 write units for token and audit record, and 2 for the index. All of an
    /// operator's verbs cost the same. 2 more write units for each KB of a failure in a separate
    /// item, which is deleted. An answer that does not fit into the token is a separate item: 1
    /// more request, and 1 write unit for each KB.
    pub async fn resolve(
        &self,
        record: &Record,
        answer: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Resolve(Of::Stuck), Some(answer), operator).await
    }

    /// Completes a token whose work **is not overdue and may still be running**, as
    /// [`resolve`](Self::resolve) does.
    ///
    /// The work is not stopped. When it ends, its outcome is refused.
    ///
    /// # Errors
    ///
    /// Same as [`resolve`](Self::resolve).
    pub async fn resolve_running(
        &self,
        record: &Record,
        answer: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Resolve(Of::Running), Some(answer), operator).await
    }

    /// Replaces an answer that an operator gave. An answer of the work itself never changes.
    ///
    /// Callers that got the former answer keep it; the audit records have both.
    ///
    /// # Errors
    ///
    /// Same as [`resolve`](Self::resolve).
    pub async fn correct(
        &self,
        record: &Record,
        answer: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Correct, Some(answer), operator).await
    }

    /// Makes the stored failure of a **held** token its answer, so that no work is left for an
    /// operator.
    ///
    /// Later callers continue to receive the failure, for the retention that the token was begun
    /// with.
    ///
    /// # Errors
    ///
    /// Same as [`resolve`](Self::resolve).
    pub async fn close(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Close, None, operator).await
    }

    /// Erases the stored answer or failure of a token that **has ended**.
    ///
    /// The key stays used, for the retention that the token was begun with: no later caller does
    /// the work. A later begin gets [`Begun::Completed`](crate::Begun::Completed) or
    /// [`Begun::Failed`](crate::Begun::Failed), and its result is
    /// [`AnswerError::Redacted`](crate::AnswerError::Redacted). The fingerprint and the key itself
    /// stay.
    ///
    /// Audit records of earlier acts on the token keep the operator and the reason. Their copies of
    /// an answer and of a cause are erased, too. Audit records of an earlier token under the same
    /// key, which expired before this token was begun, are not read.
    ///
    /// If the token has changed since it was read, the token stays as it is and the result is
    /// [`Intervened::Changed`]. [`Intervened::NotPossible`]: the token is in progress, held or
    /// released, or its result was erased before.
    ///
    /// # Errors
    ///
    /// Same as [`resolve`](Self::resolve). [`Error::Unavailable`] also if an operator acted on the
    /// token in the last minute, and the index does not list that act yet, or if the token was
    /// begun in the last minute and had been released before.
    ///
    /// # Cost
    ///
    /// As [`resolve`](Self::resolve); 2 write units for each KB of an answer in a separate item. If
    /// an operator acted on the token before: at least 1 request for each shard, 1 request for each
    /// 100 acts on any token since the day before the first use of the key, and 1 read and 2 write
    /// units for each act on this token.
    ///
    /// # Crash window
    ///
    /// The token, its answer, its audit record and the copies in earlier audit records are one
    /// transaction. If there are more than 80 copies, the others are erased before it.
    pub async fn redact(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Redact, None, operator).await
    }

    /// Releases an **overdue, in-doubt or held** token, so that its work can be done again.
    ///
    /// The record counts as absent, and stays until the next begin replaces it or it expires; that
    /// begin takes 2 requests.
    ///
    /// **Release a token only if you know that its work did not happen**, or want it to happen
    /// again. The provider is given the same key again: while it remembers the key, it recognises
    /// work that did happen.
    ///
    /// `record` is the token as the operator saw it. If the token has changed since, nothing is
    /// written and the result is [`Intervened::Changed`]. [`Intervened::NotPossible`]: it was
    /// already released, has ended, or its work may still be running; for these there are
    /// [`release_completed`](Self::release_completed) and
    /// [`release_running`](Self::release_running).
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`]: a reply was lost; read the token before you decide what to do.
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written.
    ///
    /// # Cost
    ///
    /// As [`resolve`](Self::resolve). For an answer or a failure in a separate item, 1 more request
    /// and 1 write unit for each KB, to let it expire.
    pub async fn release(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let release = TokenAct::Release { of: Of::Stuck, new_key: false };
        self.intervene(record, release, None, operator).await
    }

    /// Releases a token whose work **is not overdue and may still be running**. The work is not
    /// stopped: if it is alive, it is done twice.
    ///
    /// # Errors
    ///
    /// Same as [`release`](Self::release).
    pub async fn release_running(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let release = TokenAct::Release { of: Of::Running, new_key: false };
        self.intervene(record, release, None, operator).await
    }

    /// Releases a token that **has an answer**. The work is done again for the next caller.
    ///
    /// If the answer is a permanent failure, of work that no attempt before may have done, the next
    /// attempt has [another key](crate::Attempt::idempotency_key): the provider, which refused the
    /// first, would refuse again.
    ///
    /// # Errors
    ///
    /// Same as [`release`](Self::release).
    pub async fn release_completed(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let release = TokenAct::Release { of: Of::Ended, new_key: false };
        self.intervene(record, release, None, operator).await
    }

    /// Releases a token that is overdue, in doubt or held, or has an answer, and gives the provider
    /// another key.
    ///
    /// **This gives up the provider's protection**: if the work did happen, the provider does not
    /// recognise it, and it happens twice. Use it where the provider answers the key with an error
    /// for ever, or has forgotten it.
    ///
    /// # Errors
    ///
    /// Same as [`release`](Self::release).
    pub async fn release_with_new_key(
        &self,
        record: &Record,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let ended = matches!(record.state, TokenState::Completed | TokenState::Failed);
        let of = if ended { Of::Ended } else { Of::Stuck };
        self.intervene(record, TokenAct::Release { of, new_key: true }, None, operator).await
    }

    /// Returns whether the token needs an operator.
    ///
    /// The token is held, in doubt, or overdue by more than the allowance for clock skew.
    #[must_use]
    pub fn needs_operator(&self, record: &Record) -> bool {
        let release = TokenAct::Release { of: Of::Stuck, new_key: false };
        act::may(release, record, &self.facts(None)).is_ok()
    }

    /// The facts about a token that its record does not contain.
    pub(crate) fn facts(&self, runs: Option<bool>) -> Facts {
        let session = self.session();
        let now = session.now();
        Facts { now, overdue_before: time::before(now, session.skew()), runs }
    }

    /// Acts on a token as the operator saw it, if the act is possible.
    ///
    /// `result`: for the acts that take one.
    pub(crate) async fn intervene(
        &self,
        record: &Record,
        act: TokenAct,
        result: Option<&Value>,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        if act::may(act, record, &self.facts(None)).is_err() {
            return Ok(Intervened::NotPossible);
        }
        let result = result.unwrap_or(&Value::Null);
        match act {
            TokenAct::Resolve(_) => self.answer_with(record, result, operator, Resolution::Resolved).await,
            TokenAct::Correct => self.answer_with(record, result, operator, Resolution::Corrected).await,
            TokenAct::Close => self.end_as_held(record, operator).await,
            TokenAct::Redact => self.erase(record, operator).await,
            TokenAct::Release { new_key, .. } => {
                self.free(record, operator, act::gives_new_key(new_key, record)).await
            }
        }
    }

    async fn end_as_held(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let intervention = operator.at(self.session().now());
        let ttl = self.kept(record).ttl(intervention.at);
        let (key, seen) = (record.key.clone(), record.seen.clone());
        let write = Write::Close { key, seen, operator: intervention.clone(), ttl };
        self.session().intervene(write, record, (Resolution::Closed, intervention), None, &[]).await
    }

    async fn erase(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let session = self.session();
        let mut also = self.copies(record).await?;
        let first = also.split_off(also.len().min(MOST_COPIES));
        for copy in first {
            session.store().write(&copy, session.until(None)).await?;
        }
        let intervention = operator.at(session.now());
        let (key, seen, attempt) = (record.key.clone(), record.seen.clone(), session.new_id());
        let is_success = record.state == TokenState::Completed;
        let write = Write::Redact { key, attempt, seen, operator: intervention.clone(), is_success };
        session.intervene(write, record, (Resolution::Redacted, intervention), None, &also).await
    }

    /// The writes that erase the answer in its separate item, and the copies in audit records of
    /// earlier acts, the latest first.
    async fn copies(&self, record: &Record) -> Result<Vec<Write>, Error> {
        let session = self.session();
        let token = record.key.as_str();
        let drop = |id: &str| Write::DropAnswer { key: TokenItem::Answer { token, id }.to_string() };
        let mut ids = Vec::new();
        if let Some(Body::Beside { id, .. }) = &record.body {
            ids.push(id.clone());
        }
        let mut copies = Vec::new();
        for act in self.acts_on(record).await?.into_iter().rev() {
            let Some(id) = session.store().repeated(&act, session.until(None)).await? else { continue };
            copies.push(Write::RedactAudit { key: act });
            ids.extend(id.filter(|id| !ids.contains(id)));
        }
        let mut writes: Vec<_> = ids.iter().map(|id| drop(id)).collect();
        writes.extend(copies);
        Ok(writes)
    }

    /// The keys of the audit records of earlier acts on the token, the oldest first.
    async fn acts_on(&self, record: &Record) -> Result<Vec<String>, Error> {
        let last = record.intervention.as_ref();
        if last.is_none() && record.key_use == KeyUse::FIRST {
            return Ok(Vec::new());
        }
        // Another version of the key does not remember when the first version was used.
        let since = if record.key_use.version > 1 { DateTime::UNIX_EPOCH } else { record.key_since() };
        // The clock of an operator may be slow, so that an act has an earlier time.
        let since = time::before(since, SLOWEST_CLOCK);
        let mut list = self.audit(since).limit(usize::MAX);
        let mut acts = Vec::new();
        loop {
            let page = list.clone().fetch().await?;
            if let Some(error) = page.stopped_by {
                return Err(error);
            }
            acts.extend(page.items.into_iter().filter(|act| act.key == record.key.as_str()));
            match page.next {
                Some(next) => list = list.from(next),
                None => break,
            }
        }
        // Without a last act, the token was begun after a release, whose time it does not contain.
        let is_listed = last.is_some_and(|last| acts.iter().any(|act| act.at == Some(last.at)));
        let last_at = last.map_or(record.created, |last| last.at);
        if !is_listed && last_at > time::before(self.session().now(), LISTED_AFTER) {
            let source = "the index does not list the last act on the token yet".into();
            return Err(Error::Unavailable { verb: "redact", tries: 1, source });
        }
        Ok(acts.into_iter().map(|act| act.id).collect())
    }

    fn kept(&self, record: &Record) -> Retention {
        record.retention.unwrap_or(self.session().settings().retention)
    }

    async fn answer_with(
        &self,
        record: &Record,
        answer: &Value,
        operator: &Operator,
        verb: Resolution,
    ) -> Result<Intervened, Error> {
        if let Some(form) = &record.form {
            form.check(answer)?;
        }
        let session = self.session();
        let intervention = operator.at(session.now());
        let ttl = self.kept(record).ttl(intervention.at);
        let attempt = session.new_id();
        let json = answer::to_json(answer)?;
        let digest = history::digest(&json);
        let body = session.place(TokenSize::of(record, &attempt, operator.bytes()), json, ttl, None).await?;
        let (key, seen, given) = (record.key.clone(), record.seen.clone(), body.clone());
        let write = Write::Resolve { key, attempt, seen, operator: intervention.clone(), body, ttl, verb };
        // No operator acted before, so no audit record refers to the former answer. The record of
        // this act refers to the new answer. So no later redact would find the former one.
        let former =
            separate_answer(&record.key, record.body.as_ref()).filter(|_| record.intervention.is_none());
        let also: Vec<_> = former.into_iter().map(|key| Write::DropAnswer { key }).collect();
        session.intervene(write, record, (verb, intervention), Some((given, digest)), &also).await
    }

    async fn free(&self, record: &Record, operator: &Operator, new_key: bool) -> Result<Intervened, Error> {
        let session = self.session();
        let intervention = operator.at(session.now());
        // The record remembers which key the provider has, and since when.
        let kept = self.kept(record).longer(session.settings().audit_retention);
        let ttl = kept.ttl(intervention.at);
        let (key, seen, attempt) = (record.key.clone(), record.seen.clone(), session.new_id());
        let next_key = if new_key {
            NextKey::Next { version: record.key_use.version.saturating_add(1) }
        } else {
            NextKey::Same { since: record.key_since() }
        };
        let write = Write::Free { key, attempt, seen, operator: intervention.clone(), ttl, next_key };
        session.intervene(write, record, (Resolution::Released, intervention), None, &[]).await
    }
}

impl Session {
    /// Sends an operator's write with its audit record, and records its outcome in the history.
    async fn intervene(
        &self,
        write: Write,
        record: &Record,
        (verb, operator): (Resolution, Intervention),
        answer: Option<(Body, Option<String>)>,
        also: &[Write],
    ) -> Result<Intervened, Error> {
        let (answer, digest) = answer.unzip();
        let call = Call::write(self, &write, &operator.by, digest.flatten().as_deref());
        let settings = self.settings();
        let ttl = settings.audit_retention.ttl(operator.at);
        let audit =
            Audit::new(verb, record, operator, answer, (&self.new_id(), settings.write_shards(), ttl));
        let applied = self.apply((&write, also), audit, record).await;
        call.intervened(applied.as_ref());
        Ok(match applied? {
            Ok(()) => Intervened::Done,
            Err(_) => Intervened::Changed,
        })
    }

    /// The inner error contains the current token, if it changed after the operator read it.
    async fn apply(
        &self,
        (write, also): (&Write, &[Write]),
        audit: Audit,
        record: &Record,
    ) -> Result<Result<(), Option<Box<Record>>>, Error> {
        let (by, audit_ttl) = (audit.operator.by.clone(), audit.ttl);
        let applied = self.store().write_audited(write, audit, also, self.until(None)).await?;
        if let Written::Refused { found: now, after_silence } = applied {
            match decide::ended(write, now.as_deref(), after_silence) {
                Ended::Done => {}
                Ended::Unknown => return Err(overwritten(write)),
                Ended::Lost => {
                    self.drop_answer(write, None).await;
                    return Ok(Err(now));
                }
            }
        }
        let expires = match write {
            // The token keeps it.
            Write::Close { ttl, .. } => *ttl,
            // The same transaction deleted it.
            _ if !also.is_empty() => None,
            // The former answer lives as long as the audit record, which refers to it.
            _ => audit_ttl,
        };
        if let Some(at) = expires {
            self.expire_answer(record, at).await;
        }
        // The token of a correction or a redact had ended before.
        if !matches!(write, Write::Redact { .. } | Write::Resolve { verb: Resolution::Corrected, .. }) {
            metrics::count_outcome(metrics::ENDED, &record.key, write.outcome());
        }
        tracing::info!(
            lock.token = self.shown(record.key.as_str()),
            lock.owner = record.locked_by,
            lock.outcome = write.outcome(),
            operator = by,
            "an operator acted on the token"
        );
        Ok(Ok(()))
    }
}
