//! The SDK's HTTP client, with faults: the real requests, signatures, parsing and errors, and a reply
//! that is lost when the test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;
use tokio::sync::Semaphore;

/// What happens to one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The request never arrives.
    LoseRequest,
    /// The request is applied, and its reply never arrives.
    LoseReply,
    /// The server answers 500 and applies nothing.
    ErrorBefore,
    /// The server applies the request and answers 500.
    ErrorAfter,
    /// The server answers 503 and applies nothing.
    UnavailableBefore,
    /// The server applies the request and answers 503.
    UnavailableAfter,
    /// The server is too busy and applies nothing.
    Throttle,
    /// The item is in a transaction, so nothing is applied.
    TransactionConflict,
    /// The caller may not do this.
    AccessDenied,
    /// The server applies the request and answers 200 with half a body.
    Garbled,
    /// Nothing is ever heard, and the request is applied.
    Hang,
    /// Nothing is ever heard, and the request is not applied.
    Stall,
    /// The request waits until it is let through, and is applied then.
    HoldRequest,
    /// The request is applied, and its reply waits until it is let through.
    HoldReply,
}

/// One exchange that took place.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Such as `PutItem`.
    pub operation: String,
    /// The HTTP status that the server gave, if it was asked.
    pub status: Option<u16>,
    /// `ConsumedCapacity` of the reply.
    pub consumed: Option<Value>,
    /// What the request asked for.
    pub request: Value,
}

/// The wire between one client and the engine.
#[derive(Debug, Clone, Default)]
pub struct Wire(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    plan: VecDeque<Fault>,
    after_plan: Option<Fault>,
    exchanges: Vec<Exchange>,
    held: usize,
    gate: Arc<Semaphore>,
    delay: Duration,
}

impl Default for State {
    fn default() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        Self {
            plan: VecDeque::new(),
            after_plan: None,
            exchanges: Vec::new(),
            held: 0,
            gate,
            delay: Duration::ZERO,
        }
    }
}

impl Wire {
    /// Let the next exchanges go like this, and those after them well.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.state();
        state.plan = faults.into_iter().collect();
        state.after_plan = None;
    }

    /// Let every exchange from now on go like this.
    pub fn always(&self, fault: Fault) {
        let mut state = self.state();
        state.plan.clear();
        state.after_plan = Some(fault);
    }

    /// Let every exchange from now on take this much longer.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// What took place since the last call of this.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.state().exchanges)
    }

    /// How many exchanges took place since the last `take`.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().exchanges.len()
    }

    /// How many exchanges have been held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held
    }

    /// Let one exchange through that is held, or the next one that would be.
    pub fn let_through(&self) {
        self.state().gate.add_permits(1);
    }

    async fn hold(&self) {
        let gate = {
            let mut state = self.state();
            state.held += 1;
            Arc::clone(&state.gate)
        };
        gate.acquire().await.expect("the gate stays").forget();
    }

    /// An HTTP client over this wire, for an engine that listens.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        self.over(locker::client::http_client())
    }

    /// The HTTP client over this wire.
    #[must_use]
    pub fn over(&self, real: SharedHttpClient) -> SharedHttpClient {
        let wire = self.clone();
        http_client_fn(move |settings, components| {
            let real = real.http_connector(settings, components);
            SharedHttpConnector::new(Faulty { wire: wire.clone(), real })
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the wire")
    }

    fn next_fault(&self) -> Fault {
        let mut state = self.state();
        state.plan.pop_front().or(state.after_plan).unwrap_or(Fault::None)
    }
}

#[derive(Debug)]
struct Faulty {
    wire: Wire,
    real: SharedHttpConnector,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fault = self.wire.next_fault();
        let (wire, real) = (self.wire.clone(), self.real.clone());
        HttpConnectorFuture::new(async move {
            let operation = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = operation.rsplit('.').next().unwrap_or_default().to_owned();
            let body = request.body().bytes().and_then(|bytes| serde_json::from_slice(bytes).ok());
            let mut exchange =
                Exchange { operation, status: None, consumed: None, request: body.unwrap_or_default() };
            if fault == Fault::HoldRequest {
                wire.hold().await;
            }
            let delay = wire.state().delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let reply = match fault {
                Fault::HoldRequest
                | Fault::HoldReply
                | Fault::None
                | Fault::LoseReply
                | Fault::ErrorAfter
                | Fault::UnavailableAfter
                | Fault::Garbled
                | Fault::Hang => {
                    let reply = real.call(request).await;
                    read(reply, &mut exchange).await
                }
                _ => Err(lost("the request was lost")),
            };
            wire.state().exchanges.push(exchange);
            if fault == Fault::HoldReply {
                wire.hold().await;
            }
            match fault {
                Fault::None | Fault::HoldRequest | Fault::HoldReply => reply,
                Fault::LoseRequest => Err(lost("the request was lost")),
                Fault::LoseReply => reply.and(Err(lost("the reply was lost"))),
                Fault::ErrorBefore => Ok(error(500, "InternalServerError")),
                Fault::ErrorAfter => reply.and(Ok(error(500, "InternalServerError"))),
                Fault::UnavailableBefore => Ok(error(503, "ServiceUnavailable")),
                Fault::UnavailableAfter => reply.and(Ok(error(503, "ServiceUnavailable"))),
                Fault::Garbled => reply
                    .and(Ok(HttpResponse::new(200.try_into().expect("a status"), SdkBody::from("{\"Attri")))),
                Fault::Throttle => Ok(error(400, "ProvisionedThroughputExceededException")),
                Fault::TransactionConflict => Ok(error(400, "TransactionConflictException")),
                Fault::AccessDenied => Ok(error(400, "AccessDeniedException")),
                Fault::Hang | Fault::Stall => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    reply
                }
            }
        })
    }
}

/// Read the whole reply, note what it cost, and hand on an equal one.
async fn read(
    reply: Result<HttpResponse, ConnectorError>,
    exchange: &mut Exchange,
) -> Result<HttpResponse, ConnectorError> {
    let mut reply = reply?;
    exchange.status = Some(reply.status().as_u16());
    let body = reply.body_mut();
    let bytes = read_body(std::mem::replace(body, SdkBody::taken())).await?;
    exchange.consumed = serde_json::from_slice(&bytes)
        .ok()
        .and_then(|mut body: Value| body.get_mut("ConsumedCapacity").map(Value::take));
    *body = SdkBody::from(bytes);
    Ok(reply)
}

async fn read_body(body: SdkBody) -> Result<Vec<u8>, ConnectorError> {
    let stream = aws_smithy_types::byte_stream::ByteStream::new(body);
    let bytes = stream.collect().await.map_err(|error| ConnectorError::io(error.into()))?;
    Ok(bytes.into_bytes().to_vec())
}

fn lost(what: &'static str) -> ConnectorError {
    ConnectorError::io(std::io::Error::new(std::io::ErrorKind::ConnectionReset, what).into())
}

fn error(status: u16, code: &str) -> HttpResponse {
    let body = format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"injected\"}}");
    let status = status.try_into().expect("a status");
    HttpResponse::new(status, SdkBody::from(body))
}
