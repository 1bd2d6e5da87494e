//! The reaper: deletes finished workflows, keeps evidence and a ledger, and gives the rest one last
//! attempt.

use std::sync::Arc;
use std::time::Duration;

use locker::workflow::{
    Completer, Flow, Limits, List, Outcome, Reaper, RetryPolicy, State, Stop, Workflow, Workflows,
};
use locker::{Failure, Intervened, Operator, Retention};
use locker_tests::{Exchange, Fate, Gate, kill};

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};
use crate::large_results::noise;

const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    Well,
    Fails,
    Doubt,
    Message,
    Down,
}

#[derive(Clone)]
struct Job(Books, Course);

impl Workflow for Job {
    const NAME: &'static str = "job";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let Self(books, fate) = self;
        books.enter("drive");
        let never = RetryPolicy::never;
        flow.once("work").retry(never()).run(|_| async { Ok(1) }).await?;
        match fate {
            Course::Well => {}
            Course::Fails => return Err(Stop::fail("no")),
            Course::Doubt => {
                let lost = flow
                    .once("doubt")
                    .retry(never())
                    .run(|_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) });
                // The code continues nevertheless, and leaves the step in doubt.
                drop(lost.await);
            }
            Course::Message => drop(flow.atomic("tell").message("told", &1).commit(&()).await?),
            Course::Down => {
                let down = |_| async { Err::<(), _>(Failure::transient("down".to_owned())) };
                flow.step("down").retry(never()).run(down).await?;
            }
        }
        Ok("done".to_owned())
    }
}

async fn played(desk: &Desk, key: &str, fate: Course) -> Job {
    let job = Job(Books::default(), fate);
    desk.machine().0.start(&job, key, &()).run().await.unwrap();
    job
}

fn reaper(desk: &Desk, job: &Job) -> (Reaper, locker_tests::Wire) {
    let (workflows, wire) = desk.machine();
    (Reaper::new(&Completer::new(&workflows).register(job.clone())), wire)
}

async fn sorts(desk: &Desk, key: &str) -> Vec<String> {
    let mut sorts: Vec<_> = desk
        .items()
        .await
        .into_iter()
        .filter(|item| item["workflow"].as_s().unwrap() == key)
        .map(|item| item["item"].as_s().unwrap().clone())
        // Another run that fails may add a cause.
        .filter(|item| !item.starts_with("~failed/"))
        .collect();
    sorts.sort();
    sorts
}

#[tokio::test]
async fn a_finished_workflow_is_deleted_after_its_retention_and_leaves_a_ledger_record() {
    let desk = Desk::new().await;
    let job = played(&desk, "job/1", Course::Well).await;
    played(&desk, "job/2", Course::Fails).await;
    let (reaper, _) = reaper(&desk, &job);
    desk.bench.clock.advance(LATER);
    assert_eq!(reaper.run().await.unwrap().deleted, 0, "its retention is not over");
    desk.bench.clock.advance(YEAR);
    let reaped = reaper.run().await.unwrap();
    assert_eq!((reaped.deleted, reaped.kept, reaped.failed), (2, 0, 0), "{reaped:?}");
    for (key, state) in [("job/1", "completed"), ("job/2", "failed")] {
        let items = desk.items().await;
        let left: Vec<_> = items.iter().filter(|item| item["workflow"].as_s().unwrap() == key).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0]["item"].as_s().unwrap().starts_with("~ledger/"));
        assert_eq!(left[0]["state"].as_s().unwrap(), state);
        assert_eq!(left[0]["steps"].as_n().unwrap(), "1");
        assert!(!left[0].contains_key("status"), "it is in no listing");
    }
    // The key is free again, and the ledger stays.
    let outcome = desk.machine().0.start(&job, "job/1", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if !answer.is_replay()), "{outcome:?}");
    assert_eq!(job.0.count("drive"), 2);
    assert!(sorts(&desk, "job/1").await.last().unwrap().starts_with("~ledger/"));
}

/// Its ledger records are kept for a year.
struct Brief;

