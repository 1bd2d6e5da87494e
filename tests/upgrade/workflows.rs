//! Workflows in all states.

use std::collections::BTreeSet;
use std::time::Duration;

use locker::workflow::{Completer, List, Outcome, Reaper, Reported, Signalled, State, Workflows};
use locker::{AnswerError, Error, Retention, Work};
use locker_tests::{HOUR, MINUTE, ada};
use serde_json::{Value, json};

use crate::folder::{Tables, folders, text};
use crate::stage::{Stage, done, noise};
use crate::trips::{LARGE, Old, PAID, Renewed, Trip};

fn key(course: &str) -> String {
    format!("trip/{course}")
}

/// The input of a course.
fn input(course: &str) -> String {
    if course == "large" { format!("large {}", noise(LARGE)) } else { course.to_owned() }
}

/// Starts a trip, or resumes it, until its run ends or its process dies.
async fn drive(workflows: &Workflows, code: &Trip, course: &str) {
    let run = async { drop(workflows.start(code, key(course), &input(course)).run().await.unwrap()) };
    tokio::select! {
        () = run => {}
        () = code.is_dead() => {}
    }
}

async fn signal(workflows: &Workflows, course: &str, id: &str, value: u32) -> Signalled {
    workflows.signal(key(course), PAID, &value).id(id).await.unwrap()
}

pub(crate) async fn fill(stage: &Stage) {
    let (workflows, code) = (stage.workflows(), Trip::first());
    let seen = async |course: &str| stage.view(&key(course)).await;
    let is_late = |signalled| assert!(matches!(signalled, Signalled::Late { .. }), "{signalled:?}");

    // The completer and the reaper run while no other workflow is due.
    for course in ["late-handled", "cancelled"] {
        drive(&workflows, &code, course).await;
    }
    let course = input("reaped");
    let reaped = workflows.start(&code, key("reaped"), &course);
    reaped.retention(Retention::For(MINUTE)).run().await.unwrap();
    done(workflows.cancel(key("cancelled"), 1, &ada()).await);
    stage.complete(&code, 2).await;
    is_late(signal(&workflows, "late-handled", "e-1", 100).await);
    stage.complete(&code, 1).await;
    let reaper = Reaper::new(&Completer::new(&workflows).register(code.clone()));
    assert_eq!(reaper.run().await.unwrap().deleted, 1);

    // Three waits end, and two events come too late.
    for _ in 0..2 {
        for course in ["expired", "late-listed", "late-owed"] {
            drive(&workflows, &code, course).await;
        }
        stage.advance(2 * MINUTE);
    }
    for course in ["late-listed", "late-owed"] {
        is_late(signal(&workflows, course, "e-1", 100).await);
    }

    // A version receives its event, and continues as the next version.
    drive(&workflows, &code, "continued").await;
    assert_eq!(signal(&workflows, "continued", "e-1", 100).await, Signalled::Accepted);
    drive(&workflows, &code, "continued").await;

    // Two events with one name.
    drive(&workflows, &code, "surplus").await;
    assert_eq!(signal(&workflows, "surplus", "e-1", 100).await, Signalled::Accepted);
    assert_eq!(signal(&workflows, "surplus", "e-2", 200).await, Signalled::AlreadyGiven);
    drive(&workflows, &code, "surplus").await;

    for course in [
        "completed",
        "large",
        "failed",
        "compensated",
        "refund-later",
        "redacted",
        "keyed",
        "waits",
        "sleeps",
    ] {
        drive(&workflows, &code, course).await;
    }
    for course in ["dies", "dies-in-call", "recognised", "map"] {
        // Each process that dies is another one.
        drive(&workflows, &Trip::first(), course).await;
    }
    for course in [
        "held",
        "doubt",
        "failing",
        "closed",
        "resolved",
        "corrected",
        "unreadable",
        "new-key",
        "reported",
        "former",
    ] {
        drive(&workflows, &code, course).await;
    }
    for course in ["enqueued", "keyed-again", "given"] {
        workflows.start(&code, key(course), &input(course)).enqueue().await.unwrap();
    }
    assert_eq!(signal(&workflows, "given", "e-1", 100).await, Signalled::Accepted);
    let renewed = Renewed(code.clone());
    let outer = Work::Token("doubt/outer".to_owned());
    workflows.start(&renewed, "renewed/1", &String::new()).within(outer).run().await.unwrap();

    // Acts of operators, and an outcome that was reported.
    let later = || stage.advance(Duration::from_secs(1));
    later();
    done(workflows.redact(&seen("redacted").await, &ada()).await);
    done(workflows.close(&seen("closed").await, &ada()).await);
    done(workflows.block(key("blocked"), 1, &ada()).await);
    let resolve = async |course: &str, result: Value| {
        done(workflows.resolve_step(&seen(course).await, "book", &result, &ada()).await);
    };
    resolve("resolved", json!("seat 8")).await;
    // The code cannot read the result, so the workflow is in quarantine again.
    for course in ["corrected", "unreadable"] {
        resolve(course, json!(8)).await;
        later();
        drive(&workflows, &code, course).await;
    }
    later();
    let result = json!(noise(LARGE));
    done(workflows.correct_step(&seen("corrected").await, "book", &result, &ada()).await);
    done(workflows.retry_step_with_new_key(&seen("new-key").await, "book", &ada()).await);
    let reported = workflows.report(key("reported"), "book").completed(&"seat 9").await.unwrap();
    assert_eq!(reported, Reported::Recorded);
    // The outcome under the former key comes while the step is in doubt under its new key.
    done(workflows.retry_step_with_new_key(&seen("former").await, "book", &ada()).await);
    drive(&workflows, &code, "former").await;
    let reported =
        workflows.report(key("former"), "book").step_version(1).completed(&"seat 6").await.unwrap();
    assert_eq!(reported, Reported::Compensates);
}

