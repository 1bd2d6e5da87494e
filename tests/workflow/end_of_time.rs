//! Times and durations from outside at the end of their range: each stored time can be read.

use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{
    Compensated, Compensation, Completer, Event, Flow, Outcome, Reaper, RetryPolicy, State, Stop, Workflow,
};
use locker::{Failure, Intervened, Retention};
use locker_tests::ada;

use crate::bench::{Desk, LATER};

const EVER: Duration = Duration::MAX;
const NEVER: DateTime<Utc> = DateTime::<Utc>::MAX_UTC;

/// The ways in which the code of a workflow passes a time or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    SleepsUntil,
    Sleeps,
    Extend,
    StepAsks,
    OnceAsks,
    StepRetries,
    Expects,
    Waits,
    Recognised,
    Retained,
    Compensates,
    CompensatesWithin,
}

const WAYS: [Way; 12] = [
    Way::SleepsUntil,
    Way::Sleeps,
    Way::Extend,
    Way::StepAsks,
    Way::OnceAsks,
    Way::StepRetries,
    Way::Expects,
    Way::Waits,
    Way::Recognised,
    Way::Retained,
    Way::Compensates,
    Way::CompensatesWithin,
];

#[derive(Clone, Copy)]
struct Late(Way);

fn busy() -> Failure {
    Failure::transient("busy".to_owned()).after(EVER)
}

impl Workflow for Late {
    const NAME: &'static str = "late";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let (done, busy) = (|_| async { Ok(()) }, |_| async { Err::<(), _>(busy()) });
        let long = RetryPolicy::never().retry_for(EVER).initial_interval(EVER).max_interval(EVER).total(EVER);
        match self.0 {
            Way::SleepsUntil => flow.sleep_until("pause", NEVER).await,
            Way::Sleeps => flow.sleep("pause", EVER).await,
            Way::Extend => flow.extend(EVER).await,
            Way::StepAsks => flow.step("call").run(busy).await,
            Way::OnceAsks => flow.once("call").run(busy).await,
            Way::StepRetries => flow.step("call").retry(long).run(busy).await,
            Way::Expects => flow.once("call").expect_within(EVER).run(done).await,
            Way::Waits => flow.wait_for(Event::<()>::named("call"), EVER).await.map(drop),
            Way::Recognised => flow.once("call").recognised_for(EVER).run(done).await,
            Way::Retained => {
                let kept = Retention::For(EVER);
                flow.once("call").key("call/1").retention(kept).run(done).await
            }
            Way::Compensates => {
                flow.once("call").compensate(&"undo").run(done).await?;
                Err(Stop::fail("no"))
            }
            Way::CompensatesWithin => {
                flow.once("call").compensate_within(&"undo", EVER).run(done).await?;
                Err(Stop::fail("no"))
            }
        }
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        if self.0 == Way::Compensates {
            flow.sleep_until("pause", NEVER).await?;
        }
        Ok(Compensated::Done)
    }
}

/// Whether a text begins as a time does. Ids and keys of this test do not.
fn is_time(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.split_once('-').is_some_and(|(year, _)| {
        (4..=6).contains(&year.len()) && year.bytes().all(|byte| byte.is_ascii_digit())
    })
}

async fn every_time_is_read(desk: &Desk, way: &str) {
    for item in desk.items().await {
        for (name, value) in &item {
            let Some(text) = value.as_s().ok().filter(|text| is_time(text)) else { continue };
            let read = DateTime::parse_from_rfc3339(text);
            assert!(text.len() == 24 && read.is_ok(), "{way}: {name} is {text}");
        }
    }
}

#[tokio::test]
async fn longest_time_or_duration_of_code_is_stored_readably() {
    for way in WAYS {
        let (desk, code, shown) = (Desk::new().await, Late(way), format!("{way:?}"));
        let (workflows, _) = desk.machine();
        let started = workflows.start(&code, "late/1", &()).run().await;
        assert!(started.is_ok(), "{way:?}: {started:?}");
        every_time_is_read(&desk, &shown).await;
        desk.bench.clock.advance(LATER);
        let run = Completer::new(&workflows).register(code).run().await.unwrap();
        assert_eq!(run.failed, 0, "{way:?}");
        every_time_is_read(&desk, &shown).await;
        let view = desk.view("late/1").await;
        // An operator can act on it.
        if !view.state().is_final() {
            let retried = workflows.retry(&view, &ada()).await.unwrap();
            assert_eq!(retried, Intervened::Done, "{way:?}");
        }
    }
}

#[derive(Clone, Copy)]
struct Done;

impl Workflow for Done {
    const NAME: &'static str = "done";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test]
async fn longest_time_of_a_caller_is_refused_or_stored_readably() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let start = |key: &'static str| workflows.start(&Done, key, &());
    let refused = [
        start("expects/1").expect_within(EVER).run().await,
        start("retained/1").retention(Retention::For(EVER)).run().await,
        start("waits/1").wait_for(EVER).run().await,
    ];
    for outcome in refused {
        assert!(matches!(outcome, Err(locker::Error::Invalid(_))), "{outcome:?}");
    }
    assert!(desk.items().await.is_empty());
    let outcome = start("deadline/1").deadline(NEVER).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    every_time_is_read(&desk, "deadline").await;
}

#[tokio::test]
async fn completer_without_end_drives_what_is_due() {
    for deadline in [None, Some(NEVER)] {
        let desk = Desk::new().await;
        let (workflows, _) = desk.machine();
        workflows.start(&Done, "done/1", &()).enqueue().await.unwrap();
        desk.bench.clock.advance(LATER);
        let completer = Completer::new(&workflows).register(Done).drive_for(EVER);
        let completer = deadline.into_iter().fold(completer, Completer::deadline);
        let run = completer.run().await.unwrap();
        assert_eq!((run.completed, run.failed, run.broken_off), (1, 0, 0), "{deadline:?}");
        every_time_is_read(&desk, "drive_for").await;
        assert_eq!(desk.view("done/1").await.state(), State::Completed);
        Reaper::new(&completer).run().await.unwrap();
        every_time_is_read(&desk, "reaper").await;
    }
}
