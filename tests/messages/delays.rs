//! Messages that are sent later: at their time, by a relay, and in no order.

use std::time::Duration;

use lock_token_testing::CallFate;
use locker::Intervened;
use locker::inbox::{Incoming, Taken};
use locker::message::{MessageState, NewMessage};
use locker::workflow::{Flow, Stop, Workflow};
use locker_tests::ada;

use crate::consumer::{in_state, the_dead};
use crate::post::{MINUTE, Post};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn reminder() -> NewMessage {
    NewMessage::new("remind", &7).subject("order/7").delay(HOUR)
}

fn told(topic: &str) -> NewMessage {
    NewMessage::new(topic, &7).subject("order/7")
}

/// Sends a reminder, and then two messages of the same subject.
#[derive(Debug, Clone)]
struct Remind;

impl Workflow for Remind {
    const NAME: &'static str = "remind";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.atomic("first").send(reminder()).send(told("told/1")).commit(&()).await?;
        flow.atomic("second").send(told("told/2")).commit(&()).await
    }
}

/// By a workflow, an outbox and an inbox, each of which sends at once.
#[tokio::test(start_paused = true)]
async fn delayed_message_is_sent_at_its_time_and_holds_up_no_other() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let began = post.desk.now();
    workflows.start(&Remind, "remind/1", &()).run().await.unwrap();
    let outbox = workflows.outbox();
    let messages = [reminder(), told("told/3")].map(|message| outbox.message(message).unwrap());
    post.commit(messages.clone()).await;
    outbox.send(messages).await;
    let received = Incoming::new("/legacy", "1", "order.placed", "7");
    let receive = workflows.inbox("packer").unwrap();
    let receive = receive.atomic(&received).send(reminder()).send(told("told/4"));
    receive.commit().await.unwrap().done().unwrap();
    assert_eq!(post.topics(), ["told/1", "told/2", "told/3", "told/4"]);
    for message in in_state(&workflows, MessageState::Unsent).await {
        assert_eq!((message.topic(), message.due()), ("remind", message.created()));
    }
    // A minute before its time, a relay finds nothing.
    post.desk.bench.clock.advance(HOUR - MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 0);
    post.desk.bench.clock.advance(MINUTE * 2);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 3);
    assert_eq!(post.topics()[4..], ["remind"; 3]);
    for reminded in &post.broker.took()[4..] {
        assert!(reminded.time >= began + HOUR && reminded.subject == "order/7", "{reminded:?}");
    }
    assert_eq!(post.unsent().await, 0);
}

/// Its age begins with the end of the delay, for the inbox that receives it.
#[tokio::test(start_paused = true)]
async fn delay_that_is_longer_than_the_window_of_an_inbox_is_no_age() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let days = |days: u32| Duration::from_secs(24 * 60 * 60) * days;
    post.commit([workflows.outbox().message(reminder().delay(days(366))).unwrap()]).await;
    post.desk.bench.clock.advance(days(366) + MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
    let message = Incoming::parse(&post.broker.took()[0].to_json().unwrap()).unwrap();
    let inbox = workflows.inbox("packer").unwrap();
    assert_eq!(inbox.atomic(&message).commit().await.unwrap(), Taken::Now);
    let error = workflows.outbox().message(reminder().delay(days(367))).unwrap_err();
    assert!(error.to_string().starts_with("a message is delayed by at most 366 days"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_delayed_message_is_dead_and_sent_after_a_redrive() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    workflows.start(&Remind, "remind/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(HOUR + MINUTE);
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    // It holds up no other message of its subject.
    let other = workflows.outbox().message(told("told/3")).unwrap();
    post.commit([other.clone()]).await;
    workflows.outbox().send([other]).await;
    assert_eq!(workflows.redrive(&the_dead(&workflows).await[0], &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
    assert_eq!(post.topics(), ["told/1", "told/2", "told/3", "remind"]);
}
