//! A payment provider for development: it keeps its own books, knows idempotency keys, and can be told to
//! be slow, to fail, or to drop its replies.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::payments::{Charge, Receipt};

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
}

/// The provider.
#[derive(Debug, Clone, Default)]
pub struct Sandbox(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    mood: Mood,
    entries: BTreeMap<String, Entry>,
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

    /// Its HTTP API: `POST /charges`, `GET /books`, `POST /mood/{mood}`.
    pub fn router(&self) -> Router {
        let books = |State(provider): State<Self>| async move { Json(provider.entries()) };
        Router::new()
            .route("/charges", post(charge))
            .route("/books", get(books))
            .route("/mood/{mood}", post(mood))
            .with_state(self.clone())
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charge once per key, as a provider with idempotency of its own does.
    fn enter(&self, key: &str, charge: Charge) -> Receipt {
        let mut books = self.books();
        let number = books.entries.len() + 1;
        let entry = books.entries.entry(key.to_owned()).or_insert_with(|| Entry {
            key: key.to_owned(),
            receipt: Receipt { charge: format!("ch_{number}") },
            charge,
            asked: 0,
        });
        entry.asked += 1;
        entry.receipt.clone()
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
    let receipt = provider.enter(&key, charge);
    tracing::info!(key, charge = receipt.charge, ?mood, "the provider charged");
    match mood {
        Mood::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Dropping => Response::new(Body::new(Dropped)),
        Mood::Slow => {
            // The caller gives up first.
            tokio::time::sleep(Duration::from_secs(60)).await;
            Json(receipt).into_response()
        }
        _ => Json(receipt).into_response(),
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

async fn mood(
    State(provider): State<Sandbox>,
    axum::extract::Path(mood): axum::extract::Path<Mood>,
) -> Json<serde_json::Value> {
    provider.set_mood(mood);
    Json(json!({ "mood": mood }))
}
