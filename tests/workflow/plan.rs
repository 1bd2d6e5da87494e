//! One act on all that matches, while owners, other operators and completers go on: nothing twice,
//! and true results.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_token_testing::Provider;
use locker::operator::{Act, Acted, ApplyOptions, ApplyReport, Console, Done, Filter, Need, Plan};
use locker::workflow::{Completer, Flow, RetryPolicy, Stop, Workflow};
use locker::{Failure, Intervened, Locker, Operator, TokenState, Work};
use locker_tests::{Fate, MINUTE, ada, held_by, record_of};
use serde_json::json;

use crate::bench::{Desk, LATER};

pub(crate) fn goes_on(_: &Acted) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// As fast as the machine allows.
pub(crate) fn fast() -> ApplyOptions {
    ApplyOptions { per_second: 10_000, ..ApplyOptions::default() }
}

/// One record after the other.
pub(crate) fn in_turn() -> ApplyOptions {
    ApplyOptions { concurrency: 1, ..fast() }
}

pub(crate) async fn hold(locker: &Locker, count: usize) {
    for number in 0..count {
        let lock = held_by(locker.token(("mail", number)).expect_within(MINUTE)).await;
        lock.hold(&format!("relay denied for {number}000")).await.unwrap();
    }
}

/// The tokens that an operator released, by the audit: each act is one.
async fn released(locker: &Locker, desk: &Desk) -> Vec<String> {
    let acts = locker.audit(desk.now() - LATER * 24).limit(100_000).fetch().await.unwrap();
    acts.items.into_iter().map(|act| act.key).collect()
}

#[tokio::test(start_paused = true)]
async fn a_plan_says_what_it_would_do_and_to_what_and_changes_nothing() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 3).await;
    let _running = held_by(locker.token(("mail", "running"))).await;
    held_by(locker.token(("other", 1))).await.hold("disk full").await.unwrap();
    let before = desk.bench.items().await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().prefix("mail/"), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.found, plan.items.len(), plan.left_out.len(), plan.complete), (4, 3, 1, true));
    assert_eq!(plan.left_out[0].because, "its work is not overdue and may still be running");
    assert!(plan.items.iter().all(|it| it.effect.contains("the next caller does the work")), "{plan:?}");
    assert_eq!(desk.bench.items().await, before);

    // By its group, and the same after it was written down and read again.
    let status = Console::new().tokens(&locker).status().await.unwrap();
    let group = status.groups.iter().find(|group| group.count == 3).unwrap();
    let of_group = console.plan(Filter::new().group(&group.id), Act::close(), &ada()).await.unwrap();
    assert_eq!(of_group.items.len(), 3);
    let text = serde_json::to_string(&of_group).unwrap();
    let read: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);

    for (act, says) in [(Act::skip(), "name the step"), (Act::release().new_key(), "name the step")] {
        let refused = console.plan(Filter::new(), act, &ada()).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

/// Waits for a provider that is down.
#[derive(Clone)]
struct Down;

impl Workflow for Down {
    const NAME: &'static str = "down";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let down = |_| async { Err::<(), _>(Failure::transient("HTTP 503".to_owned())) };
        flow.step("pay").retry(RetryPolicy::never()).run(down).await
    }
}

