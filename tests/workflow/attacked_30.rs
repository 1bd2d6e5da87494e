//! Attacks on events, continued workflows, maps and large results.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_token_testing::{Fate, Wire};
use locker::workflow::{
    Compensated, Compensation, Completer, Event, EventState, Flow, Outcome, Reaper, Reported, Signalled,
    State, Stop, Workflow, Workflows,
};
use locker::{Error, Failure, Intervened, Retention};
use locker_tests::{DAY, ada};

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

const PAID: Event<u32> = Event::named("paid");
const TEXT: Event<String> = Event::named("text");

/// A text of this many bytes that does not compress to less than three quarters.
fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| random.alphanumeric()).collect()
}

pub(crate) async fn state(desk: &Desk, version: u32) -> Option<State> {
    desk.machine().0.get("r/1", version).await.unwrap().map(|view| view.state())
}

pub(crate) async fn ran(desk: &Desk, code: &Script) -> Outcome<String> {
    desk.machine().0.start(code, "r/1", &input()).retention(Retention::For(DAY)).run().await.unwrap()
}

pub(crate) async fn completed(desk: &Desk) -> String {
    let outcome = desk.machine().0.outcome::<Script>("r/1").fetch().await.unwrap();
    let Some(Outcome::Completed(answer)) = outcome else { panic!("{outcome:?}") };
    answer.into_inner()
}

/// Continues once and then completes.
fn twice() -> Script {
    Script::new(|flow, _| async move {
        if flow.key_version() == 1 {
            return Err(flow.continue_as_new(&input()));
        }
        Ok("done".to_owned())
    })
}

/// A driver is stopped before each of its requests, while another one continues the workflow.
#[tokio::test]
async fn caller_that_was_overtaken_learns_of_no_cancel() {
    let mut wrong = Vec::new();
    for begun in [false, true] {
        for n in 1..=9 {
            let (desk, code) = (Desk::new().await, twice());
            if begun {
                drop(desk.machine().0.start(&code, "r/1", &input()).enqueue().await.unwrap());
            }
            let (slow, wire) = desk.machine();
            wire.nth(n, Fate::HeldBefore);
            let calls = code.clone();
            let call = tokio::spawn(async move { slow.start(&calls, "r/1", &input()).run().await });
            while wire.held() == 0 && !call.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            desk.settle(&code).await;
            wire.let_through();
            let outcome = call.await.unwrap();
            if matches!(outcome, Ok(Outcome::Cancelled)) {
                wrong.push((begun, n));
            }
            desk.settle(&code).await;
            assert_eq!(completed(&desk).await, "done", "{begun} {n}");
        }
    }
    assert!(wrong.is_empty(), "the caller learns that the workflow was cancelled: {wrong:?}");
}

#[tokio::test]
async fn outcome_without_a_version_is_not_stored_in_a_version_that_ended() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let version = flow.key_version();
        let charge = flow.once("charge").run(async |_| match version {
            1 => Ok("ch-1".to_owned()),
            _ => Err(Failure::in_doubt("no reply".to_owned())),
        });
        let charge = charge.await?;
        if version == 1 {
            return Err(flow.continue_as_new(&input()));
        }
        Ok(charge)
    });
    let outcome = ran(&desk, &code).await;
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    let reported = workflows.report("r/1", "charge").completed(&"ch-2").await.unwrap();
    assert_eq!(state(&desk, 1).await, Some(State::Continued), "{reported:?}");
    assert_eq!(reported, Reported::Unknown, "the version is not known");
    let reported = workflows.report("r/1", "charge").key_version(2).completed(&"ch-2").await.unwrap();
    assert_eq!(reported, Reported::Recorded);
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "ch-2");
    let known = workflows.report("r/1", "charge").key_version(1).completed(&"ch-1").await.unwrap();
    assert_eq!(known, Reported::Known);
}

