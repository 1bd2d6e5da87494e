//! Maps in maps and in compensations; events, times, versions and compensations in branches.

use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Event, Flow, List, Outcome, Signalled, StepAttempt, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada};

use super::{HOUR, completed, items, run, steps};
use crate::bench::{Books, Desk};
use crate::interleavings::Script;

const PAID: Event<u64> = Event::named("paid");

#[tokio::test]
async fn steps_of_all_branches_are_compensated_latest_first() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let reserve = flow.map("seat", items(3), 2, async |flow, item| {
            // The second item begins first.
            if item == 0 {
                script.until(1).await;
            }
            let reserve = flow.once("reserve").compensate(&"undo");
            let reserved = reserve.run(async |_| Ok(script.call())).await;
            flow.once("mail").run(async |_| Ok(())).await.and(reserved)
        });
        reserve.await?;
        Err(Stop::fail("no flight"))
    });
    let outcome = run(&desk, &script).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let view = desk.view("m/1").await;
    // Steps are listed by the times of their starts.
    let begun: Vec<_> =
        view.steps().iter().map(|step| step.name()).filter(|name| name.ends_with("reserve")).collect();
    let mut undone: Vec<_> =
        begun.iter().filter(|name| name.starts_with("seat")).map(|name| format!("undo {name}")).collect();
    undone.reverse();
    assert_eq!(undone.len(), 3);
    assert_eq!(undone.last().map(String::as_str), Some("undo seat#1:reserve"));
    assert_eq!(script.books.entries(), undone);
}

#[tokio::test]
async fn branches_wait_for_events_of_their_own() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let paid = flow.map("bill", items(3), 2, async |flow, item| {
            let paid = flow.wait_for(PAID.part(item), 3 * DAY).await?;
            flow.once("book").run(async |_| Ok(paid)).await
        });
        Ok(format!("{:?}", paid.await?))
    });
    let Outcome::InProgress(_) = run(&desk, &script).await else { panic!("it waits") };
    let reason = desk.view("m/1").await.reason().unwrap().to_owned();
    assert!(reason.starts_with("it waits for event:paid#"), "{reason}");
    let workflows = desk.machine().0;
    for part in [2, 0] {
        assert_eq!(workflows.signal("m/1", PAID.part(part), &part).await.unwrap(), Signalled::Accepted);
        desk.settle(&script).await;
    }
    assert_eq!(steps(&desk).await, ["bill#0:book", "bill#2:book"]);
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&script).await;
    assert_eq!(completed(run(&desk, &script).await), "[Some(0), None, Some(2)]");
}

#[tokio::test]
async fn branches_cannot_wait_for_the_same_event() {
    for width in [1, 2] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, _| async move {
            flow.map("bill", items(2), width, async |flow, _| flow.wait_for(PAID, DAY).await).await?;
            Ok(String::new())
        });
        let outcome = run(&desk, &script).await;
        let Outcome::Quarantined(reason) = outcome else { panic!("{width}: {outcome:?}") };
        assert!(reason.starts_with("step event:paid cannot run: another step"), "{reason}");
    }
}

#[tokio::test]
async fn maps_in_a_map_have_steps_of_their_own() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let orders = [("a/1", 2), ("b:2", 1)];
        let sent =
            flow.map("order", orders.into_iter().map(|order| (order.0, order)), 2, async |flow, order| {
                let legs = flow.map("leg", items(order.1), 2, async |flow, leg| {
                    flow.once("ship").run(async |_| Ok(format!("{} {leg}", order.0))).await
                });
                Ok(legs.await?.join("+"))
            });
        Ok(sent.await?.join(", "))
    });
    assert_eq!(completed(run(&desk, &script).await), "a/1 0+a/1 1, b:2 0");
    let paths = ["order#a%2F1:leg#0:ship", "order#a%2F1:leg#1:ship", "order#b%3A2:leg#0:ship"];
    assert_eq!(steps(&desk).await, paths);
}

