//! The layer around any tower service: its errors, its readiness, and the rule for errors.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use locker::BoxError;
use locker::http::Disposition;
use locker_tests::{Bench, Provider};
use tower::timeout::error::Elapsed;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::{Log, layer, posted};

type Asked = Request<Full<Bytes>>;
type Answered = Response<Full<Bytes>>;

fn asked() -> Asked {
    posted("/orders").body(Full::default()).expect("a request")
}

/// A service that charges, and then errs as `tower::timeout` does.
fn errs(
    provider: &Provider,
) -> impl Service<Asked, Response = Answered, Error = BoxError, Future = Ready<Result<Answered, BoxError>>>
+ Clone
+ Send
+ 'static {
    let provider = provider.clone();
    service_fn(move |_: Asked| {
        provider.charge("card");
        ready(Err::<Answered, BoxError>(Elapsed::new().into()))
    })
}

#[tokio::test]
async fn a_service_that_errs_is_in_doubt_with_its_cause() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let service = layer(locker, |_| {}).layer(errs(&provider));
    let (log, _guard) = Log::listen();
    let error = service.clone().oneshot(asked()).await.expect_err("the error of the service");
    assert!(error.is::<Elapsed>(), "{error}");
    let said = log.text();
    assert!(said.contains("inDoubt") && said.contains("request timed out"), "{said}");
    assert_eq!(service.oneshot(asked()).await.expect("a problem").status(), 409);
    assert_eq!(provider.charges("card"), 1);
}

#[tokio::test]
async fn only_the_rule_of_the_application_releases_after_an_error() {
    for (said, charges) in [
        (Some(Disposition::Release), 2),
        (Some(Disposition::Store), 1),
        (Some(Disposition::Hold), 1),
        (Some(Disposition::InDoubt), 1),
        (None, 1),
    ] {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let provider = Provider::default();
        let layer = layer(locker, |_| {}).dispositions(move |returned| {
            let error = returned.expect_err("an error");
            let error = error.downcast_ref::<BoxError>().expect("the type of the service");
            said.filter(|_| error.is::<Elapsed>())
        });
        let service = layer.layer(errs(&provider));
        service.clone().oneshot(asked()).await.expect_err("an error");
        assert_eq!(service.oneshot(asked()).await.is_err(), charges == 2);
        assert_eq!(provider.charges("card"), charges, "{said:?}");
    }
}

/// A service that has to be polled ready before each call; its clone is not ready.
#[derive(Default)]
struct Reserving {
    ready: bool,
}

impl Clone for Reserving {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Asked> for Reserving {
    type Response = Answered;
    type Error = Infallible;
    type Future = Ready<Result<Answered, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Asked) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being polled ready");
        ready(Ok(Response::new(Full::from("ready"))))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_does_the_work() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut service = layer(locker, |_| {}).layer(Reserving::default());
    let read = || Request::get("/orders").body(Full::default()).expect("a request");
    for request in [asked(), read(), asked()] {
        let service = service.ready().await.expect("ready");
        assert_eq!(service.call(request).await.expect("a response").status(), 200);
    }
}
