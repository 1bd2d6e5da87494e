//! Classes: what a status says of the token, and who may say otherwise.

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::StatusCode;
use locker::http::Disposition;
use locker_tests::Bench;
use tower::{Layer as _, ServiceExt as _};

use super::{Api, Log, layer, posted, send};

const RELEASED: [u16; 9] = [405, 411, 413, 414, 415, 417, 421, 426, 431];
const IN_DOUBT: [u16; 6] = [408, 425, 429, 502, 503, 504];
const HELD: [u16; 2] = [500, 501];
const STORED: [u16; 12] = [200, 204, 302, 400, 401, 403, 404, 409, 410, 422, 505, 599];
const GUARDS: [u16; 5] = [401, 403, 425, 429, 503];

#[derive(Debug, PartialEq)]
enum Became {
    Released,
    InDoubt,
    Held,
    Stored,
}

/// Send the same request twice, and see what became of its token.
async fn sent_twice(api: &Api, status: u16, key: &str) -> Became {
    api.answers(status);
    let before = api.runs();
    assert_eq!(api.post(&[key], "tea").await.status, status);
    let again = api.post(&[key], "tea").await;
    let held = api.held().await.contains(&format!("@alice/POST/orders/{key}"));
    match (api.runs() - before, again.is_replay(), held) {
        (2, false, false) => Became::Released,
        (1, false, false) if again.is_open() => Became::InDoubt,
        (1, true, held) => {
            assert_eq!((again.status, again.text()), (status, format!("run {}: tea", api.runs()).as_str()));
            if held { Became::Held } else { Became::Stored }
        }
        other => panic!("{status}: {other:?} {again:?}"),
    }
}

#[tokio::test]
async fn the_cause_of_a_held_request_contains_nothing_of_the_response() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let fails = async || (StatusCode::INTERNAL_SERVER_ERROR, "alice@example.com, card 4111");
    let app: Router = Router::new().route("/orders", post(fails)).layer(layer(locker.clone(), |_| {}));
    let (log, _guard) = Log::listen();
    assert_eq!(send(&app, posted("/orders"), "tea").await.status, 500);
    let log = log.text();
    assert!(log.contains("held") && !log.contains("card 4111"), "{log}");
    let held = locker.held().fetch().await.expect("a list").items.remove(0);
    assert_eq!(held.cause.as_deref(), Some("the handler answered 500 Internal Server Error"));
}

#[tokio::test]
async fn only_what_no_handler_answers_is_released() {
    let api = Api::new().await;
    for (statuses, became) in [
        (&RELEASED[..], Became::Released),
        (&IN_DOUBT, Became::InDoubt),
        (&HELD, Became::Held),
        (&STORED, Became::Stored),
    ] {
        for status in statuses {
            assert_eq!(sent_twice(&api, *status, &format!("k{status}")).await, became, "{status}");
        }
    }
}

#[tokio::test]
async fn one_setting_says_that_guards_and_limits_are_inside() {
    let api = Api::with(|settings| settings.guards_inside = true).await;
    for status in GUARDS {
        assert_eq!(sent_twice(&api, status, &format!("k{status}")).await, Became::Released, "{status}");
    }
    for (status, became) in [(408, Became::InDoubt), (504, Became::InDoubt), (404, Became::Stored)] {
        assert_eq!(sent_twice(&api, status, &format!("k{status}")).await, became, "{status}");
    }
}

#[tokio::test]
async fn one_setting_stores_internal_errors() {
    let api = Api::with(|settings| settings.hold_internal_errors = false).await;
    for status in HELD {
        assert_eq!(sent_twice(&api, status, &format!("k{status}")).await, Became::Stored, "{status}");
    }
}

#[tokio::test]
async fn the_word_of_a_handler_comes_first_and_then_the_rule_and_then_the_class() {
    let api = Api::layered(|locker| {
        layer(locker, |_| {}).dispositions(|returned| match returned {
            Ok(parts) if parts.headers.contains_key("x-internal") && parts.status == 422 => {
                Some(Disposition::Release)
            }
            Ok(parts) if parts.status == 418 => Some(Disposition::Hold),
            _ => None,
        })
    })
    .await;
    assert_eq!(sent_twice(&api, 422, "rule").await, Became::Released);
    assert_eq!(sent_twice(&api, 418, "held-by-rule").await, Became::Held);
    assert_eq!(sent_twice(&api, 504, "class").await, Became::InDoubt);
    for (number, (said, became)) in [
        (Disposition::Store, Became::Stored),
        (Disposition::Hold, Became::Held),
        (Disposition::Release, Became::Released),
        (Disposition::InDoubt, Became::InDoubt),
    ]
    .into_iter()
    .enumerate()
    {
        api.says(Some(said));
        for status in [201, 405, 418, 422, 500, 503] {
            assert_eq!(sent_twice(&api, status, &format!("w{number}-{status}")).await, became, "{status}");
        }
    }
}

#[tokio::test]
async fn a_request_without_a_route_leaves_no_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let inner = Router::new().route("/orders", post(async || StatusCode::NOT_FOUND));
    let app: Router = Router::new().nest("/shop", inner).layer(layer(locker.clone(), |_| {}));
    for path in ["/order", "/shop/order", "/"] {
        let got = send(&app, posted(path), "").await;
        assert_eq!((got.status, bench.items().await.len()), (404, 0), "{path}");
    }
    // The 404 of a handler is an answer.
    assert_eq!(send(&app, posted("/shop/orders"), "").await.status, 404);
    assert!(send(&app, posted("/shop/orders"), "").await.is_replay());

    // A fallback of the application may have acted, and outside of a router nothing is known of
    // routes.
    let fallback: Router =
        Router::new().fallback(async || (StatusCode::NOT_FOUND, "gone")).layer(layer(locker.clone(), |_| {}));
    send(&fallback, posted("/proxied"), "").await;
    assert!(send(&fallback, posted("/proxied"), "").await.is_replay());
    let routes: Router = Router::new().route("/around", post(async || StatusCode::NOT_FOUND));
    let around = layer(locker, |_| {}).layer(routes);
    for replayed in [false, true] {
        let request = posted("/around").body(Body::empty()).expect("a request");
        let got = around.clone().oneshot(request).await.expect("a response");
        assert_eq!(got.headers().contains_key("idempotent-replayed"), replayed);
    }
}
