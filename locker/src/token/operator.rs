//! Operators' verbs on tokens: each is one transaction of the token and its audit record, guarded
//! by the record that the operator saw.

use serde_json::Value;

use super::lock::end::overwritten;
use super::locker::Locker;
use crate::core::answer::{self, Body};
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::act::{self, Facts, Of, TokenAct};
use crate::core::token::audit::Audit;
use crate::core::token::decide::{self, Ended};
use crate::core::token::record::{Intervention, Record, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::write::{NextKey, Write};
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::history::{self, Call};
use crate::session::{Intervened, Operator};
use crate::store::{TokenSize, Written};

impl Locker {
    /// Complete an **overdue, in-doubt or held** token with an operator's answer. A token that an
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
    /// sent. [`Error::Unknown`]: read the token; its audit record shows whether this was applied.
    /// [`Error::Denied`], [`Error::Unavailable`]: the token was not changed.
    ///
    /// # Cost
    ///
    /// 1 transaction: 4 write units for token and audit record, and 2 for the index. All of an
    /// operator's verbs cost the same.
    pub async fn resolve(
        &self,
        record: &Record,
        answer: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(record, TokenAct::Resolve(Of::Stuck), Some(answer), operator).await
    }

    /// Complete a token whose work **is not overdue and may still be running**, as
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

    /// Replace an answer that an operator gave. An answer of the work itself never changes.
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

    /// Release an **overdue, in-doubt or held** token, so that its work can be done again.
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

    /// Release a token whose work **is not overdue and may still be running**. The work is not
    /// stopped: if it is alive, it is done twice.
    ///
    /// # Errors
    ///
    /// Same as [`release`](Self::release).
    pub async fn release_running(&self, record: &Record, operator: &Operator) -> Result<Intervened, Error> {
        let release = TokenAct::Release { of: Of::Running, new_key: false };
        self.intervene(record, release, None, operator).await
    }

    /// Release a token that **has an answer**. The work is done again for the next caller.
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

    /// Release a token that is overdue, in doubt or held, or has an answer, and give the provider
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
        self.session().intervene(write, record, (Resolution::Closed, intervention), None).await
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
        session.intervene(write, record, (verb, intervention), Some((given, digest))).await
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
        session.intervene(write, record, (Resolution::Released, intervention), None).await
    }
}

impl Session {
    /// Send an operator's write with its audit record, and record its outcome in the history.
    async fn intervene(
        &self,
        write: Write,
        record: &Record,
        (verb, operator): (Resolution, Intervention),
        answer: Option<(Body, Option<String>)>,
    ) -> Result<Intervened, Error> {
        let (answer, digest) = answer.unzip();
        let call = Call::write(self, &write, &operator.by, digest.flatten().as_deref());
        let settings = self.settings();
        let ttl = settings.audit_retention.ttl(operator.at);
        let audit = Audit::new(verb, record, operator, answer, (&self.new_id(), settings.shards, ttl));
        let applied = self.apply(&write, audit, record).await;
        call.intervened(applied.as_ref());
        Ok(match applied? {
            Ok(()) => Intervened::Done,
            Err(_) => Intervened::Changed,
        })
    }

    /// The inner error contains the current token, if it changed after the operator read it.
    async fn apply(
        &self,
        write: &Write,
        audit: Audit,
        record: &Record,
    ) -> Result<Result<(), Option<Box<Record>>>, Error> {
        let (by, audit_ttl) = (audit.operator.by.clone(), audit.ttl);
        let applied = self.store().write_audited(write, audit, self.until(None)).await?;
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
            // The former answer lives as long as the audit record, which refers to it.
            _ => audit_ttl,
        };
        if let Some(at) = expires {
            self.expire_answer(record, at).await;
        }
        metrics::count_outcome(metrics::ENDED, &record.key, write.outcome());
        tracing::info!(
            lock.token = self.shown(record.key.as_str()),
            lock.owner = record.locked_by,
            lock.outcome = write.outcome(),
            operator = by,
            "an operator ended the token"
        );
        Ok(Ok(()))
    }
}
