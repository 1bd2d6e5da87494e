//! What a resumable layer keeps of a request that came to no answer, and what it says of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use locker::http::{Disposition, Resumable};
use locker::{Failure, Form, Intervened, Locker};
use locker_tests::{Bench, Fate, Provider, ada, held_by};
use serde_json::{Value, json};

use super::cut_short::Breaking;
use super::{EXPECTED, LATE, layer, listed, posted, problem, send};

#[tokio::test]
async fn one_effect_a_request_set_aside_keeps_its_fingerprint() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let (books, inner) = (provider.clone(), locker.clone());
    let order = async move |id: String| {
        let key = format!("order/{id}");
        let charge = inner.token(&key).run(async |attempt: locker::Attempt| {
            books.charge(&attempt.idempotency_key());
            Err::<String, _>(Failure::in_doubt("no reply".to_owned()))
        });
        charge.await.map_or(StatusCode::GATEWAY_TIMEOUT, |_| StatusCode::CREATED)
    };
    let app: Router = Router::new().route("/orders", post(order)).layer(layer(locker.clone(), |settings| {
        settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    }));
    assert_eq!(send(&app, posted("/orders"), "7").await.status, 504);
    let other = send(&app, posted("/orders"), "8").await;
    let charged = provider.charges("order/7") + provider.charges("order/8");
    assert_eq!((other.status, charged), (422, 1), "one key, two bodies");
    assert_eq!(listed(&locker).await, ["order/7"]);
    // The same request takes over at once, and meets its order.
    assert_eq!(send(&app, posted("/orders"), "7").await.status, 504);
    assert_eq!(provider.charges("order/7"), 1);
}

/// The order that a handler begins, as a response.
fn order_of(locker: &Locker, resumable: Option<Resumable>) -> Router {
    let inner = locker.clone();
    let order = async move || -> Response {
        let charge =
            inner.token("order/7").run(async |_| Err::<String, _>(Failure::needs_operator("odd".to_owned())));
        match charge.await {
            Ok(receipt) => receipt.into_inner().into_response(),
            Err(error) => error.response(),
        }
    };
    let layer = layer(locker.clone(), |settings| settings.resumable = resumable);
    Router::new().route("/orders", post(order)).layer(layer)
}

#[tokio::test]
async fn one_effect_an_order_that_is_held_is_answered_once_an_operator_has_decided() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let app = order_of(&locker, Some(Resumable::one_effect(Duration::ZERO)));
    for _ in 0..2 {
        let held = send(&app, posted("/orders"), "").await;
        assert_eq!((held.problem(), held.is_replay()), (problem(409, "held", false), false));
    }
    assert_eq!(listed(&locker).await, ["order/7"]);
    let order = locker.get("order/7").await.expect("an answer").expect("a record");
    let resolved = locker.resolve(&order, &json!("receipt"), &ada()).await.expect("resolved");
    assert_eq!(resolved, Intervened::Done);
    for replayed in [false, true] {
        let last = send(&app, posted("/orders"), "").await;
        assert_eq!((last.text(), last.is_replay()), ("receipt", replayed));
    }
}

#[tokio::test]
async fn one_effect_an_order_in_progress_elsewhere_is_answered_once_it_has_ended() {
    for (late, kind) in [(Duration::ZERO, "in-progress"), (LATE, "overdue")] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let app = order_of(&locker, Some(Resumable::one_effect(Duration::ZERO)));
        let elsewhere = held_by(locker.token("order/7")).await;
        bench.clock.advance(late);
        for _ in 0..2 {
            assert_eq!(send(&app, posted("/orders"), "").await.problem().1, kind);
        }
        elsewhere.complete("receipt").await.expect("completed");
        for replayed in [false, true] {
            let last = send(&app, posted("/orders"), "").await;
            assert_eq!((last.text(), last.is_replay()), ("receipt", replayed), "{kind}");
        }
    }
}