/// A workflow of the folder, and what today's code makes of it.
struct Row {
    course: &'static str,
    /// Its state and its list in the folder.
    state: State,
    list: Option<List>,
    /// The outcome for a caller who starts it again.
    now: &'static str,
    /// Its outcome after its event, and after a day with a completer.
    end: &'static str,
    /// Calls of today's code.
    calls: &'static [&'static str],
}

const fn row(
    course: &'static str,
    (state, list): (State, Option<List>),
    (now, end): (&'static str, &'static str),
    calls: &'static [&'static str],
) -> Row {
    Row { course, state, list, now, end, calls }
}

const RUNNING: (State, Option<List>) = (State::Running, Some(List::Unfinished));
const QUARANTINED: (State, Option<List>) = (State::Running, Some(List::Quarantine));
const COMPLETED: (State, Option<List>) = (State::Completed, Some(List::Finished));
const FAILED: (State, Option<List>) = (State::Failed, Some(List::Finished));
const CANCELLED: (State, Option<List>) = (State::Cancelled, Some(List::Finished));

/// A pair of equal outcomes.
const fn both(outcome: &'static str) -> (&'static str, &'static str) {
    (outcome, outcome)
}

#[rustfmt::skip]
const ROWS: [Row; 34] = [
    row("blocked", CANCELLED, both("cancelled"), &[]),
    row("cancelled", CANCELLED, both("cancelled"), &[]),
    row("closed", CANCELLED, both("cancelled"), &[]),
    row("compensated", FAILED, both("failed: the trip is cancelled"), &[]),
    row("completed", COMPLETED, both("completed: done"), &[]),
    row("continued", (State::Continued, Some(List::Finished)), ("in progress", "completed: paid 300 in version 2"), &[]),
    row("corrected", RUNNING, both("completed: the large text"), &[]),
    row("dies", RUNNING, both("completed: seat 7"), &["trip/dies book"]),
    row("dies-in-call", RUNNING, both("quarantined"), &[]),
    row("doubt", QUARANTINED, both("quarantined"), &[]),
    row("enqueued", RUNNING, both("completed: done"), &["trip/enqueued charge", "trip/enqueued note"]),
    row("expired", COMPLETED, both("completed: not paid"), &[]),
    row("failed", FAILED, both("failed: no seat is left"), &[]),
    row("failing", RUNNING, both("completed: seat 7"), &["trip/failing book"]),
    row("former", QUARANTINED, both("quarantined"), &[]),
    row("given", RUNNING, both("completed: paid 100"), &["trip/given charge"]),
    row("held", QUARANTINED, both("quarantined"), &[]),
    row("keyed", COMPLETED, both("completed: done"), &[]),
    row("keyed-again", RUNNING, both("completed: done"), &["trip/keyed-again note"]),
    row("large", COMPLETED, both("completed: the large text"), &[]),
    row("late-handled", COMPLETED, both("completed: not paid"), &[]),
    row("late-listed", COMPLETED, both("completed: not paid"), &[]),
    row("late-owed", (State::Compensating, Some(List::Unfinished)), both("completed: not paid"), &["repay under trip/late-owed event:paid~compensate-late"]),
    row("map", RUNNING, both("completed: seats [0, 1, 2, 3]"), &["trip/map seat#2:take", "trip/map seat#3:take"]),
    row("new-key", RUNNING, both("completed: seat 7"), &["trip/new-key book ~v1.2"]),
    row("recognised", RUNNING, both("completed: seat 7"), &["trip/recognised book"]),
    row("redacted", COMPLETED, both("erased"), &[]),
    row("refund-later", (State::Compensating, Some(List::Unfinished)), both("failed: the trip is cancelled"), &["refund under trip/refund-later charge~compensate"]),
    row("reported", RUNNING, both("completed: seat 9"), &[]),
    row("resolved", RUNNING, both("completed: seat 8"), &[]),
    row("sleeps", RUNNING, ("in progress", "completed: awake"), &[]),
    row("surplus", COMPLETED, both("completed: paid 100"), &[]),
    row("unreadable", QUARANTINED, both("quarantined"), &[]),
    row("waits", RUNNING, ("in progress", "completed: paid 300"), &[]),
];

