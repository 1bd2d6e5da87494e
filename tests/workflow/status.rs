//! What needs an operator, grouped by cause: nothing that needs one is missing, and nothing else is
//! in it.

use std::time::Duration;

use locker::operator::{Console, Group, Machine, Need, Status, Subject};
use locker::workflow::{Completer, Flow, Reaper, Stop, Workflow};
use locker::{Class, Error, Failure, Locker, Scanner};
use locker_tests::{Fate, MINUTE, Wire, held_by};

use crate::bench::{Desk, LATER};

/// Fails at its first step, as it is told.
#[derive(Clone)]
struct Trip(Failure);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = u32;
    type Output = ();

    async fn run(&self, flow: &Flow, _: u32) -> Result<(), Stop> {
        flow.once("book").run(|_| async { Err::<(), _>(self.0.clone()) }).await
    }
}

/// The status of a desk, whose tokens are asked by this machine.
async fn status_of(desk: &Desk, locker: &Locker) -> Status {
    let (workflows, _) = desk.machine();
    Console::new().tokens(locker).workflows(&workflows).status().await.unwrap()
}

fn shown(status: &Status) -> Vec<(Need, &str, usize)> {
    status.groups.iter().map(|group| (group.need, group.cause.as_str(), group.count)).collect()
}

async fn start(desk: &Desk, key: &str, code: &Trip) {
    let (workflows, _) = desk.machine();
    workflows.start(code, key, &1).run().await.unwrap();
}

fn group(status: &Status, need: Need) -> &Group {
    status.groups.iter().find(|group| group.need == need).unwrap()
}

#[tokio::test(start_paused = true)]
async fn everything_that_needs_an_operator_is_in_a_group_and_nothing_else() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    assert!(status_of(&desk, &locker).await.is_well());

    for order in 0..3 {
        let lock = held_by(locker.token(("order", order)).expect_within(MINUTE)).await;
        lock.hold(&format!("550 <{order}@example.com>: relay denied")).await.unwrap();
    }
    let unlike = held_by(locker.token("odd")).await;
    unlike.hold("disk full").await.unwrap();
    for order in 10..12 {
        let lock = held_by(locker.token(("order", order)).expect_within(MINUTE)).await;
        lock.leave_in_doubt(&format!("no reply to ch_{order}x77q1")).await;
        desk.bench.clock.advance(Duration::from_secs(1));
    }
    let _late = held_by(locker.token("late").expect_within(MINUTE)).await;
    let _in_time = held_by(locker.token("in-time").expect_within(LATER * 24)).await;
    held_by(locker.token("done")).await.complete("done").await.unwrap();
    for number in 0..4 {
        start(
            &desk,
            &format!("trip/{number}"),
            &Trip(Failure::needs_operator(format!("no seat {number}777"))),
        )
        .await;
    }
    start(&desk, "trip/9", &Trip(Failure::needs_operator("full".to_owned()).code("seats.none"))).await;
    start(&desk, "trip/10", &Trip(Failure::needs_operator("none left".to_owned()).code("seats.none"))).await;
    start(&desk, "trip/11", &Trip(Failure::transient("HTTP 503".to_owned()))).await;
    desk.bench.clock.advance(MINUTE * 20);

    let status = status_of(&desk, &locker).await;
    assert_eq!(
        shown(&status),
        [
            (Need::InDoubt, "no reply to #", 2),
            (Need::Quarantined, "step book failed and needs an operator: no seat #", 4),
            (Need::Quarantined, "step book failed and needs an operator: [seats.none]", 2),
            (Need::Held, "550 <#>: relay denied", 3),
            (Need::Held, "disk full", 1),
            (Need::Overdue, "", 1),
            (Need::Undriven, "step book can be retried after #: its retries are exhausted: http 503", 1),
        ]
    );
    assert_eq!((status.count(), status.finished, status.is_well()), (14, true, false));
    let doubt = group(&status, Need::InDoubt);
    assert_eq!(
        (&doubt.subject, doubt.class, doubt.sample.as_str()),
        (&Subject::Tokens, Some(Class::InDoubt), "order/10")
    );
    assert_eq!(doubt.sample_cause.as_deref(), Some("no reply to ch_10x77q1"));
    assert_eq!((doubt.last.unwrap() - doubt.first.unwrap()).num_seconds(), 1);
    assert_eq!(group(&status, Need::Quarantined).subject, Subject::Workflows("trip".to_owned()));

    // The ids are the same in another report, and JSON has all of it.
    let again = status_of(&desk, &locker).await;
    assert_eq!(again.groups, status.groups);
    let json = serde_json::to_value(&again).unwrap();
    assert_eq!((&json["groups"][0]["need"], &json["groups"][0]["count"]), (&"inDoubt".into(), &2.into()));
    assert!(json["groups"][0]["first"].as_str().unwrap().ends_with('Z') && json.get("stoppedBy").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_fails_for_an_hour_and_is_still_retried_is_failing() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let code = Trip(Failure::transient("HTTP 503".to_owned()));
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflows.start(&code, "trip/1", &1).run().await.unwrap();
    for _ in 0..3 {
        desk.bench.clock.advance(LATER);
        locker::workflow::Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    }
    let status = status_of(&desk, &locker).await;
    let cause = "step book can be retried after #: its retries are exhausted: http 503";
    assert_eq!(shown(&status), [(Need::Failing, cause, 1)]);
    assert!(group(&status, Need::Failing).first.unwrap() <= desk.now() - LATER * 2);
}

