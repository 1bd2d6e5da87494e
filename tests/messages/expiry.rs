//! Messages that are worthless later: not sent after their time, and not gone without a count.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lock_token_testing::{Broker, CallFate, Exchange};
use locker::Intervened;
use locker::inbox::Incoming;
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::operator::{Act, Console, Filter, Need};
use locker::relay::{OutboxMessage, Relay};
use locker_tests::{Fate, ada};
use tokio::sync::Notify;

use crate::consumer::the_dead;
use crate::post::{MINUTE, Post};

fn offer(topic: &str, until: DateTime<Utc>) -> NewMessage {
    NewMessage::new(topic, &7).subject("order/7").expires(until)
}

async fn commit(post: &Post, messages: impl IntoIterator<Item = NewMessage>) -> Vec<OutboxMessage> {
    let (workflows, _) = post.desk.machine();
    let mut committed = Vec::new();
    for message in messages {
        let message = workflows.outbox().message(message).unwrap();
        post.commit([message.clone()]).await;
        committed.push(message);
    }
    committed
}

#[tokio::test(start_paused = true)]
async fn expired_message_is_counted_and_later_ones_of_its_subject_follow() {
    let post = Post::new().await;
    let now = post.desk.now();
    let (soon, later) = (now + TimeDelta::seconds(59), now + TimeDelta::hours(1));
    let lasting = NewMessage::new("d", &7).subject("order/7");
    let committed = commit(&post, [offer("a", soon), offer("b", later), offer("c", soon), lasting]).await;
    // A caller leaves it to a relay.
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, _) = post.sender();
    workflows.outbox().send(committed).await;
    assert!(post.topics().is_empty());
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.expired, done.dead), (2, 2, 0), "{done:?}");
    assert_eq!((post.topics(), post.unsent().await), (vec!["b".to_owned(), "d".to_owned()], 0));
    // The receiver finds the time.
    let took = post.broker.took();
    let message = Incoming::parse(&took[0].to_json().unwrap()).unwrap();
    let time: DateTime<Utc> = message.attributes["expirytime"].parse().unwrap();
    assert_eq!((time, took[0].expires), (later, Some(later)));
    assert!(!took[1].to_json().unwrap().contains("expirytime"));
}

#[tokio::test(start_paused = true)]
async fn message_that_its_target_does_not_take_in_time_expires() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::minutes(3);
    let _ = commit(&post, [offer("a", until)]).await;
    post.calls.always(CallFate::Refused);
    let mut expired = 0;
    for _ in 0..20 {
        post.desk.bench.clock.advance(MINUTE);
        expired += post.relay().0.run().await.unwrap().expired;
    }
    assert_eq!((expired, post.unsent().await, post.topics().len()), (1, 0, 0));
}

/// An operator decides about a dead message, whether it is expired or not.
#[tokio::test(start_paused = true)]
async fn dead_message_stays_after_its_time() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::minutes(3);
    let _ = commit(&post, [offer("a", until)]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    post.desk.bench.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(post.relay().0.run().await.unwrap().expired, 0);
    let (workflows, _) = post.desk.machine();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(dead.expires(), Some(until));
    let console = Console::new().workflows(&workflows);
    let plan = console.plan(Filter::new().need(Need::Dead), Act::redrive(), &ada()).await.unwrap();
    let effects: Vec<_> = plan.items.iter().map(|it| it.effect.as_str()).collect();
    assert!(matches!(effects[..], [effect] if effect.starts_with("it expired at ")), "{effects:?}");
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.expired, post.topics().len()), (0, 1, 0), "{done:?}");
}

/// One relay took the message before its time, and is suspended. The later message is due.
#[tokio::test(start_paused = true)]
async fn expired_message_that_a_relay_has_taken_is_dropped_by_that_relay() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(65);
    let _ = commit(&post, [offer("a", until), NewMessage::new("b", &7).subject("order/7")]).await;
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let first = tokio::spawn(async move { relay.run().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    post.desk.bench.clock.advance(Duration::from_secs(10));
    let second = post.relay().0.run().await.unwrap();
    assert_eq!((second.sent, second.expired), (0, 0), "{second:?}");
    wire.let_through();
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.sent, first.expired), (1, 1), "{first:?}");
    assert_eq!((post.topics(), post.unsent().await), (vec!["b".to_owned()], 0));
}

/// A relay with a route for `sent` and one for `down`.
fn relay(post: &Post) -> Relay {
    let router = Router::new().route("sent", Broker::new()).route("down", post.broker.clone());
    Relay::new(&post.desk.machine().0, router)
}