impl Workflow for Brief {
    const NAME: &'static str = "brief";
    type Input = ();
    type Output = ();

    fn limits(&self, mut limits: Limits) -> Limits {
        limits.ledger = Retention::For(YEAR);
        limits
    }

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test]
async fn the_ledger_record_is_kept_as_long_as_the_type_sets() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Brief, "brief/1", &()).run().await.unwrap();
    desk.bench.clock.advance(YEAR);
    Reaper::new(&Completer::new(&workflows).register(Brief)).run().await.unwrap();
    let items = desk.items().await;
    let record = items.iter().find(|item| item["item"].as_s().unwrap().starts_with("~ledger/")).unwrap();
    let ttl: i64 = record["ttl"].as_n().unwrap().parse().unwrap();
    // It is rounded up to a second.
    let kept = ttl - desk.now().timestamp() - 1;
    assert_eq!(kept, YEAR.as_secs().cast_signed());
}

#[tokio::test]
async fn nothing_unfinished_is_ever_deleted() {
    let desk = Desk::new().await;
    for number in 0..30 {
        played(&desk, &format!("job/{number}"), Course::Well).await;
    }
    let mut kept = Vec::new();
    for (key, fate) in
        [("job/down", Course::Down), ("job/doubt", Course::Doubt), ("job/message", Course::Message)]
    {
        played(&desk, key, fate).await;
        kept.push((key, sorts(&desk, key).await));
    }
    let quarantined = played(&desk, "job/quarantined", Course::Down).await;
    desk.settle(&quarantined).await;
    kept.push(("job/quarantined", sorts(&desk, "job/quarantined").await));

    let (reaper, _) = reaper(&desk, &quarantined);
    let mut forgotten = 0;
    for _ in 0..5 {
        desk.bench.clock.advance(YEAR);
        let reaped = reaper.run().await.unwrap();
        assert_eq!(reaped.failed, 0);
        forgotten += reaped.deleted;
    }
    assert_eq!(forgotten, 30);
    for (key, before) in kept {
        assert_eq!(sorts(&desk, key).await, before, "{key}");
    }
    // The message is sent, and then its workflow may be deleted.
    let (workflows, _) = desk.machine();
    for message in desk.view("job/message").await.messages() {
        assert_eq!(workflows.sent(message).await.unwrap(), locker::workflow::SentReport::Deleted);
    }
    desk.bench.clock.advance(YEAR);
    assert_eq!(reaper.run().await.unwrap().deleted, 1);
}

#[tokio::test]
async fn an_old_unfinished_workflow_gets_one_last_attempt_and_is_quarantined() {
    let desk = Desk::new().await;
    let job = played(&desk, "job/down", Course::Down).await;
    let (reaper, _) = reaper(&desk, &job);
    desk.bench.clock.advance(LATER);
    assert_eq!(reaper.run().await.unwrap().quarantined, 0, "it is not old");
    desk.bench.clock.advance(Duration::from_secs(97 * 3600));
    let reaped = reaper.run().await.unwrap();
    assert_eq!((reaped.quarantined, job.0.count("drive")), (1, 2), "{reaped:?}");
    let view = desk.view("job/down").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert!(view.reason().unwrap().starts_with("unfinished since "), "{:?}", view.reason());
}

#[tokio::test]
async fn the_last_attempt_may_finish_it() {
    let desk = Desk::new().await;
    played(&desk, "job/1", Course::Down).await;
    let mended = Job(Books::default(), Course::Well);
    desk.bench.clock.advance(Duration::from_secs(98 * 3600));
    let reaped = reaper(&desk, &mended).0.run().await.unwrap();
    assert_eq!((reaped.completed, reaped.quarantined), (1, 0), "{reaped:?}");
    assert_eq!(desk.view("job/1").await.state(), State::Completed);
}

