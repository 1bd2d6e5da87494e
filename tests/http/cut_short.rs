//! A handler that is cut short, wherever and however: its effect happens once, and its token is not
//! freed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use locker_tests::{Bench, Provider};
use tower::ServiceExt as _;

use super::{Log, layer, posted, problem, send};

/// Pauses of the handler; it charges in the middle.
const PAUSES: usize = 6;

async fn charge(State(provider): State<Provider>) -> (StatusCode, String) {
    let mut receipt = String::new();
    for pause in 0..PAUSES {
        if pause == PAUSES / 2 {
            receipt = provider.charge("card");
        }
        tokio::task::yield_now().await;
    }
    (StatusCode::CREATED, receipt)
}

/// How a time limit ends a handler.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Status(u16),
    Panic,
}

/// Drop the handler when it was polled so many times, as a time limit does.
async fn limit(State((polls, ending)): State<(usize, Ending)>, request: Request, next: Next) -> Response {
    let mut run = Box::pin(next.run(request));
    let mut left = polls;
    let ran = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        run.as_mut().poll(context).map(Some)
    });
    match (ran.await, ending) {
        (Some(response), _) => response,
        (None, Ending::Status(status)) => StatusCode::from_u16(status).expect("a status").into_response(),
        (None, Ending::Panic) => panic!("cut short"),
    }
}

#[tokio::test]
async fn a_handler_cut_short_at_every_place_charges_once() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for ending in [Ending::Status(408), Ending::Status(503), Ending::Status(504), Ending::Panic] {
        for polls in 0..=PAUSES + 1 {
            let provider = Provider::default();
            let app = Router::new()
                .route(&format!("/{polls}/{ending:?}"), post(charge))
                .layer(from_fn_with_state((polls, ending), limit))
                .layer(layer(locker.clone(), |_| {}))
                .with_state(provider.clone());
            let ask = || {
                let request = posted(&format!("/{polls}/{ending:?}")).body(Body::empty());
                tokio::spawn(app.clone().oneshot(request.expect("a request")))
            };
            let statuses = [ask().await, ask().await, ask().await].map(|got| match got {
                Ok(response) => response.expect("a response").status().as_u16(),
                Err(error) => {
                    assert!(error.is_panic());
                    0
                }
            });
            let cut = polls <= PAUSES;
            let first = match ending {
                _ if !cut => 201,
                Ending::Status(status) => status,
                Ending::Panic => 0,
            };
            let later = if cut { 409 } else { 201 };
            assert_eq!(statuses, [first, later, later], "{polls} {ending:?}");
            let charged = u64::from(polls > PAUSES / 2);
            assert_eq!(provider.charges("card"), charged, "{polls} {ending:?}");
        }
    }
}

#[tokio::test]
async fn a_caller_that_is_cut_off_at_every_place_gets_the_answer_later() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for polls in 0..12 {
        let provider = Provider::default();
        let app = Router::new()
            .route(&format!("/{polls}"), post(charge))
            .layer(layer(locker.clone(), |_| {}))
            .with_state(provider.clone());
        let path = format!("/{polls}");
        let mut first = Box::pin(app.clone().oneshot(posted(&path).body(Body::empty()).expect("a request")));
        let mut left = polls;
        poll_fn(|context| {
            if left == 0 || Pin::new(&mut first).poll(context).is_ready() {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        drop(first);
        let answer = loop {
            let got = send(&app, posted(&path), "").await;
            if got.status != 409 {
                break got;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!((answer.status, answer.text()), (201, "receipt 1 for card"), "{polls}");
        assert_eq!(provider.charges("card"), 1, "{polls}");
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_in_doubt_with_its_cause_and_the_panic_goes_on() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let books = provider.clone();
    let panics = async move || {
        books.charge("card");
        if books.charges("card") > 0 {
            panic!("no such currency");
        }
    };
    let app: Router = Router::new().route("/", post(panics)).layer(layer(locker, |_| {}));
    let (log, _guard) = Log::listen();
    let first = tokio::spawn(app.clone().oneshot(posted("/").body(Body::empty()).expect("a request"))).await;
    let panic = first.expect_err("a panic").into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no such currency"));
    let said = log.text();
    let doubt = said.lines().find(|line| line.contains("inDoubt")).expect(&said);
    assert!(doubt.contains("the handler panicked: no such currency"), "{doubt}");
    assert!(!said.contains("was dropped before it was ended"), "{said}");
    assert!(send(&app, posted("/"), "").await.is_open());
    assert_eq!(provider.charges("card"), 1);
}

/// A body that breaks off after some frames.
pub(super) struct Breaking(pub(super) usize);

impl http_body::Body for Breaking {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let Some(left) = self.0.checked_sub(1) else {
            return Poll::Ready(Some(Err("the connection was reset")));
        };
        self.0 = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"part")))))
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_in_doubt_and_the_caller_is_told_so() {
    for frames in 0..3 {
        let bench = Bench::new().await;
        let (locker, _) = bench.machine();
        let provider = Provider::default();
        let books = provider.clone();
        let breaks = async move || {
            books.charge("card");
            Body::new(Breaking(frames)).into_response()
        };
        let app: Router = Router::new().route("/", post(breaks)).layer(layer(locker, |_| {}));
        let (log, _guard) = Log::listen();
        let first = send(&app, posted("/"), "").await;
        assert_eq!(first.problem(), problem(500, "in-doubt", false), "{frames}");
        assert!(log.text().contains("cut off: the connection was reset"), "{}", log.text());
        assert!(send(&app, posted("/"), "").await.is_open(), "{frames}");
        assert_eq!(provider.charges("card"), 1, "{frames}");
    }
}