#[tokio::test]
async fn event_that_is_sent_again_after_a_version_has_ended_is_the_same_event() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        let (month, paid) = (flow.key_version(), flow.wait_for(PAID, 30 * DAY).await?);
        script.books.enter(format!("month {month}: {paid:?}"));
        if month == 3 { Ok("done".to_owned()) } else { Err(flow.continue_as_new(&input())) }
    });
    drop(ran(&desk, &code).await);
    let (workflows, _) = desk.machine();
    let paid = async || workflows.signal("r/1", PAID, &100).id("evt-1").await.unwrap();
    assert_eq!(paid().await, Signalled::Accepted);
    desk.settle(&code).await;
    // The provider has no reply, and sends its webhook again.
    let again = paid().await;
    desk.settle(&code).await;
    let payments = code.books.entries().into_iter().filter(|entry| entry.ends_with("Some(100)"));
    assert_eq!((again, payments.count()), (Signalled::Duplicate, 1), "{:?}", code.books.entries());
}

#[tokio::test]
async fn late_event_of_a_version_that_ended_is_compensated() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if flow.key_version() == 1 {
            let paid = flow.wait_for(PAID.part(1), DAY).on_late(&"refund").await?;
            script.books.enter(format!("{paid:?}"));
            return Err(flow.continue_as_new(&input()));
        }
        flow.sleep("nap", 9 * DAY).await?;
        Ok("done".to_owned())
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(state(&desk, 2).await, Some(State::Running));
    let late = desk.machine().0.signal("r/1", PAID.part(1), &100).await.unwrap();
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["None", "undo event:paid#1"], "{late:?}");
}

/// Charges, ignores that a second step failed, and continues.
fn risky() -> Script {
    Script::new(|flow, _| async move {
        if flow.key_version() == 3 {
            return Ok("done".to_owned());
        }
        if flow.key_version() == 2 {
            flow.sleep("nap", DAY).await?;
            return Err(flow.continue_as_new(&input()));
        }
        flow.once("charge").compensate(&"refund").run(async |_| Ok(())).await?;
        let risky = flow.once("risky").compensate(&"refund");
        drop(risky.run(async |_| Err::<(), _>(Failure::permanent("no".to_owned()))).await);
        Err(flow.continue_as_new(&input()))
    })
}

/// The step of the first version happened after all.
async fn reopened(desk: &Desk, code: &Script) {
    let outcome = ran(desk, code).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    let report = desk.machine().0.report("r/1", "risky").key_version(1);
    assert_eq!(report.completed(&()).await.unwrap(), Reported::Compensates);
    assert_eq!(state(desk, 1).await, Some(State::Compensating));
}

#[tokio::test]
async fn late_outcome_of_a_version_that_ended_is_compensated_alone() {
    let (desk, code) = (Desk::new().await, risky());
    reopened(&desk, &code).await;
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo risky"]);
    assert_eq!(state(&desk, 1).await, Some(State::Continued));
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    assert_eq!(code.books.entries(), ["undo risky"]);
}

/// The steps of a version that ended stay as they are, while the next version goes on.
#[tokio::test]
async fn operator_does_not_compensate_the_steps_of_a_version_that_ended() {
    let (desk, code) = (Desk::new().await, risky());
    reopened(&desk, &code).await;
    let (workflows, _) = desk.machine();
    let compensated = workflows.compensate(&desk.view("r/1").await, &ada()).await.unwrap();
    let cancelled = workflows.cancel("r/1", 1, &ada()).await.unwrap();
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo risky"], "{compensated:?} {cancelled:?}");
    assert_eq!((compensated, cancelled), (Intervened::NotPossible, Intervened::NotPossible));
}

