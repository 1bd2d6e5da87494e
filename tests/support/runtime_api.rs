//! A function's binary, driven over the Lambda Runtime API as Lambda drives it.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use locker::{Clock as _, SystemClock};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, oneshot};

/// What an invocation came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The function's answer.
    Response(Value),
    /// The function's error.
    Error(Value),
    /// The process ended without an answer.
    Died,
}

/// One execution environment: a process, and the Runtime API that it asks for work.
#[derive(Debug)]
pub struct Function {
    child: Child,
    api: Api,
    events: mpsc::UnboundedSender<Invocation>,
    stdout: Arc<Mutex<Vec<String>>>,
    timeout: Duration,
}

#[derive(Debug)]
struct Invocation {
    id: String,
    deadline_ms: i64,
    event: Value,
}

#[derive(Debug, Clone)]
struct Api {
    events: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>>,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Reply>>>>,
    asked: Arc<Notify>,
}

impl Function {
    /// Start a binary with this environment, and this timeout for invocations.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub async fn start(binary: &str, environment: &[(&str, &str)], timeout: Duration) -> Self {
        Self::start_into(binary, environment, timeout, Stdio::piped()).await
    }

    /// The same, with its log going elsewhere: then [`logged`](Self::logged) has nothing.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub async fn start_into(
        binary: &str,
        environment: &[(&str, &str)],
        timeout: Duration,
        log: Stdio,
    ) -> Self {
        let (events, received) = mpsc::unbounded_channel();
        let api = Api {
            events: Arc::new(tokio::sync::Mutex::new(received)),
            waiting: Arc::default(),
            asked: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut child = Command::new(binary)
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "under-test")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/under-test")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/21/[$LATEST]0123")
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .envs(environment.iter().copied())
            .stdout(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the function starts");
        let stdout: Arc<Mutex<Vec<String>>> = Arc::default();
        if let Some(pipe) = child.stdout.take() {
            let lines = Arc::clone(&stdout);
            tokio::spawn(async move {
                let mut reader = BufReader::new(pipe).lines();
                while let Ok(Some(line)) = reader.next_line().await {
                    lines.lock().expect("the lines").push(line);
                }
            });
        }
        Self { child, api, events, stdout, timeout }
    }

    /// Wait until it has started and asks for an event.
    pub async fn ready(&self) {
        self.api.asked.notified().await;
    }

    /// Invoke it, and wait for what comes of it.
    ///
    /// # Panics
    ///
    /// If it takes much longer than it may.
    pub async fn invoke(&self, id: &str, event: Value) -> Reply {
        let (tell, told) = oneshot::channel();
        self.api.waiting.lock().expect("the waiting").insert(id.to_owned(), tell);
        let timeout = i64::try_from(self.timeout.as_millis()).expect("a test's time fits");
        let deadline_ms = SystemClock.now().timestamp_millis() + timeout;
        self.events.send(Invocation { id: id.to_owned(), deadline_ms, event }).expect("the API serves");
        let patience = self.timeout * 2 + Duration::from_secs(10);
        tokio::time::timeout(patience, told).await.expect("in time").unwrap_or(Reply::Died)
    }

    /// Its process, while it lives.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kill it, as Lambda does at the deadline.
    ///
    /// # Panics
    ///
    /// If it is gone already.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("killed");
        self.api.waiting.lock().expect("the waiting").clear();
    }

    /// What it has written so far that is JSON: its log and its metrics.
    #[must_use]
    pub fn logged(&self) -> Vec<Value> {
        let lines = self.stdout.lock().expect("the lines");
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

async fn next(State(api): State<Api>) -> Response {
    api.asked.notify_one();
    let Some(invocation) = api.events.lock().await.recv().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: String| headers.insert(name, value.parse().expect("a header"));
    put("lambda-runtime-aws-request-id", invocation.id);
    put("lambda-runtime-deadline-ms", invocation.deadline_ms.to_string());
    put(
        "lambda-runtime-invoked-function-arn",
        "arn:aws:lambda:eu-west-1:123456789012:function:under-test".into(),
    );
    put("lambda-runtime-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793".into());
    (headers, Json(invocation.event)).into_response()
}

async fn response(State(api): State<Api>, Path(id): Path<String>, body: String) -> StatusCode {
    api.reply(&id, Reply::Response(serde_json::from_str(&body).unwrap_or(Value::String(body))))
}

async fn error(State(api): State<Api>, Path(id): Path<String>, body: String) -> StatusCode {
    api.reply(&id, Reply::Error(serde_json::from_str(&body).unwrap_or(Value::String(body))))
}

impl Api {
    fn reply(&self, id: &str, reply: Reply) -> StatusCode {
        if let Some(tell) = self.waiting.lock().expect("the waiting").remove(id) {
            let _ = tell.send(reply);
        }
        StatusCode::ACCEPTED
    }
}

/// The same of a FIFO queue.
#[must_use]
pub fn fifo_message(id: &str, group: &str, body: &str) -> Value {
    let mut message = sqs_message(id, body);
    message["attributes"]["MessageGroupId"] = json!(group);
    message["eventSourceARN"] = json!("arn:aws:sqs:eu-west-1:123456789012:packing.fifo");
    message
}

/// A message as SQS hands it to a function.
#[must_use]
pub fn sqs_message(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "handle",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1795259349000",
            "SenderId": "sender",
            "ApproximateFirstReceiveTimestamp": "1795259349001",
        },
        "messageAttributes": {},
        "md5OfBody": "00",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders",
        "awsRegion": "eu-west-1",
    })
}
