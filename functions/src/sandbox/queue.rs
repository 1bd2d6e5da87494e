//! A FIFO queue for development: it keeps the order of each group, drops what it was given in the last five minutes, delivers again what
//! is not acknowledged, and can be set to be down or gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, http::StatusCode};
use locker::message::{Envelope, Sent, Target};
use locker::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How long a message is hidden from others after it was received.
const HIDDEN: Duration = Duration::from_secs(10);
/// How long it knows what it was given.
const DEDUPLICATES_FOR: Duration = Duration::from_secs(5 * 60);

/// How the queue behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum QueueMood {
    /// Takes what it is given.
    #[default]
    Well,
    /// Is out of reach.
    Down,
    /// Does not exist.
    Gone,
}

/// The queue.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    inner: Arc<Mutex<Inner>>,
    came: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Inner {
    mood: QueueMood,
    kept: Kept,
    file: Option<PathBuf>,
}

/// What a queue keeps when it stops.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    messages: Vec<Message>,
    /// What it was given, and when, by deduplication id.
    given: BTreeMap<String, i64>,
    count: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Message {
    id: String,
    group: String,
    body: String,
    receives: u32,
    hidden_until: i64,
}

impl Queue {
    /// A queue with its messages in a file, which is written before each reply, and need not exist yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds anything else.
    pub fn open(file: &FilePath) -> io::Result<Self> {
        let mut kept: Kept = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error),
        };
        // Its receiver has stopped with it.
        kept.messages.iter_mut().for_each(|message| message.hidden_until = 0);
        let inner = Inner { mood: QueueMood::Well, kept, file: Some(file.to_owned()) };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), came: Arc::default() })
    }

    /// Receive up to `most` messages, in the form in which a function gets them: the first ones of each group.
    #[must_use]
    pub fn receive(&self, most: usize) -> Vec<Value> {
        let now = now();
        let mut inner = self.inner();
        let hidden = inner.kept.messages.iter().filter(|message| message.hidden_until > now);
        // One that is on its way holds up its group.
        let busy: BTreeSet<String> = hidden.map(|message| message.group.clone()).collect();
        let mut records = Vec::new();
        for message in &mut inner.kept.messages {
            if records.len() < most && !busy.contains(&message.group) {
                message.receives += 1;
                message.hidden_until = now + millis(HIDDEN);
                records.push(record(message));
            }
        }
        inner.save();
        records
    }

    /// Delete a message that was received.
    pub fn acknowledge(&self, id: &str) {
        let mut inner = self.inner();
        inner.kept.messages.retain(|message| message.id != id);
        inner.save();
    }

    /// Messages that it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner().kept.messages.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wait until a message comes.
    pub async fn came(&self) {
        self.came.notified().await;
    }

    /// Its mood over HTTP: `POST /queue/gone`, `/queue/down`, `/queue/well`.
    pub fn router(&self) -> Router {
        Router::new().route("/queue/{mood}", post(mood)).with_state(self.clone())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn mood(State(queue): State<Queue>, Path(mood): Path<String>) -> Response {
    match serde_json::from_value::<QueueMood>(json!(mood)) {
        Ok(mood) => {
            queue.inner().mood = mood;
            Json(mood).into_response()
        }
        Err(_) => (StatusCode::NOT_FOUND, "the queue is well, down or gone\n").into_response(),
    }
}

fn now() -> i64 {
    SystemClock.now().timestamp_millis()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn record(message: &Message) -> Value {
    json!({
        "messageId": message.id,
        "body": message.body,
        "attributes": {
            "MessageGroupId": message.group,
            "ApproximateReceiveCount": message.receives.to_string(),
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:local:000000000000:packing.fifo",
    })
}

impl Inner {
    fn take(&mut self, envelope: &Envelope) -> Sent {
        match envelope.to_json() {
            Ok(body) => self.take_json(&envelope.deduplication_id(), &envelope.group_id(), body),
            Err(error) => Sent::Never(error.to_string()),
        }
    }

    fn take_json(&mut self, deduplication_id: &str, group: &str, body: String) -> Sent {
        match self.mood {
            QueueMood::Down => return Sent::Later("the queue is out of reach".to_owned()),
            QueueMood::Gone => return Sent::Never("[NonExistentQueue] the queue does not exist".to_owned()),
            QueueMood::Well => {}
        }
        let now = now();
        self.kept.given.retain(|_, at| *at + millis(DEDUPLICATES_FOR) > now);
        if self.kept.given.insert(deduplication_id.to_owned(), now).is_none() {
            self.kept.count += 1;
            let id = format!("message-{}", self.kept.count);
            let group = group.to_owned();
            self.kept.messages.push(Message { id, group, body, receives: 0, hidden_until: 0 });
        }
        Sent::Done
    }

    fn save(&self) {
        if let Err(error) = self.write() {
            tracing::error!(%error, "the queue could not be written");
        }
    }

    /// Replaces the file as a whole, so that a process that is killed leaves the queue before or after a change.
    fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.kept)?)?;
        std::fs::rename(&new, file)
    }
}