#[tokio::test(start_paused = true)]
async fn workflow_that_waits_for_its_retry_is_in_no_plan() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflows.start(&Down, "order/1", &()).run().await.unwrap();
    let console = Console::new().workflows(&workflows);
    let plan =
        async || console.plan(Filter::new().prefix("order/"), Act::compensate(), &ada()).await.unwrap();
    let healthy = plan().await;
    assert_eq!((healthy.items.len(), healthy.left_out.len()), (0, 1), "{healthy:?}");
    assert_eq!(healthy.left_out[0].because, "it is running, in the list unfinished");

    // Without progress for an hour, it may be given up.
    for _ in 0..2 {
        desk.bench.clock.advance(LATER);
        Completer::new(&workflows).register(Down).run().await.unwrap();
    }
    assert_eq!(plan().await.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_are_released_while_others_act_each_once_and_each_with_a_result() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 200).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().cause("RELAY DENIED"), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.requests()), (200, 400));

    // Ten of them are closed by another operator first, and callers begin the work again as it is
    // released.
    for number in 0..10 {
        let record = record_of(&locker, &format!("mail/{number}")).await;
        assert_eq!(
            locker.close(&record, &Operator::new("ben", "told").unwrap()).await.unwrap(),
            Intervened::Done
        );
    }
    let books = Provider::new();
    let (callers, bank) = (desk.bench.machine().0, books.clone());
    let callers = tokio::spawn(async move {
        for round in 0..400 {
            let token = callers.token(("mail", round % 200));
            let _ = token.run(|attempt| bank.apply(&attempt.idempotency_key(), "mail")).await;
        }
    });
    wire.take();
    let mut told = BTreeMap::new();
    let each = |outcome: &Acted| {
        assert!(told.insert(outcome.work.key().to_owned(), outcome.done).is_none(), "a result each");
        ControlFlow::Continue(())
    };
    let report = console.apply(&plan, &fast(), each).await.unwrap();
    let requests = wire.count();
    callers.await.unwrap();

    assert_eq!((report.done, report.changed, report.done + report.changed), (190, 10, 200), "{report:?}");
    assert!(report.is_finished() && report.done_before == 0);
    for number in 0..200 {
        let expected = if number < 10 { Done::Changed } else { Done::Done };
        assert_eq!(told[&format!("mail/{number}")], expected, "{number}");
    }
    // A read and a transaction for each; 1 read for those that changed; and the audit.
    assert!((390..=395).contains(&requests), "{requests} requests");
    // Whatever was released may be done once, and nothing else.
    assert!(books.count("mail") <= 190);
    let keys: BTreeSet<_> = books.books().into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys.len(), books.count("mail"), "no effect twice");

    // The same plan again acts on nothing: not even on those whose work has begun again.
    let again = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((again.done, again.done_before, again.changed), (190, 190, 10));
    assert_eq!(released(&locker, &desk).await.len(), 200, "190 releases and 10 closes");
}

