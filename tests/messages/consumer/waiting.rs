//! What waits in the table: how often, when, and for how long it is handled.

use std::sync::Mutex;
use std::time::Duration;

use locker::inbox::Delivery;
use locker::message::MessageState;
use locker::{Class, Failure, Intervened};
use locker_tests::Recorded;

use super::{Warehouse, ada, consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_is_handled_after_the_pause_that_its_handler_asked_for() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let delivery = Delivery::new("1", "order 7").receives(3);
    consumer.dead_letter(&delivery, Class::InDoubt, "it ended without a word").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let receives = Mutex::new(Vec::new());
    let later = async |delivery: Delivery| {
        receives.lock().unwrap().push(delivery.receives);
        Err(Failure::transient("closed".to_owned()).after(Duration::from_secs(3600)))
    };
    assert_eq!(consumer.run(later).await.unwrap().waiting, 1);
    // Longer than any pause of its own.
    post.desk.bench.clock.advance(MINUTE * 59);
    let early = consumer.run(later).await.unwrap();
    assert_eq!((early.waiting, early.taken_elsewhere), (0, 0), "{early:?}");
    post.desk.bench.clock.advance(MINUTE * 2);
    assert_eq!(consumer.run(later).await.unwrap().waiting, 1);
    // Those of the queue count as well.
    assert_eq!(*receives.lock().unwrap(), [4, 5]);
}

#[tokio::test(start_paused = true)]
async fn no_message_is_begun_after_the_deadline() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    for number in 0..3 {
        let delivery = Delivery::new(number.to_string(), format!("order {number}")).group("order/7");
        consumer.dead_letter(&delivery, Class::InDoubt, "it ended without a word").await.unwrap();
    }
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    let clock = post.desk.bench.clock.clone();
    let consumer =
        consumer.concurrency(1).deadline(locker::Clock::now(&clock) + chrono::TimeDelta::seconds(90));
    let slow = async |_: Delivery| {
        clock.advance(MINUTE);
        Ok::<_, Failure>(())
    };
    let done = consumer.run(slow).await.unwrap();
    assert_eq!((done.handled, done.finished), (2, false), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_set_aside_twice_is_counted_once() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    for _ in 0..2 {
        let refuse = async |_: Delivery| Err(Failure::permanent("no order".to_owned()));
        consumer.receive(&Delivery::new("1", "tea"), refuse).await.unwrap();
    }
    assert_eq!(recorded.take().count("messagesDead"), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_after_a_failing_message_keep_order_without_reads() {
    const COUNT: usize = 120;
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let bodies: Vec<_> = (0..COUNT).map(|number| format!("a/{number}")).collect();
    for body in &bodies {
        let refuse = async |_: Delivery| Err(Failure::permanent("no order".to_owned()));
        consumer.receive(&delivery(body), refuse).await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    let warehouse = Warehouse::default();
    let reads = async || {
        wire.take();
        consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
        let is_read = |it: &&lock_token_testing::Exchange| {
            it.operation == "Query" && it.request.to_string().contains("begins_with")
        };
        wire.take().iter().filter(is_read).count()
    };
    assert_eq!((reads().await, warehouse.packed().len()), (1, 0));
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(reads().await, 3);
    assert_eq!(warehouse.packed(), bodies);
}

#[tokio::test(start_paused = true)]
async fn backlog_of_one_consumer_costs_another_one_nothing() {
    let post = Post::new().await;
    let (packer, workflows, wire) = consumer(&post);
    let books = workflows.inbox("books").unwrap().consumer();
    let refuse = async |_: Delivery| Err(Failure::permanent("no order".to_owned()));
    // They are due before the message of the packer.
    for number in 0..250 {
        books.receive(&delivery(&format!("a/{number}")), refuse).await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    packer.receive(&delivery("b/1"), refuse).await.unwrap();
    for dead in the_dead(&workflows).await.iter().filter(|dead| dead.consumer() == Some("packer")) {
        assert_eq!(workflows.redrive(dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    let warehouse = Warehouse::default();
    wire.take();
    assert_eq!(packer.run(async |it| warehouse.pack(it).await).await.unwrap().handled, 1);
    let lists = wire.take().iter().filter(|it| it.request.to_string().contains("byStatus")).count();
    assert_eq!(lists, 1);
    assert_eq!(warehouse.packed(), ["b/1"]);
    // The listing of operators contains the messages of both consumers, with their times.
    packer.receive(&delivery("c/1"), refuse).await.unwrap();
    packer.receive(&delivery("c/2"), refuse).await.unwrap();
    let waiting = workflows.messages(MessageState::Waiting).limit(1000).fetch().await.unwrap().items;
    let of = |consumer: &str| waiting.iter().filter(|it| it.consumer.as_deref() == Some(consumer)).count();
    assert_eq!((of("books"), of("packer")), (249, 1));
    assert!(waiting.iter().all(|it| it.due.is_some()));
}
