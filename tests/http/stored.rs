//! What is stored of a response, and what becomes of one that cannot be.

use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::post;
use http::{HeaderName, HeaderValue, header};
use locker::http::{Disposition, Resumable};
use locker::{Error, Form, Intervened, Operator};
use locker_tests::{Bench, Fate, record_of};
use serde_json::json;

use super::{Api, layer, posted, problem, send};

fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| fastrand::u8(..)).collect()
}

#[tokio::test]
async fn after_success_the_stored_response_comes_back_marked() {
    let api = Api::new().await;
    let first = api.post(&["k1"], "tea").await;
    assert_eq!((first.status, first.text(), first.is_replay()), (201, "run 1: tea", false));
    assert_eq!(first.headers[header::SET_COOKIE], "session=secret");
    let again = api.post(&["k1"], "tea").await;
    assert_eq!((again.status, again.text(), again.is_replay()), (201, "run 1: tea", true));
    for name in [header::LOCATION, header::CONTENT_TYPE, header::CACHE_CONTROL] {
        assert_eq!(again.headers[&name], first.headers[&name], "{name}");
    }
    assert!(!again.headers.contains_key(header::SET_COOKIE) && !again.headers.contains_key("x-internal"));
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn more_headers_can_be_chosen_and_never_one_that_authorises() {
    let api = Api::with(|settings| {
        settings.headers.push(HeaderName::from_static("x-internal"));
        settings.headers.extend([header::SET_COOKIE, header::WWW_AUTHENTICATE]);
    })
    .await;
    let first = api.post(&["k1"], "tea").await;
    let again = api.post(&["k1"], "tea").await;
    assert_eq!(again.headers["x-internal"], "yes");
    for name in [header::SET_COOKIE, header::WWW_AUTHENTICATE] {
        assert!(first.headers.contains_key(&name) && !again.headers.contains_key(&name), "{name}");
    }
}

#[tokio::test]
async fn bytes_come_back_as_bytes() {
    let api = Api::new().await;
    let noise = noise(30_000);
    api.responds(noise.clone());
    assert_eq!(api.post(&["k1"], "tea").await.body, noise);
    let again = api.post(&["k1"], "tea").await;
    assert!(again.is_replay() && again.body == noise);
}

#[tokio::test]
async fn a_response_that_is_too_large_is_passed_on_whole_and_its_token_is_held() {
    // The limit of the setting, and the limit of the store.
    for (limit, bytes) in [(1000, 5000), (4 * 1024 * 1024, 600_000)] {
        for said in [None, Some(Disposition::Hold)] {
            let api = Api::with(|settings| settings.max_response_bytes = limit).await;
            let noise = noise(bytes);
            api.responds(noise.clone());
            api.says(said);
            assert_eq!(api.post(&["k1"], "tea").await.body, noise);
            let again = api.post(&["k1"], "tea").await;
            assert_eq!(again.problem(), problem(409, "response-too-large", false), "{bytes}");
            assert!(again.is_replay() && again.text().contains("status 201"), "{}", again.text());
            assert_eq!(api.held().await, ["@alice/POST/orders/k1"]);
            assert_eq!(api.runs(), 1);
        }
    }
}

#[tokio::test]
async fn a_large_response_that_compresses_is_stored() {
    let api = Api::new().await;
    let tea = "tea ".repeat(500_000).into_bytes();
    api.responds(tea.clone());
    api.post(&["k1"], "tea").await;
    let again = api.post(&["k1"], "tea").await;
    assert!(again.is_replay() && again.body == tea, "{}", again.status);
}

#[tokio::test]
async fn a_response_that_could_not_be_stored_is_still_returned() {
    let api = Api::impatient().await;
    api.wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::Throttled, 10_000)));
    assert_eq!(api.post(&["k1"], "tea").await.text(), "run 1: tea");
    api.wire.next([]);
    assert!(api.post(&["k1"], "tea").await.is_open());
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn a_header_that_was_sent_twice_comes_back_twice() {
    let bench = Bench::new().await;
    let links = async || {
        let mut response = "done".into_response();
        for link in ["</orders/7>; rel=self", "</orders>; rel=up"] {
            response.headers_mut().append(header::LINK, HeaderValue::from_static(link));
        }
        response
    };
    let app: Router = Router::new().route("/orders", post(links)).layer(layer(bench.machine().0, |_| {}));
    for replay in [false, true] {
        let got = send(&app, posted("/orders"), "tea").await;
        let links: Vec<_> = got.headers.get_all(header::LINK).iter().collect();
        assert_eq!(links, ["</orders/7>; rel=self", "</orders>; rel=up"]);
        assert_eq!(got.is_replay(), replay);
    }
}

