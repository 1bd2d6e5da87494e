//! A payment provider for development: it keeps its own books, knows idempotency keys, gives money back, and can be
//! told to be slow, to fail, or to drop its replies.

use std::collections::{BTreeMap, BTreeSet};
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

use crate::payments::{Charge, Receipt, Refund, RefundRequest};

/// How the provider behaves from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mood {
    /// It charges, and says so.
    #[default]
    Well,
    /// It charges after a pause that outlasts its callers' patience.
    Slow,
    /// It says no (402).
    Declining,
    /// It is too busy (503), and charges nothing.
    Busy,
    /// It charges, and answers 500.
    Failing,
    /// It charges, and its reply never arrives.
    Dropping,
    /// It charges, its reply never arrives, and it does not say either what it has charged.
    Mute,
}

/// One entry of the books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The idempotency key that it was charged under.
    pub key: String,
    /// The receipt that it was given.
    pub receipt: Receipt,
    /// What was charged.
    pub charge: Charge,
    /// How often it was asked for.
    pub asked: u32,
    /// The refund, if the money went back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
}

/// The provider.
#[derive(Debug, Clone, Default)]
pub struct Sandbox(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    mood: Mood,
    entries: BTreeMap<String, Entry>,
    /// Keys under which nothing is charged any more.
    banned: BTreeSet<String>,
}

impl Sandbox {
    /// Behave like this from now on.
    pub fn set_mood(&self, mood: Mood) {
        self.books().mood = mood;
    }

    /// What was charged: a key stands for money that moved.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.books().entries.values().cloned().collect()
    }

    /// What was charged and not given back.
    #[must_use]
    pub fn kept(&self) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.refund.is_none()).collect()
    }

    /// Its HTTP API: `POST /charges`, `GET /charges/{idempotency key}`, `POST /refunds`, `GET /books`,
    /// `POST /mood/{mood}`.
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

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charge once per key, as a provider with idempotency of its own does. `None`: nothing is charged under it.
    fn enter(&self, key: &str, charge: Charge) -> Option<Receipt> {
        let mut books = self.books();
        if books.banned.contains(key) {
            return None;
        }
        let number = books.entries.len() + 1;
        let entry = books.entries.entry(key.to_owned()).or_insert_with(|| Entry {
            key: key.to_owned(),
            receipt: Receipt { charge: format!("ch_{number}") },
            charge,
            asked: 0,
            refund: None,
        });
        entry.asked += 1;
        Some(entry.receipt.clone())
    }

    /// Give back what was charged under a key, once, and charge nothing under it from now on.
    fn give_back(&self, key: &str) -> Option<String> {
        let mut books = self.books();
        books.banned.insert(key.to_owned());
        let entry = books.entries.get_mut(key)?;
        let number = entry.receipt.charge.trim_start_matches("ch_");
        let refund = format!("re_{number}");
        Some(entry.refund.get_or_insert(refund).clone())
    }
}

async fn charge(State(provider): State<Sandbox>, headers: HeaderMap, Json(charge): Json<Charge>) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or("none").to_owned();
    let mood = provider.books().mood;
    match mood {
        Mood::Declining => {
            return (StatusCode::PAYMENT_REQUIRED, Json(json!({ "error": "card declined" }))).into_response();
        }
        Mood::Busy => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => {}
    }
    let Some(receipt) = provider.enter(&key, charge) else {
        let error = json!({ "error": "the charge was called off" });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(error)).into_response();
    };
    tracing::info!(key, charge = receipt.charge, ?mood, "the provider charged");
    told(mood, Json(receipt)).await
}

async fn refund(State(provider): State<Sandbox>, Json(request): Json<RefundRequest>) -> Response {
    let mood = provider.books().mood;
    if mood == Mood::Busy {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    // Once for each charge, so that there is no need for a second key.
    let refund = provider.give_back(&request.charge_key);
    tracing::info!(key = request.charge_key, refund, ?mood, "the provider gave back");
    told(mood, Json(Refund { refund })).await
}

async fn charged(State(provider): State<Sandbox>, Path(key): Path<String>) -> Response {
    let books = provider.books();
    match (books.mood, books.entries.get(&key)) {
        (Mood::Busy | Mood::Mute, _) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        (_, Some(entry)) => Json(&entry.receipt).into_response(),
        (_, None) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Say what was done, as the mood has it.
async fn told(mood: Mood, answer: impl IntoResponse) -> Response {
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

/// A reply that breaks off, and the connection with it.
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
    Json(json!({ "mood": mood }))
}
