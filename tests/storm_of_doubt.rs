//! A provider that is down for ten minutes leaves every charge in doubt. What that writes is
//! counted, all of it is listed in pages of a bounded price, and a charge that is asked for again
//! is not sent again.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use locker::{Failure, ListBuilder, Locker, RunError, TokenSummary};
use locker_tests::{Bench, Exchange};

/// At 100 a second it would be 60,000, of which each costs the same.
const DOUBTS: u32 = 2_000;
const STORM: Duration = Duration::from_secs(600);
/// The entries of a page.
const PAGE: usize = 100;

/// The price of one doubt, from its begin on: the only numbers to change if it changes.
const REQUESTS: u32 = 2;
const WRITE_UNITS: f64 = 5.0;
/// The most that a page may cost: half a unit for 4 KB of entries.
const UNITS_OF_A_PAGE: f64 = 6.0;

/// One charge, whose outcome is unknown if it is sent.
async fn charge(locker: &Locker, number: u32, sent: &Cell<u32>) -> Result<(), RunError<Failure>> {
    let token = locker.token(("order/create", number)).tenant("alice").fingerprint(&number);
    let charged = token.expect_within(Duration::from_secs(60)).run(|_| async {
        sent.set(sent.get() + 1);
        Err::<(), _>(Failure::in_doubt("the provider answered 503 Service Unavailable".to_owned()))
    });
    charged.await.map(|_| ())
}

fn units<'a>(exchanges: impl IntoIterator<Item = &'a Exchange>) -> f64 {
    let consumed =
        exchanges.into_iter().map(|exchange| exchange.consumed.as_ref().expect("it was asked for"));
    consumed.map(|consumed| consumed["CapacityUnits"].as_f64().expect("units")).sum()
}

#[tokio::test]
async fn every_charge_of_ten_minutes_is_listed_in_bounded_pages_and_sent_once() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let sent = Cell::new(0);
    for number in 0..DOUBTS {
        let charged = charge(&locker, number, &sent).await;
        assert!(matches!(charged, Err(RunError::Failed { .. })), "{charged:?}");
        bench.clock.advance(STORM / DOUBTS);
    }
    let written = wire.take();
    println!(
        "{DOUBTS} doubts: {} requests, {} write units; 60,000 would be {} write units",
        written.len(),
        units(&written),
        units(&written) / f64::from(DOUBTS) * 60_000.0
    );
    assert_eq!(written.len(), (DOUBTS * REQUESTS) as usize);
    assert!((units(&written) - f64::from(DOUBTS) * WRITE_UNITS).abs() < 1e-6, "{}", units(&written));

    bench.clock.advance(Duration::from_secs(60));
    let mut listed = BTreeSet::new();
    let (mut next, mut dearest) = (None, 0.0_f64);
    loop {
        let listing = locker.overdue().limit(PAGE);
        let page = next.take().into_iter().fold(listing, ListBuilder::<TokenSummary>::from);
        let page = page.fetch().await.expect("a page");
        let read = wire.take();
        assert!(
            page.items.len() <= PAGE && read.len() <= 2,
            "{} items, {} requests",
            page.items.len(),
            read.len()
        );
        dearest = dearest.max(units(&read));
        for token in page.items {
            assert!(listed.insert(token.token.clone()), "{} is listed twice", token.token);
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    println!("the dearest page of {PAGE} costs {dearest} read units");
    assert_eq!(listed.len(), DOUBTS as usize, "each is listed");
    assert!(dearest <= UNITS_OF_A_PAGE, "{dearest}");

    // Every customer asks again, and nothing is sent a second time.
    for number in (0..DOUBTS).step_by(100) {
        let asked = charge(&locker, number, &sent).await;
        assert!(matches!(asked, Err(RunError::InProgress(_))), "{asked:?}");
    }
    assert_eq!(sent.get(), DOUBTS);
}