/// Its charge is in doubt once, and the provider recognises its key.
#[derive(Clone)]
pub(crate) struct Charge(pub(crate) Provider, pub(crate) Arc<Mutex<BTreeSet<u32>>>);

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = u32;
    type Output = String;

    async fn run(&self, flow: &Flow, number: u32) -> Result<String, Stop> {
        let charge = async |attempt: locker::workflow::StepAttempt| {
            let receipt = self.0.apply(attempt.idempotency_key(), &format!("charge {number}")).await;
            // The first attempt never heard of it.
            let is_first = self.1.lock().unwrap().insert(number);
            if is_first { Err(Failure::in_doubt("no reply".to_owned())) } else { receipt }
        };
        flow.once("charge").retry(RetryPolicy::never()).run(charge).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_many_workflows_is_retried_while_completers_and_an_operator_go_on() {
    let desk = Desk::new().await;
    let books = Provider::new();
    let code = Charge(books.clone(), Arc::default());
    let (workflows, _) = desk.machine();
    for number in 0..60 {
        workflows.start(&code, ("charge", number), &number).run().await.unwrap();
    }
    let console = Console::new().workflows(&workflows);
    let filter = Filter::new().need(Need::Quarantined).workflow("charge");
    let plan = console.plan(filter, Act::retry().step("charge"), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 60, "{:?}", plan.left_out);

    let (other, _) = desk.machine();
    let resolving = async {
        let mut resolved = 0;
        for number in (0..60).step_by(7) {
            let seen = other.get(("charge", number), 1).await.unwrap().unwrap();
            let done = other.resolve_step(&seen, "charge", &json!("by hand"), &ada()).await.unwrap();
            resolved += usize::from(done == Intervened::Done);
        }
        resolved
    };
    let completing = async {
        let completer = Completer::new(&other).register(code.clone());
        for _ in 0..20 {
            completer.run().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let options = fast();
    let applying = console.apply(&plan, &options, goes_on);
    let (report, resolved, ()) = tokio::join!(applying, resolving, completing);
    let report = report.unwrap();
    assert_eq!(report.done + report.changed, 60, "{report:?}");
    let acts = workflows.audit(desk.now() - LATER).limit(1000).fetch().await.unwrap().items.len();
    assert_eq!(acts, report.done + resolved, "each act that was told is in the audit, and no other");
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, Vec::<String>::new());
    assert_eq!(books.books().len(), 60, "no effect twice");
}

#[tokio::test(start_paused = true)]
async fn stopped_or_killed_plan_continues_and_repeats_no_act() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 40).await;
    let console = Console::new().tokens(&locker);
    let options = ApplyOptions { concurrency: 4, ..fast() };
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();

    let mut told = 0;
    let stops = |_: &Acted| {
        told += 1;
        if told == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = console.apply(&plan, &options, stops).await.unwrap();
    // What was under way is finished and told.
    assert!((10..14).contains(&stopped.done) && stopped.left == 40 - stopped.done, "{stopped:?}");
    assert!(!stopped.is_finished());

    // It dies after its acts were applied, and before it heard of them.
    wire.matching(|exchange| exchange.operation == "TransactWriteItems", Fate::DiesAfter);
    let dies = console.apply(&plan, &options, |_| ControlFlow::Break(()));
    let died = tokio::time::timeout(Duration::from_secs(3), dies).await;
    drop(died);
    desk.bench.clock.advance(MINUTE);
    let rest = console.apply(&plan, &options, goes_on).await.unwrap();
    assert_eq!((rest.done, rest.changed, rest.left), (40, 0, 0), "{rest:?}");
    let mut acts = released(&locker, &desk).await;
    acts.sort();
    acts.dedup();
    assert_eq!((acts.len(), released(&locker, &desk).await.len()), (40, 40), "one act each");
}

#[tokio::test(start_paused = true)]
async fn token_plan_results_are_true_under_every_fault() {
    let fates = [
        Fate::Lost,
        Fate::ReplyLost,
        Fate::Throttled,
        Fate::Conflict,
        Fate::ErrorBefore,
        Fate::ErrorAfter,
        Fate::Denied,
    ];
    for fate in fates {
        for at in 1..=5 {
            for often in [1, 100_000] {
                let desk = Desk::new().await;
                let (locker, _) = desk.bench.machine();
                hold(&locker, 2).await;
                let (planning, operator) = (Console::new().tokens(&locker), ada());
                let filter = Filter::new().need(Need::Held);
                let plan = planning.plan(filter, Act::release(), &operator).await.unwrap();
                let (asking, wire) = desk.bench.impatient_machine();
                let console = Console::new().tokens(&asking);
                wire.next(std::iter::repeat_n(Fate::Ok, at - 1).chain(std::iter::repeat_n(fate, often)));
                let mut told = Vec::new();
                let each = |outcome: &Acted| {
                    told.push((outcome.work.clone(), outcome.done));
                    ControlFlow::Continue(())
                };
                let report = console.apply(&plan, &in_turn(), each).await;
                for (work, done) in &told {
                    let state = record_of(&locker, work.key()).await.state();
                    let is_true = match done {
                        Done::Done => state == TokenState::Released,
                        Done::Failed | Done::NotPossible => state == TokenState::Held,
                        // Its write may yet arrive, so nothing is claimed.
                        Done::Unknown | Done::Changed => true,
                        other => panic!("{other:?}"),
                    };
                    assert!(is_true, "{fate:?} at {at} x{often}: {work:?} {done:?} and {state:?}");
                }
                if report.is_err() {
                    assert!(told.is_empty(), "nothing was changed");
                }
                wire.next([]);
                desk.bench.clock.advance(MINUTE);
                let rest: ApplyReport = console.apply(&plan, &in_turn(), goes_on).await.unwrap();
                assert_eq!((rest.done, rest.left), (2, 0), "{fate:?} at {at} x{often}: {rest:?}");
                assert_eq!(released(&locker, &desk).await.len(), 2, "{fate:?} at {at} x{often}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_known_fact_finds_the_record() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine();
    let books = Provider::new();
    workflows.start(&Charge(books, Arc::default()), ("charge", 7), &7).run().await.unwrap();
    let owned = locker.token(("order", 7)).tenant("cust8").owner("orders/8f5c-4d");
    held_by(owned.expect_within(MINUTE)).await.leave_in_doubt("connection reset by 10.0.0.7").await;
    let _running = held_by(locker.token(("order", 8)).tenant("cust9")).await;
    desk.bench.clock.advance(MINUTE * 10);
    let _young = held_by(locker.token("young")).await;

    let find = async |filter: Filter| {
        let found = Console::new().tokens(&locker).workflows(&workflows).list(&filter).await.unwrap();
        assert!(found.finished);
        found.matches.into_iter().map(|it| it.work.key().to_owned()).collect::<Vec<_>>()
    };
    let (order, charge) = ("@cust8/order/7", "charge/7");
    for (filter, expected) in [
        (Filter::new().tenant("cust8"), vec![order]),
        (Filter::new().prefix("@cust"), vec![order, "@cust9/order/8"]),
        (Filter::new().cause("Connection Reset"), vec![order]),
        (Filter::new().owner("8f5c-4d"), vec![order]),
        (Filter::new().need(Need::InDoubt), vec![order]),
        (Filter::new().need(Need::Overdue), vec!["@cust9/order/8"]),
        (Filter::new().need(Need::Quarantined), vec![charge]),
        (Filter::new().workflow("charge"), vec![charge]),
        (Filter::new().text("charge/7 charge"), vec![charge]),
        (Filter::new().text("8F5C"), vec![order]),
        (Filter::new().text("no reply"), vec![charge]),
        (Filter::new().tenant("cust9").at_least_for(MINUTE), vec!["@cust9/order/8"]),
        (Filter::new().prefix("young").at_least_for(MINUTE), vec![]),
        (Filter::new().within("elsewhere"), vec![]),
    ] {
        assert_eq!(find(filter.clone()).await, expected, "{filter:?}");
    }
    let all = find(Filter::new()).await;
    assert_eq!(all.len(), 4, "{all:?}");
    let cut = Console::new().tokens(&locker).limit(2).list(&Filter::new()).await.unwrap();
    assert_eq!((cut.matches.len(), cut.finished), (2, false));
    assert_eq!(cut.matches[0].work, Work::Token("@cust8/order/7".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_is_that_tenant_and_what_was_changed_in_a_plan_is_refused() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for (tenant, key) in [("acme", "eu/1"), ("acme/eu", "1"), ("acme", "mail/1")] {
        held_by(locker.token(key).tenant(tenant)).await.hold("odd").await.unwrap();
    }
    let found = async |filter: Filter| {
        let found = Console::new().tokens(&locker).list(&filter).await.unwrap();
        found.matches.into_iter().map(|it| it.work.key().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(Filter::new().tenant("acme/eu")).await, ["@acme%2Feu/1"]);
    assert_eq!(found(Filter::new().tenant("acme").prefix("@acme/mail/")).await, ["@acme/mail/1"]);
    assert_eq!(found(Filter::new().tenant("other").prefix("@acme/")).await, Vec::<String>::new());

    let console = Console::new().tokens(&locker);
    let act = Act::resolve(json!(null));
    let plan = console.plan(Filter::new().tenant("acme/eu"), act, &ada()).await.unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    let kept: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(kept.act, plan.act, "a null that was given is a result");
    let without: Plan = serde_json::from_str(&text.replace("\"result\":null,", "")).unwrap();
    let refused = console.apply(&without, &fast(), goes_on).await.unwrap_err().to_string();
    assert!(refused.contains("take a result"), "{refused}");
    assert!(serde_json::from_str::<Plan>(&text.replace("\"found\"", "\"fuond\"")).is_err());

    // At once again, before the index has what was done.
    assert_eq!(console.apply(&kept, &fast(), goes_on).await.unwrap().done, 1);
    let record = record_of(&locker, "@acme%2Feu/1").await;
    assert!(record.intervention().unwrap().reason.contains(&kept.id));
}
