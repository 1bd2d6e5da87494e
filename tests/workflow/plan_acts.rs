//! Each act of a plan does to each record what it says, at its rate, and no other's act counts as
//! its own.

use locker::operator::{Act, ApplyOptions, Console, Filter, Need, Plan};
use locker::workflow::{Compensated, Compensation, Flow, State, StepState, Stop, Workflow};
use locker::{Failure, Operator, Resolution, TokenState};
use locker_tests::{Fate, MINUTE, TestClock, ada, record_of};

use crate::bench::{Books, Desk};
use crate::plan::{fast, goes_on, hold};

/// Its second step needs an operator.
#[derive(Clone)]
struct Trip(Books);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.once("book").compensate(&"give-back").run(|_| async { Ok(1) }).await?;
        let pay = |attempt: locker::workflow::StepAttempt| {
            let key = attempt.idempotency_key().to_owned();
            self.0.enter(key);
            async { Err::<Option<u32>, _>(Failure::needs_operator("no account".to_owned())) }
        };
        let paid = flow.once("pay").run(pay).await?;
        Ok(paid.unwrap_or_default())
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.enter("given back");
        Ok(Compensated::Done)
    }
}

async fn in_quarantine() -> (Desk, Trip, Console) {
    let desk = Desk::new().await;
    let code = Trip(Books::default());
    let (workflows, _) = desk.machine();
    for number in 0..2 {
        workflows.start(&code, ("trip", number), &()).run().await.unwrap();
    }
    let console = Console::new().workflows(&workflows);
    (desk, code, console)
}

async fn done(console: &Console, act: Act) -> Plan {
    let plan = console.plan(Filter::new().prefix("trip/"), act, &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 2, "{plan:?}");
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 2);
    plan
}

#[tokio::test(start_paused = true)]
async fn a_close_of_workflows_ends_them_as_they_are() {
    let (desk, code, console) = in_quarantine().await;
    done(&console, Act::close()).await;
    desk.settle(&code).await;
    assert_eq!(desk.view("trip/0").await.state(), State::Cancelled);
    assert_eq!(code.0.count("given back"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_is_skipped_or_tried_again_under_the_key_that_was_said() {
    for (act, keys, state) in [
        (Act::skip().step("pay"), vec!["trip/0 pay"], StepState::Completed),
        (Act::retry().step("pay"), vec!["trip/0 pay", "trip/0 pay"], StepState::Held),
        (Act::retry().step("pay").new_key(), vec!["trip/0 pay", "trip/0 pay ~v1.2"], StepState::Held),
    ] {
        let (desk, code, console) = in_quarantine().await;
        let other =
            console.plan(Filter::new().prefix("trip/"), Act::skip().step("book"), &ada()).await.unwrap();
        assert!(other.items.is_empty(), "it is another step that waits: {other:?}");
        done(&console, act.clone()).await;
        desk.settle(&code).await;
        let mut given = code.0.entries();
        given.retain(|key| key.starts_with("trip/0 "));
        assert_eq!(given, keys, "{act:?}");
        let view = desk.view("trip/0").await;
        let pay = view.steps().iter().find(|step| step.name() == "pay").unwrap();
        assert_eq!(pay.state(), state, "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_of_tokens_leaves_their_failure_as_the_answer() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 2).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().need(Need::Held), Act::close(), &ada()).await.unwrap();
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 2);
    let record = record_of(&locker, "mail/0").await;
    assert_eq!((record.state(), record.resolution()), (TokenState::Failed, Some(Resolution::Closed)));
}

#[tokio::test(start_paused = true)]
async fn only_its_own_acts_are_its_own_and_what_is_gone_was_not_done() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 3).await;
    let console = Console::new().tokens(&locker);
    let held = || Filter::new().need(Need::Held);
    let first = console.plan(held(), Act::release(), &ada()).await.unwrap();
    let second = console.plan(held(), Act::release(), &ada()).await.unwrap();
    assert_eq!(console.apply(&first, &fast(), goes_on).await.unwrap().done, 3);
    let delete = desk.bench.client.delete_item().table_name(&desk.bench.table);
    let key = aws_sdk_dynamodb::types::AttributeValue::S("mail/0".to_owned());
    delete.key("lockToken", key).send().await.unwrap();
    let report = console.apply(&second, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.done_before, report.changed), (0, 0, 3), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn acts_of_a_plan_by_a_clock_ahead_are_known_to_its_second_run() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 2).await;
    let console = Console::new().tokens(&locker);
    let ahead = TestClock::at(desk.now() + MINUTE * 4);
    let planner = desk.bench.locker(&desk.bench.client, &ahead, |_| {});
    let held = Filter::new().need(Need::Held);
    let plan = Console::new().tokens(&planner).plan(held, Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.made), (2, desk.now() + MINUTE * 4));
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 2);
    let again = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((again.done, again.done_before), (2, 2), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn it_takes_on_no_more_in_a_second_than_it_was_told() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 20).await;
    let console = Console::new().tokens(&locker);
    let options = ApplyOptions { per_second: 2, ..ApplyOptions::default() };
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(console.apply(&plan, &options, goes_on).await.unwrap().done, 20);
    let took = began.elapsed().as_secs();
    assert!((9..12).contains(&took), "{took} s of the test's own clock");
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_what_was_not_read_says_so_or_is_none() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 5).await;
    let console = Console::new().tokens(&locker);
    let plan =
        console.clone().limit(3).plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.complete), (3, false));
    // The second list.
    wire.next([Fate::Ok, Fate::Denied]);
    let refused = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await;
    assert!(refused.is_err(), "{refused:?}");
    // What an earlier run did is not known if the audit cannot be read.
    wire.next([Fate::Denied]);
    let unknown = console.apply(&plan, &fast(), goes_on).await;
    assert!(unknown.is_err(), "{unknown:?}");
    assert!(Operator::new("ada", plan.reason.clone()).is_ok());
}
