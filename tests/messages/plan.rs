//! One act on all dead messages that fit: found by their group, a few first, and stopped when they
//! are dead again.

use std::ops::ControlFlow;
use std::time::Duration;

use lock_token_testing::CallFate;
use locker::message::MessageState;
use locker::operator::{Act, ApplyOptions, ApplyReport, Console, Done, Filter, Need, Plan};
use locker::{Intervened, Operator};
use locker_tests::ada;

use crate::consumer::{Warehouse, consumer, delivery};
use crate::post::{MINUTE, Post};

/// So many messages of the outbox, each of a subject of its own, that their queue refused.
pub(crate) async fn refused(count: usize) -> Post {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    for number in 0..count {
        let message = locker::message::NewMessage::new("order/placed", &number)
            .subject(format!("order/{}", 70_000 + number));
        let put = workflows.outbox().message(message).unwrap();
        post.commit([put]).await;
    }
    post.calls.always(CallFate::Declined);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().dead, count);
    post
}

pub(crate) fn console(post: &Post) -> Console {
    Console::new().workflows(&post.desk.machine().0)
}

/// Ten messages a second.
pub(crate) fn ten() -> ApplyOptions {
    ApplyOptions { per_second: 10, ..ApplyOptions::default() }
}

/// Relays that run beside it, each ten seconds.
pub(crate) fn relaying(post: &Post) -> tokio::task::JoinHandle<()> {
    let (relay, clock) = (post.relay().0, post.desk.bench.clock.clone());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            clock.advance(Duration::from_secs(10));
            relay.run().await.unwrap();
        }
    })
}

async fn redrive(post: &Post, options: ApplyOptions) -> ApplyReport {
    let console = console(post);
    let plan = console.plan(Filter::new().need(Need::Dead), Act::redrive(), &ada()).await.unwrap();
    let relaying = relaying(post);
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    relaying.abort();
    report
}

