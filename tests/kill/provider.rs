//! The provider: it does what it is asked, as often as it is asked, and records it in its own
//! books.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use locker::{Clock as _, SystemClock};
use locker_tests::history::{Effect, Time};
use serde_json::json;

use crate::proxy;

/// A provider without idempotency of its own: a second request is a second charge.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Mutex<Books>>);

struct Books {
    file: File,
    charges: u64,
    rng: fastrand::Rng,
    calm: bool,
}

#[derive(Clone, Copy)]
enum Mood {
    Well,
    Slow(Duration),
    Busy,
    Declining,
    /// Charges, and says 500.
    Failing,
    /// Charges, and its reply never arrives.
    Dropping,
    /// Drops the request.
    Deaf,
}

impl Provider {
    /// Start it, and say where it listens.
    pub(crate) async fn start(books: &Path, seed: u64) -> (Self, String) {
        let file = File::create(books).expect("books");
        let rng = fastrand::Rng::with_seed(seed ^ 0x000b_00c5);
        let provider = Self(Arc::new(Mutex::new(Books { file, charges: 0, rng, calm: false })));
        let router = Router::new().route("/charges", post(charge)).with_state(provider.clone());
        (provider, proxy::serve(router).await)
    }

    /// Behave well from now on.
    pub(crate) fn calm(&self) {
        self.0.lock().expect("the books").calm = true;
    }

    pub(crate) fn charges(&self) -> u64 {
        self.0.lock().expect("the books").charges
    }

    fn mood(&self, token: &str) -> Mood {
        let mut books = self.0.lock().expect("the books");
        if books.calm {
            return Mood::Well;
        }
        // Work that may be taken over is often slow, or no takeover would happen.
        let slow = if token.starts_with("taken/") { 80..1100 } else { 20..400 };
        match books.rng.u32(0..1000) {
            0..=7 => Mood::Busy,
            8..=11 => Mood::Declining,
            12 => Mood::Failing,
            13 => Mood::Dropping,
            14 => Mood::Deaf,
            15..=60 => Mood::Slow(Duration::from_millis(books.rng.u64(slow))),
            61..=360 if token.starts_with("taken/") => {
                Mood::Slow(Duration::from_millis(books.rng.u64(1000..2500)))
            }
            _ => Mood::Well,
        }
    }

    /// Do it, and record it before the reply.
    fn enter(&self, token: &str, attempt: Option<String>) -> String {
        let mut books = self.0.lock().expect("the books");
        books.charges += 1;
        let at = Time(SystemClock.now().timestamp_micros());
        let effect = Effect { token: token.to_owned(), attempt, at };
        let line = serde_json::to_string(&effect).expect("JSON");
        writeln!(books.file, "{line}").expect("the books can be written");
        format!("ch_{}_{token}", books.charges)
    }
}

async fn charge(State(provider): State<Provider>, headers: HeaderMap) -> Response {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let token = header("idempotency-key").expect("a key");
    let mood = provider.mood(&token);
    match mood {
        Mood::Busy => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Mood::Declining => return StatusCode::PAYMENT_REQUIRED.into_response(),
        Mood::Deaf => return proxy::dropped(),
        Mood::Slow(pause) => tokio::time::sleep(pause).await,
        Mood::Well | Mood::Failing | Mood::Dropping => {}
    }
    let receipt = provider.enter(&token, header("x-attempt"));
    match mood {
        Mood::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Dropping => proxy::dropped(),
        _ => Json(json!({ "charge": receipt })).into_response(),
    }
}
