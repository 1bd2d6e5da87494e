//! The header: which requests need a key, which keys are allowed, and what makes two requests the
//! same.

use std::time::Duration;

use http::Request;
use locker::http::Required;

use super::{Api, posted, problem};

#[tokio::test]
async fn quoted_and_bare_keys_are_the_same() {
    let api = Api::new().await;
    api.post(&["\"k1\""], "tea").await;
    assert!(api.post(&["k1"], "tea").await.is_replay());
}

#[tokio::test]
async fn keys_that_are_not_one_key_are_refused() {
    let api = Api::new().await;
    let long = "k".repeat(256);
    for (keys, kind) in [
        (&[][..], "key-missing"),
        (&[""], "key-invalid"),
        (&["\"\""], "key-invalid"),
        (&["a", "b"], "key-invalid"),
        (&["a", "a"], "key-invalid"),
        (&["\"a\", \"b\""], "key-invalid"),
        (&["\"open"], "key-invalid"),
        (&["a b"], "key-invalid"),
        (&[long.as_str()], "key-invalid"),
    ] {
        let got = api.post(keys, "tea").await;
        assert_eq!(got.problem(), problem(400, kind, false), "{keys:?}");
    }
    assert_eq!((api.runs(), api.wire.count()), (0, 0), "nothing ran and nothing was sent");
}

#[tokio::test]
async fn another_body_or_query_under_the_same_key_is_refused() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    assert_eq!(api.post(&["k1"], "coffee").await.problem(), problem(422, "key-reused", false));
    let query = Request::post("/orders?cents=9").header("x-user", "alice").header("Idempotency-Key", "k1");
    assert_eq!(api.send(query, "tea").await.problem(), problem(422, "key-reused", false));
    assert_eq!(api.runs(), 1);
}

/// For a REST API and a load balancer, `lambda_http` gives the parameters in any order.
#[tokio::test]
async fn parameters_of_a_query_may_come_in_another_order() {
    let api = Api::new().await;
    let query = |query: &str| {
        let uri = format!("/orders?{query}");
        Request::post(uri).header("x-user", "alice").header("Idempotency-Key", "k1")
    };
    assert!(!api.send(query("a=1&b=2&b=3&c"), "tea").await.is_replay());
    assert!(api.send(query("c&b=2&a=1&b=3"), "tea").await.is_replay());
    for other in ["a=1&b=3&b=2&c", "a=1&b=2&b=3", "a=1&b=2&b=3&c="] {
        assert_eq!(
            api.send(query(other), "tea").await.problem(),
            problem(422, "key-reused", false),
            "{other}"
        );
    }
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn after_expiry_the_key_is_new() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    api.bench.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
    let got = api.post(&["k1"], "coffee").await;
    assert_eq!((got.status, got.text(), got.is_replay()), (201, "run 2: coffee", false));
}

#[tokio::test]
async fn methods_that_are_idempotent_anyway_go_through() {
    let api = Api::new().await;
    assert_eq!(api.send(Request::get("/health"), "").await.text(), "well");
    let read = || Request::get("/orders").header("x-user", "alice").header("Idempotency-Key", "k1");
    api.send(read(), "").await;
    api.send(read(), "").await;
    assert_eq!((api.runs(), api.wire.count()), (2, 0));
}

#[tokio::test]
async fn a_key_may_be_optional() {
    let api = Api::with(|settings| settings.required = Required::No).await;
    api.post(&[], "tea").await;
    api.post(&[], "tea").await;
    assert_eq!(api.runs(), 2);
    api.post(&["k1"], "tea").await;
    assert!(api.post(&["k1"], "tea").await.is_replay());
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_hashed() {
    let api = Api::with(|settings| settings.max_request_bytes = 8).await;
    assert_eq!(api.post(&["k1"], "nine byte").await.problem(), problem(413, "body-too-large", false));
    assert_eq!((api.runs(), api.wire.count()), (0, 0));
    assert_eq!(api.post(&["k1"], "eight by").await.status, 201);
}

#[tokio::test]
async fn json_is_compared_by_its_content_where_it_is_told_so() {
    let bytes = Api::new().await;
    let canonical = Api::with(|settings| settings.canonical_json = true).await;
    for (api, status) in [(&bytes, 422), (&canonical, 201)] {
        assert_eq!(api.post(&["k1"], r#"{"id":7,"note":null}"#).await.status, 201);
        assert_eq!(api.post(&["k1"], "{ \"note\": null, \"id\": 7 }").await.status, status);
    }
    for other in [r#"{"id":8,"note":null}"#, r#"{"id":7}"#, "tea", ""] {
        assert_eq!(
            canonical.post(&["k1"], other).await.problem(),
            problem(422, "key-reused", false),
            "{other}"
        );
    }
    assert_eq!(canonical.send(posted("/orders?cents=9"), r#"{"id":7,"note":null}"#).await.status, 422);
    // What is not JSON is compared by its bytes.
    canonical.post(&["k2"], "tea").await;
    assert!(canonical.post(&["k2"], "tea").await.is_replay());
    assert_eq!(canonical.post(&["k2"], "tea ").await.status, 422);
}

#[tokio::test]
async fn json_with_a_name_twice_is_compared_by_its_bytes() {
    let canonical = Api::with(|settings| settings.canonical_json = true).await;
    canonical.post(&["k1"], r#"{"to":"bob","cents":10}"#).await;
    let twice = canonical.post(&["k1"], r#"{"to":"eve","to":"bob","cents":10}"#).await;
    assert_eq!(twice.problem(), problem(422, "key-reused", false));
    canonical.post(&["k2"], r#"{"a":1,"a":2}"#).await;
    assert!(canonical.post(&["k2"], r#"{"a":1,"a":2}"#).await.is_replay());
    assert_eq!(canonical.post(&["k2"], r#"{"a": 1,"a":2}"#).await.status, 422);
    assert_eq!(canonical.post(&["k2"], r#"{"a":9,"a":2}"#).await.status, 422);
    // Numbers are compared as they are written.
    canonical.post(&["k3"], r#"{"cents":12345678901234567.89}"#).await;
    assert_eq!(canonical.post(&["k3"], r#"{"cents":12345678901234567.91}"#).await.status, 422);
}

#[tokio::test]
async fn an_optional_key_that_is_none_is_refused_and_not_ignored() {
    let api = Api::with(|settings| settings.required = Required::No).await;
    for keys in [&["a", "b"][..], &["\"open"], &[""], &["a b"]] {
        let got = api.post(keys, "tea").await;
        assert_eq!(got.problem(), problem(400, "key-invalid", false), "{keys:?}");
    }
    assert_eq!((api.runs(), api.wire.count()), (0, 0), "nothing ran without its protection");
}
