//! What is said of a message that is given up, and of one that became another's: only what is
//! known.

use std::sync::Mutex;

use locker::inbox::{Delivery, Incoming, Received};
use locker::{Class, Failure, Intervened};
use locker_tests::{Fate, SECOND};

use super::{Warehouse, ada, consumer, delivery, the_dead};
use crate::inbox::{count, packed};
use crate::post::{MINUTE, Post};

/// A message that its consumer is to handle from the table.
async fn redriven(post: &Post) {
    let (consumer, workflows, _) = consumer(post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
}

async fn is_down(_: Delivery) -> Result<(), Failure> {
    Err(Failure::transient("the warehouse is down".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_tried_more_often_than_is_allowed_now_fails_once_more_before_it_is_dead() {
    let post = Post::new().await;
    let (ten, workflows, _) = consumer(&post);
    redriven(&post).await;
    let handled = Mutex::new(0);
    let down = async |it: Delivery| {
        *handled.lock().unwrap() += 1;
        is_down(it).await
    };
    for _ in 0..3 {
        post.desk.bench.clock.advance(MINUTE * 20);
        assert_eq!(ten.run(down).await.unwrap().waiting, 1);
    }
    // A deployment lowers the attempts.
    let two = ten.attempts(2);
    post.desk.bench.clock.advance(MINUTE * 20);
    assert_eq!((two.run(down).await.unwrap().dead, *handled.lock().unwrap()), (1, 4));
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!((dead.class(), dead.cause()), (Some(Class::Transient), Some("the warehouse is down")));
}

#[tokio::test(start_paused = true)]
async fn one_attempt_without_an_outcome_is_not_said_to_be_more() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let consumer = consumer.attempts(3);
    redriven(&post).await;
    for _ in 0..2 {
        assert_eq!(consumer.run(is_down).await.unwrap().waiting, 1);
        post.desk.bench.clock.advance(MINUTE * 20);
    }
    let dies = async |_: Delivery| std::future::pending::<Result<(), Failure>>().await;
    assert!(tokio::time::timeout(MINUTE, consumer.run(dies)).await.is_err());
    post.desk.bench.clock.advance(MINUTE * 20);
    assert_eq!(consumer.run(is_down).await.unwrap().dead, 1);
    let dead = the_dead(&workflows).await.remove(0);
    let cause = "given up after attempt 3, whose outcome is not known";
    assert_eq!((dead.class(), dead.cause()), (Some(Class::InDoubt), Some(cause)));
}

/// Its process was suspended between taking it and its handler, which nobody can tell from a crash
/// of the handler.
#[tokio::test(start_paused = true)]
async fn an_attempt_whose_handler_never_began_is_not_said_to_be_a_handler_that_ended() {
    let post = Post::new().await;
    let (prompt, workflows, _) = consumer(&post);
    let prompt = prompt.attempts(1);
    redriven(&post).await;
    let (slow, _, wire) = consumer(&post);
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let well = async |_: Delivery| -> Result<(), Failure> { panic!("it is begun") };
    let beside = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        post.desk.bench.clock.advance(MINUTE * 20);
        wire.let_through();
    };
    let (done, ()) = tokio::join!(slow.run(well), beside);
    assert_eq!(done.unwrap().taken_elsewhere, 1);
    assert_eq!(prompt.run(well).await.unwrap().dead, 1);
    let dead = the_dead(&workflows).await.remove(0);
    let cause = "given up after attempt 1, whose outcome is not known";
    assert_eq!((dead.class(), dead.cause()), (Some(Class::InDoubt), Some(cause)));
}

#[tokio::test(start_paused = true)]
async fn message_discarded_during_dead_lettering_is_not_reported_as_kept() {
    let post = Post::new().await;
    let (one, workflows, _) = consumer(&post);
    let (other, ..) = consumer(&post);
    let delivery = delivery("a/1");
    let refused = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
    let slow = async |_: Delivery| {
        assert_eq!(other.receive(&delivery, refused).await.unwrap(), Received::DeadLettered);
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
        Err(Failure::permanent("no".to_owned()))
    };
    let came_to = one.receive(&delivery, slow).await.unwrap();
    assert_eq!((came_to, post.unsent().await), (Received::Duplicate, 0));
}

/// In its queue and in the table.
#[tokio::test(start_paused = true)]
async fn message_that_may_be_processed_is_dead_as_in_doubt() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    // With pauses of milliseconds it would try thousands of times before it gives up.
    let (machine, wire) = post.desk.machine_with(|settings, _| settings.backoff_cap = SECOND);
    let inbox = machine.inbox("rows").unwrap();
    wire.always(Fate::ReplyLost);
    let body = r#"{"specversion":"1.0","id":"7","source":"/o","type":"t","subject":"s","data":1}"#;
    let handle = async |it: Delivery| {
        let message = Incoming::parse(&it.body).unwrap();
        inbox.atomic(&message).update(packed(&post)).commit().await.map(drop).map_err(Failure::from)
    };
    let in_doubt = async || {
        let dead = the_dead(&workflows).await.remove(0);
        let discard = dead
            .choices(post.desk.now())
            .into_iter()
            .find(|(verb, _)| verb.to_string() == "discard")
            .unwrap()
            .1;
        assert!(discard.contains("may have"), "{:?}: {discard}", dead.cause());
        assert_eq!((dead.class(), count(&post).await), (Some(Class::InDoubt), 1));
        dead
    };
    let delivery = Delivery::new("1", body).group("a");
    let twice = consumer.clone().attempts(2);
    assert!(twice.receive(&delivery, handle).await.unwrap_err().pause().is_some());
    assert_eq!(twice.receive(&delivery.receives(2), handle).await.unwrap(), Received::DeadLettered);
    assert_eq!(workflows.redrive(&in_doubt().await, &ada()).await.unwrap(), Intervened::Done);
    let twice = consumer.attempts(2);
    for (waiting, dead) in [(1, 0), (0, 1)] {
        post.desk.bench.clock.advance(MINUTE * 20);
        let done = twice.run(handle).await.unwrap();
        assert_eq!((done.waiting, done.dead), (waiting, dead), "{done:?}");
    }
    in_doubt().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_message_handles_none_behind_it() {
    let post = Post::new().await;
    let (slow, workflows, _) = consumer(&post);
    let (other, ..) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    for fails in [false, true] {
        redriven(&post).await;
        slow.receive(&delivery("a/2"), async |it| warehouse.pack(it).await).await.unwrap();
        let begun = Mutex::new(Vec::new());
        let handle = async |it: Delivery| {
            begun.lock().unwrap().push(it.body.clone());
            // It is suspended, and another run finds it and refuses it.
            post.desk.bench.clock.advance(MINUTE * 20);
            let refused = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
            assert_eq!(other.run(refused).await.unwrap().dead, 1);
            if fails { is_down(it).await } else { Ok(()) }
        };
        let done = slow.run(handle).await.unwrap();
        let handled = usize::from(!fails);
        assert_eq!(
            (done.handled, done.taken_elsewhere, done.waiting, done.failed),
            (handled, 1, 0, 0),
            "{done:?}"
        );
        assert_eq!(
            (begun.into_inner().unwrap(), the_dead(&workflows).await.len()),
            (vec!["a/1".to_owned()], 1)
        );
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(MINUTE);
        warehouse.refuse(&[]);
        slow.run(async |it| warehouse.pack(it).await).await.unwrap();
        // What it knows of the two would be known in the next round.
        post.desk.bench.clock.advance(MINUTE * 60 * 24 * 31);
    }
}

#[tokio::test(start_paused = true)]
async fn possible_dead_letter_is_not_reported_as_not_stored() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    for _ in 0..10 {
        wire.matching(|it| it.operation == "TransactWriteItems", Fate::Hangs);
    }
    let refuse = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
    let said = consumer.receive(&delivery("a/1"), refuse).await.unwrap_err().to_string();
    let dead = the_dead(&workflows).await.len();
    assert!(dead == 0 || !said.contains("it could not be kept"), "{dead} dead: {said}");
}

/// Nobody knows any more whether the first attempt did something.
#[tokio::test(start_paused = true)]
async fn a_doubt_stays_whatever_later_attempts_come_to() {
    let refused = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
    let unknown =
        async |_: Delivery| Err(Failure::transient("no reply".to_owned()).given_up_as(Class::InDoubt));
    for first in ["an operator was shown it", "its process died", "an attempt of many"] {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let class = if first == "an operator was shown it" { Class::InDoubt } else { Class::Permanent };
        consumer.dead_letter(&delivery("a/1"), class, "no").await.unwrap();
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(MINUTE);
        match first {
            "its process died" => {
                let dies = async |_: Delivery| std::future::pending::<Result<(), Failure>>().await;
                assert!(tokio::time::timeout(MINUTE, consumer.run(dies)).await.is_err());
            }
            "an attempt of many" => assert_eq!(consumer.run(unknown).await.unwrap().waiting, 1),
            _ => {}
        }
        post.desk.bench.clock.advance(MINUTE * 20);
        assert_eq!(consumer.run(is_down).await.unwrap().waiting, 1, "{first}");
        post.desk.bench.clock.advance(MINUTE * 20);
        assert_eq!(consumer.run(refused).await.unwrap().dead, 1, "{first}");
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!((dead.class(), dead.cause()), (Some(Class::InDoubt), Some("no")), "{first}");
    }
}