/// The step of a branch has a name that an operator can use.
#[tokio::test]
async fn operator_resolves_a_step_of_a_branch() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let charged = flow.map("fund", items(2), 2, async |flow, item| {
            let charge = flow.once("charge");
            charge
                .run(async |_| if item == 0 { Ok(1) } else { Err(Failure::in_doubt("no reply".to_owned())) })
                .await
        });
        Ok(format!("{:?}", charged.await?))
    });
    let Outcome::Quarantined(reason) = run(&desk, &script).await else { panic!("in doubt") };
    assert!(reason.starts_with("step fund#1:charge is in doubt"), "{reason}");
    let view = desk.view("m/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert_eq!(
        view.steps().iter().find(|step| step.name() == "fund#1:charge").map(|step| step.state()),
        Some(StepState::Started)
    );
    let workflows = desk.machine().0;
    let resolved = workflows.resolve_step(&view, "fund#1:charge", &2.into(), &ada()).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    desk.settle(&script).await;
    assert_eq!(completed(run(&desk, &script).await), "[1, 2]");
}

#[tokio::test]
async fn version_in_a_branch_looks_at_its_own_steps() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let run = script.call();
        let ids = if run == 0 { vec![0, 1] } else { vec![9, 0, 1] };
        let versions = flow.map("part", ids.into_iter().map(|id| (id, id)), 1, async |flow, _| {
            let version = if run == 0 { 1 } else { flow.version("checks", 2).await? };
            flow.sleep("nap", HOUR).await?;
            Ok(version.to_string())
        });
        Ok(versions.await?.join(" "))
    });
    let Outcome::InProgress(_) = run(&desk, &script).await else { panic!("it sleeps") };
    desk.bench.clock.advance(HOUR);
    desk.settle(&script).await;
    assert_eq!(completed(run(&desk, &script).await), "2 1 1");
}

#[tokio::test]
async fn timer_in_a_branch_is_listed_by_its_path_since_its_first_run() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let naps = flow.map("remind", items(2), 2, async |flow, item| {
            flow.sleep("nap", DAY * (1 + u32::try_from(item).unwrap())).await
        });
        Ok(naps.await?.len().to_string())
    });
    let begun = desk.now();
    let Outcome::InProgress(_) = run(&desk, &script).await else { panic!("it sleeps") };
    for (name, days) in [("remind#0:nap", 1), ("remind#1:nap", 2)] {
        let waits = desk.view("m/1").await.waits();
        let listed = desk.machine().0.list(List::Unfinished).fetch().await.unwrap().items.remove(0);
        let listed = listed.waits_for.unwrap();
        assert_eq!((listed.name.as_str(), listed.since, listed.until), (name, begun, begun + DAY * days));
        assert_eq!(waits.first(), Some(&listed));
        desk.bench.clock.advance(DAY);
        desk.settle(&script).await;
    }
    assert_eq!(completed(run(&desk, &script).await), "2");
}

/// Its compensation returns money to two accounts, which takes an hour each.
#[derive(Clone, Default)]
struct Refunds(Books);

impl Workflow for Refunds {
    const NAME: &'static str = "refunds";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| Ok(())).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        flow.map("account", ["a", "b"].map(|id| (id, id)), 2, async |flow, account| {
            flow.sleep("cool-off", HOUR).await?;
            let refund = flow.once("refund");
            let enter = async |it: StepAttempt| {
                self.0.enter(format!("{account} under {}", it.idempotency_key()));
                Ok(())
            };
            refund.run(enter).await
        })
        .await?;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn map_in_a_compensation_waits_and_runs_each_step_once() {
    let (desk, code) = (Desk::new().await, Refunds::default());
    let outcome = desk.machine().0.start(&code, "m/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let view = desk.view("m/1").await;
    assert_eq!(view.due(), desk.now() + HOUR);
    let timers: Vec<_> = view.waits().into_iter().map(|wait| wait.name).collect();
    assert_eq!(
        timers,
        ["a", "b"].map(|account| format!("account#{account}:cool-off~in~compensation:charge"))
    );
    desk.bench.clock.advance(HOUR + Duration::from_secs(1));
    desk.settle(&code).await;
    let outcome = desk.machine().0.start(&code, "m/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let mut refunds = code.0.entries();
    refunds.sort();
    let under = |account| format!("{account} under m/1 account#{account}:refund~in~compensation:charge");
    assert_eq!(refunds, [under("a"), under("b")]);
}