async fn count(post: &Post, state: MessageState) -> usize {
    post.desk.machine().0.messages(state).fetch().await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_dead_again_stops_the_rest() {
    let post = refused(12).await;
    let report = redrive(&post, ApplyOptions { canary: 2, ..ten() }).await;
    assert_eq!((report.done, report.dead_again, report.left, report.tripped), (2, 2, 10, true), "{report:?}");
    assert_eq!(count(&post, MessageState::Dead).await, 12);

    post.calls.always(CallFate::Ok);
    let report = redrive(&post, ApplyOptions { canary: 2, ..ten() }).await;
    assert_eq!((report.done, report.left, report.tripped), (12, 0, false), "{report:?}");
    assert!(report.gone >= 2, "{report:?}");
    post.settle().await;
    assert_eq!(post.broker.took_once().len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_canary_of_which_nothing_is_heard_stops_the_rest() {
    let post = refused(3).await;
    let console = console(&post);
    let options = ApplyOptions { canary: 1, patience: MINUTE, ..ten() };
    let plan = console.plan(Filter::new().topic("order/placed"), Act::redrive(), &ada()).await.unwrap();
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((report.done, report.waiting, report.left, report.tripped), (1, 1, 2, true), "{report:?}");
    // The same plan goes on when there is a relay.
    post.calls.always(CallFate::Ok);
    let relaying = relaying(&post);
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    relaying.abort();
    assert_eq!((report.done, report.done_before, report.left), (3, 1, 0), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_stops_when_too_many_are_dead_again() {
    let post = refused(250).await;
    let report = redrive(&post, ApplyOptions { breaker: 5, ..ten() }).await;
    assert!(report.tripped && report.dead_again >= 5, "{report:?}");
    // In five seconds fifty are taken on, and then it is looked at what became of them; a relay
    // runs every ten.
    assert!(report.left >= 50 && report.done + report.left == 250, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_stops_at_its_number_and_not_before() {
    for (breaker, trips) in [(5, true), (6, false)] {
        let post = refused(250).await;
        post.calls.always(CallFate::Ok);
        (1..=5).for_each(|n| post.calls.nth(n, CallFate::Declined));
        let report = redrive(&post, ApplyOptions { breaker, ..ten() }).await;
        assert_eq!((report.dead_again, report.tripped), (5, trips), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_messages_says_what_it_would_do_and_does_it_once() {
    let post = refused(4).await;
    let (workflows, _) = post.desk.machine();
    let (packer, ..) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    packer.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await.unwrap();

    let status = Console::new().workflows(&workflows).status().await.unwrap();
    assert_eq!(status.groups.iter().map(|group| group.count).collect::<Vec<_>>(), [4, 1]);
    let find = async |filter: Filter| {
        let found = Console::new().workflows(&workflows).list(&filter).await.unwrap();
        assert!(found.finished);
        found.matches
    };
    assert_eq!(find(Filter::new().group(&status.groups[0].id)).await.len(), 4);
    let received = find(Filter::new().consumer("packer")).await.remove(0);
    assert_eq!(received.group, status.groups[1].id);
    assert_eq!(find(Filter::new().message(received.work.short_id())).await, [received]);
    assert_eq!(find(Filter::new().text("warehouse.unknown")).await.len(), 1);
    assert_eq!(find(Filter::new().need(Need::Unsent)).await.len(), 0);

    let console = console(&post);
    let options = ten();
    let of_group = || Filter::new().group(&status.groups[0].id);
    let plan = console.plan(of_group(), Act::archive(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.left_out.len()), (4, 0));
    assert_eq!(plan.items, console.plan(of_group(), Act::archive(), &ada()).await.unwrap().items);
    assert_ne!(plan.items, console.plan(of_group(), Act::discard(), &ada()).await.unwrap().items);
    let again: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(again.items, plan.items);

    // Another operator is faster with one.
    let first = workflows.message(&plan.items[0].work).await.unwrap().unwrap();
    let bob = Operator::new("bob", "not wanted").unwrap();
    assert_eq!(workflows.discard(&first, &bob).await.unwrap(), Intervened::Done);
    let mut told = Vec::new();
    let report = console
        .apply(&plan, &options, |acted| {
            told.push(acted.done);
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert_eq!((report.done, report.changed), (3, 1), "{report:?}");
    assert_eq!(told.iter().filter(|done| **done == Done::Changed).count(), 1);
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((report.done, report.done_before, report.changed), (3, 3, 1), "{report:?}");

    // Archived ones are in no list but their own.
    assert_eq!(find(of_group()).await.len(), 0);
    assert_eq!(console.plan(of_group(), Act::redrive(), &ada()).await.unwrap().items.len(), 0);
    let of_topic = || Filter::new().topic("order/placed");
    let plan = console.plan(of_topic(), Act::restore(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 3);
    assert_eq!(console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap().done, 3);
    let plan = console.plan(of_topic(), Act::discard(), &ada()).await.unwrap();
    let run = async || console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(
        (run().await.done, run().await.done_before),
        (3, 3),
        "known by the audit, since they are gone"
    );
    assert_eq!((count(&post, MessageState::Dead).await, post.unsent().await), (1, 1));
}

/// A canary that was not taken on says nothing of the rest: another one is, and the rest waits for
/// that.
#[tokio::test(start_paused = true)]
async fn a_canary_that_changed_meanwhile_is_replaced_before_the_rest() {
    let post = refused(3).await;
    post.calls.always(CallFate::Ok);
    let console = console(&post);
    let options = ApplyOptions { canary: 1, ..ten() };
    let plan = console.plan(Filter::new().need(Need::Dead), Act::redrive(), &ada()).await.unwrap();
    let (workflows, _) = post.desk.machine();
    let first = workflows.message(&plan.items[0].work).await.unwrap().unwrap();
    let bob = Operator::new("bob", "look at this one").unwrap();
    assert_eq!(workflows.annotate(&first, &bob).await.unwrap(), Intervened::Done);
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((report.done, report.changed, report.left, report.tripped), (1, 1, 1, true), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_changed_since_it_was_shown_is_left_and_the_rate_is_kept() {
    let post = refused(21).await;
    let console = console(&post);
    let options = ten();
    let plan = console.plan(Filter::new().need(Need::Dead), Act::discard(), &ada()).await.unwrap();
    let (workflows, _) = post.desk.machine();
    let first = workflows.message(&plan.items[0].work).await.unwrap().unwrap();
    let bob = Operator::new("bob", "do not discard this one").unwrap();
    assert_eq!(workflows.annotate(&first, &bob).await.unwrap(), Intervened::Done);
    let began = tokio::time::Instant::now();
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(
        (report.done, report.changed, count(&post, MessageState::Dead).await),
        (20, 1, 1),
        "{report:?}"
    );
    assert!(began.elapsed() >= Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn discard_by_another_operator_does_not_count_as_done_by_the_plan() {
    let post = refused(2).await;
    let console = console(&post);
    let plan = console.plan(Filter::new().need(Need::Dead), Act::discard(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 2, "{plan:?}");
    let (workflows, _) = post.desk.machine();
    let first = workflows.message(&plan.items[0].work).await.unwrap().unwrap();
    let ben = Operator::new("ben", "not wanted").unwrap();
    assert_eq!(workflows.discard(&first, &ben).await.unwrap(), Intervened::Done);
    let report = console.apply(&plan, &ten(), |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((report.done, report.changed), (1, 1), "{report:?}");
}
