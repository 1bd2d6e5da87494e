//! Items of another layout version: refused by every verb and left as they are, and no run stops at
//! them. And what this version makes of attributes that it does not know, or that are absent.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue::{self, N, S};
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, Reaper, RetryPolicy, State, Stop, View,
    Workflow,
};
use locker::{Error, Failure, Intervened};
use locker_tests::ada;

use crate::bench::{Books, Desk, LATER};

/// The layout that this code writes, and its neighbours.
const OURS: u32 = 6;
const OTHERS: [u32; 2] = [OURS - 1, OURS + 1];

type Item = HashMap<String, AttributeValue>;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Done,
    /// Its charge is in doubt.
    Doubt,
    /// It waits for its next attempt, and its charge is done.
    Down,
}

#[derive(Clone)]
struct Job(Books);

impl Workflow for Job {
    const NAME: &'static str = "job";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, fate: String) -> Result<String, Stop> {
        let charge = flow.once("charge").retry(RetryPolicy::never()).compensate(&"refund");
        let charged = charge.run(|_| async {
            self.0.enter("charge");
            match fate.as_str() {
                "Doubt" => Err(Failure::in_doubt("no reply".to_owned())),
                _ => Ok("receipt".to_owned()),
            }
        });
        let charged: String = charged.await?;
        let next = flow.step("next").retry(RetryPolicy::never());
        next.run(|_| async {
            match fate.as_str() {
                "Down" => Err(Failure::transient("down".to_owned())),
                _ => Ok(()),
            }
        })
        .await?;
        Ok(charged)
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.enter("refund");
        Ok(Compensated::Done)
    }
}

async fn played(desk: &Desk, key: &str, fate: Fate) -> Job {
    let job = Job(Books::default());
    desk.machine().0.start(&job, key, &format!("{fate:?}")).run().await.unwrap();
    job
}

async fn item(desk: &Desk, workflow: &str, item: &str) -> Item {
    let is = |it: &Item| it["workflow"].as_s().unwrap() == workflow && it["item"].as_s().unwrap() == item;
    desk.items().await.into_iter().find(is).unwrap_or_else(|| panic!("{workflow} {item}"))
}

async fn put(desk: &Desk, item: Item) {
    desk.bench.client.put_item().table_name(&desk.table).set_item(Some(item)).send().await.expect("put");
}

/// Other code writes the item: with its version, and with a revision of its own, as for every
/// write.
async fn rewrite(desk: &Desk, workflow: &str, name: &str, version: u32) {
    let mut known = item(desk, workflow, name).await;
    known.insert("version".to_owned(), N(version.to_string()));
    known.insert("revision".to_owned(), S(format!("of version {version}")));
    put(desk, known).await;
}

fn is_refused(error: &Error, version: u32) -> bool {
    let expected = match version {
        newer if newer > OURS => format!("version {version}, this code reads up to {OURS};"),
        _ => format!("version {version}, this code reads version {OURS};"),
    };
    matches!(error, Error::Record { reason } if reason.contains(&expected))
}

/// Every verb of an operator, with what was seen before other code wrote.
async fn operated(desk: &Desk, seen: &View) -> Vec<Result<Intervened, Error>> {
    let (workflows, alice) = (desk.machine().0, ada());
    let result = serde_json::json!("receipt");
    vec![
        workflows.retry(seen, &alice).await,
        workflows.compensate(seen, &alice).await,
        workflows.close(seen, &alice).await,
        workflows.retry_step(seen, "charge", &alice).await,
        workflows.retry_step_with_new_key(seen, "charge", &alice).await,
        workflows.resolve_step(seen, "charge", &result, &alice).await,
        workflows.correct_step(seen, "charge", &result, &alice).await,
        workflows.skip_step(seen, "charge", &alice).await,
        workflows.cancel_step(seen, "later", &alice).await,
        workflows.cancel("job/1", 1, &alice).await,
    ]
}

/// Nothing was written: it was refused as of another version, or as changed, or is not possible as
/// it was seen.
fn wrote_nothing(done: &Result<Intervened, Error>, version: u32) -> bool {
    match done {
        Ok(Intervened::Changed | Intervened::NotPossible) => true,
        Ok(_) => false,
        Err(error) => is_refused(error, version),
    }
}

