//! Events of the former versions of a continued workflow.

use std::time::Duration;

use lock_token_testing::Fate;
use locker::workflow::{Completer, Event, Outcome, Reaper, Signalled, State};
use locker::{Error, Intervened, Retention};
use locker_tests::{DAY, ada, kill};

use crate::attacked_30::{completed, many_in_doubt, ran, state};
use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input};

const PAID: Event<u32> = Event::named("paid");

/// Waits in each version for the same event, and continues until the last version.
fn months(last: u32) -> Script {
    Script::new(move |flow, script| async move {
        let paid = flow.wait_for(PAID, 30 * DAY).on_late(&"refund").await?;
        script.books.enter(format!("{}: {paid:?}", flow.key_version()));
        if flow.key_version() < last { Err(flow.continue_as_new(&input())) } else { Ok("done".to_owned()) }
    })
}

async fn paid(desk: &Desk, id: &str) -> Signalled {
    desk.machine().0.signal("r/1", PAID, &100).id(id).await.unwrap()
}

async fn reap(desk: &Desk, code: &Script) {
    let completer = Completer::new(&desk.machine().0).register(code.clone());
    desk.bench.clock.advance(40 * DAY);
    drop(Reaper::new(&completer).run().await.unwrap());
}

async fn receipts(desk: &Desk) -> usize {
    let items = desk.items().await;
    items.iter().filter(|item| item["item"].as_s().unwrap().starts_with("~receipt/")).count()
}

#[tokio::test]
async fn event_of_any_former_version_is_a_duplicate() {
    let (desk, code) = (Desk::new().await, months(4));
    drop(ran(&desk, &code).await);
    for id in ["e-1", "e-2", "e-3"] {
        assert_eq!(paid(&desk, id).await, Signalled::Accepted, "{id}");
        // A second payment in the same month.
        assert_eq!(paid(&desk, &format!("{id} again")).await, Signalled::AlreadyGiven, "{id}");
        desk.settle(&code).await;
    }
    for id in ["e-1", "e-2", "e-3", "e-1 again", "e-2 again", "e-3 again"] {
        assert_eq!(paid(&desk, id).await, Signalled::Duplicate, "{id}");
    }
    assert_eq!(paid(&desk, "e-4").await, Signalled::Accepted);
    assert_eq!(paid(&desk, "e-1").await, Signalled::Duplicate, "beside the event of this version");
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), [1, 2, 3, 4].map(|month| format!("{month}: Some(100)")));
}

/// The same amount is paid every month.
#[tokio::test]
async fn event_without_an_id_is_new_in_each_version() {
    let (desk, code) = (Desk::new().await, months(3));
    drop(ran(&desk, &code).await);
    for month in 1..=3 {
        let signal = desk.machine().0.signal("r/1", PAID, &100);
        assert_eq!(signal.await.unwrap(), Signalled::Accepted, "{month}");
        desk.settle(&code).await;
    }
    assert_eq!(completed(&desk).await, "done");
}

/// A driver is stopped before each of its requests, while the sender repeats its event.
#[tokio::test]
async fn event_that_is_repeated_during_the_continuation_is_read_once() {
    for n in 1..=14 {
        let (desk, code) = (Desk::new().await, months(2));
        drop(ran(&desk, &code).await);
        assert_eq!(paid(&desk, "e-1").await, Signalled::Accepted);
        desk.bench.clock.advance(LATER);
        let (slow, wire) = desk.machine();
        wire.nth(n, Fate::HeldBefore);
        let drives = code.clone();
        let drive = tokio::spawn(async move { slow.start(&drives, "r/1", &input()).run().await });
        while wire.held() == 0 && !drive.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(paid(&desk, "e-1").await, Signalled::Duplicate, "{n}");
        wire.let_through();
        drop(drive.await.unwrap());
        desk.settle(&code).await;
        assert_eq!(paid(&desk, "e-1").await, Signalled::Duplicate, "{n}");
        assert_eq!(code.books.entries(), ["1: Some(100)"], "{n}");
    }
}

