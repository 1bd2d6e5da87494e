//! Begin: one conditional put, then the requests that depend on the record that refused it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::begun::Begun;
use super::plan::{Judged, Plan, Round};
use super::take_over::{Probe, Probed};
use super::wait::Patience;
use crate::core::time;
use crate::core::token::record::Record;
use crate::core::token::write::{NewToken, Write};
use crate::error::Error;
use crate::store::{Freshness, Written, reserve};

/// Maximum rounds of a begin while the token keeps changing between its requests.
const ROUNDS: u32 = 4;

/// The requests of a begin so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Whether a request was applied, may have been applied, or may still arrive.
    silent: bool,
    /// The token of the last write, and the overdue token that it replaces.
    last: Option<(Arc<NewToken>, Option<Box<Record>>)>,
}

impl Sent {
    /// Keeps the token of a write, in case that the begin has to be withdrawn. A token that the
    /// write holds for an operator is never withdrawn: no work waits for it, and a release is only
    /// for a token that this call may have acquired.
    fn keep(&mut self, token: &Arc<NewToken>, predecessor: Option<&Record>) {
        let is_held = token.held.is_some();
        self.last =
            (!is_held).then(|| (Arc::clone(token), predecessor.map(|record| Box::new(record.clone()))));
    }
}

/// A begin without an outcome, whose work will not run.
#[derive(Debug)]
pub(crate) struct NotBegun {
    pub(crate) error: Error,
    /// Whether the token that the begin may have acquired was given up, so that another caller may
    /// try.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only the HTTP layer tells its caller"))]
    pub(crate) is_withdrawn: bool,
}

/// An error after which nothing has to be withdrawn.
impl From<Error> for NotBegun {
    fn from(error: Error) -> Self {
        Self { error, is_withdrawn: true }
    }
}

impl Plan {
    pub(crate) async fn begin(&self, sent: &mut Sent) -> Result<Begun, Error> {
        let begun = self.rounds(sent).await;
        begun.map_err(|error| if sent.silent { not_sure(error) } else { error })
    }

    /// Gives up the token that an unknown begin may have acquired, because no work runs under it.
    /// Returns whether the token was certainly given up. A request of the begin that arrives later
    /// may still acquire it.
    pub(crate) async fn withdraw(&self, sent: Sent) -> bool {
        let Some((token, predecessor)) = sent.last else { return true };
        let within = self.session.bounded(reserve(self.session.settings().give_up_after), self.deadline);
        let until = time::after(self.session.now(), within);
        self.lock(token, predecessor).withdraw(until).await
    }

    /// Puts until there is an outcome.
    async fn rounds(&self, sent: &mut Sent) -> Result<Begun, Error> {
        let mut patience = self.wait_for.map(|wait| Patience::new(self.session.bounded(wait, self.deadline)));
        if self.read_first
            && let Some(begun) = self.peek().await?
        {
            return Ok(begun);
        }
        let mut rounds = 0;
        loop {
            let held = match self.put(sent).await? {
                Round::Over(begun) => return Ok(begun),
                Round::Held(record) => Some(record),
                Round::Again => None,
            };
            let held = match (held, patience.as_mut()) {
                (Some(record), None) => return Ok(self.held(record)),
                (Some(record), Some(patience)) => match self.wait(record, patience).await? {
                    Round::Over(begun) => return Ok(begun),
                    Round::Held(record) => return Ok(self.held(record)),
                    Round::Again => true,
                },
                (None, _) => false,
            };
            // Waiting has its own limit, so only rounds without waiting count.
            rounds = if held { 0 } else { rounds + 1 };
            if rounds == ROUNDS {
                return Err(Error::Contended { verb: "begin", tries: rounds });
            }
        }
    }

