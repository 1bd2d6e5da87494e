//! A FIFO queue for development, with one receiver. It can be set to be down, or to refuse
//! messages.

use std::io;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use locker::message::{Envelope, Sent, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::kept::Kept;

/// Messages of one delivery, as of a queue of Amazon SQS.
const BATCH: usize = 10;

/// The state of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum QueueMood {
    /// Accepts messages.
    #[default]
    Well,
    /// Cannot be reached.
    Down,
    /// Refuses each message.
    Picky,
}

/// The queue. Clones have the same messages.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    inner: Arc<Mutex<Inner>>,
    came: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Inner {
    mood: QueueMood,
    messages: Kept<Vec<Message>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    id: String,
    group: String,
    body: String,
    receives: u32,
}

impl Queue {
    /// A queue with its messages in a file, which is written before each reply, and need not exist
    /// yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or contains anything else.
    pub fn open(file: &FilePath) -> io::Result<Self> {
        let inner = Inner { mood: QueueMood::Well, messages: Kept::open(file)? };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), came: Arc::default() })
    }

    /// Receives the first messages, in the form in which a function gets them. They stay until they
    /// are deleted.
    #[must_use]
    pub fn receive(&self) -> Vec<Value> {
        let mut inner = self.inner();
        let received = inner.messages.value.iter_mut().take(BATCH).map(Message::received).collect();
        inner.messages.save();
        received
    }

    /// Deletes a message that was received.
    pub fn delete(&self, id: &str) {
        let mut inner = self.inner();
        inner.messages.value.retain(|message| message.id != id);
        inner.messages.save();
    }

    /// Waits until a message comes.
    pub async fn came(&self) {
        self.came.notified().await;
    }

    /// Its state over HTTP: `POST /queue/picky`, `/queue/down`, `/queue/well`.
    pub fn router(&self) -> Router {
        let set = |State(queue): State<Self>, Path(mood): Path<QueueMood>| async move {
            queue.inner().mood = mood;
            Json(mood)
        };
        Router::new().route("/queue/{mood}", post(set)).with_state(self.clone())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Message {
    fn received(&mut self) -> Value {
        self.receives += 1;
        json!({
            "messageId": self.id,
            "body": self.body,
            "attributes": {
                "MessageGroupId": self.group,
                "ApproximateReceiveCount": self.receives.to_string(),
            },
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:local:000000000000:packing.fifo",
        })
    }
}

impl Inner {
    fn take(&mut self, envelope: &Envelope) -> Sent {
        match self.mood {
            QueueMood::Down => return Sent::Later("the queue is out of reach".to_owned()),
            QueueMood::Picky => {
                return Sent::MessageRefused("InvalidMessageContents: the queue is picky".to_owned());
            }
            QueueMood::Well => {}
        }
        let body = match envelope.to_json() {
            Ok(body) => body,
            Err(error) => return Sent::MessageRefused(error.to_string()),
        };
        let (id, group) = (envelope.deduplication_id(), envelope.group_id());
        let messages = &mut self.messages.value;
        if messages.iter().all(|message| message.id != id) {
            messages.push(Message { id, group, body, receives: 0 });
        }
        Sent::Done
    }
}

impl Target for Queue {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let sent = {
            let mut inner = self.inner();
            let sent = batch.iter().map(|envelope| inner.take(envelope)).collect();
            match inner.messages.write() {
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