#[tokio::test]
async fn several_effects_a_takeover_that_meets_its_order_leaves_the_request_to_the_next_one() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let app = order_of(&locker, Some(Resumable::several_effects(Duration::ZERO)));
    let elsewhere = held_by(locker.token("order/7")).await;
    for kind in ["in-progress", "overdue"] {
        assert_eq!(send(&app, posted("/orders"), "").await.problem().1, kind);
        bench.clock.advance(LATE);
    }
    assert_eq!(send(&app, posted("/orders"), "").await.problem().1, "overdue");
    elsewhere.complete("receipt").await.expect("completed");
    assert_eq!(send(&app, posted("/orders"), "").await.text(), "receipt", "at once");
}

#[tokio::test]
async fn one_effect_a_held_response_is_passed_on_until_an_operator_has_decided() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let inner = locker.clone();
    let order = async move || -> Response {
        let begun = inner.token("order/7").form(Form::HTTP).begin().await.expect("an answer");
        begun.response().unwrap_or_default()
    };
    let app: Router = Router::new().route("/orders", post(order)).layer(layer(locker.clone(), |settings| {
        settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    }));
    let response = |status: u16, body: &str| json!({ "status": status, "headers": [], "body": body });
    let order = held_by(locker.token("order/7").form(Form::HTTP)).await;
    order.hold(&response(409, "odd")).await.expect("held");
    assert_eq!(send(&app, posted("/orders"), "").await.text(), "odd");
    let order = locker.get("order/7").await.expect("an answer").expect("a record");
    let resolved = locker.resolve(&order, &response(201, "receipt"), &ada()).await.expect("resolved");
    assert_eq!(resolved, Intervened::Done);
    assert_eq!(send(&app, posted("/orders"), "").await.text(), "receipt");
}

#[tokio::test]
async fn an_order_that_is_held_leaves_the_request_for_an_operator() {
    for resumable in [None, Some(Resumable::several_effects(Duration::ZERO))] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let app = order_of(&locker, resumable);
        assert_eq!(send(&app, posted("/orders"), "").await.problem(), problem(409, "held", false));
        assert_eq!(listed(&locker).await, ["@alice/POST/orders/k1", "order/7"], "{resumable:?}");
    }
}

#[tokio::test]
async fn one_effect_a_request_set_aside_is_taken_over_at_once_by_a_clock_that_is_behind() {
    for grace in [Duration::ZERO, EXPECTED] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let skew = locker::Settings::default().max_clock_skew;
        let behind = bench.locker(&bench.client, &bench.clock.behind(skew), |_| {});
        let app = |locker| -> Router {
            let layer = layer(locker, |settings| settings.resumable = Some(Resumable::one_effect(grace)));
            let late = async || StatusCode::GATEWAY_TIMEOUT;
            Router::new().route("/orders", post(late)).layer(layer)
        };
        assert_eq!(send(&app(locker), posted("/orders"), "7").await.status, 504);
        let again = send(&app(behind), posted("/orders"), "7").await;
        assert_eq!(again.status, 504, "the handler runs again: {}", again.text());
    }
}

/// A handler that did something without a record of its own says so; its response is too large, or
/// breaks off.
#[tokio::test]
async fn one_effect_what_the_handler_says_is_not_turned_into_a_release() {
    let mut twice = Vec::new();
    for says in [Disposition::Hold, Disposition::Store] {
        for breaks in [false, true] {
            let bench = Bench::new().await;
            let (locker, _) = bench.machine();
            let provider = Provider::default();
            let books = provider.clone();
            let handler = async move || {
                books.charge("card");
                let body = if breaks { Body::new(Breaking(0)) } else { Body::from("too large") };
                let mut response = Response::new(body);
                response.extensions_mut().insert(says);
                response
            };
            let app: Router =
                Router::new().route("/orders", post(handler)).layer(layer(locker, |settings| {
                    settings.max_response_bytes = 3;
                    settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
                }));
            for _ in 0..2 {
                send(&app, posted("/orders"), "").await;
            }
            let charges = provider.charges("card");
            twice.extend((charges > 1).then(|| format!("{says:?}, breaks={breaks}: {charges} charges")));
        }
    }
    assert!(twice.is_empty(), "{twice:?}");
}

