//! The gauge behind the alarm contains the age of the oldest unsent message, whatever else waits.

use std::time::Duration;

use chrono::TimeDelta;
use lock_token_testing::CallFate;
use locker::Clock as _;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::Workflows;
use locker_tests::Recorded;

use crate::post::{MINUTE, Post};

struct Takes;

impl Target for Takes {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        vec![Sent::Done; batch.len()]
    }
}

async fn commit(post: &Post, workflows: &Workflows, topic: &str, subjects: impl IntoIterator<Item = String>) {
    let outbox = workflows.outbox();
    let put = |subject: String| outbox.message(NewMessage::new(topic, &1).subject(subject)).unwrap();
    let puts: Vec<_> = subjects.into_iter().map(put).collect();
    for some in puts.chunks(50) {
        post.commit(some.to_vec()).await;
    }
}

/// h11
#[tokio::test(start_paused = true)]
async fn gauge_is_the_age_of_the_oldest_unsent_message() {
    for shards in [1, 3] {
        let recorded = Recorded::start();
        let post = Post::new().await;
        let (workflows, _) = post.desk.machine_with(|settings, _| settings.shards = shards);
        let relay = |router| Relay::new(&workflows, router);
        commit(&post, &workflows, "down", ["down".to_owned()]).await;
        post.calls.always(CallFate::Refused);
        for _ in 0..60 {
            post.desk.bench.clock.advance(MINUTE);
            relay(post.router()).run().await.unwrap();
        }
        for fresh in 0..4 {
            // Its next try comes among fresh messages, after them, and before them.
            commit(&post, &workflows, "sent", (0..1100).map(|it| format!("sent/{fresh}/{it}"))).await;
            post.desk.bench.clock.advance(Duration::from_secs(50));
            let healthy = Router::new().route("down", post.broker.clone()).route("*", Takes);
            relay(healthy).run().await.unwrap();
            let age = recorded.take().gauge("oldestUnsentMessage");
            assert_eq!(age, Some(f64::from(3600 + 50 * (fresh + 1))), "{shards} shards, run {fresh}");
        }
        // Also in a run whose time is over.
        let over = post.desk.bench.clock.now() - TimeDelta::seconds(1);
        post.desk.bench.clock.advance(MINUTE);
        let past = relay(post.router()).deadline(over + TimeDelta::seconds(62)).run().await;
        assert_eq!(recorded.take().gauge("oldestUnsentMessage"), Some(3860.0), "{past:?}");
    }
}
