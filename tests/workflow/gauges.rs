//! The gauges that alarms watch are the numbers of the one list.

use std::time::Duration;

use locker::operator::{Console, Need, Subject};
use locker::workflow::{Completer, Event, Flow, RetryPolicy, Stop, Workflow};
use locker::{Failure, Scanner};
use locker_tests::{DAY, MINUTE, Recorded, held_by};

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input};

#[derive(Clone)]
struct Trip(Failure);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("book").retry(RetryPolicy::never()).run(|_| async { Err::<(), _>(self.0.clone()) }).await
    }
}

const PAID: Event<u32> = Event::named("paid");

#[derive(Clone)]
struct Paid;

impl Workflow for Paid {
    const NAME: &'static str = "paid";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        Ok(flow.wait_for(PAID, DAY).await?.unwrap_or_default())
    }
}

#[tokio::test(start_paused = true)]
async fn scanner_and_completer_report_the_numbers_of_status() {
    let recorded = Recorded::start();
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let short = |key: &'static str| locker.token(key).expect_within(MINUTE);
    for key in ["held/1", "held/2"] {
        held_by(short(key)).await.hold("no relay").await.unwrap();
    }
    for key in ["doubt/1", "doubt/2", "doubt/3"] {
        held_by(short(key)).await.leave_in_doubt("no reply").await;
    }
    let late = ["late/1", "late/2", "late/3", "late/4"];
    let mut owners = Vec::new();
    for key in late {
        owners.push(held_by(short(key)).await);
    }
    let odd = Trip(Failure::needs_operator("no seat".to_owned()));
    let down = Trip(Failure::transient("HTTP 503".to_owned()));
    for (code, keys) in [(&odd, 0..5), (&down, 10..12)] {
        for key in keys {
            workflows.start(code, ("trip", key), &()).run().await.unwrap();
        }
    }
    for _ in 0..2 {
        desk.bench.clock.advance(LATER);
        Completer::new(&workflows).register(down.clone()).run().await.unwrap();
    }
    workflows.start(&down, "trip/20", &()).run().await.unwrap();
    for key in 0..3 {
        workflows.start(&Paid, ("paid", key), &()).run().await.unwrap();
    }
    for value in [1, 2, 3] {
        let _ = workflows.signal("paid/0", PAID, &value).await.unwrap();
    }
    desk.bench.clock.advance(MINUTE * 20);

    Scanner::new(&locker).run().await.unwrap();
    // It has no code, so that it leaves all as it is.
    Completer::new(&workflows).run().await.unwrap();
    let status = Console::new().tokens(&locker).workflows(&workflows).status().await.unwrap();
    let count = |needs: &[Need]| {
        let of = status.groups.iter().filter(|group| needs.contains(&group.need));
        of.map(|group| group.count).sum::<usize>()
    };
    let metrics = recorded.take();
    let (tokens, of_workflows): (Vec<_>, Vec<_>) =
        status.groups.iter().partition(|group| group.subject == Subject::Tokens);
    assert_eq!((tokens.len(), of_workflows.len()), (3, 5), "{status:?}");
    assert_eq!((status.waiting.unwrap().at_least, metrics.gauge("workflowsWaiting")), (2, Some(2.0)));
    for (name, needs, expected) in [
        ("missingTasks", &[Need::Overdue, Need::InDoubt][..], 7_u32),
        ("tokensHeld", &[Need::Held], 2),
        ("workflowsInQuarantine", &[Need::Quarantined], 5),
        ("failingWorkflows", &[Need::Failing], 2),
        ("lateEvents", &[Need::Late], 2),
        ("unfinishedWorkflows", &[Need::Undriven], 2),
    ] {
        assert_eq!((count(needs), metrics.gauge(name)), (expected as usize, Some(expected.into())), "{name}");
    }
}

/// The next run drives a workflow that became due during this run. Under a steady load, each run
/// leaves such workflows.
#[tokio::test(start_paused = true)]
async fn workflow_that_becomes_due_during_a_run_is_no_backlog() {
    let recorded = Recorded::start();
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let (begins, clock) = (workflows.clone(), desk.bench.clock.clone());
    let code = Script::new(move |_, _| {
        let (begins, clock) = (begins.clone(), clock.clone());
        async move {
            clock.advance(Duration::from_secs(1));
            let begun = begins.start(&Paid, "paid/1", &()).enqueue().await;
            assert!(begun.is_ok(), "{begun:?}");
            clock.advance(Duration::from_secs(1));
            Ok("begun".to_owned())
        }
    });
    drop(workflows.start(&code, "s/1", &input()).enqueue().await.unwrap());
    desk.bench.clock.advance(LATER);
    let done = Completer::new(&workflows).register(code).register(Paid).run().await.unwrap();
    assert_eq!((done.claimed, recorded.take().gauge("unfinishedWorkflows")), (1, Some(0.0)));
    // A run without its code leaves it: it was due before that run.
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).run().await.unwrap();
    assert_eq!(recorded.take().gauge("unfinishedWorkflows"), Some(1.0));
}
