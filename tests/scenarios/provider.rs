//! A client of a provider, and what a missing response means.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::Failure;

use super::books::{Call, Said, Verb};

/// The reply of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It answered.
    Said(Said),
    /// Too busy; ask again after this pause. Nothing was done.
    Busy(Duration),
    /// It could not be reached. Nothing was done.
    Down,
    /// No response: it may have done it.
    Silence,
}

type Asking = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A provider's client. Clones are the same.
#[derive(Clone)]
pub struct Provider(Arc<dyn Fn(Call) -> Asking + Send + Sync>);

impl Provider {
    /// A provider that is called by this function.
    pub fn new<R>(ask: impl Fn(Call) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Reply> + Send + 'static,
    {
        Self(Arc::new(move |call| Box::pin(ask(call))))
    }

    /// Send a request.
    pub(super) async fn call(&self, call: Call) -> Reply {
        let Self(ask) = self;
        ask(call).await
    }

    /// Build a request.
    pub fn ask(&self, verb: Verb, about: &str) -> Asked {
        let call = Call {
            verb,
            about: about.to_owned(),
            account: String::new(),
            amount: 0,
            key: None,
            event: None,
            valid_until: None,
        };
        Asked { provider: self.clone(), call }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}

/// A request about to be sent.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited with `send`"]
pub struct Asked {
    provider: Provider,
    call: Call,
}

impl Asked {
    /// Set the account and the amount.
    pub fn account(mut self, account: &str, amount: i64) -> Self {
        self.call.account = account.to_owned();
        self.call.amount = amount;
        self
    }

    /// Set the idempotency key.
    pub fn key(mut self, key: &str) -> Self {
        self.call.key = Some(key.to_owned());
        self
    }

    /// Set the time after which the request is refused.
    pub fn valid_until(mut self, until: DateTime<Utc>) -> Self {
        self.call.valid_until = Some(until.timestamp_millis());
        self
    }

    /// Send the request.
    ///
    /// # Errors
    ///
    /// Transient: nothing was done. Permanent: it was refused. In doubt: there was no response.
    pub async fn send(self) -> Result<String, Failure> {
        let Self { provider, call } = self;
        match provider.call(call).await {
            Reply::Said(Said::Done(id)) => Ok(id),
            Reply::Said(Said::Refused(why)) => Err(Failure::permanent(why)),
            Reply::Said(Said::Expired) => Err(Failure::transient("it arrived too late".to_owned())),
            Reply::Busy(pause) => Err(Failure::transient("busy".to_owned()).after(pause)),
            Reply::Down => Err(Failure::transient("not reached".to_owned())),
            Reply::Silence => Err(Failure::in_doubt("there was no response".to_owned())),
        }
    }
}
