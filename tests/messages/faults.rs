//! Every fault at every request and at every call to the broker: each message at least once, and in
//! order.

use std::time::Duration;

use lock_token_testing::{CallFate, Fate};
use locker_tests::Wire;

use crate::post::{Letters, MINUTE, Post};

const FATES: [Fate; 8] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::Garbled,
    Fate::Stalls,
];

/// Faults at a request to DynamoDB or at a call to the broker, counted from 1.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Request(usize, Fate),
    Call(usize, CallFate),
}

impl Fault {
    fn plan(self, post: &Post, wire: &Wire) {
        match self {
            Self::Request(n, fate) => wire.nth(n, fate),
            Self::Call(n, fate) => post.calls.nth(n, fate),
        }
    }
}

/// Everything that can go wrong in what makes this many requests and calls.
fn faults(requests: usize, calls: usize) -> Vec<Fault> {
    let at_requests = (1..=requests).flat_map(|n| FATES.map(|fate| Fault::Request(n, fate)));
    let at_calls = (1..=calls).flat_map(|n| CallFate::SWEPT.map(|fate| Fault::Call(n, fate)));
    at_requests.chain(at_calls).collect()
}

/// It dies or it ends; the time of a test is not that of the tables.
async fn or_dies<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(3600), work).await.ok()
}

async fn check(post: &Post, fault: Fault) {
    post.calls.next([]);
    post.desk.bench.clock.advance(MINUTE * 60);
    let code = Letters::in_order(3);
    post.desk.settle(&code).await;
    post.settle().await;
    assert_eq!(post.topics_once(), ["told/0", "told/1", "told/2"], "{fault:?}");
    assert_eq!(post.unsent().await, 0, "{fault:?}");
    // Also with its copies, none comes before the first of those before it.
    let took = post.topics();
    assert!(took.len() <= 6, "{fault:?}: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_are_sent_in_order_under_faults_of_the_commit() {
    let (requests, calls) = {
        let post = Post::new().await;
        let (workflows, wire) = post.sender();
        workflows.start(&Letters::in_order(3), "letters/1", &()).run().await.unwrap();
        (wire.count(), post.calls.take().len())
    };
    assert_eq!((requests, calls), (9, 3));
    for fault in faults(requests, calls) {
        let post = Post::new().await;
        let (workflows, wire) = post.sender();
        fault.plan(&post, &wire);
        let code = Letters::in_order(3);
        let _whatever = or_dies(workflows.start(&code, "letters/1", &()).run()).await;
        if !post
            .desk
            .items()
            .await
            .iter()
            .any(|item| item.contains_key("fingerprint") || item.contains_key("name"))
        {
            // It was never started: its caller comes again.
            workflows.start(&code, "letters/1", &()).run().await.unwrap();
        }
        check(&post, fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_sent_in_order_under_faults_of_the_relay() {
    let commit = async || {
        let post = Post::new().await;
        post.desk.machine().0.start(&Letters::in_order(3), "letters/1", &()).run().await.unwrap();
        post.desk.bench.clock.advance(MINUTE);
        post
    };
    let (requests, calls) = {
        let post = commit().await;
        let (relay, wire) = post.relay();
        relay.run().await.unwrap();
        (wire.count(), post.calls.take().len())
    };
    // Four lists for the gauges, two of due messages, a query, one is taken, three are deleted, and
    // the run is recorded.
    assert_eq!((requests, calls), (12, 3));
    for fault in faults(requests, calls) {
        let post = commit().await;
        let (relay, wire) = post.relay();
        fault.plan(&post, &wire);
        let _whatever = or_dies(relay.run()).await;
        check(&post, fault).await;
    }
}
