//! The library over an engine in the same process, on a runtime whose time stands still: a pause
//! passes at once, and a slow machine changes nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use chrono::{DateTime, TimeDelta, Utc};
use locker::{Clock, Locker, SystemClock};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client_for;
use crate::explorer::{Memory, Reply};

const TABLE: &str = "locks";

/// Plays a scene on a runtime whose time stands still.
pub(super) fn block_on<T>(scene: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scene)
}

/// The engine, and the extensions that it was sent.
#[derive(Debug, Clone)]
pub(super) struct Paused {
    memory: Arc<Memory>,
    state: Arc<Mutex<State>>,
    clock: PausedClock,
}

#[derive(Debug, Default)]
struct State {
    /// How long every reply takes.
    delay: Duration,
    extensions: Vec<Extension>,
}

/// When a run asked for more time, and until when.
#[derive(Debug, Clone)]
pub(super) struct Extension {
    pub(super) at: DateTime<Utc>,
    pub(super) due: DateTime<Utc>,
}

impl Paused {
    /// An engine with a table, and a locker over it.
    pub(super) async fn new() -> (Self, Locker) {
        let clock = PausedClock { since: SystemClock.now(), start: Instant::now() };
        let paused = Self { memory: Arc::default(), state: Arc::default(), clock: clock.clone() };
        let connector = SharedHttpConnector::new(paused.clone());
        let client = client_for("http://memory", http_client_fn(move |_, _| connector.clone()));
        locker::create_table(&client, TABLE).await.expect("a table");
        let locker = Locker::builder(&client, TABLE).with_clock(Arc::new(clock)).build();
        (paused, locker.expect("the defaults are allowed"))
    }

    pub(super) fn delay_replies(&self, delay: Duration) {
        self.state().delay = delay;
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Delete a token behind the library's back.
    pub(super) fn delete(&self, key: &str) {
        let asked = json!({ "TableName": TABLE, "Key": { "lockToken": { "S": key } } });
        let reply = self.memory.ask("DeleteItem", asked.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// The extensions since the last call of this.
    pub(super) fn take_extensions(&self) -> Vec<Extension> {
        std::mem::take(&mut self.state().extensions)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is locked")
    }

    fn note(&self, request: &Value) {
        let expression = request["UpdateExpression"].as_str().unwrap_or_default();
        if !expression.starts_with("SET #expectedCompletion = :due") {
            return;
        }
        let due = request["ExpressionAttributeValues"][":due"]["S"].as_str().unwrap_or_default();
        let due = due.parse().expect("a time");
        self.state().extensions.push(Extension { at: self.now(), due });
    }
}

impl HttpConnector for Paused {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let paused = self.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            paused.note(&serde_json::from_slice(body).unwrap_or_default());
            let Reply { status, body } = paused.memory.ask(operation, body);
            let delay = paused.state().delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            Ok(HttpResponse::new(status.try_into().expect("a status"), SdkBody::from(body)))
        })
    }
}

/// A clock that goes as the runtime's time does.
#[derive(Debug, Clone)]
struct PausedClock {
    since: DateTime<Utc>,
    start: Instant,
}

impl Clock for PausedClock {
    fn now(&self) -> DateTime<Utc> {
        self.since + TimeDelta::from_std(self.start.elapsed()).expect("a test's time fits")
    }
}