    /// Puts the token; if that is refused, interprets the record that refused it.
    async fn put(&self, sent: &mut Sent) -> Result<Round, Error> {
        self.check_deadline()?;
        let token = Arc::new(self.first_token(None));
        sent.keep(&token, None);
        match self.send(&Write::Begin { token: Arc::clone(&token) }, sent).await? {
            Written::Done => Ok(self.written(token, None, sent)),
            Written::Refused { found: None, .. } => Ok(Round::Again),
            Written::Refused { found: Some(record), .. } => match self.judge(record).await? {
                Judged::Mine(record) => Ok(self.acquired(Arc::new(self.recovered(&record, None)), None)),
                Judged::Overdue(record) => self.take_over(record, sent).await,
                Judged::Remembered(record) => self.begin_over(&record, sent).await,
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// Replaces a released token that remembers the provider's key, if it is still the one seen.
    async fn begin_over(&self, record: &Record, sent: &mut Sent) -> Result<Round, Error> {
        self.check_deadline()?;
        let token = Arc::new(self.first_token(Some(record)));
        let write = Write::BeginOver { token: Arc::clone(&token), seen: record.seen.clone() };
        self.replace(&write, token, None, sent).await
    }

    /// Asks the probe, no longer than the deadline allows.
    async fn probe(&self, probe: &Probe, record: &Record) -> Result<Probed, Error> {
        let probed = probe(record.clone());
        let probed = match self.deadline {
            None => probed.await,
            Some(deadline) => {
                let left = time::between(self.session.now(), deadline);
                let late = || Err("the deadline passed before the probe answered".into());
                tokio::time::timeout(left, probed).await.unwrap_or_else(|_| late())
            }
        };
        probed.map_err(|source| Error::Probe { source })
    }

    /// Replaces the overdue token, if it is unchanged since it was read.
    async fn take_over(&self, record: Box<Record>, sent: &mut Sent) -> Result<Round, Error> {
        if let Some(probe) = self.take_over.as_ref().and_then(|take_over| take_over.probe.as_ref())
            && self.probe(probe, &record).await? == Probed::Unsafe
        {
            return Ok(Round::Held(record));
        }
        self.check_deadline()?;
        let token = Arc::new(self.next_token(&record));
        let due_before = self.due_before(token.created).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let write = Write::TakeOver { token: Arc::clone(&token), seen: record.seen.clone(), due_before };
        self.replace(&write, token, Some(record), sent).await
    }

    /// Puts the token over the one seen; if that is refused, interprets the record that refused it.
    async fn replace(
        &self,
        write: &Write,
        token: Arc<NewToken>,
        predecessor: Option<Box<Record>>,
        sent: &mut Sent,
    ) -> Result<Round, Error> {
        sent.keep(&token, predecessor.as_deref());
        match self.send(write, sent).await? {
            Written::Done => Ok(self.written(token, predecessor, sent)),
            Written::Refused { found: None, .. } => Ok(Round::Again),
            Written::Refused { found: Some(now), .. } => match self.judge(now).await? {
                Judged::Mine(mine) => {
                    let token = self.recovered(&mine, predecessor.as_deref());
                    Ok(self.acquired(Arc::new(token), predecessor))
                }
                // The token has changed since it was read. A probe was asked about the attempt
                // before, so the next round asks again.
                Judged::Overdue(_) | Judged::Remembered(_) => Ok(Round::Again),
                Judged::Round(round) => Ok(round),
            },
        }
    }

    /// Returns the round of a put that was applied. If the put holds the key, the next put finds
    /// its record. If the next put fails, the error does not state that nothing was written.
    fn written(&self, token: Arc<NewToken>, predecessor: Option<Box<Record>>, sent: &mut Sent) -> Round {
        sent.silent |= token.held.is_some();
        if token.held.is_some() { Round::Again } else { self.acquired(token, predecessor) }
    }

    /// Sends a write of this begin, and records whether any of its requests got no clear reply.
    async fn send(&self, write: &Write, sent: &mut Sent) -> Result<Written<Option<Box<Record>>>, Error> {
        let (store, until) = (self.session.store(), self.until());
        let written =
            if sent.silent { store.write_again(write, until).await } else { store.write(write, until).await };
        let Written::Refused { found, after_silence } = written? else { return Ok(Written::Done) };
        sent.silent |= after_silence;
        // Some engines return no item with a refusal. It may also have been deleted since.
        let found = match found {
            Some(record) => Some(record),
            None => self.read(Freshness::Strong).await?.map(Box::new),
        };
        Ok(Written::Refused { found, after_silence })
    }

    async fn read(&self, freshness: Freshness) -> Result<Option<Record>, Error> {
        self.session.store().read(self.key.as_str(), freshness, self.until()).await
    }

    /// Reads a terminal record at half the price. Another state proves nothing: the read is
    /// eventually consistent.
    async fn peek(&self) -> Result<Option<Begun>, Error> {
        match self.read(Freshness::Eventual).await? {
            Some(record) if record.state.is_terminal() => match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Over(begun)) => Ok(Some(begun)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

/// [`Error::unsure`] of a begin, whichever of its requests failed: an earlier one may have been
/// applied or may yet arrive.
fn not_sure(error: Error) -> Error {
    match error {
        Error::Unknown { .. } => error,
        error => match error.unsure() {
            Error::Unknown { tries, source, .. } => Error::Unknown { verb: "begin", tries, source },
            error => error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_unheard_request_no_error_of_a_begin_says_that_nothing_was_written() {
        let verb = "take over";
        for error in [
            Error::Unavailable { verb, tries: 1, source: "busy".into() },
            Error::Denied { verb, code: None, advice: "a".into(), source: "b".into() },
            Error::Contended { verb, tries: 1 },
            Error::Expired { verb },
        ] {
            let text = error.to_string();
            let Error::Unknown { verb: "begin", source, .. } = not_sure(error) else { panic!("{text}") };
            assert!(!source.to_string().contains("nothing"), "{source}");
        }
    }
}