#[tokio::test(start_paused = true)]
async fn unreadable_records_are_reported_by_status() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.impatient_machine();
    for order in 0..30 {
        held_by(locker.token(("order", order))).await.hold("odd").await.unwrap();
    }
    let console = Console::new().tokens(&locker);
    let cut = console.clone().limit(20).status().await.unwrap();
    assert_eq!((cut.count(), cut.finished, cut.is_well()), (20, false, false));

    let read = async |faults: Vec<Fate>| {
        wire.next(faults);
        console.status().await
    };
    let throttled = std::iter::repeat_n(Fate::Throttled, 100_000);
    let half = read([Fate::Ok].into_iter().chain(throttled.clone()).collect()).await.unwrap();
    assert!(matches!(half.stopped_by, Some(Error::Unavailable { .. })) && !half.is_well(), "{half:?}");
    assert!(serde_json::to_value(&half).unwrap()["stoppedBy"].is_string());
    let none = read(throttled.collect()).await;
    assert!(matches!(none, Err(Error::Unavailable { .. })), "{none:?}");
}

#[tokio::test(start_paused = true)]
async fn after_its_deadline_no_list_is_read_and_that_is_said() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    held_by(locker.token("held")).await.hold("odd").await.unwrap();
    // The deadline passes while the first list, after the last run of the scanner, is under way.
    wire.take();
    wire.next([Fate::Ok, Fate::HeldAfter]);
    let time_passes = async {
        while wire.held() == 0 {
            tokio::task::yield_now().await;
        }
        desk.bench.clock.advance(MINUTE);
        wire.let_through();
    };
    let console = Console::new().tokens(&locker).deadline(desk.now() + chrono::TimeDelta::seconds(1));
    let (status, ()) = tokio::join!(console.status(), time_passes);
    let status = status.unwrap();
    assert_eq!((status.count(), status.finished, wire.take().len()), (0, false, 2), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn it_reads_only_what_needs_an_operator() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    for order in 0..150 {
        let _in_time = held_by(locker.token(("order", order)).expect_within(LATER * 24)).await;
    }
    let (workflows, other): (_, Wire) = desk.machine();
    wire.take();
    let status = Console::new().tokens(&locker).workflows(&workflows).status().await.unwrap();
    assert!(status.is_well());
    assert_eq!((wire.take().len(), other.take().len(), status.rows_read), (3, 12, 0));
}

