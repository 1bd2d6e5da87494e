//! Problems tell the truth: what is known, whether a retry helps, and when.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::header;
use locker::http::RequestedAt;
use locker::{Clock as _, FingerprintKey, Intervened, Locker, Operator};
use locker_tests::{Bench, Fate, client_for, held_by, record_of};
use serde_json::json;
use tower::ServiceExt as _;

use super::{Api, Got, layer, posted, problem, send};

const TOKEN: &str = "@alice/POST/orders/k1";

#[track_caller]
fn retry_after(got: &Got) -> u64 {
    let seconds = got.headers[header::RETRY_AFTER].to_str().expect("text").parse().expect("a number");
    let body: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    assert_eq!(body["retry_after"], seconds);
    seconds
}

#[tokio::test]
async fn while_the_first_runs_the_second_is_asked_to_wait_as_long_as_it_has_been_running() {
    let api = Api::with(|settings| settings.expect_within = Duration::from_secs(300)).await;
    let router = api.router.clone();
    let first = tokio::spawn(router.oneshot(posted("/slow").body(Body::empty()).expect("a request")));
    while api.wire.count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (passes, seconds) in [(0, 1), (3, 3), (4, 7), (200, 60)] {
        api.bench.clock.advance(Duration::from_secs(passes));
        let second = api.send(posted("/slow"), "").await;
        assert_eq!(second.problem(), problem(409, "in-progress", true));
        assert_eq!(retry_after(&second), seconds);
    }
    // Another body is another body, running or not.
    assert_eq!(api.send(posted("/slow"), "other").await.problem(), problem(422, "key-reused", false));
    first.abort();
}

#[tokio::test]
async fn an_overdue_request_is_looked_into_and_not_transient() {
    let api = Api::new().await;
    let (locker, _) = api.bench.machine();
    let _dead = held_by(locker.token(TOKEN).expect_within(Duration::from_secs(60))).await;
    api.bench.clock.advance(Duration::from_secs(61));
    for (passes, seconds) in [(0, 60), (599, 600), (86_400, 3600)] {
        api.bench.clock.advance(Duration::from_secs(passes));
        let got = api.post(&["k1"], "").await;
        assert_eq!(got.problem(), problem(409, "overdue", false));
        assert_eq!(retry_after(&got), seconds);
        assert!(got.text().contains("listed for an operator"), "{}", got.text());
    }
    assert_eq!(api.runs(), 0);
}

#[tokio::test]
async fn out_of_reach_is_transient_and_says_nothing_about_an_earlier_request() {
    let api = Api::impatient().await;
    api.wire.always(Fate::Throttled);
    let got = api.post(&["k1"], "tea").await;
    assert_eq!(got.problem(), problem(503, "unavailable", true));
    assert_eq!(retry_after(&got), 1);
    assert!(got.text().contains("with the same idempotency key"), "{}", got.text());
    for fault in [Fate::ReplyLost, Fate::ErrorBefore] {
        api.wire.always(fault);
        let got = api.post(&["k1"], "tea").await;
        assert_eq!(got.problem(), problem(503, "not-run", false), "{fault:?}");
        assert!(!got.headers.contains_key(header::RETRY_AFTER));
    }
    api.wire.always(Fate::Denied);
    let got = api.post(&["k2"], "tea").await;
    assert_eq!(got.problem(), problem(500, "internal", false));
    assert!(got.text().contains("Do not send the request under a new"), "{}", got.text());
    assert_eq!(api.runs(), 0);
}

#[tokio::test]
async fn an_answer_that_is_gone_or_out_of_reach_is_not_called_undone() {
    let api = Api::impatient().await;
    api.responds((0..30_000).map(|_| fastrand::u8(..)).collect());
    assert_eq!(api.post(&["k1"], "tea").await.status, 201);
    api.wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::Throttled, 10_000)));
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(503, "unavailable", true));
    api.wire.next([]);
    for item in api.bench.items().await {
        let key = item["lockToken"].as_s().expect("text");
        if key != TOKEN {
            api.bench.delete(key).await;
        }
    }
    let got = api.post(&["k1"], "tea").await;
    assert_eq!(got.problem(), problem(500, "answer-unreadable", false));
    assert!(got.text().contains("has ended"), "{}", got.text());
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn a_record_of_another_program_is_not_overwritten_and_not_called_undone() {
    let api = Api::new().await;
    api.bench.put([("lockToken".to_owned(), AttributeValue::S(TOKEN.to_owned()))].into()).await;
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(500, "record-unreadable", false));
    assert_eq!((api.runs(), api.bench.items().await.len()), (0, 1));
}

