//! A broker that is down for a day.

use lock_token_testing::CallFate;
use locker_tests::Recorded;

use crate::post::{Letters, MINUTE, Post};

#[tokio::test(start_paused = true)]
async fn a_broker_is_down_for_a_day_and_everything_waits_and_then_all_is_sent_in_order() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    post.calls.always(CallFate::Refused);
    let (workflows, _) = post.sender();
    let mut oldest = Vec::new();
    // A workflow each hour, and a relay each quarter.
    for hour in 0..24 {
        workflows.start(&Letters::in_order(4), ("letters", hour), &()).run().await.unwrap();
        for _ in 0..4 {
            post.desk.bench.clock.advance(MINUTE * 15);
            let done = post.relay().0.run().await.unwrap();
            assert_eq!((done.sent, done.dead, done.finished), (0, 0, true), "{done:?}");
        }
        oldest.push(recorded.take().gauge("oldestUnsentMessage").unwrap());
    }
    assert!(post.topics().is_empty() && post.unsent().await == 96);
    assert!(oldest.is_sorted() && oldest[23] >= 86_000.0, "the alarm's metric rises: {oldest:?}");

    // The longest pause is a quarter of an hour, and each run sends all that is due: ten of a
    // subject in a row.
    post.calls.next([]);
    let (mut minutes, mut sent) = (0, 0);
    while sent < 96 {
        minutes += 1;
        assert!(minutes <= 16, "{sent} of 96 are sent");
        post.desk.bench.clock.advance(MINUTE);
        let done = post.relay().0.run().await.unwrap();
        assert_eq!((done.waiting, done.dead, done.finished), (0, 0, true), "{done:?}");
        sent += done.sent;
    }
    assert_eq!((sent, post.unsent().await), (96, 0));
    for hour in 0..24 {
        let of = |it: &locker::message::Envelope| it.subject == format!("letters/{hour}");
        let topics: Vec<_> = post.broker.took().into_iter().filter(of).map(|it| it.topic).collect();
        assert_eq!(topics, ["told/0", "told/1", "told/2", "told/3"], "{hour}");
    }
    post.relay().0.run().await.unwrap();
    let metrics = recorded.take();
    assert_eq!(metrics.gauge("oldestUnsentMessage"), Some(0.0));
    assert_eq!(metrics.gauge("unsentMessages"), Some(0.0));
}
