//! A handler whose provider recognises the key: the next request runs the handler again, for as
//! long as the provider does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use locker::Attempt;
use locker::http::Resumable;
use locker_tests::{Bench, DAY, HOUR, MINUTE, Provider};

use super::cut_short::Breaking;
use super::doors::{Door, doors};
use super::{EXPECTED, LATE, layer, listed, problem};

const RECOGNISED: Duration = DAY;

/// A shop whose first handler on each path dies after its charge, as long as it is told so.
struct Shop {
    bench: Bench,
    provider: Provider,
    dies: Arc<AtomicBool>,
    doors: [Door; 3],
}

impl Shop {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let (provider, dies) = (Provider::default(), Arc::new(AtomicBool::new(true)));
        let layer = layer(bench.machine().0, |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::recognised_for(RECOGNISED));
        });
        let (books, is_dying) = (provider.clone(), dies.clone());
        let doors = doors(&layer, move |request: Request<bytes::Bytes>| {
            let attempt: &Attempt = request.extensions().get().expect("an attempt");
            let receipt = books.charge(&attempt.idempotency_key());
            let dies = is_dying.load(Ordering::SeqCst);
            async move {
                if dies {
                    std::future::pending::<()>().await;
                }
                Response::new(Body::from(receipt))
            }
        });
        Self { bench, provider, dies, doors }
    }

    /// The process of a handler dies after its charge.
    async fn dies(&self, door: &Door) {
        let before = self.provider.charges(&door.token());
        let mut call = Box::pin(door.send(door.posted(), "tea"));
        loop {
            tokio::select! {
                biased;
                got = &mut call => panic!("{got:?}"),
                () = tokio::task::yield_now() => {}
            }
            if self.provider.charges(&door.token()) > before {
                return;
            }
        }
    }
}

#[tokio::test]
async fn next_request_continues_within_the_time_of_the_provider() {
    let shop = Shop::new().await;
    for door in &shop.doors {
        shop.dies.store(true, Ordering::SeqCst);
        shop.dies(door).await;
        shop.bench.clock.advance(EXPECTED + Duration::from_secs(1));
        let waits = door.send(door.posted(), "tea").await;
        assert_eq!(waits.problem(), problem(409, "overdue", true), "{}: not yet", door.name);
        assert_eq!(door.send(door.posted(), "milk").await.status, 422, "{}", door.name);
        shop.bench.clock.advance(LATE);
        shop.dies.store(false, Ordering::SeqCst);
        for replayed in [false, true] {
            let got = door.send(door.posted(), "tea").await;
            // The provider was asked twice, under one key.
            assert_eq!(got.text(), format!("receipt 2 for {}", door.token()));
            assert_eq!(got.is_replay(), replayed, "{}", door.name);
        }
    }
}

#[tokio::test]
async fn provider_time_counts_from_the_first_attempt_with_the_key() {
    let shop = Shop::new().await;
    for door in &shop.doors {
        shop.dies.store(true, Ordering::SeqCst);
        shop.dies(door).await;
        shop.bench.clock.advance(RECOGNISED - HOUR);
        shop.dies(door).await;
        shop.dies.store(false, Ordering::SeqCst);
        // The second attempt is an hour old, and the provider forgets the key about now.
        shop.bench.clock.advance(HOUR);
        for _ in 0..2 {
            let late = door.send(door.posted(), "tea").await;
            assert_eq!(late.problem(), problem(409, "overdue", false), "{}", door.name);
        }
        assert_eq!(shop.provider.charges(&door.token()), 2, "{}", door.name);
        assert!(listed(&shop.bench.machine().0).await.contains(&door.token()), "{}", door.name);
    }
}

#[tokio::test]
async fn retry_that_might_end_too_late_is_not_called_transient() {
    let shop = Shop::new().await;
    for door in &shop.doors {
        shop.dies.store(true, Ordering::SeqCst);
        shop.dies(door).await;
        shop.dies.store(false, Ordering::SeqCst);
        // Overdue, and a repeat might end after the provider has forgotten the key.
        shop.bench.clock.advance(RECOGNISED - MINUTE);
        assert_eq!(
            door.send(door.posted(), "tea").await.problem(),
            problem(409, "overdue", false),
            "{}",
            door.name
        );
    }
}

#[tokio::test]
async fn broken_body_is_transient_only_while_the_key_is_recognised() {
    for (recognised, transient) in [(RECOGNISED, true), (MINUTE, false)] {
        let bench = Bench::new().await;
        let layer = layer(bench.machine().0, |settings| {
            settings.expect_within = EXPECTED;
            settings.resumable = Some(Resumable::recognised_for(recognised));
        });
        for door in doors(&layer, async |_| Response::new(Body::new(Breaking(1)))) {
            let first = door.send(door.posted(), "").await;
            assert_eq!(first.problem(), problem(500, "in-doubt", transient), "{}", door.name);
            bench.clock.advance(LATE);
            let helped = door.send(door.posted(), "").await.status == 500;
            assert_eq!(helped, transient, "{}: whether the handler ran again", door.name);
        }
    }
}
