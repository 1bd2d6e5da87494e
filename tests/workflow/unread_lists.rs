//! Lists and tables that cannot be read: the report contains the error and the other lists.

use locker::operator::Console;
use locker::workflow::Completer;
use locker_tests::{Fate, held_by};

use crate::bench::{Desk, LATER};
use crate::status_bounds::Done;

#[tokio::test(start_paused = true)]
async fn a_table_of_workflows_that_cannot_be_read_hides_no_token() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for order in 0..3 {
        held_by(locker.token(("order", order))).await.hold("odd").await.unwrap();
    }
    let (workflows, wire) = desk.machine();
    wire.next([Fate::Denied]);
    let status = Console::new().tokens(&locker).workflows(&workflows).status().await.unwrap();
    assert!(status.stopped_by.is_some());
    assert_eq!(status.count(), 3, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unread_list_does_not_fail_a_completer_that_read_another() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|settings, _| settings.shards = 2);
    wire.next([Fate::Ok, Fate::Denied]);
    let run = Completer::new(&workflows).run().await;
    assert!(run.as_ref().is_ok_and(|run| run.stopped_by.is_some()), "{run:?}");
}

#[tokio::test(start_paused = true)]
async fn workflows_without_code_are_counted_though_a_list_fails() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    workflows.start(&Done, "done/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    // The list of unfinished workflows is read. The list of failing workflows is not.
    wire.next([Fate::Ok, Fate::Denied]);
    let run = Completer::new(&workflows).run().await;
    assert_eq!(run.map(|run| run.unknown.len()).ok(), Some(1));
}
