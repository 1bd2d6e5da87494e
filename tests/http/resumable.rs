//! A resumable handler: its effect has a token of its own, so a later request may run it again.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use locker::http::{Disposition, Resumable};
use locker::{Failure, Locker, RunError};
use locker_tests::{Bench, Provider, held_by};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::{layer, posted, problem, send};

const GRACE: Duration = Duration::from_secs(10);
const EXPECTED: Duration = Duration::from_secs(60);
const SKEW: Duration = Duration::from_secs(5);

/// A shop whose orders have a token each.
#[derive(Clone)]
struct Shop {
    locker: Locker,
    provider: Provider,
    charged: Arc<Notify>,
    goes_on: Arc<Notify>,
}

impl Shop {
    fn new(locker: Locker) -> Self {
        let (charged, goes_on) = <(Arc<Notify>, Arc<Notify>)>::default();
        Self { locker, provider: Provider::default(), charged, goes_on }
    }

    fn app(&self) -> Router {
        self.app_with(Resumable::one_effect(GRACE))
    }

    fn app_with(&self, resumable: Resumable) -> Router {
        let layer = layer(self.locker.clone(), |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(resumable);
        });
        Router::new().route("/orders", post(order)).layer(layer).with_state(self.clone())
    }

    /// The keys of what an operator has to look at.
    async fn listed(&self) -> Vec<String> {
        let listed = self.locker.in_progress().fetch().await.expect("a listing");
        listed.items.into_iter().map(|token| token.token).collect()
    }
}

async fn order(State(shop): State<Shop>, how: String) -> Response {
    let charge = async |attempt: locker::Attempt| {
        let receipt = shop.provider.charge(&attempt.idempotency_key());
        shop.charged.notify_one();
        match how.as_str() {
            "slow" => shop.goes_on.notified().await,
            "doubt" => return Err(Failure::in_doubt("no reply".to_owned())),
            "panic" => panic!("no such currency"),
            _ => {}
        }
        Ok(receipt)
    };
    match shop.locker.token("order/7").run(charge).await {
        Ok(receipt) => (StatusCode::CREATED, receipt.into_inner()).into_response(),
        Err(RunError::InProgress(_)) => {
            let mut response = StatusCode::CONFLICT.into_response();
            response.extensions_mut().insert(Disposition::Release);
            response
        }
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    }
}

#[tokio::test]
async fn a_slow_handler_and_the_one_that_takes_over_charge_once() {
    let bench = Bench::new().await;
    let shop = Shop::new(bench.machine().0);
    let app = shop.app();
    let slow = || posted("/orders").body(Body::from("slow")).expect("a request");
    let first = tokio::spawn(app.clone().oneshot(slow()));
    shop.charged.notified().await;

    bench.clock.advance(EXPECTED + GRACE);
    let waits = send(&app, posted("/orders"), "slow").await;
    assert_eq!(waits.problem(), problem(409, "overdue", true), "not yet");
    bench.clock.advance(SKEW + Duration::from_millis(1));
    let second = send(&app, posted("/orders"), "slow").await;
    assert_eq!((second.status, second.text()), (409, ""), "the handler ran, and its order is in progress");

    shop.goes_on.notify_one();
    let first = first.await.expect("no panic").expect("a response");
    assert_eq!(first.status(), 201);
    let third = send(&app, posted("/orders"), "slow").await;
    assert_eq!((third.status, third.text()), (201, "receipt 1 for order/7"));
    assert!(send(&app, posted("/orders"), "slow").await.is_replay());
    assert_eq!(shop.provider.charges("order/7"), 1);
    assert!(shop.listed().await.is_empty());
}

#[tokio::test]
async fn a_process_that_died_is_continued_by_the_next_request() {
    let bench = Bench::new().await;
    let shop = Shop::new(bench.machine().0);
    let app = shop.app();
    let request = shop.locker.token("@alice/POST/orders/k1").expect_within(EXPECTED);
    drop(held_by(request).await);
    let order = shop.locker.token("order/7");
    held_by(order).await.complete("receipt of the dead").await.expect("completed");
    bench.clock.advance(EXPECTED + GRACE + SKEW + Duration::from_millis(1));
    for replayed in [false, true] {
        let got = send(&app, posted("/orders"), "").await;
        assert_eq!((got.status, got.text(), got.is_replay()), (201, "receipt of the dead", replayed));
    }
    assert_eq!(shop.provider.charges("order/7"), 0);
}

#[tokio::test]
async fn a_handler_cut_short_leaves_one_line_for_the_operator() {
    for how in ["doubt", "panic"] {
        let bench = Bench::new().await;
        let shop = Shop::new(bench.machine().0);
        let app = shop.app();
        let request = posted("/orders").body(Body::from(how)).expect("a request");
        let first = tokio::spawn(app.clone().oneshot(request)).await;
        assert_eq!(first.is_err(), how == "panic");
        assert_eq!(shop.listed().await, ["order/7"], "{how}");
        // The next request runs the handler, whose order says that it is in progress.
        assert_eq!(send(&app, posted("/orders"), how).await.text(), "", "{how}");
        assert_eq!(shop.provider.charges("order/7"), 1, "{how}");
        assert_eq!(shop.listed().await, ["order/7"], "{how}");
    }
}

/// Runs a handler that goes on for ever, until its process is killed.
async fn killed(app: &Router, shop: &Shop) {
    let request = posted("/orders").body(Body::from("slow")).expect("a request");
    let process = tokio::spawn(app.clone().oneshot(request));
    shop.charged.notified().await;
    process.abort();
    assert!(process.await.is_err());
}

#[tokio::test]
async fn a_killed_process_leaves_one_line_if_one_effect_has_the_record() {
    for (resumable, lines) in [
        (Resumable::one_effect(GRACE), &["order/7"][..]),
        (Resumable::several_effects(GRACE), &["@alice/POST/orders/k1", "order/7"]),
    ] {
        let bench = Bench::new().await;
        let shop = Shop::new(bench.machine().0);
        killed(&shop.app_with(resumable), &shop).await;
        bench.clock.advance(EXPECTED + GRACE + SKEW + Duration::from_millis(1));
        let mut listed = shop.listed().await;
        listed.sort();
        assert_eq!(listed, lines, "the customer never returns");
    }
}

#[tokio::test]
async fn several_effects_leave_the_request_in_doubt_and_the_next_one_goes_on() {
    for how in ["doubt", "panic"] {
        let bench = Bench::new().await;
        let shop = Shop::new(bench.machine().0);
        let app = shop.app_with(Resumable::several_effects(GRACE));
        let request = posted("/orders").body(Body::from(how)).expect("a request");
        let first = tokio::spawn(app.clone().oneshot(request)).await;
        assert_eq!(first.is_err(), how == "panic");
        let mut listed = shop.listed().await;
        listed.sort();
        assert_eq!(listed, ["@alice/POST/orders/k1", "order/7"], "{how}");
        bench.clock.advance(EXPECTED + GRACE + SKEW + Duration::from_millis(1));
        let next = send(&app, posted("/orders"), how).await;
        assert_eq!((next.status, next.text()), (409, ""), "{how}: the handler ran, and met its order");
        assert_eq!(shop.provider.charges("order/7"), 1, "{how}");
    }
}