/// The first version waits in vain; the second one waits only after a nap.
fn in_vain() -> Script {
    Script::new(|flow, script| async move {
        if flow.key_version() == 1 {
            let paid = flow.wait_for(PAID, DAY).on_late(&"refund").await?;
            script.books.enter(format!("1: {paid:?}"));
            return Err(flow.continue_as_new(&input()));
        }
        flow.sleep("nap", 9 * DAY).await?;
        let paid = flow.wait_for(PAID, DAY).await?;
        script.books.enter(format!("2: {paid:?}"));
        Ok("done".to_owned())
    })
}

#[tokio::test]
async fn event_before_the_next_wait_is_late_for_the_former_one() {
    let (desk, code) = (Desk::new().await, in_vain());
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    let late = paid(&desk, "e-1").await;
    assert!(matches!(late, Signalled::Late { compensates: true, .. }), "{late:?}");
    assert_eq!(paid(&desk, "e-1").await, Signalled::Duplicate);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["1: None", "undo event:paid"]);
    assert_eq!(paid(&desk, "e-2").await, Signalled::AlreadyGiven, "the name has its event");
    desk.bench.clock.advance(10 * DAY);
    desk.settle(&code).await;
    // From here on the second version waits.
    assert_eq!(paid(&desk, "e-1").await, Signalled::Duplicate);
    assert_eq!(paid(&desk, "e-3").await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    assert_eq!(code.books.entries(), ["1: None", "undo event:paid", "2: Some(100)"]);
    assert_eq!(state(&desk, 1).await, Some(State::Continued));
}

/// The event comes between the end of its wait and the end of the version.
#[tokio::test]
async fn late_event_is_compensated_before_the_workflow_continues() {
    let desk = Desk::new().await;
    let sender = desk.machine().0;
    let code = Script::new(move |flow, script| {
        let sender = sender.clone();
        async move {
            if flow.key_version() == 1 {
                let paid = flow.wait_for(PAID, DAY).on_late(&"refund").await?;
                assert_eq!(paid, None);
                let late = sender.signal("r/1", PAID, &100).id("e-1").await.unwrap();
                script.books.enter(format!("{late:?}"));
                return Err(flow.continue_as_new(&input()));
            }
            script.books.enter("2");
            Ok("done".to_owned())
        }
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    let entries = ["Late { compensates: true }", "undo event:paid", "Duplicate", "2"];
    assert_eq!(code.books.entries(), entries);
}

#[tokio::test]
async fn late_event_reaches_its_wait_over_two_versions() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        match flow.key_version() {
            1 => drop(flow.wait_for(PAID, DAY).on_late(&"refund").await?),
            2 => {}
            _ => {
                flow.sleep("nap", 9 * DAY).await?;
                script.books.enter("done");
                return Ok("done".to_owned());
            }
        }
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(state(&desk, 3).await, Some(State::Running));
    let late = paid(&desk, "e-1").await;
    assert!(matches!(late, Signalled::Late { compensates: true, .. }), "{late:?}");
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo event:paid"]);
}

/// The second version waits again, declares no compensation, and receives its event.
#[tokio::test]
async fn later_wait_replaces_a_former_one_also_without_a_compensation() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        let version = flow.key_version();
        let paid = match version {
            1 => flow.wait_for(PAID, DAY).on_late(&"refund").await?,
            2 => flow.wait_for(PAID, 30 * DAY).await?,
            _ => {
                flow.sleep("nap", 9 * DAY).await?;
                flow.wait_for(PAID, 30 * DAY).await?
            }
        };
        script.books.enter(format!("{version}: {paid:?}"));
        if version < 3 { Err(flow.continue_as_new(&input())) } else { Ok("done".to_owned()) }
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(paid(&desk, "e-2").await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(state(&desk, 3).await, Some(State::Running));
    assert_eq!(paid(&desk, "e-3").await, Signalled::Accepted, "the third version has not reached its wait");
    assert_eq!(paid(&desk, "e-2").await, Signalled::Duplicate);
    desk.bench.clock.advance(10 * DAY);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["1: None", "2: Some(100)", "3: Some(100)"]);
}

