//! How long a caller waits for a request that is not read, and for a begin without a clear reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Request, Response};
use locker::http::{Deadline, Resumable};
use locker::{Clock as _, Locker, TokenState};
use locker_tests::{Bench, Fate, PausedClock, Provider, Wire, held_by, record_of};
use tokio::time::Instant;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::bodies::{Declared, Endless};
use super::doors::{charges, doors, received};
use super::{EXPECTED, LATE, layer, listed, posted, problem};

const SECOND: Duration = Duration::from_secs(1);

/// A body of `lambda_http` is always in memory, so these are the two other kinds of services.
#[tokio::test(start_paused = true)]
async fn request_body_that_never_ends_is_refused_before_the_deadline() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let router: Router =
        Router::new().route("/orders", post(async || "done")).layer(layer(locker.clone(), |_| {}));
    let service = layer(locker, |_| {}).layer(service_fn(async |_: Request<Body>| {
        Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
    }));
    let ask = || {
        let request = posted("/orders").extension(Deadline(bench.clock.now() + 8 * SECOND));
        request.body(Body::new(Endless(Arc::default()))).expect("a request")
    };
    for is_axum in [true, false] {
        let began = Instant::now();
        let response = if is_axum {
            router.clone().oneshot(ask()).await.expect("a response")
        } else {
            service.clone().oneshot(ask()).await.expect("a response").map(Body::new)
        };
        let got = received(response).await;
        assert_eq!(got.problem(), problem(400, "body-unreadable", true));
        assert!(began.elapsed() <= 8 * SECOND);
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test]
async fn time_limit_outside_ends_the_reading_of_a_request() {
    let bench = Bench::new().await;
    let router: Router =
        Router::new().route("/orders", post(async || "done")).layer(layer(bench.machine().0, |_| {}));
    let dropped = Arc::<AtomicBool>::default();
    let request = posted("/orders").body(Body::new(Endless(dropped.clone()))).expect("a request");
    let mut call = Box::pin(router.oneshot(request));
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    assert!(!dropped.load(Ordering::SeqCst));
    drop(call);
    assert!(dropped.load(Ordering::SeqCst), "no task reads on");
}

#[tokio::test]
async fn request_of_a_declared_length_beyond_the_limit_is_refused_unread() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let layer = layer(locker, |settings| settings.max_request_bytes = 8);
    for door in doors(&layer, async |_| Response::new(Body::empty())) {
        assert_eq!(
            door.send(door.posted(), "nine byte").await.problem(),
            problem(413, "body-too-large", false)
        );
    }
    assert_eq!(wire.count(), 0);
    let router: Router = Router::new().route("/orders", post(async || "done")).layer(layer);
    let read = Arc::<AtomicBool>::default();
    let body = Body::new(Declared(9, read.clone()));
    let request = posted("/orders").body(body).expect("a request");
    let got = received(router.oneshot(request).await.expect("a response")).await;
    assert_eq!((got.problem(), read.load(Ordering::SeqCst)), (problem(413, "body-too-large", false), false));
}

/// A locker that gives up after two seconds, of which a request that hangs takes all.
fn patience(settings: &mut locker::Settings) {
    settings.attempt_timeout = 10 * SECOND;
    settings.give_up_after = 2 * SECOND;
}