impl Target for Queue {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let sent = {
            let mut inner = self.inner();
            let sent = batch.iter().map(|envelope| inner.take(envelope)).collect();
            match inner.write() {
                Ok(()) => sent,
                Err(error) => {
                    batch.iter().map(|_| Sent::Unknown(format!("it cannot be written: {error}"))).collect()
                }
            }
        };
        self.came.notify_one();
        sent
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use lock_token_testing::Embedded;
    use locker::message::NewMessage;
    use locker::workflow::{Workflows, create_table};

    use super::*;

    fn ids(records: &[Value]) -> Vec<String> {
        let of = |record: &Value| {
            let body: Value = serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
            let receives = &record["attributes"]["ApproximateReceiveCount"];
            format!("{}{} x{}", body["subject"].as_str().unwrap(), body["data"], receives.as_str().unwrap())
        };
        records.iter().map(of).collect()
    }

    /// Messages of two groups, sent as users of the library send them.
    async fn filled(queue: &Queue) {
        let dynamodb = Embedded::memory().unwrap().client();
        create_table(&dynamodb, "workflows").await.unwrap();
        let router = locker::message::Router::new("/orders").route("*", queue.clone());
        let workflows = Workflows::builder(&dynamodb, "workflows").sending(router).build().unwrap();
        for (subject, number) in [("a", 1), ("a", 2), ("b", 1)] {
            let put = workflows.outbox().message(NewMessage::new("t", &number).subject(subject)).unwrap();
            let action = aws_sdk_dynamodb::types::TransactWriteItem::builder().put(put).build();
            dynamodb.transact_write_items().transact_items(action).send().await.unwrap();
            workflows.outbox().send(subject).await;
        }
    }

    #[tokio::test]
    async fn it_keeps_groups_in_order_and_delivers_again_what_is_not_acknowledged() {
        let file = tempfile::tempdir().unwrap();
        let file = file.path().join("queue.json");
        let queue = Queue::open(&file).unwrap();
        filled(&queue).await;
        let first = queue.receive(1);
        assert_eq!(ids(&first), ["a1 x1"]);
        // Its group waits, and the other goes on.
        let other = queue.receive(10);
        assert_eq!(ids(&other), ["b1 x1"]);
        assert_eq!(queue.receive(10).len(), 0);
        queue.acknowledge(other[0]["messageId"].as_str().unwrap());
        // What was received and not acknowledged comes again, also to the next process.
        let queue = Queue::open(&file).unwrap();
        assert_eq!(ids(&queue.receive(10)), ["a1 x2", "a2 x1"]);
        assert_eq!((queue.len(), queue.is_empty()), (2, false));
        std::fs::write(&file, "tea").unwrap();
        assert!(Queue::open(&file).is_err());
    }

    #[test]
    fn it_drops_what_it_was_given_and_says_when_it_is_down_or_gone() {
        let queue = Queue::default();
        let take = |id: &str| {
            let json = format!(r#"{{"specversion":"1.0","id":"{id}","source":"/o","type":"t","data":1}}"#);
            queue.inner().take_json(id, "group", json)
        };
        assert_eq!((take("1"), take("1"), take("2")), (Sent::Done, Sent::Done, Sent::Done));
        assert_eq!(queue.len(), 2);
        queue.inner().mood = QueueMood::Down;
        assert!(matches!(take("3"), Sent::Later(_)));
        queue.inner().mood = QueueMood::Gone;
        assert!(matches!(take("3"), Sent::Never(_)));
        assert_eq!(queue.len(), 2);
    }
}