/// A completer compensates in the first version, and is stopped before each of its requests, while
/// the latest version continues.
#[tokio::test]
async fn first_version_names_the_latest_one_while_it_is_compensated() {
    for n in 2..=14 {
        let (desk, code) = (Desk::new().await, risky());
        reopened(&desk, &code).await;
        let (slow, wire) = desk.machine();
        wire.nth(n, Fate::HeldBefore);
        let completer = Completer::new(&slow).register(code.clone());
        let run = tokio::spawn(async move { completer.run().await });
        while wire.held() == 0 && !run.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        desk.bench.clock.advance(DAY);
        let outcome = desk.machine().0.start(&code, "r/1", &input()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{n}: {outcome:?}");
        wire.let_through();
        drop(run.await.unwrap());
        desk.settle(&code).await;
        assert_eq!(completed(&desk).await, "done", "{n}");
        assert_eq!(state(&desk, 1).await, Some(State::Continued), "{n}");
        assert_eq!(code.books.count("undo charge"), 0, "{n}");
        assert!(code.books.count("undo risky") >= 1, "{n}");
    }
}

#[tokio::test]
async fn version_that_continues_names_the_steps_that_it_did_not_reach() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if flow.key_version() == 2 {
            return Ok("done".to_owned());
        }
        if script.call() == 0 {
            flow.once("charge").run(async |_| Ok(())).await?;
            flow.sleep("nap", DAY).await?;
        }
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    let view = desk.view("r/1").await;
    assert!(view.reason().is_some_and(|reason| reason.contains("charge")), "{:?}", view.reason());
}

/// 4 MB is the most that a transaction takes.
#[tokio::test]
async fn large_unread_events_do_not_hold_the_end() {
    for continues in [false, true] {
        let desk = Desk::new().await;
        let code = Script::new(move |flow, _| async move {
            if continues && flow.key_version() == 1 {
                return Err(flow.continue_as_new(&input()));
            }
            Ok("done".to_owned())
        });
        let (workflows, _) = desk.machine();
        drop(workflows.start(&code, "r/1", &input()).enqueue().await.unwrap());
        for part in 0..12 {
            let large = noise(500_000);
            let signalled = workflows.signal("r/1", TEXT.part(part), &large).await.unwrap();
            assert_eq!(signalled, Signalled::Accepted);
        }
        let report = desk.settle(&code).await;
        let outcome = workflows.outcome::<Script>("r/1").fetch().await.unwrap();
        match outcome {
            Some(Outcome::Completed(_)) if !continues => {}
            Some(Outcome::Quarantined(why)) if continues => {
                assert!(why.contains("events of 1572864 bytes move to the next version"), "{why}");
            }
            other => panic!("{continues}: {other:?} {report:?}"),
        }
    }
}

/// A transaction takes 100 items, and each event that moves is 2 items.
#[tokio::test]
async fn at_most_45_unread_events_move_to_the_next_version() {
    for count in [45, 46] {
        let (desk, code) = (Desk::new().await, twice());
        let (workflows, _) = desk.machine();
        drop(workflows.start(&code, "r/1", &input()).enqueue().await.unwrap());
        for part in 0..count {
            let signalled = workflows.signal("r/1", PAID.part(part), &part).await.unwrap();
            assert_eq!(signalled, Signalled::Accepted);
        }
        desk.settle(&code).await;
        match workflows.outcome::<Script>("r/1").fetch().await.unwrap() {
            Some(Outcome::Completed(_)) if count == 45 => {}
            Some(Outcome::Quarantined(why)) if count == 46 => {
                assert!(why.starts_with("the code has not read 46 events of "), "{why}");
                assert_eq!(state(&desk, 2).await, None);
            }
            other => panic!("{count}: {other:?}"),
        }
    }
}

/// A workflow in quarantine with 110 events that its code has not read.
async fn with_many_events() -> (Desk, Workflows, Wire) {
    let desk = Desk::new().await;
    let code = Script::new(|_, _| async move { Err(Stop::from(std::io::Error::other("no"))) });
    let (workflows, wire) = desk.machine();
    drop(workflows.start(&code, "r/1", &input()).enqueue().await.unwrap());
    for part in 0..110 {
        let signalled = workflows.signal("r/1", PAID.part(part), &part).await.unwrap();
        assert_eq!(signalled, Signalled::Accepted);
    }
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["r/1"]);
    (desk, workflows, wire)
}

/// The late events of a workflow.
async fn late(desk: &Desk) -> usize {
    let view = desk.view("r/1").await;
    view.events().iter().filter(|event| event.state() == EventState::Late).count()
}