/// An outcome in one line.
async fn outcome(stage: &Stage, code: &Trip, course: &str) -> String {
    let start = stage.workflows().start(code, key(course), &input(course)).run().await;
    match start {
        Ok(Outcome::Completed(answer)) if *answer == noise(LARGE) => "completed: the large text".to_owned(),
        Ok(Outcome::Completed(answer)) => format!("completed: {}", *answer),
        Ok(Outcome::Failed(failed)) => format!("failed: {}", failed.failure().cause()),
        Ok(Outcome::Cancelled) => "cancelled".to_owned(),
        Ok(Outcome::InProgress(_)) => "in progress".to_owned(),
        Ok(Outcome::Quarantined(_)) => "quarantined".to_owned(),
        Err(Error::Answer(AnswerError::Redacted)) => "erased".to_owned(),
        other => panic!("{course}: {other:?}"),
    }
}

/// The first versions of the trips of a folder.
fn trips_of(tables: &Tables) -> BTreeSet<&str> {
    let headers = tables.workflows.iter().filter(|item| text(item, "item") == "#");
    headers
        .filter_map(|item| text(item, "workflow").strip_prefix("trip/"))
        .filter(|key| !key.contains(' '))
        .collect()
}

#[tokio::test]
async fn each_workflow_is_resumed_to_its_end_and_repeats_no_step() {
    for folder in folders().await {
        let (stage, code) = (folder.tables.load().await, Trip::later());
        let workflows = stage.workflows();
        let trips = trips_of(&folder.tables);
        let known: BTreeSet<_> = ROWS.iter().map(|row| row.course).collect();
        assert!(trips.is_subset(&known), "{}: {trips:?}", folder.version);
        // A later version may have added a row.
        assert!(!folder.is_present() || trips == known, "{trips:?}");
        let rows = || ROWS.iter().filter(|row| trips.contains(row.course));
        for row in rows() {
            let (course, at) = (row.course, format!("{} of {}", row.course, folder.version));
            let view = stage.view(&key(course)).await;
            assert_eq!((view.state(), view.listed()), (row.state, row.list), "{at}");
            assert_eq!(outcome(&stage, &code, course).await, row.now, "{at}");
        }
        // The sender of each event sends it again, and then another one.
        for (course, again, other) in [
            ("continued", Signalled::Duplicate, Signalled::Accepted),
            ("waits", Signalled::Accepted, Signalled::AlreadyGiven),
        ] {
            assert_eq!(signal(&workflows, course, "e-1", 300).await, again, "{course}");
            assert_eq!(signal(&workflows, course, "e-2", 300).await, other, "{course}");
        }
        for _ in 0..24 {
            stage.advance(HOUR);
            stage.complete(&code, 0).await;
        }
        let calls = code.calls.entries();
        for row in rows() {
            let at = format!("{} of {}", row.course, folder.version);
            assert_eq!(outcome(&stage, &code, row.course).await, row.end, "{at}");
            let own = format!("{} ", key(row.course));
            let calls: Vec<_> = calls.iter().filter(|call| call.contains(&own)).collect();
            assert_eq!(calls, row.calls, "{at}");
        }
        let expected: usize = rows().map(|row| row.calls.len()).sum();
        assert_eq!(code.calls.entries().len(), expected, "{}", folder.version);
    }
}

#[tokio::test]
async fn other_requests_and_repeated_events_are_recognised() {
    for folder in folders().await {
        let (stage, code) = (folder.tables.load().await, Trip::later());
        let workflows = stage.workflows();
        for course in ["completed", "waits", "held"] {
            let other = workflows.start(&code, key(course), &"other".to_owned()).run().await.unwrap();
            assert!(matches!(other, Outcome::Mismatch), "{course}: {other:?}");
        }
        for (course, id) in [
            ("late-handled", "e-1"),
            ("late-listed", "e-1"),
            ("late-owed", "e-1"),
            ("surplus", "e-1"),
            ("surplus", "e-2"),
            ("given", "e-1"),
            ("continued", "e-1"),
        ] {
            let before = Tables::of(&stage).await;
            assert_eq!(signal(&workflows, course, id, 100).await, Signalled::Duplicate, "{course} {id}");
            assert_eq!(Tables::of(&stage).await, before, "{course} {id}");
        }
        assert!(code.calls.entries().is_empty());
    }
}

#[tokio::test]
async fn newer_code_continues_its_workflow_and_older_code_leaves_it() {
    for folder in folders().await {
        let (stage, code) = (folder.tables.load().await, Trip::later());
        let start = String::new();
        let outcome = stage.workflows().start(&Old, "renewed/1", &start).run().await.unwrap();
        assert!(
            matches!(outcome, Outcome::Newer(newer) if (newer.stored, newer.own) == (2, 1)),
            "{outcome:?}"
        );
        let renewed = Renewed(code.clone());
        let outcome = stage.workflows().start(&renewed, "renewed/1", &start).run().await.unwrap();
        assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "branch 2"), "{outcome:?}");
        assert!(code.calls.entries().is_empty(), "the charge has a record");
        let view = stage.view("renewed/1").await;
        assert_eq!(view.within(), Some(&Work::Token("doubt/outer".to_owned())));
    }
}
