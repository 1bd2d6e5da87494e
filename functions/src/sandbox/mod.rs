//! A payment provider for development: it records charges, recognises idempotency keys, makes
//! refunds, and can be set to be slow, to fail, or to drop its replies.

mod kept;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;

use kept::Kept;
pub use queue::Queue;

use crate::payments::{Charge, Receipt, Refund, RefundRequest};

/// How the provider behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mood {
    /// Charges, and replies.
    #[default]
    Well,
    /// Charges, and replies after a pause longer than its callers' timeouts.
    Slow,
    /// Declines (402).
    Declining,
    /// Is too busy (429), and charges nothing.
    Busy,
    /// Charges, and replies 500.
    Failing,
    /// Charges, and drops its reply.
    Dropping,
    /// Charges nothing, and drops the connection.
    Deaf,
    /// Charges, drops its reply, and does not report its charges when it is asked.
    Mute,
}

/// A recorded charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The idempotency key of the charge.
    pub key: String,
    /// The receipt of the charge.
    pub receipt: Receipt,
    /// The amount charged.
    pub charge: Charge,
    /// The number of requests for it.
    pub asked: u32,
    /// The refund, if it was refunded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
}

/// The provider. Clones have the same books.
#[derive(Debug, Clone, Default)]
pub struct Sandbox(Arc<Mutex<Provider>>);

#[derive(Debug, Default)]
struct Provider {
    mood: Mood,
    books: Kept<Books>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Books {
    entries: BTreeMap<String, Entry>,
    /// Keys under which every charge is refused.
    banned: BTreeSet<String>,
}

impl Books {
    /// Charges once per key, as an idempotent provider does. `None`: charges under this key are
    /// refused.
    fn enter(&mut self, key: &str, charge: Charge) -> Option<Receipt> {
        if self.banned.contains(key) {
            return None;
        }
        let number = self.entries.len() + 1;
        let entry = self.entries.entry(key.to_owned()).or_insert_with(|| Entry {
            key: key.to_owned(),
            receipt: Receipt { charge: format!("ch_{number}") },
            charge,
            asked: 0,
            refund: None,
        });
        entry.asked += 1;
        Some(entry.receipt.clone())
    }

    /// Refunds the charge of a key, once, and refuses charges under it from now on.
    fn give_back(&mut self, key: &str) -> Option<String> {
        self.banned.insert(key.to_owned());
        let entry = self.entries.get_mut(key)?;
        let refund = entry.receipt.charge.replace("ch_", "re_");
        Some(entry.refund.get_or_insert(refund).clone())
    }
}

impl Sandbox {
    /// A provider with its books in a file, which is written before each reply, and need not exist
    /// yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds anything else.
    pub fn open(file: &FilePath) -> io::Result<Self> {
        let provider = Provider { mood: Mood::Well, books: Kept::open(file)? };
        Ok(Self(Arc::new(Mutex::new(provider))))
    }

    /// Writes the file of its books, if it has one.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self) -> io::Result<()> {
        self.provider().books.write()
    }

    /// Changes how the provider behaves from now on.
    pub fn set_mood(&self, mood: Mood) {
        self.provider().mood = mood;
    }

    /// All charges, one for each key.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.provider().books.value.entries.values().cloned().collect()
    }

    /// The charges that were not refunded.
    #[must_use]
    pub fn kept(&self) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.refund.is_none()).collect()
    }

    /// The provider's HTTP API: `POST /charges`, `GET /charges/{idempotency key}`, `POST /refunds`,
    /// `GET /books`, `POST /mood/{mood}`.
    pub fn router(&self) -> Router {
        let books = |State(provider): State<Self>| async move { Json(provider.entries()) };
        Router::new()
            .route("/charges", post(charge))
            .route("/charges/{key}", get(charged))
            .route("/refunds", post(refund))
            .route("/books", get(books))
            .route("/mood/{mood}", post(mood))
            .with_state(self.clone())
    }

    /// Changes the books, and writes them before the reply.
    fn change<R>(&self, change: impl FnOnce(&mut Books) -> R) -> R {
        let mut provider = self.provider();
        let changed = change(&mut provider.books.value);
        provider.books.save();
        changed
    }

    fn provider(&self) -> std::sync::MutexGuard<'_, Provider> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn charge(State(provider): State<Sandbox>, headers: HeaderMap, Json(charge): Json<Charge>) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or("none").to_owned();
    let mood = provider.provider().mood;
    match mood {
        Mood::Declining => {
            return (StatusCode::PAYMENT_REQUIRED, Json(json!({ "error": "card declined" }))).into_response();
        }
        Mood::Busy => return StatusCode::TOO_MANY_REQUESTS.into_response(),
        Mood::Deaf => return Response::new(Body::new(Dropped)),
        _ => {}
    }
    let Some(receipt) = provider.change(|books| books.enter(&key, charge)) else {
        let error = json!({ "error": "charges under this key are refused after a refund" });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(error)).into_response();
    };
    tracing::info!(key, charge = receipt.charge, ?mood, "the provider charged");
    reply(mood, Json(receipt)).await
}

async fn refund(State(provider): State<Sandbox>, Json(request): Json<RefundRequest>) -> Response {
    let mood = provider.provider().mood;
    if mood == Mood::Busy {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    // Each charge is refunded once, so a refund needs no separate key.
    let refund = provider.change(|books| books.give_back(&request.charge_key));
    tracing::info!(key = request.charge_key, refund, ?mood, "the provider refunded");
    reply(mood, Json(Refund { refund })).await
}

async fn charged(State(provider): State<Sandbox>, Path(key): Path<String>) -> Response {
    let provider = provider.provider();
    match (provider.mood, provider.books.value.entries.get(&key)) {
        (Mood::Busy | Mood::Mute, _) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        (_, Some(entry)) => Json(&entry.receipt).into_response(),
        (_, None) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Replies as the mood determines.
async fn reply(mood: Mood, answer: impl IntoResponse) -> Response {
    match mood {
        Mood::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Dropping | Mood::Mute => Response::new(Body::new(Dropped)),
        Mood::Slow => {
            // The caller gives up first.
            tokio::time::sleep(Duration::from_secs(60)).await;
            answer.into_response()
        }
        _ => answer.into_response(),
    }
}

/// A response body that fails, which resets the connection.
struct Dropped;

impl http_body::Body for Dropped {
    type Data = axum::body::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

async fn mood(State(provider): State<Sandbox>, Path(mood): Path<Mood>) -> Json<serde_json::Value> {
    provider.set_mood(mood);
    tracing::info!(?mood, "the provider changes its mood");
    Json(json!({ "mood": mood }))
}
