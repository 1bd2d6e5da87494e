//! What has no time left in a run is not begun in it, and a failure that did nothing is not made a
//! doubt by waiting.

use std::time::Duration;

use chrono::TimeDelta;
use locker::Failure;
use locker::workflow::{Completer, Flow, List, Outcome, State, StepState, Stop, Workflow};

use crate::bench::{Books, Desk};

/// A provider that asks to be left alone for 4 seconds, the first time.
#[derive(Clone)]
struct Busy {
    books: Books,
    once: bool,
}

impl Workflow for Busy {
    const NAME: &'static str = "busy";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let work = |_| async {
            self.books.enter("called");
            if self.books.entries().len() == 1 {
                Err(Failure::transient("503".to_owned()).after(Duration::from_secs(4)))
            } else {
                Ok(1)
            }
        };
        if self.once { flow.once("a").run(work).await } else { flow.step("a").run(work).await }
    }
}

#[tokio::test]
async fn a_pause_that_ends_after_the_deadline_is_left_to_the_next_run() {
    for once in [false, true] {
        let desk = Desk::new().await;
        let code = Busy { books: Books::default(), once };
        let (workflows, _) = desk.machine();
        let deadline = desk.now() + TimeDelta::seconds(2);
        let run = workflows.start(&code, "busy/1", &()).deadline(deadline).run();
        let outcome =
            tokio::time::timeout(Duration::from_secs(2), run).await.expect("it does not wait").unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "once: {once}: {outcome:?}");
        let view = desk.view("busy/1").await;
        assert_eq!(view.listed(), Some(List::Unfinished));
        let states: Vec<_> = view.steps().iter().map(|step| step.state()).collect();
        assert_eq!(states, if once { vec![StepState::Withdrawn] } else { vec![] }, "it did not happen");
        desk.settle(&code).await;
        assert_eq!(desk.view("busy/1").await.state(), State::Completed);
        assert_eq!(code.books.entries().len(), 2);
    }
}

/// A step that says that it takes long.
#[derive(Clone)]
struct Long(Books, Duration);

impl Workflow for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let report = flow.once("report").expect_within(self.1);
        report
            .run(|_| async {
                self.0.enter("begun");
                Ok(1)
            })
            .await
    }
}

#[tokio::test]
async fn a_step_is_not_begun_in_a_run_that_has_less_time() {
    let desk = Desk::new().await;
    let code = Long(Books::default(), Duration::from_secs(20));
    let (workflows, _) = desk.machine();
    let deadline = desk.now() + TimeDelta::milliseconds(500);
    let outcome = workflows.start(&code, "long/1", &()).deadline(deadline).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert!(code.0.entries().is_empty());
    desk.settle(&code).await;
    assert_eq!(desk.view("long/1").await.state(), State::Completed);
    assert_eq!(code.0.entries(), ["begun"]);
}

#[tokio::test]
async fn step_that_a_completer_has_no_time_for_is_left_to_another_driver() {
    let desk = Desk::new().await;
    let code = Long(Books::default(), Duration::from_secs(60));
    let (workflows, _) = desk.machine();
    workflows.start(&code, "long/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(1));
    let completer = Completer::new(&workflows).register(code.clone());
    let report = completer.clone().drive_for(Duration::from_secs(8)).run().await.unwrap();
    assert_eq!(report.waiting, 1, "{report:?}");
    assert!(code.0.entries().is_empty());
    let view = desk.view("long/1").await;
    let reason = view.reason().unwrap();
    let said = "it is expected to take 60 s, and a run of this completer takes at most 8 s; raise \
                `drive_for`, or let its caller run it";
    assert!(reason.ends_with(said), "{reason}");
    desk.bench.clock.advance(Duration::from_secs(60));
    assert_eq!(completer.drive_for(Duration::from_secs(90)).run().await.unwrap().completed, 1);
}

/// Two charges that do not say how long they take. The first takes most of a run.
#[derive(Clone)]
struct Two(Books, locker_tests::TestClock);

impl Workflow for Two {
    const NAME: &'static str = "two";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["first", "second"] {
            let charge = |_| async {
                self.0.enter(name);
                if name == "first" {
                    self.1.advance(Duration::from_secs(40));
                }
                Ok(())
            };
            flow.once(name).run(charge).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_completer_begins_nothing_that_it_may_have_no_time_for() {
    let desk = Desk::new().await;
    let code = Two(Books::default(), desk.bench.clock.clone());
    let (workflows, _) = desk.machine();
    workflows.start(&code, "two/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(1));
    let completer = Completer::new(&workflows).register(code.clone()).drive_for(Duration::from_secs(60));
    assert_eq!(completer.run().await.unwrap().waiting, 1);
    assert_eq!(code.0.entries(), ["first"], "20 of 60 seconds are left, and the reserve is 30");
    desk.settle(&code).await;
    assert_eq!(code.0.entries(), ["first", "second"]);
    assert_eq!(desk.view("two/1").await.state(), State::Completed);
}
