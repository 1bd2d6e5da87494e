//! Pauses between two runs of a workflow: those that failures cause, and those that its code
//! chooses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{
    Completer, Flow, Limits, List, Outcome, Reaper, RetryPolicy, State, Stop, Workflow, Workflows,
};
use locker::{Clock as _, Failure, Ids};
use locker_tests::{HOUR, TestClock};

use crate::bench::{Books, Desk};

/// Gives the shortest pauses, or the longest.
#[derive(Debug)]
struct Jitter(f64);

impl Ids for Jitter {
    fn attempt(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("{:032}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn jitter(&self) -> f64 {
        self.0
    }
}

/// Never succeeds.
#[derive(Clone)]
struct Down;

impl Workflow for Down {
    const NAME: &'static str = "down";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let down = |_| async { Err::<(), _>(Failure::transient("down".to_owned())) };
        flow.step("down").retry(RetryPolicy::never()).run(down).await
    }
}

#[tokio::test]
async fn a_pause_is_between_half_of_its_range_and_all_of_it() {
    for jitter in [0.0, 1.0] {
        let desk = Desk::new().await;
        let workflows = Workflows::builder(&desk.bench.client, &desk.table)
            .with_clock(Arc::new(desk.bench.clock.clone()))
            .with_ids(Arc::new(Jitter(jitter)))
            .build()
            .unwrap();
        workflows.start(&Down, "down/1", &()).run().await.unwrap();
        let mut range = Duration::from_secs(5);
        for attempt in 1..12 {
            let due = desk.view("down/1").await.due();
            let pause = (due - desk.now()).to_std().unwrap();
            assert_eq!(pause, range.mul_f64(0.5 + 0.5 * jitter), "after attempt {attempt}");
            desk.bench.clock.advance(pause);
            workflows.start(&Down, "down/1", &()).run().await.unwrap();
            range = (2 * range).min(Limits::default().backoff_cap);
        }
        assert_eq!(range, Limits::default().backoff_cap);
    }
}

fn time(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(millis).expect("a test's time fits")
}

/// Waits for an approval that is due after 78 hours, and asks for it before and after.
#[derive(Clone)]
struct Approval {
    books: Books,
}

impl Workflow for Approval {
    const NAME: &'static str = "approval";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        self.books.enter("run");
        flow.sleep("pause", 78 * HOUR).await?;
        let ask = |_| async {
            self.books.enter("ask");
            Ok("approved".to_owned())
        };
        flow.step("ask").run(ask).await
    }
}

#[tokio::test]
async fn a_workflow_that_waits_for_78_hours_is_left_alone_and_resumes_then() {
    let desk = Desk::new().await;
    let code = Approval { books: Books::default() };
    let (workflows, _) = desk.machine_with(|_, limits| *limits = Limits::default());
    let outcome = workflows.start(&code, "approval/1", &()).run().await.unwrap();
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    let until = desk.now() + 78 * HOUR;
    assert_eq!(waiting.due(), until);
    let completer = Completer::new(&workflows).register(code.clone());
    let reaper = Reaper::new(&completer);
    for hour in 1..78 {
        desk.bench.clock.advance(HOUR);
        assert_eq!(completer.run().await.unwrap().claimed, 0, "hour {hour}");
        reaper.run().await.unwrap();
        let view = desk.view("approval/1").await;
        assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 0), "hour {hour}");
        assert_eq!(view.since(), until);
    }
    assert_eq!(code.books.entries(), ["run"]);
    desk.bench.clock.advance(HOUR + Duration::from_secs(1));
    assert_eq!(completer.run().await.unwrap().completed, 1);
    assert_eq!(code.books.entries(), ["run", "run", "ask"]);
    let view = desk.view("approval/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"approved\"")));
}

/// Asks every hour, and waits in between; the answer comes after a week.
#[derive(Clone)]
struct Polls {
    books: Books,
    clock: TestClock,
}

impl Workflow for Polls {
    const NAME: &'static str = "polls";
    type Input = i64;
    type Output = u32;

    async fn run(&self, flow: &Flow, begun: i64) -> Result<u32, Stop> {
        let begun = time(begun);
        for number in 0_u32.. {
            flow.sleep_until(("pause", number), begun + number * HOUR).await?;
            let ask = |_| async {
                self.books.enter("ask");
                Ok(self.clock.now() >= begun + 7 * 24 * HOUR)
            };
            if flow.step(format!("ask#{number}")).run(ask).await? {
                return Ok(number);
            }
        }
        Err(Stop::fail("no answer"))
    }
}

#[tokio::test]
async fn a_workflow_that_polls_for_a_week_uses_up_no_attempts() {
    let desk = Desk::new().await;
    let code = Polls { books: Books::default(), clock: desk.bench.clock.clone() };
    let (workflows, _) = desk.machine_with(|_, limits| *limits = Limits::default());
    workflows.start(&code, "polls/1", &desk.now().timestamp_millis()).enqueue().await.unwrap();
    let completer = Completer::new(&workflows).register(code.clone());
    let reaper = Reaper::new(&completer);
    desk.bench.clock.advance(Duration::from_secs(1));
    for hour in 0..=7 * 24 {
        assert_eq!(desk.view("polls/1").await.attempts(), 0, "hour {hour}");
        let report = completer.run().await.unwrap();
        assert_eq!((report.claimed, report.quarantined), (1, 0), "hour {hour}: {report:?}");
        reaper.run().await.unwrap();
        desk.bench.clock.advance(HOUR);
    }
    assert_eq!(desk.view("polls/1").await.result(), Some("168"));
    assert_eq!(code.books.entries().len(), 169);
}
