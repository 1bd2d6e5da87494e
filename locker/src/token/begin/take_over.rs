//! Taking over an overdue token: when, and whether a probe allows it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::core::private::Private;
use crate::core::token::record::Record;
use crate::error::BoxError;

/// The result of a probe of overdue work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probed {
    /// It did not happen and cannot happen later: running it again is safe. A request that the
    /// provider does not know may still arrive, so the request must also have expired. Do not let
    /// the provider block the key: the takeover sends the same key.
    Safe,
    /// It happened, it may yet happen, or that is unknown: do not run it again.
    Unsafe,
}

pub(crate) type Probe =
    Arc<dyn Fn(Record) -> Pin<Box<dyn Future<Output = Result<Probed, BoxError>> + Send>> + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) struct TakeOver {
    pub(crate) grace: Duration,
    pub(crate) probe: Private<Option<Probe>>,
}
