//! The layer in each kind of service: a router of axum, a handler of `lambda_http`, and a bare
//! tower service. A rule of the layer is tested in all of them.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent};
use locker::http::IdempotencyLayer;
use locker::{Attempt, BoxError, TokenState};
use locker_tests::{Bench, Provider, record_of};
use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::{Got, layer, posted};

type Responds = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Call = Arc<dyn Fn(Request<Bytes>) -> Responds + Send + Sync>;

/// A service with a handler behind the layer.
pub(super) struct Door {
    pub(super) name: &'static str,
    call: Call,
}

impl Door {
    /// The response, of whose body nothing is read yet.
    pub(super) async fn ask(&self, request: http::request::Builder, body: &str) -> Response<Body> {
        (self.call)(request.body(Bytes::copy_from_slice(body.as_bytes())).expect("a request")).await
    }

    pub(super) async fn send(&self, request: http::request::Builder, body: &str) -> Got {
        received(self.ask(request, body).await).await
    }

    /// The key of the token of a request of alice with the key `k1`, on a path that only this door
    /// has.
    pub(super) fn token(&self) -> String {
        format!("@alice/POST/{}/k1", self.name)
    }

    /// A request of alice with the key `k1`.
    pub(super) fn posted(&self) -> http::request::Builder {
        posted(&format!("/{}", self.name))
    }
}

pub(super) async fn received(response: Response<Body>) -> Got {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Got { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// The same handler in a service of each kind.
pub(super) fn doors<F, Fut>(layer: &IdempotencyLayer, handler: F) -> [Door; 3]
where
    F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let handle: Call = Arc::new(move |request| Box::pin(handler(request)));
    let (of_axum, of_lambda, of_tower) = (Arc::clone(&handle), Arc::clone(&handle), handle);

    let route = any(move |request: Request<Body>| {
        let handle = Arc::clone(&of_axum);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            handle(Request::from_parts(parts, body)).await
        }
    });
    let router: Router = Router::new().route("/{*path}", route).layer(layer.clone());

    let function = layer.layer(lambda_http::service_fn(move |request: lambda_http::Request| {
        let responds = of_lambda(request.map(|body| Bytes::copy_from_slice(&body)));
        async { Ok::<_, lambda_http::Error>(responds.await) }
    }));

    let service = layer.layer(tower::service_fn(move |request: Request<Full<Bytes>>| {
        let handle = Arc::clone(&of_tower);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            Ok::<_, BoxError>(handle(Request::from_parts(parts, body)).await)
        }
    }));

    let axum = move |request: Request<Bytes>| -> Responds {
        let router = router.clone();
        Box::pin(async { router.oneshot(request.map(Body::from)).await.expect("a response") })
    };
    // `call` returns a future without the type of the service, which a closure here cannot box.
    let lambda = move |request: Request<Bytes>| -> Responds {
        let called = function.clone().call(request.map(|body| match String::from_utf8(body.to_vec()) {
            Ok(text) => lambda_http::Body::from(text),
            Err(error) => lambda_http::Body::from(error.into_bytes()),
        }));
        Box::pin(async { called.await.expect("a response").map(Body::new) })
    };
    let tower = move |request: Request<Bytes>| -> Responds {
        let called = service.clone().call(request.map(Full::new));
        Box::pin(async { called.await.expect("a response").map(Body::new) })
    };
    [
        Door { name: "axum", call: Arc::new(axum) },
        Door { name: "lambda", call: Arc::new(lambda) },
        Door { name: "tower", call: Arc::new(tower) },
    ]
}

/// A handler that charges under the key of its attempt.
pub(super) fn charges(
    provider: &Provider,
) -> impl Fn(Request<Bytes>) -> std::future::Ready<Response<Body>> + use<> {
    let provider = provider.clone();
    move |request| {
        let attempt: &Attempt = request.extensions().get().expect("an attempt");
        std::future::ready(Response::new(Body::from(provider.charge(&attempt.idempotency_key()))))
    }
}

#[tokio::test]
async fn every_service_charges_once_and_replays_what_is_stored() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    for door in doors(&layer(locker.clone(), |_| {}), charges(&provider)) {
        let first = door.ask(door.posted(), "tea").await;
        // Nothing of the body was read yet.
        let record = record_of(&locker, &door.token()).await;
        assert_eq!(record.state(), TokenState::Completed, "{}: stored before the first byte", door.name);
        let first = received(first).await;
        let again = door.send(door.posted(), "tea").await;
        assert_eq!((first.is_replay(), again.is_replay()), (false, true), "{}", door.name);
        assert_eq!(first.text(), format!("receipt 1 for {}", door.token()));
        assert_eq!(again.text(), first.text());
        assert_eq!(door.send(door.posted(), "coffee").await.status, 422, "{}", door.name);
    }
}

/// An event of an HTTP API of API Gateway, format 2.0.
fn event(key: &str, body: Value, is_base64: bool) -> LambdaRequest {
    let event = json!({
        "version": "2.0",
        "routeKey": "POST /orders",
        "rawPath": "/orders",
        "rawQueryString": "",
        "headers": {"idempotency-key": key, "x-user": "alice", "content-type": "text/plain"},
        "requestContext": {
            "accountId": "1", "apiId": "a", "domainName": "d", "domainPrefix": "p",
            "http": {"method": "POST", "path": "/orders", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "t"},
            "requestId": "r", "routeKey": "POST /orders", "stage": "$default",
            "time": "25/Nov/2026:10:00:00 +0000", "timeEpoch": 0
        },
        "body": body,
        "isBase64Encoded": is_base64
    });
    serde_json::from_str(&event.to_string()).expect("an event")
}