#[tokio::test]
async fn every_verb_refuses_a_header_of_another_version_and_writes_nothing() {
    for version in OTHERS {
        for fate in [Fate::Done, Fate::Doubt, Fate::Down] {
            let desk = Desk::new().await;
            let job = played(&desk, "job/1", fate).await;
            let (seen, entries) = (desk.view("job/1").await, job.0.entries());
            rewrite(&desk, "job/1", "#", version).await;
            let before = desk.items().await;
            let (workflows, _) = desk.machine();
            let input = format!("{fate:?}");
            let start = || workflows.start(&job, "job/1", &input);
            for refused in [start().run().await, start().enqueue().await] {
                assert!(is_refused(refused.as_ref().unwrap_err(), version), "{fate:?}: {refused:?}");
            }
            let reported = workflows.report("job/1", "charge").completed(&"receipt").await;
            assert!(is_refused(reported.as_ref().unwrap_err(), version), "{fate:?}: {reported:?}");
            let read = workflows.get("job/1", 1).await;
            assert!(read.is_err_and(|error| is_refused(&error, version)), "{fate:?}");
            for (verb, done) in operated(&desk, &seen).await.iter().enumerate() {
                assert!(wrote_nothing(done, version), "{fate:?}, verb {verb}: {done:?}");
            }
            assert_eq!(desk.items().await, before, "{fate:?}");
            assert_eq!(job.0.entries(), entries, "{fate:?}");
        }
    }
}

#[tokio::test]
async fn every_verb_refuses_a_step_of_another_version_and_leaves_it_as_it_is() {
    for version in OTHERS {
        for fate in [Fate::Doubt, Fate::Down] {
            let desk = Desk::new().await;
            let job = played(&desk, "job/1", fate).await;
            let (seen, entries) = (desk.view("job/1").await, job.0.entries());
            rewrite(&desk, "job/1", "step/charge", version).await;
            let before = item(&desk, "job/1", "step/charge").await;
            let (workflows, _) = desk.machine();
            let reported = workflows.report("job/1", "charge").completed(&"receipt").await;
            assert!(is_refused(reported.as_ref().unwrap_err(), version), "{fate:?}: {reported:?}");
            let read = workflows.get("job/1", 1).await;
            assert!(read.is_err_and(|error| is_refused(&error, version)), "{fate:?}");
            let (alice, result) = (ada(), serde_json::json!("receipt"));
            for done in [
                workflows.retry_step(&seen, "charge", &alice).await,
                workflows.retry_step_with_new_key(&seen, "charge", &alice).await,
                workflows.resolve_step(&seen, "charge", &result, &alice).await,
                workflows.correct_step(&seen, "charge", &result, &alice).await,
                workflows.skip_step(&seen, "charge", &alice).await,
            ] {
                assert!(wrote_nothing(&done, version), "{fate:?}: {done:?}");
            }
            // The header is of this version, and a driver claims it before it reads the steps.
            let _ = workflows.retry(&seen, &alice).await.unwrap();
            desk.bench.clock.advance(LATER);
            let driven = workflows.start(&job, "job/1", &format!("{fate:?}")).run().await;
            let driven = driven.map(|_| ()).unwrap_err();
            assert!(is_refused(&driven, version), "{fate:?}: {driven:?}");
            let compensated = workflows.cancel("job/1", 1, &alice).await.unwrap();
            assert_eq!(compensated, Intervened::Done, "{fate:?}");
            desk.bench.clock.advance(LATER);
            Completer::new(&workflows).register(job.clone()).run().await.unwrap();
            assert_eq!(item(&desk, "job/1", "step/charge").await, before, "{fate:?}");
            assert_eq!(job.0.entries(), entries, "{fate:?}");
        }
    }
}

#[tokio::test]
async fn a_completer_that_meets_one_reports_it_and_drives_the_others() {
    for (version, name) in OTHERS.into_iter().flat_map(|version| [(version, "#"), (version, "step/charge")]) {
        let desk = Desk::new().await;
        let job = played(&desk, "job/1", Fate::Down).await;
        for n in 2..5 {
            desk.machine().0.start(&job, format!("job/{n}"), &"Done".to_owned()).enqueue().await.unwrap();
        }
        rewrite(&desk, "job/1", name, version).await;
        let before = item(&desk, "job/1", name).await;
        desk.bench.clock.advance(LATER);
        let (workflows, _) = desk.machine();
        let report = Completer::new(&workflows).register(job.clone()).run().await.unwrap();
        assert_eq!((report.completed, report.failed, report.finished), (3, 1, true), "{name}: {report:?}");
        assert_eq!(item(&desk, "job/1", name).await, before, "{name}");
        let listed = workflows.list(List::Finished).fetch().await.unwrap().items;
        assert_eq!(listed.len(), 3, "{name}: {listed:?}");
    }
}