#[tokio::test]
async fn killed_at_every_exchange_it_resumes_where_it_was() {
    let desk = Desk::new().await;
    let mut n = 0;
    loop {
        let key = format!("job/{n}");
        let job = played(&desk, &key, Course::Well).await;
        desk.bench.clock.advance(YEAR);
        let (dying, wire) = reaper(&desk, &job);
        wire.next(std::iter::repeat_n(Fate::Ok, n).chain([Fate::Hangs]));
        let run = tokio::spawn(async move { dying.run().await.map(drop) });
        while wire.count() <= n && !run.is_finished() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let ended = run.is_finished();
        kill(run).await;
        desk.bench.clock.advance(LATER);
        let (workflows, _) = desk.machine();
        if workflows.get(key.as_str(), 1).await.unwrap().is_some() {
            let reaped = reaper(&desk, &job).0.run().await.unwrap();
            assert_eq!(reaped.deleted, 1, "killed at {n}: {reaped:?}");
        }
        let left = sorts(&desk, &key).await;
        assert!(left.len() == 1 && left[0].starts_with("~ledger/"), "killed at {n}: {left:?}");
        let items = desk.items().await;
        let ledger = items.iter().find(|item| item["workflow"].as_s().unwrap() == &key).unwrap();
        assert_eq!(ledger["state"].as_s().unwrap(), "completed", "killed at {n}");
        n += 1;
        if ended {
            break;
        }
    }
    assert!(n > 5, "{n}");
}

#[tokio::test]
async fn items_that_dynamodb_left_in_a_batch_are_deleted_next() {
    let desk = Desk::new().await;
    let large = Script::new(|_, _| async { Ok(noise(10_000)) });
    desk.machine().0.start(&large, "large/1", &input()).run().await.unwrap();
    assert!(sorts(&desk, "large/1").await.iter().any(|item| item.starts_with("#answer/")));
    desk.bench.clock.advance(YEAR);
    let gate = Gate::default();
    gate.leave_batch();
    let workflows = Workflows::builder(&desk.bench.engine.client_behind(&gate), &desk.table)
        .with_clock(Arc::new(desk.bench.clock.clone()))
        .build()
        .unwrap();
    let reaped = Reaper::new(&Completer::new(&workflows).register(large)).run().await.unwrap();
    assert_eq!((reaped.deleted, reaped.failed), (1, 0), "{reaped:?}");
    let left = sorts(&desk, "large/1").await;
    assert!(left.len() == 1 && left[0].starts_with("~ledger/"), "{left:?}");
}

/// The index still lists the workflow that another reaper has deleted since.
#[tokio::test]
async fn next_workflow_of_a_key_stays_for_its_own_retention() {
    let desk = Desk::new().await;
    let job = played(&desk, "job/1", Course::Well).await;
    desk.bench.clock.advance(YEAR);
    let (workflows, wire) = desk.machine_with(|settings, _| {
        settings.attempt_timeout = Duration::from_secs(60);
        settings.give_up_after = Duration::from_secs(60);
    });
    let reads_it =
        |exchange: &Exchange| exchange.operation == "Query" && exchange.request["IndexName"].is_null();
    wire.matching(reads_it, Fate::HeldBefore);
    let late = Reaper::new(&Completer::new(&workflows).register(job.clone()));
    let late = tokio::spawn(async move { late.run().await });
    while wire.held() == 0 {
        assert!(!late.is_finished(), "it reads the workflow");
        tokio::task::yield_now().await;
    }
    assert_eq!(reaper(&desk, &job).0.run().await.unwrap().deleted, 1);
    played(&desk, "job/1", Course::Well).await;
    wire.let_through();
    let reaped = late.await.unwrap().unwrap();
    assert_eq!((reaped.deleted, reaped.failed), (0, 0), "{reaped:?}");
    assert_eq!(desk.view("job/1").await.state(), State::Completed);
}

#[tokio::test]
async fn a_tombstone_is_deleted_like_any_other() {
    let desk = Desk::new().await;
    let job = Job(Books::default(), Course::Well);
    let operator = Operator::new("alice", "the customer called").unwrap();
    assert_eq!(desk.machine().0.cancel("job/1", 1, &operator).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(YEAR);
    assert_eq!(reaper(&desk, &job).0.run().await.unwrap().deleted, 1);
}