#[tokio::test]
async fn event_of_api_gateway_gets_the_stored_response_as_text() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let handler = async |request: lambda_http::Request| {
        let body = match request.body() {
            lambda_http::Body::Empty => "nothing".to_owned(),
            lambda_http::Body::Text(text) => format!("the text {text}"),
            lambda_http::Body::Binary(bytes) => format!("{} bytes", bytes.len()),
            _ => "something".to_owned(),
        };
        Ok::<_, lambda_http::Error>(Response::new(lambda_http::Body::from(body)))
    };
    let mut function = Adapter::from(layer(locker, |_| {}).layer(lambda_http::service_fn(handler)));
    for (key, body, is_base64, says) in [
        ("k1", json!("tea"), false, "the text tea"),
        ("k2", Value::Null, false, "nothing"),
        ("k3", json!("/w=="), true, "1 bytes"),
    ] {
        for replayed in [false, true] {
            let event = LambdaEvent::new(event(key, body.clone(), is_base64), Context::default());
            let response = function.ready().await.expect("ready").call(event).await.expect("a response");
            let response = serde_json::to_value(&response).expect("JSON");
            assert_eq!(
                (&response["statusCode"], &response["body"]),
                (&json!(200), &json!(says)),
                "{response}"
            );
            assert_eq!(response["headers"].get("idempotent-replayed").is_some(), replayed, "{response}");
        }
    }
    let used = LambdaEvent::new(event("k1", json!("coffee"), false), Context::default());
    let response = function.ready().await.expect("ready").call(used).await.expect("a response");
    let response = serde_json::to_value(&response).expect("JSON");
    assert_eq!(response["statusCode"], 422);
    let problem: Value = serde_json::from_str(response["body"].as_str().expect("text")).expect("JSON");
    assert_eq!(problem["type"], "urn:locker:problem:key-reused");
}

#[tokio::test]
async fn two_layers_around_one_handler_leave_no_token() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let (outer, inner) = (layer(locker.clone(), |_| {}), layer(locker, |_| {}));
    let service = tower::service_fn(async |_: Request<Full<Bytes>>| -> Result<Response<Body>, BoxError> {
        panic!("the handler ran")
    });
    let nested = outer.layer(inner.layer(service));
    let function =
        lambda_http::service_fn(async |_: lambda_http::Request| -> Result<Response<Body>, BoxError> {
            panic!("the handler ran")
        });
    let function = outer.layer(inner.layer(function));
    let routes = Router::new()
        .route("/orders", any(async || -> &'static str { panic!("the handler ran") }))
        .layer(inner);
    let router: Router = Router::new().nest("/shop", routes).layer(outer);
    let (log, _guard) = super::Log::listen();
    for _ in 0..2 {
        let tower = nested.clone().oneshot(posted("/orders").body(Full::default()).expect("a request")).await;
        let lambda = function
            .clone()
            .oneshot(posted("/orders").body(lambda_http::Body::Empty).expect("a request"))
            .await;
        let axum =
            router.clone().oneshot(posted("/shop/orders").body(Body::empty()).expect("a request")).await;
        let responses = [
            tower.expect("a response").map(Body::new),
            lambda.expect("a response").map(Body::new),
            axum.expect("a response"),
        ];
        for response in responses {
            let got = received(response).await;
            assert_eq!(got.problem(), super::problem(500, "internal", false));
        }
    }
    assert_eq!(log.text().matches("two idempotency layers").count(), 6, "{}", log.text());
    assert!(wire.count() > 0 && bench.items().await.is_empty(), "the tokens are released");
}

/// The headers of a response with one trailer.
pub(super) fn trailers(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static(name), http::HeaderValue::from_static(value))])
}

async fn with_trailers(response: Response<Body>) -> (String, Option<HeaderMap>) {
    let body = response.into_body().collect().await.expect("a body");
    let trailers = body.trailers().cloned();
    (String::from_utf8(body.to_bytes().to_vec()).expect("text"), trailers)
}

#[tokio::test]
async fn trailers_reach_the_first_caller_and_every_later_one() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for door in doors(&layer(locker, |_| {}), async |_| {
        let trailers = trailers("grpc-status", "14");
        Response::new(Body::new(
            Full::new(Bytes::from("message")).with_trailers(async { Some(Ok(trailers)) }),
        ))
    }) {
        for replayed in [false, true] {
            let response = door.ask(door.posted(), "").await;
            assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed, "{}", door.name);
            let (body, trailers) = with_trailers(response).await;
            assert_eq!(
                (body.as_str(), trailers.map(|all| all["grpc-status"].clone())),
                ("message", Some("14".parse().expect("a value"))),
                "{}",
                door.name
            );
        }
    }
}

#[tokio::test]
async fn response_with_a_trailer_that_is_never_stored_is_not_kept() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for door in doors(&layer(locker.clone(), |_| {}), async |_| {
        let trailers = trailers("set-cookie", "session=secret");
        Response::new(Body::new(
            Full::new(Bytes::from("message")).with_trailers(async { Some(Ok(trailers)) }),
        ))
    }) {
        let (body, trailers) = with_trailers(door.ask(door.posted(), "").await).await;
        assert!(
            body == "message" && trailers.is_some_and(|all| all.contains_key("set-cookie")),
            "{}",
            door.name
        );
        assert_eq!(
            door.send(door.posted(), "").await.problem(),
            super::problem(409, "not-kept", false),
            "{}",
            door.name
        );
        assert!(super::listed(&locker).await.is_empty(), "{}", door.name);
    }
}
