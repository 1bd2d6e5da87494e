//! Consumers: what cannot be handled is set aside and kept, with what is behind it, until an
//! operator decides.

mod again;
mod attempts;
mod faults;
mod large;
mod pauses;
mod polled;
mod restored;
mod said;
mod spawned;
mod waiting;
mod walk;
mod wrapped;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locker::inbox::{Consumer, Delivery, ReceiveError, Received, Visibility};
use locker::message::MessageState;
use locker::operator::{Console, Need, Subject};
use locker::workflow::{Message, Workflows};
use locker::{Class, Failure, Intervened};
use locker_tests::{Wire, ada};

use crate::post::{MINUTE, Post};

/// What a broker was told.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<Vec<(String, Duration)>>>);

impl Visibility for Told {
    async fn hide(&self, delivery: &Delivery, pause: Duration) {
        self.0.lock().unwrap().push((delivery.id.clone(), pause));
    }
}

/// A warehouse that packs, and refuses some.
#[derive(Debug, Clone, Default)]
pub(super) struct Warehouse {
    packed: Arc<Mutex<Vec<String>>>,
    refuses: Arc<Mutex<BTreeSet<String>>>,
    is_down: Arc<Mutex<bool>>,
}

impl Warehouse {
    pub(super) fn refusing(refused: &[&str]) -> Self {
        let warehouse = Self::default();
        warehouse.refuse(refused);
        warehouse
    }

    pub(super) fn refuse(&self, refused: &[&str]) {
        *self.refuses.lock().unwrap() = refused.iter().map(ToString::to_string).collect();
    }

    pub(super) fn packed(&self) -> Vec<String> {
        self.packed.lock().unwrap().clone()
    }

    pub(super) async fn pack(&self, delivery: Delivery) -> Result<(), Failure> {
        // Others have their turn.
        tokio::task::yield_now().await;
        if *self.is_down.lock().unwrap() {
            return Err(Failure::transient("the warehouse is down".to_owned()));
        }
        if self.refuses.lock().unwrap().contains(&delivery.body) {
            return Err(
                Failure::permanent(format!("there is no {}", delivery.body)).code("warehouse.unknown")
            );
        }
        self.packed.lock().unwrap().push(delivery.body.clone());
        Ok(())
    }
}

pub(super) fn consumer(post: &Post) -> (Consumer, Workflows, Wire) {
    let (workflows, wire) = post.desk.machine();
    (workflows.inbox("packer").unwrap().consumer(), workflows, wire)
}

/// `GROUP/NUMBER` is the second message of a group.
pub(super) fn delivery(body: &str) -> Delivery {
    let (group, _) = body.split_once('/').unwrap();
    Delivery::new(format!("sqs {body}"), body).group(group)
}

async fn hear(consumer: &Consumer, warehouse: &Warehouse, body: &str) -> Result<Received, ReceiveError> {
    consumer.receive(&delivery(body), async |delivery| warehouse.pack(delivery).await).await
}

async fn run(post: &Post, consumer: &Consumer, warehouse: &Warehouse) -> usize {
    post.desk.bench.clock.advance(Duration::from_secs(1));
    let done = consumer.run(async |delivery| warehouse.pack(delivery).await).await.unwrap();
    assert!(done.finished);
    done.handled
}

pub(crate) async fn the_dead(workflows: &Workflows) -> Vec<Message> {
    in_state(workflows, MessageState::Dead).await
}

pub(crate) async fn in_state(workflows: &Workflows, state: MessageState) -> Vec<Message> {
    let mut messages = Vec::new();
    for listed in workflows.messages(state).fetch().await.unwrap().items {
        messages.extend(workflows.message(&listed.work).await.unwrap());
    }
    messages
}

