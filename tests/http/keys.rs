//! The place of the key, and what makes two requests the same.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderName, Request, Response};
use locker::Locker;
use locker::http::{IdempotencyLayer, KeySource, Operation, Required};
use locker_tests::Bench;

use super::doors::{Door, doors};
use super::{layer, problem};

fn of_hook(locker: Locker, source: KeySource) -> IdempotencyLayer {
    // The signature of the provider was checked before.
    IdempotencyLayer::new(locker, Operation::method_and_path(), |_| Some("provider".to_owned())).key(source)
}

/// Each service with this layer, in front of a handler that sends the body back.
fn echoing(layer: &IdempotencyLayer) -> [Door; 3] {
    doors(layer, async |request: Request<Bytes>| Response::new(Body::from(request.into_body())))
}

fn hook(door: &Door) -> http::request::Builder {
    Request::post(format!("/{}", door.name))
}

#[tokio::test]
async fn delivery_id_of_a_webhook_is_the_key() {
    let bench = Bench::new().await;
    let source = KeySource::header(HeaderName::from_static("x-github-delivery"));
    for door in echoing(&of_hook(bench.machine().0, source)) {
        let deliver = |id: &str| hook(&door).header("X-GitHub-Delivery", id);
        assert!(!door.send(deliver("7f3c"), "push").await.is_replay(), "{}", door.name);
        assert!(door.send(deliver("7f3c"), "push").await.is_replay(), "{}", door.name);
        assert!(!door.send(deliver("8a00"), "push").await.is_replay(), "{}", door.name);
        assert_eq!(door.send(deliver("7f3c"), "fork").await.problem(), problem(422, "key-reused", false));
        let without = door.send(hook(&door).header("Idempotency-Key", "7f3c"), "push").await;
        assert_eq!(without.problem(), problem(400, "key-missing", false), "{}", door.name);
        assert!(without.text().contains("the header x-github-delivery"), "{}", without.text());
    }
}

#[tokio::test]
async fn event_id_in_the_body_is_the_key() {
    let bench = Bench::new().await;
    for door in echoing(&of_hook(bench.machine().0, KeySource::field("/id"))) {
        let body = r#"{"id":"evt_1","type":"charge.succeeded"}"#;
        let first = door.send(hook(&door), body).await;
        assert_eq!((first.status, first.text(), first.is_replay()), (200, body, false), "{}", door.name);
        assert!(door.send(hook(&door), body).await.is_replay(), "{}", door.name);
        assert!(!door.send(hook(&door), r#"{"id":"evt_2"}"#).await.is_replay(), "{}", door.name);
        let other = door.send(hook(&door), r#"{"id":"evt_1","type":"charge.failed"}"#).await;
        assert_eq!(other.problem(), problem(422, "key-reused", false), "{}", door.name);
        for (body, kind) in [("{}", "key-missing"), ("id=1", "key-invalid"), (r#"{"id":[1]}"#, "key-invalid")]
        {
            let got = door.send(hook(&door), body).await;
            assert_eq!(got.problem(), problem(400, kind, false), "{}: {body}", door.name);
            assert!(got.text().contains("/id"), "{}", got.text());
        }
    }
}

#[tokio::test]
async fn closure_takes_the_key_from_head_and_body() {
    let bench = Bench::new().await;
    let source = KeySource::by(|parts, body| {
        let shop = parts.headers.get("x-shop")?.to_str().ok()?;
        Some(format!("{shop}-{}", std::str::from_utf8(body).ok()?.split(';').next()?))
    });
    for door in echoing(&of_hook(bench.machine().0, source)) {
        let order = |shop: &str| hook(&door).header("x-shop", shop);
        assert!(!door.send(order("berlin"), "7;tea").await.is_replay(), "{}", door.name);
        assert!(door.send(order("berlin"), "7;tea").await.is_replay(), "{}", door.name);
        assert!(!door.send(order("paris"), "7;tea").await.is_replay(), "{}", door.name);
        assert_eq!(door.send(order("berlin"), "7;milk").await.status, 422, "{}", door.name);
        assert_eq!(door.send(hook(&door), "7;tea").await.problem(), problem(400, "key-missing", false));
    }
}

#[tokio::test]
async fn request_without_an_optional_key_in_its_body_passes_whole() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let mut settings = locker::http::HttpSettings::default();
    settings.required = Required::No;
    for door in echoing(&of_hook(locker, KeySource::field("/id")).settings(settings)) {
        for _ in 0..2 {
            let got = door.send(hook(&door), r#"{"type":"ping"}"#).await;
            assert_eq!((got.text(), got.is_replay()), (r#"{"type":"ping"}"#, false), "{}", door.name);
        }
    }
    assert_eq!(wire.count(), 0);
}

/// A browser that sends a form again chooses another boundary.
#[tokio::test]
async fn closure_defines_what_makes_two_requests_the_same() {
    let bench = Bench::new().await;
    let layer = layer(bench.machine().0, |_| {}).fingerprint(|parts, body| {
        let boundary = parts.headers["x-boundary"].to_str().unwrap_or_default();
        String::from_utf8_lossy(body).replace(boundary, "").into_bytes()
    });
    for door in echoing(&layer) {
        let form = |boundary: &str| door.posted().header("x-boundary", boundary);
        assert!(!door.send(form("b1"), "--b1 cents=10").await.is_replay(), "{}", door.name);
        assert!(door.send(form("b2"), "--b2 cents=10").await.is_replay(), "{}", door.name);
        let other = door.send(form("b1"), "--b1 cents=99").await;
        assert_eq!(other.problem(), problem(422, "key-reused", false), "{}", door.name);
        assert!(other.text().contains("the first one may have been processed"), "{}", other.text());
    }
}