#[tokio::test]
async fn a_fingerprint_that_cannot_be_compared_is_no_mismatch() {
    let bench = Bench::new().await;
    let client = client_for(bench.engine.endpoint(), locker::client::http_client());
    let app = |keys: Vec<FingerprintKey>| {
        let builder = Locker::builder(&client, &bench.table).with_fingerprint_keys(keys);
        let locker = builder.build().expect("a locker");
        axum::Router::new().route("/", axum::routing::post(async || "charged")).layer(layer(locker, |_| {}))
    };
    let key = FingerprintKey::new("old", vec![7; 32]).expect("a key");
    super::send(&app(vec![key]), posted("/"), "").await;
    let removed = super::send(&app(Vec::new()), posted("/"), "").await;
    assert_eq!(removed.problem(), problem(500, "fingerprint-unreadable", false));
}

#[tokio::test]
async fn stored_response_is_replayed_and_other_answers_are_problems() {
    let api = Api::new().await;
    let (locker, _) = api.bench.machine();
    let token = |key: &str| locker.token(("POST/orders", key)).tenant("alice");
    let response = json!({ "status": 402, "body": "declined" });
    held_by(token("failed")).await.fail(&response).await.expect("failed");
    held_by(token("held")).await.hold(&response).await.expect("held");
    held_by(token("resolved")).await.hold("odd").await.expect("held");
    let operator = Operator::new("ada", "the books").expect("an operator");
    let record = record_of(&locker, "@alice/POST/orders/resolved").await;
    let done = locker.resolve(&record, &response, &operator).await.expect("an answer");
    assert_eq!(done, Intervened::Done);
    for key in ["failed", "held", "resolved"] {
        let got = api.post(&[key], "").await;
        assert_eq!((got.status, got.text(), got.is_replay()), (402, "declined", true), "{key}");
    }
    held_by(token("odd-held")).await.hold("odd").await.expect("held");
    held_by(token("odd-failed")).await.fail("odd").await.expect("failed");
    held_by(token("odd-completed")).await.complete(&json!({ "orderId": "7" })).await.expect("completed");
    held_by(token("odd-status")).await.complete(&json!({ "status": 7 })).await.expect("completed");
    for (key, kind) in [
        ("odd-held", "held"),
        ("odd-failed", "no-response"),
        ("odd-completed", "no-response"),
        ("odd-status", "no-response"),
    ] {
        let got = api.post(&[key], "").await;
        assert_eq!(got.problem(), problem(409, kind, false), "{key}");
        assert!(got.text().contains("Do not send the request under a new"), "{}", got.text());
    }
    assert_eq!(api.runs(), 0);
}

/// A retry of an hour that the table has lost may be a second charge.
#[tokio::test]
async fn request_from_before_a_restore_is_held_and_a_later_one_is_served() {
    let bench = Bench::new().await;
    let end = bench.clock.now();
    let minute = Duration::from_secs(60);
    bench.clock.advance(minute);
    let (locker, _) = bench.machine_with(|settings| settings.restored = Some(end));
    let app = Router::new().route("/{order}", post(async || "tea")).layer(layer(locker, |_| {}));
    for (path, first, status) in
        [("/1", Some(end - minute), 409), ("/2", Some(end + minute / 2), 200), ("/3", None, 409)]
    {
        let mut request = posted(path);
        if let Some(first) = first {
            request = request.extension(RequestedAt(first));
        }
        let got = send(&app, request, "").await;
        assert_eq!(got.status, status, "{path}: {}", got.text());
        assert!(status == 200 || got.problem().1 == "restored", "{path}: {}", got.text());
    }
}