#[tokio::test(start_paused = true)]
async fn refused_message_is_dead_with_its_facts_blocking_its_group() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    let mut came_to = Vec::new();
    for body in ["a/1", "a/2", "b/1", "a/3", "b/2"] {
        came_to.push(hear(&consumer, &warehouse, body).await.unwrap());
    }
    use Received::{DeadLettered, Done, Queued};
    assert_eq!(came_to, [DeadLettered, Queued, Done, Queued, Done]);
    assert_eq!(warehouse.packed(), ["b/1", "b/2"]);

    let [dead] = &the_dead(&workflows).await[..] else { panic!("one is dead") };
    assert_eq!((dead.body(), dead.consumer(), dead.subject()), ("a/1", Some("packer"), "a"));
    assert_eq!(
        (dead.class(), dead.cause(), dead.topic(), dead.attempts()),
        (Some(Class::Permanent), Some("[warehouse.unknown] there is no a/1"), "unreadable", 1)
    );
    assert!(dead.delivery().unwrap().contains("sqs a/1"), "{:?}", dead.delivery());

    // Nothing is handled while it is dead, however often it is looked at.
    post.desk.bench.clock.advance(MINUTE * 6);
    assert_eq!(run(&post, &consumer, &warehouse).await, 0);
    let status = Console::new().workflows(&workflows).status().await.unwrap();
    let of =
        |consumer: &str| Subject::Received { consumer: consumer.to_owned(), topic: "unreadable".to_owned() };
    let groups: Vec<_> = status.groups.iter().map(|it| (it.need, it.subject.clone(), it.count)).collect();
    assert_eq!(groups, [(Need::Dead, of("packer"), 1), (Need::Unsent, of("packer"), 2)]);

    // A second consumer has its own.
    let other = workflows.inbox("books").unwrap().consumer();
    assert_eq!(hear(&other, &Warehouse::default(), "a/1").await.unwrap(), Done);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_message_is_handled_and_then_those_behind_it_in_their_order() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    for body in ["a/1", "a/2", "a/3"] {
        hear(&consumer, &warehouse, body).await.unwrap();
    }
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Changed, "as it was shown");
    // The next one of the group comes before it was handled: it waits, too.
    assert_eq!(hear(&consumer, &warehouse, "a/4").await.unwrap(), Received::Queued);
    assert_eq!(run(&post, &consumer, &warehouse).await, 0, "it is refused again");
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!((dead.redrives(), dead.body()), (1, "a/1"));
    assert!(dead.intervention().is_some_and(|it| it.by == "ada"));

    warehouse.refuse(&[]);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run(&post, &consumer, &warehouse).await, 4);
    assert_eq!(warehouse.packed(), ["a/1", "a/2", "a/3", "a/4"]);
    assert_eq!(post.unsent().await, 0);
    assert_eq!(hear(&consumer, &warehouse, "a/5").await.unwrap(), Received::Done);
}