/// The second version waits in vain as well, and declares no compensation.
#[tokio::test]
async fn event_after_a_wait_without_a_compensation_is_read_by_the_next() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        match flow.key_version() {
            1 => drop(flow.wait_for(PAID, DAY).on_late(&"refund").await?),
            2 => drop(flow.wait_for(PAID, DAY).await?),
            _ => {
                flow.sleep("nap", 9 * DAY).await?;
                script.books.enter(format!("3: {:?}", flow.wait_for(PAID, DAY).await?));
                return Ok("done".to_owned());
            }
        }
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    for _ in 0..2 {
        desk.bench.clock.advance(2 * DAY);
        desk.settle(&code).await;
    }
    assert_eq!(state(&desk, 3).await, Some(State::Running));
    assert_eq!(paid(&desk, "e-1").await, Signalled::Accepted);
    desk.bench.clock.advance(10 * DAY);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["3: Some(100)"]);
}

/// A sender is held before it stores a late event. Meanwhile the next version waits in vain as well.
#[tokio::test]
async fn late_event_leaves_the_receipt_of_a_later_wait_as_it_is() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        match flow.key_version() {
            1 => {}
            2 => drop(flow.wait_for(PAID, DAY).on_late(&"refund").await?),
            3 => {
                flow.sleep("nap", 9 * DAY).await?;
                flow.wait_for(PAID, DAY).on_late(&"refund").await?;
            }
            _ => {
                flow.sleep("nap", 90 * DAY).await?;
                return Ok("done".to_owned());
            }
        }
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    let (slow, wire) = desk.machine();
    // The transaction follows seven reads.
    wire.nth(8, Fate::HeldBefore);
    let first = tokio::spawn(async move { slow.signal("r/1", PAID, &100).id("e-1").await.unwrap() });
    while wire.held() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for days in [10, 2] {
        desk.bench.clock.advance(days * DAY);
        desk.settle(&code).await;
    }
    assert_eq!(state(&desk, 4).await, Some(State::Running));
    wire.let_through();
    for answer in [first.await.unwrap(), paid(&desk, "e-2").await] {
        assert!(matches!(answer, Signalled::Late { compensates: true, .. }), "{answer:?}");
    }
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo event:paid", "undo event:paid"]);
}

/// A driver is suspended at any of its requests, while the workflow continues twice.
#[tokio::test]
async fn suspended_driver_does_not_replace_the_receipt_of_a_later_wait() {
    let mut held = 0;
    for number in 1.. {
        let desk = Desk::new().await;
        let code = Script::new(|flow, _| async move {
            match flow.key_version() {
                1 => {}
                2 | 3 => drop(flow.wait_for(PAID, DAY).on_late(&"refund").await?),
                _ => {
                    flow.sleep("nap", 90 * DAY).await?;
                    return Ok("done".to_owned());
                }
            }
            Err(flow.continue_as_new(&input()))
        });
        drop(ran(&desk, &code).await);
        desk.settle(&code).await;
        assert_eq!(paid(&desk, "e-1").await, Signalled::Accepted);
        desk.bench.clock.advance(LATER);
        let (slow, wire) = desk.machine();
        wire.nth(number, Fate::HeldBefore);
        let completer = Completer::new(&slow).register(code.clone());
        let mut run = tokio::spawn(async move { completer.run().await.map(drop) });
        while wire.held() == 0 && !run.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if run.is_finished() {
            break;
        }
        held += 1;
        for _ in 0..3 {
            desk.bench.clock.advance(2 * DAY);
            desk.settle(&code).await;
        }
        assert_eq!(state(&desk, 4).await, Some(State::Running), "request {number}");
        wire.let_through();
        drop((&mut run).await.unwrap());
        let answer = paid(&desk, "e-2").await;
        assert!(matches!(answer, Signalled::Late { compensates: true, .. }), "request {number}: {answer:?}");
    }
    assert!(held > 6, "{held}");
}

