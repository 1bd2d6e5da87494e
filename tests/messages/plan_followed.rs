//! What became of messages that one act redrove: what it goes on by, and what it stops at.

use std::ops::ControlFlow;
use std::time::Duration;

use lock_token_testing::CallFate;
use locker::Intervened;
use locker::message::MessageState;
use locker::operator::{Act, Acted, ApplyOptions, ApplyReport, Console, Filter, Need, Plan};
use locker_tests::{Fate, ada};

use crate::consumer::in_state;
use crate::plan::{console, refused, relaying, ten};
use crate::post::Post;

async fn plan(console: &Console) -> Plan {
    console.plan(Filter::new().need(Need::Dead), Act::redrive(), &ada()).await.unwrap()
}

/// Applies a plan with one canary.
async fn run(console: &Console, plan: &Plan) -> ApplyReport {
    let options = ApplyOptions { canary: 1, ..ten() };
    console.apply(plan, &options, |_| ControlFlow::Continue(())).await.unwrap()
}

/// Between two looks of the run, the first message is dead again, and somebody acts on it.
async fn meanwhile(post: &Post, plan: &Plan, verb: &str) {
    let (workflows, _) = post.desk.machine();
    tokio::time::sleep(Duration::from_millis(500)).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let first = workflows.message(&plan.items[0].work).await.unwrap().unwrap();
    let done = match verb {
        "discard" => workflows.discard(&first, &ada()).await,
        _ => workflows.archive(&first, &ada()).await,
    };
    assert_eq!(done.unwrap(), Intervened::Done);
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_was_discarded_or_archived_is_no_success() {
    for verb in ["discard", "archive"] {
        let post = refused(3).await;
        let console = console(&post);
        let plan = plan(&console).await;
        let (report, ()) = tokio::join!(run(&console, &plan), meanwhile(&post, &plan, verb));
        let came_to = (report.gone, report.dead_again, report.waiting, report.left, report.tripped);
        assert_eq!(came_to, (0, 1, 0, 2, true), "{verb}: {report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_run_has_canaries_of_its_own() {
    let post = refused(4).await;
    let console = console(&post);
    let plan = plan(&console).await;
    let relaying = relaying(&post);
    let report = run(&console, &plan).await;
    assert_eq!((report.done, report.dead_again, report.left, report.tripped), (1, 1, 3, true), "{report:?}");
    // The next one is changed by another operator, so that the one behind it is the canary; and the
    // cause is not repaired.
    let (workflows, _) = post.desk.machine();
    let next = workflows.message(&plan.items[1].work).await.unwrap().unwrap();
    assert_eq!(workflows.archive(&next, &ada()).await.unwrap(), Intervened::Done);
    let report = run(&console, &plan).await;
    let came_to = (report.done_before, report.changed, report.dead_again, report.left, report.tripped);
    assert_eq!(came_to, (1, 1, 1, 1, true), "{report:?}");
    // Once it is, the last one is.
    post.calls.always(CallFate::Ok);
    let report = run(&console, &plan).await;
    relaying.abort();
    assert_eq!((report.done, report.gone, report.left, report.tripped), (3, 1, 0, false), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_canary_stops_the_rest() {
    let post = refused(3).await;
    let (workflows, wire) = post.desk.machine();
    let console = Console::new().workflows(&workflows);
    let plan = plan(&console).await;
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::Denied);
    let report = run(&console, &plan).await;
    assert_eq!((report.done, report.failed, report.left, report.tripped), (0, 1, 2, true), "{report:?}");
}

/// What is redriven by a machine that can read and write nothing after this many.
async fn blind_after(post: &Post, count: usize) -> ApplyReport {
    let (machine, wire) = post.desk.machine();
    let console = Console::new().workflows(&machine);
    let options = ApplyOptions { concurrency: 1, per_second: 1, breaker: 2, ..ApplyOptions::default() };
    let plan = plan(&console).await;
    let mut told = 0;
    let each = |_: &Acted| {
        told += 1;
        if told == count {
            wire.always(Fate::Denied);
        }
        ControlFlow::Continue(())
    };
    console.apply(&plan, &options, each).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn acts_are_reported_if_their_outcomes_cannot_be_read() {
    let post = refused(3).await;
    let report = blind_after(&post, 3).await;
    assert_eq!((report.done, report.waiting, report.gone, report.tripped), (3, 3, 0, false), "{report:?}");
    assert_eq!(in_state(&post.desk.machine().0, MessageState::Unsent).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_sees_nothing_stops() {
    let post = refused(12).await;
    // In five seconds five are taken on, and then it is looked at what became of them.
    let report = blind_after(&post, 5).await;
    assert_eq!((report.done, report.waiting, report.left, report.tripped), (5, 5, 7, true), "{report:?}");
}