#[tokio::test(start_paused = true)]
async fn those_behind_follow_a_message_that_is_discarded_or_archived() {
    for archives in [true, false] {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let warehouse = Warehouse::refusing(&["a/1"]);
        for body in ["a/1", "a/2"] {
            hear(&consumer, &warehouse, body).await.unwrap();
        }
        let dead = the_dead(&workflows).await.remove(0);
        let act = if archives {
            workflows.archive(&dead, &ada()).await
        } else {
            workflows.discard(&dead, &ada()).await
        };
        assert_eq!(act.unwrap(), Intervened::Done);
        assert_eq!(the_dead(&workflows).await.len(), 0);
        assert_eq!(run(&post, &consumer, &warehouse).await, 1);
        assert_eq!(hear(&consumer, &warehouse, "a/3").await.unwrap(), Received::Done);
        assert_eq!(warehouse.packed(), ["a/2", "a/3"]);
        let archived = in_state(&workflows, MessageState::Archived).await;
        assert_eq!(archived.len(), usize::from(archives));
        let Some(archived) = archived.first() else { continue };
        assert_eq!(workflows.redrive(archived, &ada()).await.unwrap(), Intervened::NotPossible);
        assert_eq!(workflows.restore(archived, &ada()).await.unwrap(), Intervened::Done);
        // It is dead, and holds up its group again.
        assert_eq!(hear(&consumer, &warehouse, "a/4").await.unwrap(), Received::Queued);
        warehouse.refuse(&[]);
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.annotate(&dead, &ada()).await.unwrap(), Intervened::Done);
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        assert_eq!(run(&post, &consumer, &warehouse).await, 2);
        assert_eq!(warehouse.packed(), ["a/2", "a/3", "a/1", "a/4"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_returns_to_the_queue_until_it_was_received_often_enough() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let consumer = consumer.attempts(4);
    let later = async |_: Delivery| {
        Err(Failure::transient("the warehouse is down".to_owned()).after(Duration::from_secs(7)))
    };
    let not_now = consumer.receive(&delivery("a/1"), later).await.unwrap_err();
    assert_eq!(not_now.to_string(), "the warehouse is down");
    assert_eq!(not_now.pause(), Some(Duration::from_secs(7)), "as it was asked for");
    // Without a word from the handler, the pause grows with each failure.
    let fails = async |_: Delivery| Err(Failure::transient("the warehouse is down".to_owned()));
    for (receives, most) in [(1, 10), (2, 20)] {
        let told = Told::default();
        let consumer = consumer.clone().hiding(told.clone());
        let not_now = consumer.receive(&delivery("a/1").receives(receives), fails).await.unwrap_err();
        let pause = not_now.pause().unwrap();
        assert!(pause >= Duration::from_secs(most) / 2 && pause <= Duration::from_secs(most), "{pause:?}");
        assert_eq!(*told.0.lock().unwrap(), [("sqs a/1".to_owned(), pause)]);
    }
    assert_eq!(post.unsent().await, 0);
    let last = consumer.receive(&delivery("a/1").receives(3), later).await.unwrap();
    assert_eq!((last, the_dead(&workflows).await.len()), (Received::DeadLettered, 1));

    // What waits in the table has pauses and as many attempts.
    let warehouse = Warehouse::default();
    *warehouse.is_down.lock().unwrap() = true;
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let handled = async || consumer.run(async |delivery| warehouse.pack(delivery).await).await.unwrap();
    post.desk.bench.clock.advance(Duration::from_secs(1));
    assert_eq!((handled().await.waiting, handled().await.waiting), (1, 0), "it waits for a pause");
    for dead in [0, 0, 1] {
        post.desk.bench.clock.advance(MINUTE);
        assert_eq!(handled().await.dead, dead);
    }
    assert_eq!(the_dead(&workflows).await[0].class(), Some(Class::Transient));
}

#[tokio::test(start_paused = true)]
async fn a_message_in_no_order_is_set_aside_once_however_often_it_comes() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a", "{}"]);
    let event =
        |id: &str| format!(r#"{{"specversion":"1.0","id":"{id}","source":"/o","type":"t","data":1}}"#);
    warehouse.refuse(&["x", &event("7"), &event("8")]);
    // The sender sent the first event twice; the queue delivered the third message twice.
    for (sent, body, expected) in [
        ("1", event("7"), Received::DeadLettered),
        ("2", event("7"), Received::Duplicate),
        ("3", event("8"), Received::DeadLettered),
        ("4", "x".to_owned(), Received::DeadLettered),
        ("4", "x".to_owned(), Received::Duplicate),
        ("5", "x".to_owned(), Received::DeadLettered),
    ] {
        let delivery = Delivery::new(sent, body);
        let came_to = consumer.receive(&delivery, async |delivery| warehouse.pack(delivery).await).await;
        assert_eq!(came_to.unwrap(), expected);
    }
    let dead: Vec<_> = the_dead(&workflows).await.iter().map(|it| it.id().to_owned()).collect();
    assert_eq!(BTreeSet::from_iter(dead), ["4", "5", "7", "8"].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_set_aside_and_comes_again_is_not_handled() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    for body in ["a/1", "a/2"] {
        hear(&consumer, &warehouse, body).await.unwrap();
    }
    warehouse.refuse(&[]);
    for body in ["a/1", "a/2", "a/1"] {
        assert_eq!(hear(&consumer, &warehouse, body).await.unwrap(), Received::Duplicate, "{body}");
    }
    assert_eq!((warehouse.packed().len(), post.unsent().await), (0, 2));
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run(&post, &consumer, &warehouse).await, 2);
    assert_eq!(warehouse.packed(), ["a/1", "a/2"]);
}

#[tokio::test(start_paused = true)]
async fn two_runs_at_the_same_time_handle_each_message_once_and_in_order() {
    let post = Post::new().await;
    let (one, workflows, _) = consumer(&post);
    let (other, ..) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1", "b/1"]);
    let bodies = ["a/1", "a/2", "a/3", "b/1", "b/2", "b/3"];
    for body in bodies {
        hear(&one, &warehouse, body).await.unwrap();
    }
    warehouse.refuse(&[]);
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    for _ in 0..3 {
        tokio::join!(run(&post, &one, &warehouse), run(&post, &other, &warehouse));
    }
    let packed = warehouse.packed();
    for group in ["a", "b"] {
        let of: Vec<_> = packed.iter().filter(|body| body.starts_with(group)).collect();
        let sent: Vec<_> = bodies.iter().filter(|body| body.starts_with(group)).collect();
        assert_eq!(of, sent);
    }
    assert_eq!(post.unsent().await, 0);
}
