//! Consumers in tasks of their own, which may move between threads.

use std::sync::Arc;

use locker::Intervened;
use locker::inbox::{Delivery, Received};

use super::{Warehouse, ada, consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

#[tokio::test(start_paused = true)]
async fn consumer_runs_in_a_task_with_a_handler_that_borrows() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Arc::new(Warehouse::refusing(&["a/1"]));
    let (receives, packs) = (consumer.clone(), Arc::clone(&warehouse));
    let received =
        tokio::spawn(
            async move { receives.receive(&delivery("a/1"), async |it| packs.pack(it).await).await },
        );
    assert_eq!(received.await.unwrap().unwrap(), Received::DeadLettered);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    warehouse.refuse(&[]);
    let packs = Arc::clone(&warehouse);
    let handle = move |it: Delivery| {
        let packs = Arc::clone(&packs);
        async move { packs.pack(it).await }
    };
    let run = tokio::spawn(async move { consumer.run(handle).await });
    assert_eq!(run.await.unwrap().unwrap().handled, 1);
    assert_eq!(warehouse.packed(), ["a/1"]);
}