#[tokio::test]
async fn workflow_with_many_unread_events_can_be_closed() {
    let (desk, workflows, _) = with_many_events().await;
    let closed = workflows.close(&desk.view("r/1").await, &ada()).await;
    assert!(matches!(closed, Ok(Intervened::Done)), "{closed:?}");
    assert_eq!(late(&desk).await, 110);
}

#[tokio::test]
async fn close_that_fails_halfway_lists_each_event() {
    let (desk, workflows, wire) = with_many_events().await;
    wire.next([Fate::Ok, Fate::Denied]);
    let closed = workflows.close(&desk.view("r/1").await, &ada()).await;
    assert!(matches!(closed, Err(Error::Unknown { .. })), "{closed:?}");
    assert_eq!(late(&desk).await, 20, "they are late before the end");
    assert_eq!(desk.quarantine().await, ["r/1"]);
    let closed = workflows.close(&desk.view("r/1").await, &ada()).await;
    assert!(matches!(closed, Ok(Intervened::Done)), "{closed:?}");
    assert_eq!(late(&desk).await, 110);
}

/// It waited in the version that ended, and declared what to do if the event is not read.
#[tokio::test]
async fn unread_event_keeps_its_compensation_in_the_next_version() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if flow.key_version() == 2 {
            return Ok("done".to_owned());
        }
        if script.call() == 0 {
            flow.wait_for(PAID, DAY).on_late(&"refund").await?;
        }
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    let signalled = desk.machine().0.signal("r/1", PAID, &100).await.unwrap();
    assert_eq!(signalled, Signalled::Accepted);
    desk.settle(&code).await;
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    assert_eq!(code.books.entries(), ["undo event:paid"]);
}

/// Charges each item of a map, and continues from each item whose name is in capitals.
#[derive(Clone, Default)]
struct Legs(Books);

impl Workflow for Legs {
    const NAME: &'static str = "legs";
    type Input = Vec<String>;
    type Output = Vec<String>;

    async fn run(&self, flow: &Flow, legs: Vec<String>) -> Result<Vec<String>, Stop> {
        if flow.key_version() == 2 {
            return Ok(legs);
        }
        let items = legs.into_iter().enumerate();
        let map = flow.map("leg", items, 1, async |flow, leg| {
            flow.step("charge")
                .run(async |_| {
                    self.0.enter(leg.clone());
                    Ok(())
                })
                .await?;
            if leg == leg.to_uppercase() { Err(flow.continue_as_new(&vec![leg])) } else { Ok(leg) }
        });
        map.await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Ok(Compensated::Done)
    }
}

/// Only one of both inputs can be that of the next version.
#[tokio::test]
async fn two_branches_do_not_both_continue() {
    let (desk, code) = (Desk::new().await, Legs::default());
    let legs = vec!["A".to_owned(), "B".to_owned()];
    let outcome = desk.machine().0.start(&code, "r/1", &legs).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
}

#[tokio::test]
async fn failure_of_a_branch_beats_an_earlier_branch_that_continues() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let branch = async |flow: Flow, item: u32| match item {
            0 => Err::<(), _>(flow.continue_as_new(&input())),
            _ => Err(Stop::fail("no stock")),
        };
        flow.map("leg", [(0, 0), (1, 1)], 2, branch).await?;
        Ok("done".to_owned())
    });
    let outcome = ran(&desk, &code).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!((state(&desk, 1).await, state(&desk, 2).await), (Some(State::Failed), None));
}

#[tokio::test]
async fn branch_that_continues_leaves_out_no_other_item() {
    let (desk, code) = (Desk::new().await, Legs::default());
    let legs = ["a", "B", "c", "d"].map(str::to_owned).to_vec();
    let outcome = desk.machine().0.start(&code, "r/1", &legs).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(legs) if **legs == ["B"]), "{outcome:?}");
    assert_eq!(code.0.entries(), ["a", "B", "c", "d"]);
}