#[tokio::test]
async fn a_reaper_that_meets_one_keeps_it_reports_it_and_deletes_the_others() {
    for (version, name) in OTHERS.into_iter().flat_map(|version| [(version, "#"), (version, "step/charge")]) {
        let desk = Desk::new().await;
        for n in 1..5 {
            played(&desk, &format!("job/{n}"), Fate::Done).await;
        }
        rewrite(&desk, "job/1", name, version).await;
        let before = item(&desk, "job/1", name).await;
        desk.bench.clock.advance(LATER * 24 * 400);
        let (workflows, _) = desk.machine();
        let completer = Completer::new(&workflows).register(Job(Books::default()));
        let report = Reaper::new(&completer).run().await.unwrap();
        assert_eq!((report.deleted, report.failed), (3, 1), "{name}: {report:?}");
        assert_eq!(item(&desk, "job/1", name).await, before, "{name}");
        // It is still shown, so that somebody can see to it.
        let listed = workflows.list(List::Finished).fetch().await.unwrap().items;
        assert_eq!(listed.iter().map(|it| it.workflow.as_str()).collect::<Vec<_>>(), ["job/1"], "{name}");
    }
}

/// Newer code that adds an attribute has to raise the layout version: a write of this code puts the
/// whole item, and with it goes what it does not know.
#[tokio::test]
async fn an_attribute_of_the_same_version_that_is_unknown_is_read_over_and_lost_at_the_next_write() {
    let desk = Desk::new().await;
    let job = played(&desk, "job/1", Fate::Doubt).await;
    for name in ["#", "step/charge"] {
        let mut known = item(&desk, "job/1", name).await;
        known.insert("tenantPlan".to_owned(), S("gold".to_owned()));
        put(&desk, known).await;
    }
    let (workflows, _) = desk.machine();
    let seen = desk.view("job/1").await;
    for name in ["#", "step/charge"] {
        assert!(item(&desk, "job/1", name).await.contains_key("tenantPlan"), "a read changes nothing");
    }
    let resolved = workflows.resolve_step(&seen, "charge", &serde_json::json!("by hand"), &ada()).await;
    assert_eq!(resolved.unwrap(), Intervened::Done);
    for name in ["#", "step/charge"] {
        assert!(!item(&desk, "job/1", name).await.contains_key("tenantPlan"), "{name}");
    }
    desk.settle(&job).await;
    assert_eq!(desk.view("job/1").await.result(), Some("\"by hand\""));
}

/// What this code leaves out where it has nothing to say, or reads as its default.
const OPTIONAL: [&str; 7] =
    ["attempts", "since", "fingerprint", "retention", "expectedSeconds", "number", "lockedBy"];

#[tokio::test]
async fn an_optional_attribute_that_is_absent_does_no_harm() {
    for optional in OPTIONAL {
        for fate in [Fate::Done, Fate::Down] {
            let desk = Desk::new().await;
            let job = played(&desk, "job/1", fate).await;
            for name in ["#", "step/next"] {
                let is = |it: &&Item| it["item"].as_s().unwrap() == name;
                let items = desk.items().await;
                let Some(mut known) = items.iter().find(is).cloned() else { continue };
                // A record of a step always says whose it is.
                if name == "#" || optional != "lockedBy" {
                    known.remove(optional);
                }
                put(&desk, known).await;
            }
            desk.bench.clock.advance(LATER);
            let outcome = desk.machine().0.start(&job, "job/1", &format!("{fate:?}")).run().await.unwrap();
            match (fate, &outcome) {
                (Fate::Done, Outcome::Completed(answer)) => assert_eq!(**answer, "receipt"),
                (Fate::Down, Outcome::InProgress(_)) => {}
                _ => panic!("{optional}, {fate:?}: {outcome:?}"),
            }
            let expected = if fate == Fate::Done { State::Completed } else { State::Running };
            assert_eq!(desk.view("job/1").await.state(), expected, "{optional}");
            assert_eq!(job.0.count("charge"), 1, "{optional}");
        }
    }
}

/// `Changed` says that nothing was written.
#[tokio::test]
async fn a_close_that_comes_after_another_operators_retry_cancels_no_step() {
    let desk = Desk::new().await;
    let job = played(&desk, "job/1", Fate::Doubt).await;
    let seen = desk.view("job/1").await;
    let (workflows, alice) = (desk.machine().0, ada());
    assert_eq!(workflows.retry(&seen, &alice).await.unwrap(), Intervened::Done);
    let before = desk.items().await;
    assert_eq!(workflows.close(&seen, &alice).await.unwrap(), Intervened::Changed);
    assert_eq!(desk.items().await, before);
    assert_eq!(job.0.entries(), ["charge"]);
}
