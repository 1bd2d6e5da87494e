//! The SDK's HTTP client, with faults.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use tokio::sync::Semaphore;

use super::exchange::Exchange;
use super::fate::{FROZEN, Fate};
use super::schedule::Schedule;

/// The time without a reply to a request that [stalls](Fate::Stalls) or [hangs](Fate::Hangs).
const SILENCE: Duration = Duration::from_secs(3600);

/// The wire between one client and DynamoDB, with faults on demand. Clones share the plan.
///
/// The rest is real: the requests, signatures, retries, parsing and errors of the SDK.
///
/// ```
/// use lock_token_testing::{Embedded, Exchange, Fate, Wire};
/// use locker::{Failure, Locker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (engine, wire) = (Embedded::memory()?, Wire::default());
/// locker::create_table(&engine.client(), "locks").await?;
/// let locker = Locker::new(&engine.client_over(&wire), "locks")?;
///
/// wire.next([Fate::ReplyLost]);           // at the next request
/// wire.nth(3, Fate::Throttled);             // at the third from now
/// let ends = |exchange: &Exchange| exchange.operation == "UpdateItem";
/// wire.matching(ends, Fate::Lost);          // at the next that matches
///
/// for is_replay in [false, true] {
///     let charged = locker.token("order/7").run(|_| async { Ok::<_, Failure>(1000_u64) }).await?;
///     assert_eq!(charged.is_replay(), is_replay);
/// }
/// let operations: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
/// assert_eq!(operations, ["PutItem", "PutItem", "UpdateItem", "UpdateItem", "UpdateItem", "PutItem"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<State>>);

struct State {
    schedule: Schedule<Exchange, Fate>,
    exchanges: Vec<Exchange>,
    late: Vec<(SharedHttpConnector, HttpRequest)>,
    held: usize,
    gate: Arc<Semaphore>,
    delay: Duration,
}

impl Default for State {
    fn default() -> Self {
        let (schedule, gate) = (Schedule::default(), Arc::new(Semaphore::new(0)));
        Self { schedule, exchanges: Vec::new(), late: Vec::new(), held: 0, gate, delay: Duration::ZERO }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("exchanges", &self.count()).finish_non_exhaustive()
    }
}

impl Wire {
    /// Plans the fates of the next exchanges. The exchanges after them succeed. Deletes the former
    /// plan.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().schedule.next(fates);
    }

    /// Plans the fate of the n-th exchange from now, counted from 1.
    pub fn nth(&self, n: usize, fate: Fate) {
        self.state().schedule.nth(n, fate);
    }

    /// Plans the fate of the next exchange that matches by its operation, request or
    /// [table](Exchange::touches).
    pub fn matching(&self, matches: impl Fn(&Exchange) -> bool + Send + 'static, fate: Fate) {
        self.state().schedule.matching(matches, fate);
    }

    /// Plans the fate of all exchanges from now on. Deletes the former plan.
    pub fn always(&self, fate: Fate) {
        self.state().schedule.always(fate);
    }

    /// Delays all exchanges from now on by this much.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Returns the exchanges since the last [`take`](Self::take).
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.state().exchanges)
    }

    /// Returns the number of exchanges since the last [`take`](Self::take).
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().exchanges.len()
    }

    /// Returns the number of exchanges that have been held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held
    }

    /// Lets one held exchange through. If none is held, lets the next one through that would be
    /// held.
    pub fn let_through(&self) {
        self.state().gate.add_permits(1);
    }

    /// Sends the [late](Fate::Late) requests. Returns their number.
    pub async fn deliver_late(&self) -> usize {
        let late = std::mem::take(&mut self.state().late);
        let delivered = late.len();
        for (real, request) in late {
            // The caller no longer waits for the reply.
            let _ = real.call(request).await;
        }
        delivered
    }

    /// Returns the HTTP client over this wire, for the configuration of an SDK client.
    #[must_use]
    pub fn over(&self, real: SharedHttpClient) -> SharedHttpClient {
        let wire = self.clone();
        http_client_fn(move |settings, components| {
            let real = real.http_connector(settings, components);
            SharedHttpConnector::new(Faulty { wire: wire.clone(), real })
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hold(&self) {
        let gate = {
            let mut state = self.state();
            state.held += 1;
            Arc::clone(&state.gate)
        };
        // The gate is never closed.
        if let Ok(permit) = gate.acquire().await {
            permit.forget();
        }
    }

    async fn exchange(
        self,
        fate: Fate,
        mut exchange: Exchange,
        real: SharedHttpConnector,
        request: HttpRequest,
    ) -> Result<HttpResponse, ConnectorError> {
        match fate {
            Fate::HeldBefore => self.hold().await,
            Fate::FrozenBefore => tokio::time::sleep(FROZEN).await,
            _ => {}
        }
        let delay = self.state().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let body = request.body().bytes().unwrap_or_default().to_vec();
        let reply = if fate.applies() {
            Some(read(real.call(request).await, &mut exchange).await)
        } else {
            if fate == Fate::Late {
                self.state().late.push((real, request));
            }
            None
        };
        self.state().exchanges.push(exchange);
        match fate {
            Fate::HeldAfter => self.hold().await,
            Fate::FrozenAfter => tokio::time::sleep(FROZEN).await,
            Fate::Stalls | Fate::Hangs => tokio::time::sleep(SILENCE).await,
            fate if fate.kills() => return std::future::pending().await,
            _ => {}
        }
        fate.heard(&body, reply.transpose()?)
    }
}

#[derive(Debug)]
struct Faulty {
    wire: Wire,
    real: SharedHttpConnector,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let exchange = Exchange::of(&request);
        let fate = self.wire.state().schedule.arrives(&exchange).unwrap_or(Fate::Ok);
        let (wire, real) = (self.wire.clone(), self.real.clone());
        HttpConnectorFuture::new(wire.exchange(fate, exchange, real, request))
    }
}

/// Reads the whole reply, records its data, and returns an equal reply.
async fn read(
    reply: Result<HttpResponse, ConnectorError>,
    exchange: &mut Exchange,
) -> Result<HttpResponse, ConnectorError> {
    let mut reply = reply?;
    let body = std::mem::replace(reply.body_mut(), SdkBody::taken());
    let bytes = ByteStream::new(body).collect().await.map_err(|error| ConnectorError::io(error.into()))?;
    let bytes = bytes.into_bytes();
    exchange.replied(reply.status().as_u16(), &bytes);
    *reply.body_mut() = SdkBody::from(bytes);
    Ok(reply)
}