/// The versions in between are deleted after their retention.
#[tokio::test]
async fn late_event_of_a_deleted_version_goes_to_the_latest_one() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        match flow.key_version() {
            1 => return Err(flow.continue_as_new(&input())),
            2 => {
                flow.wait_for(PAID, DAY).on_late(&"refund").await?;
                return Err(flow.continue_as_new(&input()));
            }
            _ => flow.sleep("nap", 90 * DAY).await?,
        }
        let paid = flow.wait_for(PAID, DAY).await?;
        script.books.enter(format!("3: {paid:?}"));
        Ok("done".to_owned())
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    for _ in 0..2 {
        reap(&desk, &code).await;
    }
    assert_eq!((state(&desk, 2).await, state(&desk, 3).await), (None, Some(State::Running)));
    // Another workflow uses the version.
    let other = desk.machine().0.start(&months(1), "r/1", &input()).key_version(2).enqueue().await.unwrap();
    assert!(matches!(other, Outcome::InProgress(_)), "{other:?}");
    assert_eq!(paid(&desk, "e-1").await, Signalled::Accepted);
    desk.bench.clock.advance(20 * DAY);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["3: Some(100)"]);
}

/// A driver dies between the receipts and the next version, and an operator cancels the workflow.
#[tokio::test]
async fn receipts_are_deleted_with_their_workflow() {
    for continues in [false, true] {
        let (desk, code) = (Desk::new().await, months(2));
        drop(ran(&desk, &code).await);
        assert_eq!(paid(&desk, "e-1").await, Signalled::Accepted);
        desk.bench.clock.advance(LATER);
        let (dies, wire) = desk.machine();
        let calls = code.clone();
        // The first transaction takes the event.
        let taken = std::sync::atomic::AtomicBool::new(continues);
        wire.matching(
            move |exchange| {
                exchange.operation == "TransactWriteItems"
                    && taken.swap(true, std::sync::atomic::Ordering::SeqCst)
                    && !continues
            },
            Fate::HeldBefore,
        );
        let run = tokio::spawn(async move { dies.start(&calls, "r/1", &input()).run().await });
        while wire.held() == 0 && !run.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kill(run).await;
        assert_eq!(receipts(&desk).await, 2, "by its id, and by its name");
        assert_eq!(state(&desk, 2).await.is_some(), continues);
        let cancelled = desk.machine().0.cancel("r/1", 1 + u32::from(continues), &ada()).await.unwrap();
        assert_eq!(cancelled, Intervened::Done);
        desk.settle(&code).await;
        for _ in 0..4 {
            reap(&desk, &code).await;
        }
        assert_eq!((state(&desk, 1).await, state(&desk, 2).await), (None, None), "{continues}");
        assert_eq!(receipts(&desk).await, 0, "{continues}");
    }
}

/// Between two transactions of the act, another operator makes the workflow due.
#[tokio::test]
async fn close_of_many_steps_is_unknown_if_the_workflow_changes() {
    let desk = Desk::new().await;
    let code = many_in_doubt(&desk, 200).await;
    let (slow, wire) = desk.machine();
    let view = desk.view("r/1").await;
    wire.nth(2, Fate::HeldBefore);
    let close = tokio::spawn(async move { slow.close(&view, &ada()).await });
    while wire.held() == 0 && !close.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let retried = desk.machine().0.retry(&desk.view("r/1").await, &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    wire.let_through();
    let closed = close.await.unwrap();
    assert!(matches!(closed, Err(Error::Unknown { .. })), "a part of it was written: {closed:?}");
    let started =
        desk.view("r/1").await.steps().iter().filter(|step| step.state().as_str() == "started").count();
    assert_eq!(started, 110, "one transaction was applied before the other operator's act");
    // The first part is no harm: the operator closes it again.
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["r/1"]);
    desk.bench.clock.advance(LATER);
    let closed = desk.machine().0.close(&desk.view("r/1").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
}

#[tokio::test]
async fn call_that_continues_reads_only_the_next_version() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        if flow.key_version() < 4 { Err(flow.continue_as_new(&input())) } else { Ok("done".to_owned()) }
    });
    let (workflows, wire) = desk.machine();
    let retention = Retention::For(DAY);
    drop(workflows.start(&code, "r/1", &input()).retention(retention).run().await.unwrap());
    let gets = wire.take().iter().filter(|exchange| exchange.operation == "GetItem").count();
    // The header of each next version, and that of the first version from the second one on.
    assert_eq!(gets, 3 + 2);
}
