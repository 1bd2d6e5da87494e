//! Provider and broker over HTTP: they answer, are busy, hang, drop responses, and keep their
//! books.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use locker::{Clock as _, SystemClock};
use locker_tests::scenarios::{Books, Call, Provider, Reply};

use super::queue::{self, Queue};
use crate::proxy;

/// How long a caller waits for its reply.
const PATIENCE: Duration = Duration::from_millis(1200);

/// Provider and broker of the scenarios.
#[derive(Clone)]
pub(super) struct Bank(Arc<Mutex<Inner>>);

pub(super) struct Inner {
    pub(super) books: Books,
    pub(super) queue: Queue,
    pub(super) calls: u64,
    rng: fastrand::Rng,
    calm: bool,
}

#[derive(Clone, Copy)]
enum Mood {
    Well,
    Slow(u64),
    Busy,
    Down,
    /// Drops the request.
    Deaf,
    /// Applies it, and its response never arrives.
    Dropping,
    Declining,
}

impl Inner {
    /// Whether the receivers have deleted all messages.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.done() >= self.books.told.len()
    }
}

impl Bank {
    pub(super) async fn start(seed: u64) -> (Self, String) {
        let books = Books::new(Some(Duration::from_secs(24 * 60 * 60)));
        let rng = fastrand::Rng::with_seed(seed);
        let bank =
            Self(Arc::new(Mutex::new(Inner { books, queue: Queue::default(), calls: 0, rng, calm: false })));
        let router = Router::new().route("/", post(answer));
        let router = router.route("/receive", post(queue::receive)).route("/delete", post(queue::delete));
        let router = router.with_state(bank.clone());
        (bank, proxy::serve(router).await)
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("the books")
    }

    pub(super) fn calm(&self) {
        self.inner().calm = true;
    }

    /// Do something, or nothing, or do it and say that it failed.
    pub(super) fn may_fail<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> Result<T, StatusCode> {
        let mut inner = self.inner();
        let luck = if inner.calm { 1000 } else { inner.rng.u32(0..1000) };
        if luck < 30 {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let done = act(&mut inner);
        if luck < 60 { Err(StatusCode::INTERNAL_SERVER_ERROR) } else { Ok(done) }
    }
}

async fn answer(State(bank): State<Bank>, Json(call): Json<Call>) -> Response {
    // A request is applied even if its caller disconnects.
    let answered = tokio::spawn(async move {
        let mood = {
            let mut inner = bank.inner();
            inner.calls += 1;
            let calm = inner.calm;
            match inner.rng.u32(0..1000) {
                _ if calm => Mood::Well,
                0..20 => Mood::Busy,
                20..40 => Mood::Down,
                40..55 => Mood::Deaf,
                55..75 => Mood::Dropping,
                75..80 => Mood::Declining,
                80..200 => Mood::Slow(inner.rng.u64(50..1000)),
                _ => Mood::Well,
            }
        };
        match mood {
            Mood::Busy => return StatusCode::TOO_MANY_REQUESTS.into_response(),
            Mood::Down => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Mood::Deaf => return proxy::dropped(),
            Mood::Slow(pause) => tokio::time::sleep(Duration::from_millis(pause)).await,
            Mood::Well | Mood::Dropping | Mood::Declining => {}
        }
        let (mut inner, now) = (bank.inner(), SystemClock.now());
        let said = match mood {
            Mood::Declining => inner.books.refuse(&call, "declined", now),
            _ => inner.books.apply(&call, now),
        };
        drop(inner);
        if matches!(mood, Mood::Dropping) { proxy::dropped() } else { Json(said).into_response() }
    });
    answered.await.unwrap_or_else(|_| proxy::dropped())
}

/// A client of the provider at this address.
pub(super) fn provider(url: &str) -> Provider {
    let http = reqwest::Client::builder().timeout(PATIENCE).build().expect("a client");
    let url = url.to_owned();
    Provider::new(move |call| {
        let request = http.post(&url).json(&call);
        async move {
            let Ok(response) = request.send().await else { return Reply::Silence };
            match response.status() {
                StatusCode::TOO_MANY_REQUESTS => Reply::Busy(Duration::from_millis(300)),
                StatusCode::SERVICE_UNAVAILABLE => Reply::Down,
                StatusCode::OK => response.json().await.map_or(Reply::Silence, Reply::Said),
                _ => Reply::Silence,
            }
        }
    })
}