async fn is_listed(post: &Post) -> usize {
    post.desk.machine().0.messages(MessageState::Unsent).fetch().await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn expired_message_without_a_route_is_deleted_and_later_ones_follow() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(30);
    let lasting = NewMessage::new("odd", &7).subject("order/8");
    let behind = NewMessage::new("sent", &7).subject("order/7");
    let _ = commit(&post, [offer("odd", until), behind, lasting]).await;
    post.desk.bench.clock.advance(MINUTE * 2);
    let done = relay(&post).run().await.unwrap();
    assert_eq!((done.sent, done.expired, done.unknown["odd"], done.failed), (1, 1, 1, 0), "{done:?}");
    assert_eq!((post.unsent().await, is_listed(&post).await), (1, 1));
    assert_eq!(relay(&post).run().await.unwrap().expired, 0);
}

#[tokio::test(start_paused = true)]
async fn expired_messages_are_deleted_while_their_target_is_down() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::minutes(3);
    // Older messages, of which each run tries five before the target is down.
    let lasting = (0..11).map(|number| NewMessage::new("down", &7).subject(format!("lasting/{number}")));
    let offers = (0..150).map(|number| offer("down", until).subject(format!("order/{number}")));
    let _ = commit(&post, lasting.chain(offers)).await;
    post.calls.always(CallFate::Refused);
    post.desk.bench.clock.advance(MINUTE);
    let done = relay(&post).concurrency(1).run().await.unwrap();
    assert_eq!((done.expired, done.waiting, done.target_down), (0, 5, 156), "{done:?}");
    post.desk.bench.clock.advance(MINUTE * 20);
    let done = relay(&post).concurrency(1).run().await.unwrap();
    assert_eq!((done.expired, done.waiting, done.target_down), (150, 5, 6), "{done:?}");
    assert_eq!(post.unsent().await, 11);
}

#[tokio::test(start_paused = true)]
async fn expired_message_after_a_dead_one_is_deleted_without_a_read() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::minutes(3);
    let _ = commit(&post, [NewMessage::new("down", &7).subject("order/7"), offer("down", until)]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([CallFate::Declined]);
    assert_eq!(relay(&post).run().await.unwrap().dead, 1);
    post.desk.bench.clock.advance(MINUTE * 4);
    let (workflows, wire) = post.desk.machine();
    let done = Relay::new(&workflows, post.router()).run().await.unwrap();
    assert_eq!((done.expired, post.unsent().await, the_dead(&workflows).await.len()), (1, 1, 1), "{done:?}");
    let is_read = |it: &Exchange| it.operation == "Query" && it.request.to_string().contains(":message");
    assert!(!wire.take().iter().any(is_read));
}

/// Keeps the order of its batches, and replies once it is let.
struct Held(Arc<Notify>);

impl Target for Held {
    fn keeps_order(&self) -> bool {
        true
    }

    fn most_messages(&self) -> usize {
        10
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        self.0.notified().await;
        vec![Sent::Done; batch.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_expires_during_its_call_is_sent_and_not_expired() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(65);
    let _ = commit(&post, [NewMessage::new("a", &7).subject("order/7"), offer("b", until)]).await;
    post.desk.bench.clock.advance(MINUTE);
    let reply = Arc::new(Notify::new());
    let router = Router::new().route("*", Held(reply.clone()));
    let first = Relay::new(&post.desk.machine().0, router);
    let first = tokio::spawn(async move { first.run().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    post.desk.bench.clock.advance(Duration::from_secs(10));
    // The other relay has no route for them.
    let second = relay(&post).run().await.unwrap();
    assert_eq!((second.sent, second.expired), (0, 0), "{second:?}");
    reply.notify_one();
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.sent, first.expired, post.unsent().await), (2, 0, 0), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn message_that_two_relays_drop_is_counted_once() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(30);
    let _ = commit(&post, [offer("a", until)]).await;
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(|it| it.operation == "DeleteItem", Fate::HeldBefore);
    let first = tokio::spawn(async move { relay.run().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(post.relay().0.run().await.unwrap().expired, 1);
    wire.let_through();
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.expired, first.taken_elsewhere), (0, 1), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn expired_message_is_not_sent_at_once() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(10);
    let committed = commit(&post, [offer("a", until)]).await;
    post.desk.bench.clock.advance(Duration::from_secs(20));
    post.sender().0.outbox().send(committed).await;
    assert_eq!((post.topics().len(), post.unsent().await), (0, 1));
}
