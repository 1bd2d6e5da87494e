//! Messages of transactions of a caller's own.

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use lock_token_testing::CallFate;
use locker::message::{MessageState, NewMessage};
use locker::{Intervened, Operator};
use locker_tests::ada;

use crate::consumer::the_dead;
use crate::post::{MINUTE, Post};

fn placed(number: u32) -> NewMessage {
    NewMessage::new(format!("placed/{number}"), &number).subject("order/7")
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_if_its_transaction_was_committed_and_never_if_not() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let refused = Put::builder().table_name(&post.desk.rows).item("id", AttributeValue::S("row".to_owned()));
    let refused = refused.condition_expression("attribute_exists(id)").build().unwrap();
    let message = outbox.message(placed(0)).unwrap();
    let actions = [message.put(), refused].map(|put| TransactWriteItem::builder().put(put).build());
    let sent =
        post.desk.bench.client.transact_write_items().set_transact_items(Some(actions.into())).send().await;
    assert!(sent.is_err());
    let message = outbox.message(placed(1)).unwrap();
    post.commit([message.clone()]).await;
    outbox.send([message]).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["placed/1".to_owned()], 0));
    // Without a word the relay does.
    post.desk.bench.clock.advance(MINUTE);
    post.commit([outbox.message(placed(2)).unwrap()]).await;
    post.settle().await;
    assert_eq!(post.topics(), ["placed/1", "placed/2"]);
}

/// Of several messages of a subject, only some transactions were committed.
#[tokio::test(start_paused = true)]
async fn only_stored_messages_are_sent_at_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let messages: Vec<_> = (0..5).map(|number| outbox.message(placed(number)).unwrap()).collect();
    for committed in [0, 2] {
        post.commit([messages[committed].clone()]).await;
    }
    outbox.send(messages.clone()).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["placed/0".to_owned(), "placed/2".to_owned()], 0));
    // The same call again sends none of them twice.
    outbox.send(messages.clone()).await;
    assert_eq!(post.topics().len(), 2);
}

/// The message of another process is between those of this one.
#[tokio::test(start_paused = true)]
async fn message_of_another_process_is_not_overtaken() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let (other, _) = post.sender();
    let mut messages = Vec::new();
    for (number, outbox) in [workflows.outbox(), other.outbox(), workflows.outbox()].iter().enumerate() {
        messages.push(outbox.message(placed(number.try_into().unwrap())).unwrap());
        post.commit(messages.last().cloned()).await;
        post.desk.bench.clock.advance(std::time::Duration::from_millis(1));
    }
    workflows.outbox().send([messages[0].clone(), messages[2].clone()]).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["placed/0".to_owned()], 2));
    other.outbox().send([messages[1].clone()]).await;
    assert_eq!(post.topics(), ["placed/0", "placed/1"]);
    post.settle().await;
    assert_eq!(post.topics(), ["placed/0", "placed/1", "placed/2"]);
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_subject_are_sent_in_the_order_of_their_times() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let mut messages = Vec::new();
    for number in 0..12 {
        messages.push(outbox.message(placed(number)).unwrap());
        post.commit(messages.last().cloned()).await;
        post.desk.bench.clock.advance(std::time::Duration::from_millis(1));
    }
    // The second one is lost on its way, so those behind it are the relay's.
    post.calls.matching(|what| what.contains("placed/1 "), CallFate::Refused);
    outbox.send(messages).await;
    assert_eq!(post.topics(), ["placed/0"]);
    post.settle().await;
    assert_eq!(post.topics_once(), (0..12).map(|n| format!("placed/{n}")).collect::<Vec<_>>());
    let sequences: Vec<_> = post.broker.took_once().into_iter().map(|it| it.sequence).collect();
    assert!(sequences.is_sorted() && sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
}

/// What a relay may have is not sent beside it.
#[tokio::test(start_paused = true)]
async fn message_older_than_30_seconds_is_left_to_the_relay() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    post.commit([outbox.message(placed(0)).unwrap()]).await;
    post.desk.bench.clock.advance(MINUTE);
    let later = outbox.message(placed(1)).unwrap();
    post.commit([later.clone()]).await;
    outbox.send([later]).await;
    assert_eq!(post.topics().len(), 0, "the older one comes first");
    post.settle().await;
    assert_eq!(post.topics(), ["placed/0", "placed/1"]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_sends_a_dead_message_of_the_outbox_again_or_discards_it() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let message = outbox.message(placed(0)).unwrap();
    post.commit([message.clone()]).await;
    post.calls.next([CallFate::Declined]);
    outbox.send([message]).await;
    let listed = workflows.messages(MessageState::Dead).fetch().await.unwrap().items;
    assert_eq!(listed.len(), 1);
    let messages = workflows.messages_of(&listed[0].workflow).await.unwrap();
    assert_eq!((messages.len(), messages[0].topic()), (1, "placed/0"));
    let operator = Operator::new("ada", "the queue is back").unwrap();
    assert_eq!(workflows.redrive(&messages[0], &operator).await.unwrap(), locker::Intervened::Done);
    post.settle().await;
    assert_eq!(post.topics(), ["placed/0"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_subject_waits_for_no_other() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let puts: Vec<_> =
        (0..3).map(|n| outbox.message(NewMessage::new(format!("n/{n}"), &n)).unwrap()).collect();
    post.commit(puts).await;
    post.calls.matching(|what| what.contains("n/1 "), CallFate::Refused);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.waiting), (2, 1), "{done:?}");
    assert!(outbox.message(NewMessage::new("a b", &1)).unwrap_err().to_string().starts_with("a topic has"));
}

/// A relay has it, or it waits for its time.
#[tokio::test(start_paused = true)]
async fn message_tried_by_a_relay_is_left_to_it() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    post.commit([outbox.message(placed(1)).unwrap()]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([lock_token_testing::CallFate::Refused]);
    assert_eq!(post.relay().0.run().await.unwrap().waiting, 1);
    let later = outbox.message(placed(2)).unwrap();
    post.commit([later.clone()]).await;
    outbox.send([later]).await;
    assert_eq!(post.topics(), [""; 0]);
    post.settle().await;
    assert_eq!(post.topics(), ["placed/1", "placed/2"]);
}

#[tokio::test(start_paused = true)]
async fn message_without_a_subject_is_sent_at_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let message = outbox.message(NewMessage::new("told", &1)).unwrap();
    post.commit([message.clone()]).await;
    outbox.send([message]).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["told".to_owned()], 0));
}

/// h06
#[tokio::test(start_paused = true)]
async fn archived_messages_of_a_subject_end_no_sending_at_once() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    for _ in 0..60 {
        post.commit([workflows.outbox().message(NewMessage::new("down", &1).subject("order/7")).unwrap()])
            .await;
        post.desk.bench.clock.advance(MINUTE);
        post.calls.next([CallFate::Declined]);
        assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    wire.take();
    let message = NewMessage::new("sent", &1).subject("order/7");
    let message = workflows.outbox().message(message).unwrap();
    post.commit([message.clone()]).await;
    workflows.outbox().send([message]).await;
    assert_eq!((post.topics(), wire.count()), (vec!["sent".to_owned()], 2));
}