#[tokio::test(start_paused = true)]
async fn it_is_told_when_the_machinery_ran_last_and_when_it_has_fallen_silent() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.impatient_machine();
    let (workflows, _) = desk.machine();
    let runs = async || {
        let status = status_of(&desk, &locker).await;
        let runs: Vec<_> = status
            .runs
            .iter()
            .map(|run| (run.machine, run.at.map(|at| (desk.now() - at).num_minutes()), run.is_silent))
            .collect();
        let (workflows, _) = desk.machine();
        let health = Console::new().tokens(&locker).workflows(&workflows).health().await.unwrap();
        assert_eq!(health.is_well(), runs.iter().all(|(.., is_silent)| !is_silent), "{health:?}");
        (runs, status.is_well())
    };
    use Machine::{Completer as C, Reaper as R, Relay, Scanner as S};
    let unused = (Relay, None, false);
    // What never ran is no alarm: nobody may have meant it to.
    assert_eq!(runs().await, (vec![(S, None, false), (C, None, false), (R, None, false), unused], true));

    let completer = Completer::new(&workflows).register(Trip(Failure::transient("x".to_owned())));
    Scanner::new(&locker).run().await.unwrap();
    completer.run().await.unwrap();
    Reaper::new(&completer).run().await.unwrap();
    assert_eq!(
        runs().await,
        (vec![(S, Some(0), false), (C, Some(0), false), (R, Some(0), false), unused], true)
    );
    desk.bench.clock.advance(MINUTE * 6);
    assert_eq!(
        runs().await,
        (vec![(S, Some(6), false), (C, Some(6), true), (R, Some(6), false), unused], false)
    );
    desk.bench.clock.advance(MINUTE * 10);
    assert_eq!(
        runs().await,
        (vec![(S, Some(16), true), (C, Some(16), true), (R, Some(16), false), unused], false)
    );
    desk.bench.clock.advance(MINUTE * 180);
    assert_eq!(runs().await.0[2], (R, Some(196), true));

    // That it cannot be written down harms nothing but the report.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::Denied]);
    let scanned = Scanner::new(&locker).run().await.unwrap();
    assert!(scanned.finished);
    assert_eq!(runs().await.0[0], (S, Some(196), true));
    // A scan that its deadline cuts short has run, too.
    let _late = held_by(locker.token("late").expect_within(MINUTE)).await;
    desk.bench.clock.advance(MINUTE * 2);
    let soon = desk.now() + chrono::TimeDelta::seconds(1);
    wire.next([Fate::Ok, Fate::Ok, Fate::HeldAfter]);
    let time_passes = async {
        while wire.held() == 0 {
            tokio::task::yield_now().await;
        }
        desk.bench.clock.advance(MINUTE);
        wire.let_through();
    };
    let scanner = Scanner::new(&locker).deadline(soon);
    let (cut, ()) = tokio::join!(scanner.run(), time_passes);
    assert!(!cut.unwrap().finished);
    let status = status_of(&desk, &locker).await;
    assert_eq!((status.runs[0].at, status.runs[0].finished), (Some(desk.now()), false));
    assert!(status.runs[0].is_silent, "it ran, and has not seen everything for hours");
    assert!(Scanner::new(&locker).run().await.unwrap().finished);
    assert!(!status_of(&desk, &locker).await.runs[0].is_silent);
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_was_cut_short_and_cannot_read_when_one_saw_everything_does_not_count_as_one() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.impatient_machine();
    assert!(Scanner::new(&locker).run().await.unwrap().finished);
    desk.bench.clock.advance(MINUTE * 60);
    // It cannot count, finds nothing overdue, and cannot read the record of the last run.
    wire.next([Fate::Denied, Fate::Ok, Fate::Denied]);
    assert!(!Scanner::new(&locker).run().await.unwrap().finished);
    let status = status_of(&desk, &locker).await;
    assert!(status.runs[0].is_silent, "none has seen everything for an hour: {:?}", status.runs[0]);
}
