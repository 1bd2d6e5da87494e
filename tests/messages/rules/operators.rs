//! What operators and code do about messages is on record, and is said as it was.

use lock_token_testing::CallFate;
use locker::dead_letters::{DeadLetters, Decision};
use locker::message::MessageState;
use locker::workflow::Message;
use locker::{Class, Error, Intervened, Resolution};
use locker_tests::Fate;

use crate::consumer::{consumer, delivery, in_state, the_dead};
use crate::post::{MINUTE, Post};

use super::{ada, commit, is_next_page};

// ---- operators

#[tokio::test(start_paused = true)]
async fn each_act_is_on_record_as_what_it_was() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let seen = async |state| in_state(&workflows, state).await.remove(0);
    let partition = workflows.messages(MessageState::Dead).fetch().await.unwrap().items[0].workflow.clone();
    let dead = seen(MessageState::Dead).await;
    assert_eq!(workflows.annotate(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(
        workflows.messages(MessageState::Dead).fetch().await.unwrap().items[0].note.as_deref(),
        Some("the provider's books say so")
    );
    let dead = seen(MessageState::Dead).await;
    assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let archived = seen(MessageState::Archived).await;
    assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
    let dead = seen(MessageState::Dead).await;
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    // What is on its way is nobody's to write on.
    let waiting = seen(MessageState::Waiting).await;
    assert_eq!(workflows.annotate(&waiting, &ada()).await.unwrap(), Intervened::NotPossible);
    let acts: Vec<_> =
        workflows.acts(&partition).await.unwrap().iter().filter_map(|act| act.resolution).collect();
    use Resolution::{Archived, Noted, Redriven, Restored};
    let mut sorted = acts.clone();
    sorted.sort_by_key(|it| format!("{it:?}"));
    assert_eq!(sorted, [Archived, Noted, Redriven, Restored], "{acts:?}");
}

/// A request that was lost may still arrive.
#[tokio::test(start_paused = true)]
async fn an_act_that_is_refused_after_a_lost_request_is_unknown() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let seen = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.annotate(&seen, &ada()).await.unwrap(), Intervened::Done);
    wire.next([Fate::Lost]);
    let came_to = workflows.redrive(&seen, &ada()).await;
    assert!(matches!(came_to, Err(Error::Unknown { .. })), "{came_to:?}");
}

#[tokio::test(start_paused = true)]
async fn message_archived_by_code_is_not_held() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let done = DeadLetters::new(&workflows, ada()).run(async |_: &Message| Decision::Archive).await.unwrap();
    assert_eq!(done.archived, 1, "{done:?}");
    let archived = in_state(&workflows, MessageState::Archived).await.remove(0);
    assert_eq!(archived.held_until(), None);
    assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
}

#[tokio::test(start_paused = true)]
async fn all_messages_of_a_subject_are_read() {
    let post = Post::new().await;
    commit(&post, (0..70).map(|n| (format!("told/{n}"), "order/7".to_owned()))).await;
    let (workflows, _) = post.desk.machine();
    let partition = workflows.messages(MessageState::Unsent).fetch().await.unwrap().items[0].workflow.clone();
    assert_eq!(workflows.messages_of(&partition).await.unwrap().len(), 70);
}

// ---- code that decides

#[tokio::test(start_paused = true)]
async fn each_of_more_dead_than_a_page_is_decided_about_and_an_error_in_between_is_said() {
    for denied in [false, true] {
        let post = Post::new().await;
        commit(&post, (0..120).map(|n| ("told".to_owned(), format!("order/{n}")))).await;
        post.calls.always(CallFate::Declined);
        post.desk.bench.clock.advance(MINUTE);
        assert_eq!(post.relay().0.run().await.unwrap().dead, 120);
        let (workflows, wire) = post.desk.machine();
        if denied {
            wire.matching(is_next_page, Fate::Denied);
        }
        let left = DeadLetters::new(&workflows, ada()).only(|_| false);
        let done = left.run(async |_: &Message| Decision::Discard).await.unwrap();
        if denied {
            assert!(!done.finished && done.stopped_by.is_some(), "{done:?}");
        } else {
            assert_eq!((done.left, done.finished), (120, true), "{done:?}");
        }
    }
}

/// It took longer than it may, and an operator was faster.
#[tokio::test(start_paused = true)]
async fn a_decision_that_comes_too_late_is_not_done_and_not_counted() {
    for decision in [Decision::Leave, Decision::Discard, Decision::Archive, Decision::Redrive] {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
        let slow = async |_: &Message| {
            post.desk.bench.clock.advance(MINUTE * 16);
            let held = the_dead(&workflows).await.remove(0);
            assert_eq!(workflows.annotate(&held, &ada()).await.unwrap(), Intervened::Done);
            decision
        };
        let done = DeadLetters::new(&workflows, ada()).run(slow).await.unwrap();
        let counts = (done.changed, done.left + done.discarded + done.archived + done.redriven);
        assert_eq!(counts, (1, 0), "{decision:?}: {done:?}");
    }
}
