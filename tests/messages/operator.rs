//! What operators do about dead messages: as they were shown, once, and on record.

use lock_token_testing::{CallFate, Fate};
use locker::message::MessageState;
use locker::operator::{Console, Group, Need, Subject};
use locker::workflow::Message;
use locker::{Intervened, Resolution};
use locker_tests::ada;

use crate::post::{Letters, MINUTE, Post};

/// Three messages of a subject, of which the first is dead.
async fn with_a_dead_one() -> Post {
    let post = Post::new().await;
    post.desk.machine().0.start(&Letters::in_order(3), "letters/1", &()).run().await.unwrap();
    post.calls.next([CallFate::Declined]);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    post
}

async fn dead_one(post: &Post) -> Message {
    post.desk.view("letters/1").await.messages()[0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_dead_message_is_listed_and_sent_again_with_those_behind_it() {
    let post = with_a_dead_one().await;
    let (workflows, _) = post.desk.machine();
    let listed = workflows.messages(MessageState::Dead).fetch().await.unwrap().items;
    let [dead] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((dead.workflow.as_str(), dead.topic.as_deref()), ("letters/1", Some("told/0")));
    assert!(dead.cause.as_deref().unwrap().contains("declined"));

    let seen = dead_one(&post).await;
    assert_eq!(workflows.redrive(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.redrive(&seen, &ada()).await.unwrap(), Intervened::Changed, "as it was shown");
    let now = dead_one(&post).await;
    assert_eq!(workflows.redrive(&now, &ada()).await.unwrap(), Intervened::NotPossible, "it is not dead");
    assert_eq!(post.relay().0.run().await.unwrap().sent, 3);
    let took = post.broker.took();
    assert_eq!((took[0].id.as_str(), took[0].redrives), (seen.id(), 1));
    // A FIFO queue may have seen the first one.
    assert_eq!(took[0].deduplication_id(), format!("{}~r1", seen.id()));
    assert_eq!(post.topics(), ["told/0", "told/1", "told/2"]);
    let acts = workflows.acts("letters/1").await.unwrap();
    let of: Vec<_> = acts.iter().map(|act| (act.resolution, act.by.as_deref(), act.step.clone())).collect();
    let place = format!("message 00000001/000/tell#0 told/0 {}", seen.id());
    assert_eq!(of, [(Some(Resolution::Redriven), Some("ada"), Some(place))]);
    assert_eq!(acts[0].work(), seen.work());
}

#[tokio::test(start_paused = true)]
async fn a_discarded_message_is_never_sent_and_those_behind_it_are() {
    let post = with_a_dead_one().await;
    let (workflows, _) = post.desk.machine();
    let view = post.desk.view("letters/1").await;
    assert_eq!(workflows.discard(&view.messages()[1], &ada()).await.unwrap(), Intervened::NotPossible);
    assert_eq!(workflows.discard(&view.messages()[0], &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.discard(&view.messages()[0], &ada()).await.unwrap(), Intervened::Changed);
    post.settle().await;
    assert_eq!(post.topics(), ["told/1", "told/2"]);
    let acts = workflows.acts("letters/1").await.unwrap();
    assert_eq!(acts.iter().filter_map(|act| act.resolution).collect::<Vec<_>>(), [Resolution::Discarded]);
}

#[tokio::test(start_paused = true)]
async fn act_on_a_message_is_reported_truly_under_faults() {
    for fate in
        [Fate::Lost, Fate::ReplyLost, Fate::ErrorBefore, Fate::ErrorAfter, Fate::Throttled, Fate::Conflict]
    {
        for discards in [false, true] {
            let post = with_a_dead_one().await;
            let (workflows, wire) = post.desk.machine();
            let seen = dead_one(&post).await;
            wire.next([fate]);
            let done = if discards {
                workflows.discard(&seen, &ada()).await
            } else {
                workflows.redrive(&seen, &ada()).await
            };
            assert_eq!(done.unwrap(), Intervened::Done, "{fate:?}");
            assert_eq!(workflows.acts("letters/1").await.unwrap().len(), 1, "{fate:?}");
            post.settle().await;
            assert_eq!(post.topics().len(), if discards { 2 } else { 3 }, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dead_messages_and_messages_unsent_for_five_minutes_are_listed() {
    let post = with_a_dead_one().await;
    let (workflows, _) = post.desk.machine();
    let status = async || {
        let status = Console::new().workflows(&workflows).status().await.unwrap();
        assert!(status.finished);
        let of = |group: &Group| (group.need, group.subject.clone(), group.count, group.sample.clone());
        status.groups.iter().map(of).collect::<Vec<_>>()
    };
    let of = |need, topic: &str| (need, Subject::Messages(topic.to_owned()), 1, "letters/1".to_owned());
    assert_eq!(status().await, [of(Need::Dead, "told/0")], "the others are a minute old");
    post.desk.bench.clock.advance(MINUTE * 5);
    let mut now = status().await;
    now.sort();
    assert_eq!(now, [of(Need::Dead, "told/0"), of(Need::Unsent, "told/1"), of(Need::Unsent, "told/2")]);
    let seen = dead_one(&post).await;
    assert_eq!(workflows.redrive(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 3);
    assert_eq!(status().await, []);
}
