//! The token of a request: callers and operations do not share one.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use http::Request;
use locker::http::{HttpSettings, IdempotencyLayer, Operation};
use locker_tests::{Bench, Provider};

use super::{Api, by_user, layer, posted, problem, send};

#[tokio::test]
async fn callers_methods_and_routes_do_not_share_keys() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    let other =
        |user: &str, path: &str| Request::post(path).header("x-user", user).header("Idempotency-Key", "k1");
    for (user, path) in [("bob", "/orders"), ("alice", "/refunds")] {
        let got = api.send(other(user, path), "tea").await;
        assert_eq!((got.status, got.is_replay()), (201, false), "{user} {path}");
    }
    let keys: Vec<_> =
        api.bench.items().await.iter().map(|item| item["lockToken"].as_s().expect("text").clone()).collect();
    assert_eq!(keys, ["@alice/POST/orders/k1", "@alice/POST/refunds/k1", "@bob/POST/orders/k1"]);
}

#[tokio::test]
async fn two_nested_routers_are_two_operations() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let inner = |says: &'static str| {
        Router::new().route("/", post(async move || says)).layer(layer(locker.clone(), |_| {}))
    };
    let app: Router = Router::new()
        .nest("/charges", inner("charged"))
        .nest("/shop", Router::new().nest("/refunds", inner("refunded")).nest("/orders", inner("ordered")));
    for (path, says) in [("/charges", "charged"), ("/shop/refunds", "refunded"), ("/shop/orders", "ordered")]
    {
        let first = send(&app, posted(path), "").await;
        assert_eq!((first.text(), first.is_replay()), (says, false), "{path}");
        let again = send(&app, posted(path), "").await;
        assert_eq!((again.text(), again.is_replay()), (says, true), "{path}");
    }
    let items = bench.items().await;
    let keys: Vec<_> = items.iter().map(|item| item["lockToken"].as_s().expect("text").as_str()).collect();
    assert_eq!(keys, ["@alice/POST/charges/k1", "@alice/POST/shop/orders/k1", "@alice/POST/shop/refunds/k1"]);
}

#[tokio::test]
async fn an_operation_has_a_name_or_is_named_by_the_request() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let app = |operation: Operation| -> Router {
        let layer =
            IdempotencyLayer::new(locker.clone(), operation, by_user).settings(HttpSettings::default());
        Router::new().fallback(post(async || "done")).layer(layer)
    };
    let named = app("order/create".into());
    send(&named, posted("/v1/orders"), "").await;
    assert!(send(&named, posted("/v2/orders"), "").await.is_replay(), "one operation at two addresses");
    let version = |request: &http::request::Parts| {
        request
            .headers
            .get("x-version")
            .map_or_else(String::new, |version| format!("order/{}", version.to_str().unwrap_or_default()))
    };
    let by = app(Operation::by(version));
    send(&by, posted("/orders").header("x-version", "2"), "").await;
    let items = bench.items().await;
    let keys: Vec<_> = items.iter().map(|item| item["lockToken"].as_s().expect("text").as_str()).collect();
    assert_eq!(keys, ["@alice/order/2/k1", "@alice/order/create/k1"]);
    // A name that no key can have is a mistake of the application, and no caller is told that its
    // key is wrong.
    for odd in ["", "a//b", "a b"] {
        let request = if odd.is_empty() { posted("/") } else { posted("/").header("x-version", odd) };
        assert_eq!(send(&by, request, "").await.problem(), problem(500, "internal", false), "{odd}");
    }
    assert_eq!(bench.items().await.len(), 2);
}

#[tokio::test]
async fn an_identity_that_no_key_can_have_is_no_identity() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for identity in [None, Some(""), Some("caf\u{e9}"), Some("a\u{7f}")] {
        let identify = move |_: &http::request::Parts| identity.map(str::to_owned);
        let layer = IdempotencyLayer::new(locker.clone(), Operation::method_and_path(), identify);
        let app: Router = Router::new().route("/", post(async || "done")).layer(layer);
        let got = send(&app, posted("/"), "").await;
        assert_eq!(got.problem(), problem(401, "unidentified", false), "{identity:?}");
    }
    assert!(bench.items().await.is_empty());
}

#[tokio::test]
async fn path_or_identity_that_is_too_long_is_named() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    // A key of a table has 1024 bytes, together with caller and operation.
    for (identity, path, status, kind) in [
        (5, 1014, 414, "path-too-long"),
        (5, 2000, 414, "path-too-long"),
        (2000, 1, 400, "identity-too-long"),
        (600, 500, 400, "identity-too-long"),
        (500, 600, 414, "path-too-long"),
    ] {
        let layer = IdempotencyLayer::new(locker.clone(), Operation::method_and_path(), move |_| {
            Some("i".repeat(identity))
        });
        for door in super::doors::doors(&layer, async |_| -> http::Response<axum::body::Body> {
            panic!("the handler ran")
        }) {
            let path = format!("/{}{}", door.name, "o".repeat(path));
            let got = door.send(Request::post(path).header("Idempotency-Key", "k1"), "").await;
            assert_eq!(got.problem(), problem(status, kind, false), "{}", door.name);
        }
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test]
async fn percent_sign_without_digits_is_another_operation() {
    let bench = Bench::new().await;
    for door in
        super::doors::doors(&layer(bench.machine().0, |_| {}), async |request: Request<bytes::Bytes>| {
            http::Response::new(axum::body::Body::from(request.uri().path().to_owned()))
        })
    {
        for path in ["/payout/%25", "/payout/%%32%35"] {
            let path = format!("/{}{path}", door.name);
            let got = door.send(posted(&path), "").await;
            assert_eq!((got.text(), got.is_replay()), (path.as_str(), false), "{}", door.name);
        }
    }
}

/// A retry through another gateway spells the same address in another way (RFC 3986, 6.2.2); axum
/// routes both alike.
#[tokio::test]
async fn two_spellings_of_one_path_are_one_operation() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let books = provider.clone();
    let charge = async move |Path(id): Path<String>| books.charge(&id);
    let app: Router = Router::new().route("/orders/{id}/charge", post(charge)).layer(layer(locker, |_| {}));
    for path in ["/orders/caf%C3%A9/charge", "/orders/caf%c3%a9/charge", "/orders/c%61f%C3%A9/charge"] {
        assert_eq!(send(&app, posted(path), "").await.status, 200, "{path}");
    }
    assert_eq!(provider.charges("caf\u{e9}"), 1, "one caller, one Idempotency-Key, one order");
}
