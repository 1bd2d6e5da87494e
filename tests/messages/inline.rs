//! Sending right after the commit.

use std::time::Duration;

use lock_token_testing::CallFate;
use locker::inbox::{Incoming, Taken};
use locker::message::{NewMessage, Router};
use locker::workflow::Outcome;

use crate::batches::Panics;
use crate::post::{Letters, Post};

#[tokio::test(start_paused = true)]
async fn committed_messages_are_sent_at_once_in_order() {
    let post = Post::new().await;
    let code = Letters(vec![("told/a", None), ("told/b", Some("customer 7")), ("told/c", None)]);
    let outcome = post.sender().0.start(&code, "letters/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    let took = post.broker.took();
    assert_eq!(post.topics(), ["told/a", "told/b", "told/c"]);
    assert_eq!(post.unsent().await, 0);
    // The identity of each, and what receivers order by.
    let subjects: Vec<_> = took.iter().map(|it| it.subject.as_str()).collect();
    assert_eq!(subjects, ["letters/1", "customer 7", "letters/1"]);
    assert!(took.is_sorted_by_key(|it| it.sequence.clone()));
    assert!(took[0].id != took[1].id && took[1].id != took[2].id);
    assert!(took[1].group_id().starts_with("sha256:"), "a broker takes no space: {}", took[1].group_id());
    let json: serde_json::Value = serde_json::from_str(&took[1].to_json().unwrap()).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "specversion": "1.0", "id": took[1].id, "source": "/letters", "type": "told.b", "subject": "customer 7",
            "time": json["time"], "datacontenttype": "application/json", "sequence": took[1].sequence, "data": 1,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_is_done_whatever_comes_of_its_message_and_a_later_one_does_not_overtake_it() {
    for fate in [CallFate::Refused, CallFate::Lost, CallFate::ReplyLost, CallFate::Declined] {
        let post = Post::new().await;
        post.calls.next([fate]);
        let code = Letters(vec![("told/a", None), ("told/b", Some("other")), ("told/c", None)]);
        let outcome = post.sender().0.start(&code, "letters/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        let first = if fate == CallFate::ReplyLost { vec!["told/a", "told/b"] } else { vec!["told/b"] };
        assert_eq!(post.topics(), first, "{fate:?}: what is about something else does not wait");
        assert_eq!(post.unsent().await, 2, "{fate:?}");
        if fate == CallFate::Declined {
            let view = post.desk.view("letters/1").await;
            let states: Vec<_> = view.messages().iter().map(|it| (it.topic(), it.state().as_str())).collect();
            assert_eq!(states, [("told/a", "dead"), ("told/c", "unsent")]);
            assert!(view.messages()[0].cause().unwrap().contains("was declined"));
            assert_eq!(view.messages()[0].attempts(), 1, "it was sent");
            continue;
        }
        post.settle().await;
        assert_eq!(
            post.topics_once(),
            if first.len() == 2 { ["told/a", "told/b", "told/c"] } else { ["told/b", "told/a", "told/c"] }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_hangs_delays_a_step_by_two_seconds_at_most() {
    let post = Post::new().await;
    post.calls.next([CallFate::DiesBefore]);
    let began = tokio::time::Instant::now();
    post.sender().0.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    let took = began.elapsed();
    // The rest is for the deletion.
    let least = Duration::from_millis(1700);
    assert!(took >= least && took <= Duration::from_secs(2), "{took:?}");
    post.settle().await;
    assert_eq!(post.topics(), ["told/0"]);
}

/// The commit is done when the message is sent.
#[tokio::test(start_paused = true)]
async fn panic_of_a_target_ends_no_caller_that_has_committed() {
    let post = Post::new().await;
    let (workflows, _) = post.sending(Router::new().route("*", Panics));
    let code = Letters(vec![("told/a", None)]);
    let outcome = workflows.start(&code, "letters/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    let event = r#"{"specversion":"1.0","id":"1","source":"/orders","type":"paid","data":1}"#;
    let (inbox, message) = (workflows.inbox("packer").unwrap(), Incoming::parse(event).unwrap());
    let told = NewMessage::new("told/b", &1).subject("order/7");
    assert_eq!(inbox.atomic(&message).send(told).commit().await.unwrap(), Taken::Now);
    assert_eq!(post.unsent().await, 2);
    post.settle().await;
    let mut topics = post.topics();
    topics.sort();
    assert_eq!(topics, ["told/a", "told/b"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_commit_there_is_no_message() {
    use locker_tests::Fate;
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    wire.next([Fate::Ok, Fate::Lost, Fate::Stalls]);
    let run = tokio::spawn(async move {
        let code = Letters::in_order(1);
        workflows.start(&code, "letters/1", &()).run().await.map(drop)
    });
    while wire.count() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    run.abort();
    assert!(post.topics().is_empty());
    assert_eq!(post.unsent().await, 0);
}