#[tokio::test]
async fn reader_of_a_middle_version_finds_the_latest_one() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let version = flow.key_version();
        if version < 30 { Err(flow.continue_as_new(&input())) } else { Ok(format!("{version}")) }
    });
    drop(ran(&desk, &code).await);
    let (workflows, _) = desk.machine();
    for version in [1, 2, 15, 29, 30] {
        let outcome = workflows.outcome::<Script>("r/1").key_version(version).fetch().await;
        assert!(matches!(outcome, Ok(Some(Outcome::Completed(_)))), "{version}: {outcome:?}");
    }
}

async fn reap(desk: &Desk, code: &Script) {
    let (workflows, _) = desk.machine();
    let completer = Completer::new(&workflows).register(code.clone());
    desk.bench.clock.advance(40 * DAY);
    drop(Reaper::new(&completer).run().await.unwrap());
}

/// A second event under the name is listed in the first version, which is kept for it.
#[tokio::test]
async fn evidence_of_the_first_version_keeps_the_outcome_readable() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        if flow.key_version() == 2 {
            return Ok("done".to_owned());
        }
        flow.wait_for(PAID, DAY).await?;
        Err(flow.continue_as_new(&input()))
    });
    drop(ran(&desk, &code).await);
    let (workflows, _) = desk.machine();
    let paid = async |id: &str| workflows.signal("r/1", PAID, &100).id(id).await.unwrap();
    assert_eq!((paid("e-1").await, paid("e-2").await), (Signalled::Accepted, Signalled::AlreadyGiven));
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await, "done");
    for _ in 0..3 {
        reap(&desk, &code).await;
    }
    assert_eq!(state(&desk, 1).await, Some(State::Continued), "the second event is evidence");
    let outcome = desk.machine().0.start(&code, "r/1", &input()).run().await;
    assert!(matches!(outcome, Ok(Outcome::Completed(_))), "{outcome:?}");
}

#[tokio::test]
async fn key_that_is_used_again_continues_without_its_former_life() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        let version = flow.key_version();
        flow.once("charge").run(async |_| Ok(())).await?;
        script.books.enter(format!("{version}"));
        let paid = flow.wait_for(PAID, DAY).await?;
        if version < 3 { Err(flow.continue_as_new(&input())) } else { Ok(format!("{paid:?}")) }
    });
    for life in 0..2 {
        drop(ran(&desk, &code).await);
        for id in ["e-1", "e-2", "e-3"] {
            let id = format!("{id} {life}");
            let paid = desk.machine().0.signal("r/1", PAID, &100).id(id).await.unwrap();
            assert_eq!(paid, Signalled::Accepted);
            desk.settle(&code).await;
        }
        assert_eq!(completed(&desk).await, "Some(100)");
        for _ in 0..4 {
            reap(&desk, &code).await;
        }
        for version in 1..=3 {
            assert_eq!(state(&desk, version).await, None, "{life} {version}");
        }
    }
    let left = desk.items().await.into_iter().filter(|item| {
        let place = item["item"].as_s().unwrap();
        !place.starts_with("~ledger") && item["workflow"].as_s().unwrap().starts_with("r/1")
    });
    assert_eq!(left.count(), 0);
}

/// The record of a wait contains its compensation, and the event comes into the same record.
#[tokio::test]
async fn largest_compensation_of_a_wait_leaves_room_for_the_largest_event() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let undo = BTreeMap::from([("refund", noise(4000))]);
        Ok(flow.wait_for(TEXT, DAY).on_late(&undo).await?.unwrap_or_default())
    });
    let outcome = ran(&desk, &code).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let signal = desk.machine().0.signal("r/1", TEXT, &noise(525_000));
    let signalled = signal.id("e".repeat(256)).await;
    assert!(matches!(signalled, Ok(Signalled::Accepted)), "{signalled:?}");
    desk.settle(&code).await;
    assert_eq!(completed(&desk).await.len(), 525_000);
}

