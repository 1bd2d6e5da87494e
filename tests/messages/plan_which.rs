//! Which messages one act is planned for.

use lock_token_testing::CallFate;
use locker::message::{MessageState, NewMessage};
use locker::operator::{Act, ApplyOptions, Console, Filter};
use locker_tests::ada;

use crate::post::{Letters, MINUTE, Post};

#[tokio::test(start_paused = true)]
async fn dead_messages_are_found_among_other_records() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let tell = async || {
        let told = NewMessage::new("told/0", &0).subject("order/0");
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    };
    tell().await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    // As many others as a search may have: a workflow, and one behind the dead one.
    workflows.start(&Letters::in_order(1), "letters/1", &()).enqueue().await.unwrap();
    tell().await;
    let console = Console::new().workflows(&workflows).limit(1);
    for act in [Act::redrive(), Act::archive(), Act::discard(), Act::note()] {
        let plan = console.plan(Filter::new(), act, &ada()).await.unwrap();
        assert_eq!((plan.items.len(), plan.found, plan.complete), (1, 1, true), "{plan:?}");
    }
    let none = console.plan(Filter::new(), Act::restore(), &ada()).await.unwrap();
    assert_eq!((none.items.len(), none.complete), (0, true), "{none:?}");

    let dead = console.plan(Filter::new(), Act::archive(), &ada()).await.unwrap();
    let id = dead.items[0].work.short_id();
    let goes_on = |_: &_| std::ops::ControlFlow::Continue(());
    console.apply(&dead, &ApplyOptions::default(), goes_on).await.unwrap();
    let archived = console.plan(Filter::new(), Act::restore(), &ada()).await.unwrap();
    assert_eq!((archived.items.len(), archived.complete), (1, true), "{archived:?}");
    let archived = Filter::new().only_messages([MessageState::Archived]);
    let found = console.list(&archived).await.unwrap();
    assert_eq!((found.matches.len(), found.finished), (1, true), "{found:?}");
    // One that is named is told of in whatever state it is.
    let named = console.plan(Filter::new().message(id), Act::redrive(), &ada()).await.unwrap();
    assert_eq!(named.left_out[0].because, "it is archived");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_the_beginning_of_others() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    post.calls.always(CallFate::Declined);
    for key in ["letters/1", "letters/10"] {
        workflows.start(&Letters::in_order(1), key, &()).run().await.unwrap();
    }
    let console = Console::new().workflows(&workflows);
    for (key, count) in [("letters/1", 1), ("letters/10", 1), ("letters/", 0)] {
        let plan = console.plan(Filter::new().key(key), Act::discard(), &ada()).await.unwrap();
        assert_eq!(plan.items.len(), count, "{key}: {:?}", plan.items);
        assert!(plan.items.iter().all(|item| item.work.key() == key), "{key}: {:?}", plan.items);
    }
    assert_eq!(Filter::new().key("letters/1").to_string(), r#"key "letters/1""#);
}
