//! One act on many workflows: under every fault, and a cancel while they go on.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lock_token_testing::Provider;
use locker::operator::{Act, Acted, Console, Done, Filter, Need, Plan};
use locker::workflow::{Compensated, Compensation, Completer, Flow, List, State, Stop, Workflow};
use locker::{Failure, Intervened};
use locker_tests::{Fate, MINUTE, ada};

use crate::bench::price_of;
use crate::bench::{Books, Desk, LATER};
use crate::plan::{Charge, fast, goes_on, in_turn};

#[tokio::test(start_paused = true)]
async fn workflow_plan_results_are_true_under_every_fault() {
    let fates =
        [Fate::Lost, Fate::ReplyLost, Fate::Throttled, Fate::Conflict, Fate::ErrorAfter, Fate::Denied];
    for fate in fates {
        for at in 1..=5 {
            for often in [1, 100_000] {
                let desk = Desk::new().await;
                let books = Provider::new();
                let code = Charge(books.clone(), Arc::default());
                let (workflows, _) = desk.machine();
                for number in 0..2 {
                    workflows.start(&code, ("charge", number), &number).run().await.unwrap();
                }
                let filter = Filter::new().need(Need::Quarantined);
                let planning = Console::new().workflows(&workflows);
                let plan = planning.plan(filter, Act::retry().step("charge"), &ada()).await.unwrap();
                assert_eq!(plan.items.len(), 2);
                let (asking, wire) = desk.machine_with(|settings, _| {
                    settings.attempt_timeout = Duration::from_millis(200);
                    settings.give_up_after = Duration::from_millis(400);
                });
                let console = Console::new().workflows(&asking);
                wire.next(std::iter::repeat_n(Fate::Ok, at - 1).chain(std::iter::repeat_n(fate, often)));
                let mut told = Vec::new();
                let each = |outcome: &Acted| {
                    told.push((outcome.work.clone(), outcome.done));
                    ControlFlow::Continue(())
                };
                let report = console.apply(&plan, &in_turn(), each).await;
                for (work, done) in &told {
                    let listed = desk.view(work.key()).await.listed();
                    let is_true = match done {
                        Done::Done => listed == Some(List::Unfinished),
                        Done::Failed | Done::NotPossible => listed == Some(List::Quarantine),
                        // Its write may yet arrive, so nothing is claimed.
                        _ => true,
                    };
                    assert!(is_true, "{fate:?} at {at} x{often}: {work:?} {done:?} and {listed:?}");
                }
                assert!(report.is_ok() || told.is_empty(), "nothing was changed");
                wire.next([]);
                desk.bench.clock.advance(MINUTE);
                let rest = console.apply(&plan, &in_turn(), goes_on).await.unwrap();
                assert_eq!((rest.done, rest.left), (2, 0), "{fate:?} at {at} x{often}: {rest:?}");
                let acts = workflows.audit(desk.now() - LATER).limit(100).fetch().await.unwrap();
                assert_eq!(acts.items.len(), 2, "{fate:?} at {at} x{often}");
                desk.settle(&code).await;
                assert_eq!(desk.quarantine().await, Vec::<String>::new());
                assert_eq!(books.books().len(), 2, "no effect twice");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn plan_of_workflows_costs_its_estimate() {
    for act in [Act::retry().step("charge"), Act::skip().step("charge"), Act::retry(), Act::compensate()] {
        let desk = Desk::new().await;
        let code = Charge(Provider::new(), Arc::default());
        let (workflows, wire) = desk.machine();
        for number in 0..3 {
            workflows.start(&code, ("charge", number), &number).run().await.unwrap();
        }
        let console = Console::new().workflows(&workflows);
        let plan = console.plan(Filter::new().need(Need::Quarantined), act, &ada()).await.unwrap();
        wire.take();
        assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 3);
        let exchanges = wire.take();
        let writes = exchanges.iter().filter(|exchange| exchange.operation == "TransactWriteItems");
        let units: f64 = writes.map(price_of).sum();
        // DynamoDB Local reports fewer units of a transaction than the published rule has.
        if desk.bench.engine.is_embedded() {
            assert_eq!(units.to_string(), plan.write_units().to_string(), "{:?}", plan.act);
        }
    }
}

/// Books a seat, and asks again and again whether the mail was sent.
#[derive(Clone)]
struct Trip(Books);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = bool;
    type Output = ();

    async fn run(&self, flow: &Flow, ends: bool) -> Result<(), Stop> {
        let book = |_| async {
            self.0.enter(flow.key().as_str());
            Ok(1)
        };
        flow.once("book").compensate(&"give-back").run(book).await?;
        let mail = |_| async { if ends { Ok(()) } else { Err(Failure::transient("no mail".to_owned())) } };
        flow.step("mail").run(mail).await
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(format!("{} given back", flow.key().as_str()));
        Ok(Compensated::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_workflows_that_go_on_and_no_others() {
    let desk = Desk::new().await;
    let books = Books::default();
    let code = Trip(books.clone());
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    for number in 0..6 {
        workflows.start(&code, ("trip", number), &false).run().await.unwrap();
    }
    let console = Console::new().workflows(&workflows);
    let filter = || Filter::new().prefix("trip/");
    let cancel = console.plan(filter(), Act::cancel(), &ada()).await.unwrap();
    let compensate = console.plan(filter(), Act::compensate(), &ada()).await.unwrap();
    assert_eq!((cancel.items.len(), compensate.items.len()), (6, 0), "{:?}", cancel.left_out);
    assert_eq!(compensate.left_out.len(), 6, "they are well, so that only a cancel ends them");
    assert!(cancel.items[0].effect.contains("even if it has progressed since"));
    let text = serde_json::to_string(&cancel).unwrap();
    let kept: Plan = serde_json::from_str(&text).unwrap();

    // Each goes on, and one is closed by another operator.
    desk.bench.clock.advance(LATER);
    let driven = Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    assert_eq!(driven.claimed, 6, "{driven:?}");
    let seen = workflows.get(("trip", 5), 1).await.unwrap().unwrap();
    assert_eq!(workflows.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    let report = console.apply(&kept, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.done + report.changed + report.not_possible), (5, 6), "{report:?}");
    // Again, before its index has what was done, and after they have ended.
    assert_eq!(console.apply(&kept, &fast(), goes_on).await.unwrap().done, 5);
    desk.settle(&code).await;
    let report = console.apply(&kept, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.done_before, report.changed), (5, 5, 1), "{report:?}");
    for number in 0..6 {
        assert_eq!(desk.view(&format!("trip/{number}")).await.state(), State::Cancelled);
    }
    assert_eq!(books.entries().iter().filter(|entry| entry.ends_with("given back")).count(), 6);

    // One that runs, and that was begun with the same key after the plan was made, is another one.
    workflows.start(&code, ("trip", 6), &false).run().await.unwrap();
    let mut earlier = console.plan(Filter::new().prefix("trip/6"), Act::cancel(), &ada()).await.unwrap();
    earlier.items[0].revision = "of its former life".to_owned();
    let now = earlier.items[0].started;
    earlier.items[0].started = now.map(|at| at - chrono::TimeDelta::hours(1));
    assert_eq!(console.apply(&earlier, &fast(), goes_on).await.unwrap().changed, 1);
    earlier.items[0].started = now;
    assert_eq!(console.apply(&earlier, &fast(), goes_on).await.unwrap().done, 1);
    for step in [Act::cancel().step("book"), Act::skip()] {
        let refused = console.plan(filter(), step, &ada()).await.unwrap_err().to_string();
        assert!(refused.contains("step"), "{refused}");
    }
}