/// Each look begins a request, for which no time is left.
#[tokio::test]
async fn caller_with_a_deadline_learns_that_the_workflow_goes_on() {
    let desk = Desk::new().await;
    let clock = desk.bench.clock.clone();
    let code = Script::new(move |flow, _| {
        let clock = clock.clone();
        async move {
            // A request may take the time that is left, and a busy machine needs seconds for it.
            clock.advance(Duration::from_secs(30));
            Err(flow.continue_as_new(&input()))
        }
    });
    let (workflows, _) = desk.machine();
    let deadline = desk.now() + Duration::from_secs(150);
    let outcome = workflows.start(&code, "r/1", &input()).deadline(deadline).run().await;
    assert!(matches!(outcome, Ok(Outcome::InProgress(_))), "{outcome:?}");
}

/// Its input has an item of its own.
#[derive(Clone)]
struct Bulky;

impl Workflow for Bulky {
    const NAME: &'static str = "bulky";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, _: String) -> Result<(), Stop> {
        if flow.key_version() == 2 { Ok(()) } else { Err(flow.continue_as_new(&noise(2000))) }
    }
}

#[tokio::test]
async fn input_of_a_run_that_died_is_deleted_with_its_workflow() {
    let desk = Desk::new().await;
    let (dies, wire) = desk.machine();
    wire.matching(|exchange| exchange.operation == "TransactWriteItems", Fate::HeldBefore);
    let run = tokio::spawn(async move {
        dies.start(&Bulky, "r/1", &input()).retention(Retention::For(DAY)).run().await
    });
    while wire.held() == 0 && !run.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run.abort();
    desk.settle(&Bulky).await;
    assert_eq!(state(&desk, 2).await, Some(State::Completed));
    for _ in 0..4 {
        let completer = Completer::new(&desk.machine().0).register(Bulky);
        desk.bench.clock.advance(40 * DAY);
        drop(Reaper::new(&completer).run().await.unwrap());
    }
    let items = desk.items().await.into_iter().map(|item| item["item"].as_s().unwrap().clone());
    let left: Vec<_> = items.filter(|item| item.starts_with("#input")).collect();
    assert_eq!(left, [""; 0]);
}

/// The operator repaired what had happened, and closed the workflow as it was. Later, the outcome
/// of the step in doubt arrives.
#[tokio::test]
async fn closed_workflow_does_not_return_a_payment_that_its_operator_saw() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        flow.wait_for(PAID, DAY).on_late(&"refund").await?;
        let ship = flow.once("ship").compensate(&"return");
        ship.run(async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()))).await?;
        Ok("done".to_owned())
    });
    drop(ran(&desk, &code).await);
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.signal("r/1", PAID, &100).await.unwrap(), Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["r/1"]);
    let closed = workflows.close(&desk.view("r/1").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
    let reported = workflows.report("r/1", "ship").completed(&()).await.unwrap();
    assert_eq!(reported, Reported::Compensates);
    let retried = workflows.retry(&desk.view("r/1").await, &ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    desk.settle(&code).await;
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo ship"]);
    assert_eq!(desk.quarantine().await, [""; 0]);
    let view = desk.view("r/1").await;
    assert_eq!(view.events()[0].state(), EventState::Taken);
}

/// Runs a map of this many charges whose provider gives no replies.
pub(crate) async fn many_in_doubt(desk: &Desk, charges: u32) -> Script {
    let code = Script::new(move |flow, _| async move {
        let items = (0..charges).map(|id| (id, ()));
        flow.map("fund", items, 16, async |flow, ()| {
            let lost = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
            flow.once("charge").run(lost).await
        })
        .await?;
        Ok("done".to_owned())
    });
    let outcome = ran(desk, &code).await;
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    code
}

#[tokio::test]
async fn workflow_with_many_steps_in_doubt_can_be_closed() {
    let desk = Desk::new().await;
    many_in_doubt(&desk, 110).await;
    let (workflows, _) = desk.machine();
    for part in 0..20 {
        let signalled = workflows.signal("r/1", PAID.part(part), &part).await.unwrap();
        assert_eq!(signalled, Signalled::Accepted);
    }
    let closed = workflows.close(&desk.view("r/1").await, &ada()).await;
    assert!(matches!(closed, Ok(Intervened::Done)), "{closed:?}");
    assert_eq!(late(&desk).await, 20);
}