/// A held token would not let the next request go on.
#[tokio::test]
async fn several_effects_a_response_that_is_too_large_is_left_in_doubt() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let app: Router =
        Router::new().route("/orders", post(async || "too large")).layer(layer(locker.clone(), |settings| {
            settings.max_response_bytes = 3;
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::several_effects(Duration::ZERO));
        }));
    assert_eq!(send(&app, posted("/orders"), "").await.status, 200);
    let record = locker.get("@alice/POST/orders/k1").await.expect("an answer").expect("a record");
    bench.clock.advance(LATE);
    let retry = send(&app, posted("/orders"), "").await;
    assert_eq!((record.state(), retry.status), (locker::TokenState::InProgress, 200), "{}", retry.text());
}

#[tokio::test]
async fn a_caller_is_told_that_a_request_is_listed_only_if_it_is() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let inner = locker.clone();
    let breaks = async move || {
        let charge = inner.token("order/7").run(async |_| Ok::<_, Failure>("receipt".to_owned()));
        charge.await.expect("charged");
        Body::new(Breaking(0)).into_response()
    };
    let app: Router = Router::new().route("/orders", post(breaks)).layer(layer(locker.clone(), |settings| {
        settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    }));
    let first = send(&app, posted("/orders"), "").await;
    let said: Value = serde_json::from_slice(&first.body).expect("JSON");
    let listed = listed(&locker).await;
    let claims = said["detail"].as_str().expect("text").contains("listed for an operator");
    assert!(!claims || !listed.is_empty(), "said {said}, and the lists have {listed:?}");
}

#[tokio::test]
async fn an_overdue_request_is_said_to_be_listed_only_if_it_is() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let app = |resumable| -> Router {
        let layer = layer(locker.clone(), |settings| settings.resumable = resumable);
        Router::new().route("/orders", post(std::future::pending::<Response>)).layer(layer)
    };
    // Begun by a deployment with one effect, which was rolled back.
    let before = app(Some(Resumable::one_effect(Duration::ZERO)));
    let process = tokio::spawn(async move { send(&before, posted("/orders"), "").await });
    while bench.items().await.is_empty() {
        tokio::task::yield_now().await;
    }
    process.abort();
    bench.clock.advance(LATE);
    let after = send(&app(None), posted("/orders"), "").await;
    let said: Value = serde_json::from_slice(&after.body).expect("JSON");
    let listed = listed(&locker).await;
    let claims = said["detail"].as_str().expect("text").contains("listed for an operator");
    assert!(!claims || !listed.is_empty(), "said {said}, and the lists have {listed:?}");
}

#[tokio::test]
async fn a_broken_body_of_a_resumable_handler_is_said_to_be_transient() {
    for resumable in [Resumable::one_effect(Duration::ZERO), Resumable::several_effects(Duration::ZERO)] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let breaks = Arc::new(AtomicBool::new(true));
        let handler = async move || {
            if breaks.swap(false, Ordering::SeqCst) { Body::new(Breaking(0)) } else { Body::from("done") }
                .into_response()
        };
        let app: Router = Router::new().route("/orders", post(handler)).layer(layer(locker, |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(resumable);
        }));
        let first = send(&app, posted("/orders"), "").await;
        let said: Value = serde_json::from_slice(&first.body).expect("JSON");
        bench.clock.advance(LATE);
        let helped = send(&app, posted("/orders"), "").await.status == 200;
        assert_eq!(said["is_transient"], helped, "{resumable:?}: a retry helped={helped}; it said {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_effect_a_doubt_that_was_said_is_listed_although_the_write_was_throttled() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let throttled = wire.clone();
    let doubts = async move || {
        throttled.next([Fate::Throttled]);
        let mut response = StatusCode::BAD_GATEWAY.into_response();
        response.extensions_mut().insert(Disposition::InDoubt);
        response
    };
    let app: Router = Router::new().route("/orders", post(doubts)).layer(layer(locker.clone(), |settings| {
        settings.expect_within = EXPECTED;
        settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    }));
    assert_eq!(send(&app, posted("/orders"), "").await.status, 502);
    bench.clock.advance(LATE);
    assert_eq!(listed(&locker).await, ["@alice/POST/orders/k1"]);
}
