//! Every fault at every request of a consumer and of the operator.

use lock_token_testing::Fate;
use locker::inbox::Received;
use locker::{Error, Intervened};

use super::{Warehouse, ada, consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

const FATES: [Fate; 7] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::Late,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
];

/// Three messages of a group of which the first is refused, redriven, and handled with the others;
/// the process dies after a fault that lasts. Returns how many requests there were.
async fn play(fate: Fate, nth: usize, dies: bool) -> usize {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    wire.nth(nth, fate);
    if dies {
        // No request of this process gets an answer after it.
        for later in nth + 1..nth + 60 {
            wire.nth(later, Fate::Lost);
        }
    }
    let said = format!("{fate:?} at {nth}, dies: {dies}");
    for body in ["a/1", "a/2", "a/3"] {
        // The queue delivers again what is not acknowledged, to a process of its own.
        let first = consumer.receive(&delivery(body), async |it| warehouse.pack(it).await).await;
        if first.is_err() {
            let (other, ..) = super::consumer(&post);
            let again = other.receive(&delivery(body), async |it| warehouse.pack(it).await).await;
            assert!(again.is_ok_and(|it| it != Received::Done), "{said}: {body}");
        }
    }
    wire.let_through();
    warehouse.refuse(&[]);
    let dead = the_dead(&super::consumer(&post).1).await;
    assert!(dead.iter().all(|it| it.body() == "a/1") && !dead.is_empty(), "{said}: {dead:?}");
    for dead in dead {
        match workflows.redrive(&dead, &ada()).await {
            Ok(Intervened::Done) => {}
            // A late request may have done it.
            Ok(Intervened::Changed) | Err(Error::Unknown { .. } | Error::Unavailable { .. }) => {
                let (_, other, _) = super::consumer(&post);
                wire.let_through();
                for dead in the_dead(&other).await {
                    assert_eq!(other.redrive(&dead, &ada()).await.unwrap(), Intervened::Done, "{said}");
                }
            }
            other => panic!("{said}: {other:?}"),
        }
    }
    post.desk.bench.clock.advance(MINUTE);
    let _ = consumer.run(async |it| warehouse.pack(it).await).await;
    let requests = wire.count();
    wire.let_through();
    for _ in 0..4 {
        post.desk.bench.clock.advance(MINUTE * 16);
        let (other, ..) = super::consumer(&post);
        let done = other.run(async |it| warehouse.pack(it).await).await.unwrap();
        assert!(done.finished, "{said}");
    }
    let mut first = Vec::new();
    for body in warehouse.packed() {
        if !first.contains(&body) {
            first.push(body);
        }
    }
    assert_eq!(first, ["a/1", "a/2", "a/3"], "{said}: {:?}", warehouse.packed());
    assert_eq!(post.unsent().await, 0, "{said}");
    requests
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_out_of_order_whatever_goes_wrong_at_whichever_request() {
    let mut plays = 0;
    for fate in FATES {
        for dies in [false, true] {
            // What the rest of a dying process hears is the same for all others.
            if dies && !matches!(fate, Fate::Lost | Fate::ReplyLost | Fate::Late) {
                continue;
            }
            let mut nth = 0;
            loop {
                let requests = play(fate, nth, dies).await;
                plays += 1;
                nth += 1;
                if nth > requests {
                    break;
                }
            }
        }
    }
    assert!(plays > 100, "{plays} plays");
}