#[tokio::test(start_paused = true)]
async fn begin_without_a_reply_is_withdrawn_before_the_answer() {
    // Applied, and not applied.
    for fate in [Fate::Hangs, Fate::Stalls] {
        let bench = Bench::new().await;
        let (locker, wire) = bench.machine_with(patience);
        let provider = Provider::default();
        for door in doors(&layer(locker.clone(), |_| {}), charges(&provider)) {
            wire.next([fate]);
            let first = door.send(door.posted(), "tea").await;
            assert_eq!(first.problem(), problem(503, "unavailable", true), "{} {fate:?}", door.name);
            assert!(locker.get(door.token()).await.expect("an answer").is_none(), "{} {fate:?}", door.name);
            // The retry helps, as the answer says.
            let retry = door.send(door.posted(), "tea").await;
            assert_eq!((retry.status, provider.charges(&door.token())), (200, 1), "{} {fate:?}", door.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn begin_that_cannot_be_withdrawn_is_not_called_transient() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine_with(patience);
    let provider = Provider::default();
    // Neither the begin nor its withdrawal gets a reply. The second is applied, or not.
    for (door, withdrawal) in doors(&layer(locker.clone(), |_| {}), charges(&provider)).iter().zip([
        Fate::Hangs,
        Fate::Stalls,
        Fate::Stalls,
    ]) {
        wire.next(std::iter::once(Fate::Hangs).chain(std::iter::repeat_n(withdrawal, 9)));
        let first = door.send(door.posted(), "tea").await;
        assert_eq!(first.problem(), problem(503, "not-run", false), "{}", door.name);
        assert!(first.text().contains("did not run for this request"), "{}", first.text());
        wire.next([]);
        let retry = door.send(door.posted(), "tea").await;
        assert_eq!(retry.is_open(), withdrawal == Fate::Stalls, "{}: {}", door.name, retry.text());
        assert_eq!(provider.charges(&door.token()), u64::from(withdrawal == Fate::Hangs), "{}", door.name);
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_begin_is_answered_before_the_deadline() {
    let bench = Bench::new().await;
    let (clock, wire) = (PausedClock::starting_at(bench.clock.now()), Wire::default());
    let mut settings = locker::Settings::default();
    patience(&mut settings);
    settings.give_up_after = 20 * SECOND;
    let locker = Locker::builder(&bench.engine.client_over(&wire), &bench.table).settings(settings);
    let locker = locker.with_clock(Arc::new(clock)).build().expect("a locker");
    let provider = Provider::default();
    for door in doors(&layer(locker, |_| {}), charges(&provider)) {
        for (fates, kind) in [(vec![Fate::Hangs], "unavailable"), (vec![Fate::Hangs; 9], "not-run")] {
            wire.next(fates);
            let began = Instant::now();
            let deadline = Deadline(clock.now() + 3 * SECOND);
            let got = door.send(door.posted().extension(deadline), "tea").await;
            assert_eq!(got.problem().1, kind, "{}", door.name);
            // Two timers round up to a millisecond each.
            assert!(
                began.elapsed() <= 3 * SECOND + Duration::from_millis(2),
                "{}: {:?}",
                door.name,
                began.elapsed()
            );
            wire.next([]);
        }
    }
    assert_eq!(provider.charges("@alice/POST/axum/k1"), 0);
}

/// The attempt before may have charged: an unknown takeover frees nothing.
#[tokio::test(start_paused = true)]
async fn unknown_takeover_is_given_back_and_not_released() {
    for fate in [Fate::Hangs, Fate::Stalls] {
        let bench = Bench::new().await;
        let (locker, wire) = bench.machine_with(patience);
        let provider = Provider::default();
        let layer = layer(locker.clone(), |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::several_effects(Duration::ZERO));
        });
        for door in doors(&layer, charges(&provider)) {
            drop(held_by(locker.token(door.token()).expect_within(EXPECTED)).await);
            bench.clock.advance(LATE);
            wire.nth(2, fate);
            let first = door.send(door.posted(), "tea").await;
            assert_eq!(first.problem(), problem(503, "unavailable", true), "{} {fate:?}", door.name);
            assert_eq!(record_of(&locker, &door.token()).await.state(), TokenState::InProgress);
            assert!(listed(&locker).await.contains(&door.token()), "{} {fate:?}", door.name);
            assert_eq!(provider.charges(&door.token()), 0, "{} {fate:?}", door.name);
            assert_eq!(door.send(door.posted(), "tea").await.status, 200, "{} {fate:?}", door.name);
        }
    }
}
