//! The broker's queue: a receiver gets the oldest message of a subject, and nothing behind it until
//! it is deleted.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use locker::inbox::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::bank::{Bank, Inner};

/// How long a message is hidden from other receivers.
const HIDDEN: Duration = Duration::from_secs(3);

/// What receivers have deleted, and what they have in hand.
#[derive(Debug, Default)]
pub(super) struct Queue {
    deleted: BTreeSet<usize>,
    /// Everything before it is deleted.
    first: usize,
    hidden: HashMap<String, Instant>,
}

/// A message in hand.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Delivered {
    place: usize,
    pub(super) event: String,
}

impl Queue {
    fn next(&mut self, told: &[String]) -> Option<Delivered> {
        let now = Instant::now();
        self.hidden.retain(|_, until| *until > now);
        // Those that were looked at, since a subject is hidden by its oldest message.
        let mut before = BTreeSet::new();
        for (place, event) in told.iter().enumerate().skip(self.first) {
            if self.deleted.contains(&place) {
                continue;
            }
            let subject = Incoming::parse(event).expect("an event").subject.unwrap_or_default();
            if !before.insert(subject.clone()) || self.hidden.contains_key(&subject) {
                continue;
            }
            self.hidden.insert(subject, now + HIDDEN);
            return Some(Delivered { place, event: event.clone() });
        }
        None
    }

    fn delete(&mut self, delivered: &Delivered) {
        self.deleted.insert(delivered.place);
        let subject = Incoming::parse(&delivered.event).expect("an event").subject.unwrap_or_default();
        self.hidden.remove(&subject);
        while self.deleted.remove(&self.first) {
            self.first += 1;
        }
    }

    /// How many of the first are deleted.
    pub(super) const fn done(&self) -> usize {
        self.first
    }
}

pub(super) async fn receive(State(bank): State<Bank>) -> Result<Json<Option<Delivered>>, StatusCode> {
    bank.may_fail(|inner| {
        let Inner { queue, books, .. } = inner;
        queue.next(&books.told)
    })
    .map(Json)
}

pub(super) async fn delete(
    State(bank): State<Bank>,
    Json(delivered): Json<Delivered>,
) -> Result<Json<()>, StatusCode> {
    bank.may_fail(|inner| inner.queue.delete(&delivered)).map(Json)
}

/// A receiver's client of the queue at this address.
pub(super) struct Receiver {
    http: reqwest::Client,
    url: String,
}

impl Receiver {
    pub(super) fn new(url: &str) -> Self {
        let http = reqwest::Client::builder().timeout(HIDDEN / 2).build().expect("a client");
        Self { http, url: url.to_owned() }
    }

    /// `None`: there is none now, or the queue does not answer.
    pub(super) async fn receive(&self) -> Option<Delivered> {
        let response = self.http.post(format!("{}/receive", self.url)).send().await.ok()?;
        response.error_for_status().ok()?.json().await.ok()?
    }

    /// If the queue does not answer, the message comes again.
    pub(super) async fn delete(&self, delivered: &Delivered) {
        let _ = self.http.post(format!("{}/delete", self.url)).json(delivered).send().await;
    }
}
