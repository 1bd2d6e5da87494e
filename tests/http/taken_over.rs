//! After a takeover: what the second attempt answers says nothing about the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use locker::RunError;
use locker::http::{Disposition, Resumable};
use locker_tests::{Bench, Provider};
use tokio::sync::Notify;

use super::{EXPECTED, LATE, layer, listed, posted, send};

/// A handler with two effects, each with a token of its own. The process dies between them; the
/// retry meets a guard inside the layer (`guards_inside`), or a handler that says of itself that it
/// did nothing.
#[tokio::test]
async fn several_effects_a_retry_that_did_nothing_keeps_the_request_listed() {
    for says in [None, Some(Disposition::Release)] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let provider = Provider::default();
        let (books, inner) = (provider.clone(), locker.clone());
        let busy = Arc::new(AtomicBool::new(false));
        let charged = Arc::new(Notify::new());
        let (is_busy, has_charged) = (busy.clone(), charged.clone());
        let handler = async move || -> Response {
            if is_busy.load(Ordering::SeqCst) {
                let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
                if let Some(says) = says {
                    response.extensions_mut().insert(says);
                }
                return response;
            }
            let charge = inner.token("charge/7").run(async |attempt: locker::Attempt| {
                Ok::<_, locker::Failure>(books.charge(&attempt.idempotency_key()))
            });
            charge.await.expect("charged");
            has_charged.notify_one();
            // The second effect: ship/7.
            std::future::pending::<Response>().await
        };
        let app: Router =
            Router::new().route("/orders", post(handler)).layer(layer(locker.clone(), |settings| {
                settings.expect_within = EXPECTED;
                settings.guards_inside = true;
                settings.resumable = Some(Resumable::several_effects(Duration::ZERO));
            }));
        let (first, request) = (app.clone(), posted("/orders"));
        let process = tokio::spawn(async move { send(&first, request, "").await });
        charged.notified().await;
        process.abort();
        bench.clock.advance(LATE);
        assert_eq!(listed(&locker).await, ["@alice/POST/orders/k1"], "the only record of what is missing");
        busy.store(true, Ordering::SeqCst);
        let retry = send(&app, posted("/orders"), "").await;
        assert_eq!(retry.status, 503);
        bench.clock.advance(LATE);
        assert_eq!(
            listed(&locker).await,
            ["@alice/POST/orders/k1"],
            "{says:?}: charged {} times, not shipped, and no list says so",
            provider.charges("charge/7")
        );
    }
}

/// The first attempt charged and died; the second one is refused.
#[tokio::test]
async fn several_effects_a_refusal_after_a_takeover_is_not_the_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let (books, inner) = (provider.clone(), locker.clone());
    let closed = Arc::new(AtomicBool::new(false));
    let charged = Arc::new(Notify::new());
    let (is_closed, has_charged) = (closed.clone(), charged.clone());
    let handler = async move || -> Response {
        if is_closed.load(Ordering::SeqCst) {
            return (StatusCode::FORBIDDEN, "your account is closed").into_response();
        }
        let charge = inner.token("charge/7").run(async |attempt: locker::Attempt| {
            Ok::<_, locker::Failure>(books.charge(&attempt.idempotency_key()))
        });
        charge.await.expect("charged");
        has_charged.notify_one();
        // The second effect: ship/7.
        std::future::pending::<Response>().await
    };
    let app: Router =
        Router::new().route("/orders", post(handler)).layer(layer(locker.clone(), |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::several_effects(Duration::ZERO));
        }));
    let (first, request) = (app.clone(), posted("/orders"));
    let process = tokio::spawn(async move { send(&first, request, "").await });
    charged.notified().await;
    process.abort();
    bench.clock.advance(LATE);
    assert_eq!(listed(&locker).await, ["@alice/POST/orders/k1"], "the only record of what is missing");
    closed.store(true, Ordering::SeqCst);
    assert_eq!(send(&app, posted("/orders"), "").await.status, 403);
    let record = locker.get("@alice/POST/orders/k1").await.expect("an answer").expect("a record");
    assert_eq!(
        listed(&locker).await,
        ["@alice/POST/orders/k1"],
        "charged {} times, not shipped; the request is {:?}, and no list has it",
        provider.charges("charge/7"),
        record.state()
    );
}

/// The second handler meets the first one at the inner token, and answers 409.
#[tokio::test]
async fn one_effect_the_response_to_a_slow_predecessor_is_not_the_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let inner = locker.clone();
    let (charged, goes_on) = <(Arc<Notify>, Arc<Notify>)>::default();
    let (has_charged, may_go_on) = (charged.clone(), goes_on.clone());
    let order = async move || -> Response {
        let charge = async |_| {
            has_charged.notify_one();
            may_go_on.notified().await;
            Ok::<_, locker::Failure>("receipt".to_owned())
        };
        match inner.token("order/7").run(charge).await {
            Ok(receipt) => (StatusCode::CREATED, receipt.into_inner()).into_response(),
            Err(RunError::InProgress(_)) => StatusCode::CONFLICT.into_response(),
            Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
        }
    };
    let app: Router = Router::new().route("/orders", post(order)).layer(layer(locker.clone(), |settings| {
        settings.expect_within = EXPECTED;
        settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    }));
    let slow = app.clone();
    let first = tokio::spawn(async move { send(&slow, posted("/orders"), "").await });
    charged.notified().await;
    bench.clock.advance(LATE);
    assert_eq!(send(&app, posted("/orders"), "").await.status, 409);
    goes_on.notify_one();
    assert_eq!(first.await.expect("a response").status, 201, "the order was made");
    bench.clock.advance(LATE);
    for replayed in [false, true] {
        let last = send(&app, posted("/orders"), "").await;
        assert_eq!((last.status, last.is_replay()), (201, replayed), "{last:?}");
    }
}

#[tokio::test]
async fn one_effect_a_doubt_that_a_handler_said_stays_listed_after_a_retry() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let books = provider.clone();
    let handler = async move || {
        let mut response = StatusCode::GATEWAY_TIMEOUT.into_response();
        if books.charges("card") == 0 {
            // Without a record of its own, and it says so.
            books.charge("card");
            response.extensions_mut().insert(Disposition::InDoubt);
        }
        response
    };
    let app: Router =
        Router::new().route("/orders", post(handler)).layer(layer(locker.clone(), |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
        }));
    assert_eq!(send(&app, posted("/orders"), "").await.status, 504);
    assert_eq!(listed(&locker).await, ["@alice/POST/orders/k1"]);
    bench.clock.advance(LATE);
    // The customer retries, and this handler says nothing of its own.
    assert_eq!(send(&app, posted("/orders"), "").await.status, 504);
    assert_eq!(
        listed(&locker).await,
        ["@alice/POST/orders/k1"],
        "charged {} times, in doubt; the table has {} items",
        provider.charges("card"),
        bench.items().await.len()
    );
}
