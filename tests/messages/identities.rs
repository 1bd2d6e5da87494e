//! A message without an id or a source is refused at every door: all such messages would be one.

use locker::Failure;
use locker::inbox::{Delivery, Inbox, Incoming, ReceiveError, Received, Taken};
use locker::message::MessageState;
use locker_tests::Wire;

use crate::post::Post;

fn inbox(post: &Post) -> (Inbox, Wire) {
    let (workflows, wire) = post.sender();
    (workflows.inbox("packer").unwrap(), wire)
}

/// Messages, each with the part that it lacks.
fn nameless() -> Vec<(&'static str, Incoming)> {
    let of = |source: &str, id: &str| Incoming::new(source, id, "order.placed", "7");
    vec![("id", of("/legacy", "")), ("source", of("", "1")), ("source", of("", ""))]
}

#[tokio::test(start_paused = true)]
async fn message_without_an_id_or_a_source_is_refused_by_each_verb_of_an_inbox() {
    let post = Post::new().await;
    let (inbox, wire) = inbox(&post);
    for (part, message) in nameless() {
        let mut subject = message.clone();
        subject.subject = Some("order/7".to_owned());
        subject.sequence = Some("1".to_owned());
        let refused = [
            inbox.key(&message).map(drop).unwrap_err(),
            inbox.atomic(&message).commit().await.map(drop).unwrap_err(),
            inbox.atomic(&subject).latest().commit().await.map(drop).unwrap_err(),
            inbox.atomic(&subject).gapless(1).commit().await.map(drop).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, ReceiveError::Argument(_)), "{message:?}: {error:?}");
            assert!(error.to_string().starts_with(&format!("the message has no {part}, ")), "{error}");
        }
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn message_of_an_empty_subject_is_in_no_order() {
    let post = Post::new().await;
    let (inbox, wire) = inbox(&post);
    let mut message = Incoming::new("/legacy", "1", "order.placed", "7");
    message.sequence = Some("1".to_owned());
    for subject in [None, Some(String::new())] {
        message.subject = subject;
        for receive in [inbox.atomic(&message).latest(), inbox.atomic(&message).gapless(1)] {
            let error = receive.commit().await.unwrap_err();
            assert!(matches!(error, ReceiveError::Invalid(_)), "{error:?}");
        }
    }
    assert_eq!(wire.count(), 0);
    assert_eq!(inbox.atomic(&message).commit().await.unwrap(), Taken::Now);
}

/// No event, so the id of the broker identifies it.
#[tokio::test(start_paused = true)]
async fn delivery_without_an_id_is_not_handled_and_not_lost() {
    let post = Post::new().await;
    let (inbox, wire) = inbox(&post);
    let consumer = inbox.consumer();
    let fails = async |_: Delivery| Err(Failure::permanent("no order".to_owned()));
    for body in ["one", "another"] {
        let delivery = Delivery::new("", body);
        let received = consumer.receive(&delivery, fails).await;
        let error = received.expect_err("it stays in its queue");
        assert!(matches!(&error, ReceiveError::Later { .. }), "{error:?}");
        assert!(error.to_string().contains("the message has no id"), "{error}");
        let kept = consumer.dead_letter(&delivery, locker::Class::InDoubt, "from a dead-letter queue").await;
        assert!(matches!(kept, Err(ReceiveError::Later { .. })), "{kept:?}");
    }
    assert_eq!(wire.count(), 0);
    // With an id, each is kept.
    for id in ["a", "b"] {
        let received = consumer.receive(&Delivery::new(id, "no event"), fails).await.unwrap();
        assert_eq!(received, Received::DeadLettered);
    }
    let (workflows, _) = post.sender();
    assert_eq!(workflows.messages(MessageState::Dead).fetch().await.unwrap().items.len(), 2);
}

#[test]
fn event_without_an_id_or_a_source_is_no_event() {
    for part in ["id", "source"] {
        let mut event = serde_json::json!({ "specversion": "1.0", "id": "1", "source": "/o", "type": "t" });
        for absent in [serde_json::json!(""), serde_json::Value::Null] {
            event[part] = absent;
            let error = Incoming::parse(&event.to_string()).unwrap_err().to_string();
            assert_eq!(error, format!("the message cannot be read: the event has no {part}"));
        }
    }
}