#[tokio::test]
async fn the_token_of_a_request_says_that_its_answer_is_a_response() {
    let api = Api::new().await;
    api.says(Some(Disposition::InDoubt));
    api.post(&["k1"], "tea").await;
    let (locker, _) = api.bench.machine();
    let record = record_of(&locker, "@alice/POST/orders/k1").await;
    assert_eq!(record.form(), Some(&Form::HTTP));
    let ada = Operator::new("ada", "books").expect("an operator");
    let error = locker.resolve(&record, &json!({"orderId": "7"}), &ada).await.expect_err("no response");
    assert!(matches!(error, Error::Form { .. }), "{error:?}");
    let done = locker.resolve(&record, &json!({"status": 201}), &ada).await.expect("resolved");
    assert_eq!((done, api.post(&["k1"], "tea").await.status), (Intervened::Done, 201));
}

#[tokio::test]
async fn a_response_that_is_too_large_frees_no_token_of_a_resumable_handler() {
    let grace = Duration::from_secs(10);
    for (resumable, runs) in [(Resumable::one_effect(grace), 2), (Resumable::several_effects(grace), 1)] {
        // The limit of the setting, and the limit of the store.
        for (limit, bytes) in [(1000, 5000), (4 * 1024 * 1024, 600_000)] {
            let api = Api::with(|settings| {
                settings.max_response_bytes = limit;
                settings.resumable = Some(resumable);
            })
            .await;
            let noise = noise(bytes);
            api.responds(noise.clone());
            assert_eq!(api.post(&["k1"], "tea").await.body, noise);
            let again = api.post(&["k1"], "tea").await;
            assert_eq!(api.runs(), runs, "{resumable:?}");
            if runs == 1 {
                assert_eq!(again.problem(), problem(409, "overdue", true));
            } else {
                assert!(again.body == noise && !again.is_replay());
            }
            assert_eq!((api.held().await.len(), api.bench.items().await.len()), (0, 1), "{resumable:?}");
        }
    }
}

#[tokio::test]
async fn a_response_of_an_operator_is_replayed_without_headers_that_are_never_stored() {
    let api = Api::new().await;
    api.answers(504);
    api.post(&["k1"], "tea").await;
    let (locker, _) = api.bench.machine();
    let record = record_of(&locker, "@alice/POST/orders/k1").await;
    let ada = Operator::new("ada", "books").expect("an operator");
    for value in ["AA==", "Cg=="] {
        let odd = json!({"status": 201, "headers": [["etag", {"base64": value}]]});
        let refused = locker.resolve(&record, &odd, &ada).await;
        assert!(matches!(refused, Err(Error::Form { .. })), "{refused:?}");
    }
    let headers = json!([
        ["content-length", "999"],
        ["transfer-encoding", "chunked"],
        ["set-cookie", "session=secret"],
        ["authentication-info", "nextnonce=secret"],
        ["etag", {"base64": "IjciCQ=="}],
    ]);
    let answer = json!({"status": 201, "headers": headers, "body": "{}"});
    assert_eq!(locker.resolve(&record, &answer, &ada).await.expect("an answer"), Intervened::Done);
    let replay = api.post(&["k1"], "tea").await;
    assert_eq!((replay.status, replay.text(), replay.is_replay()), (201, "{}", true));
    assert_eq!(replay.headers[header::ETAG], "\"7\"\t");
    let info = HeaderName::from_static("authentication-info");
    for name in [header::TRANSFER_ENCODING, header::SET_COOKIE, info] {
        assert!(!replay.headers.contains_key(&name), "{name}");
    }
    assert_ne!(replay.headers.get(header::CONTENT_LENGTH).map(|value| value.as_bytes()), Some(&b"999"[..]));
}
