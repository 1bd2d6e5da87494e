//! The history records every call with its outcome, and its check finds each broken promise. The
//! tests that record run one at a time in a program of their own: an event may stay disabled if
//! subscribers change on other threads while it is first registered.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "history/judged.rs"]
mod judged;
#[path = "history/lines.rs"]
mod lines;

use std::time::Duration;

use locker::{Begun, Intervened, KeysInLogs, Operator};
use locker_tests::history::{Event, History, Op, Outcome, Phase, Rules, check, layer};
use locker_tests::{Bench, Fate, held_by, record_of};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Write the events of this thread to a file.
fn listen() -> (tempfile::NamedTempFile, tracing::subscriber::DefaultGuard) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let layer = layer(file.path()).expect("it opens");
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    (file, guard)
}

fn events(file: &tempfile::NamedTempFile) -> Vec<Event> {
    let text = std::fs::read_to_string(file.path()).expect("text");
    let logged = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
    logged.map(|line| serde_json::from_value(line["fields"].clone()).expect("an event")).collect()
}

fn outcomes(file: &tempfile::NamedTempFile) -> Vec<(Op, Outcome)> {
    let ended = events(file).into_iter().filter(|event| event.history == Phase::Outcome);
    ended.map(|event| (event.op, event.outcome.expect("an outcome"))).collect()
}

#[tokio::test(start_paused = true)]
async fn each_call_is_recorded_with_its_outcome() {
    let _alone = ALONE.lock().await;
    let (file, _guard) = listen();
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let (other, _) = bench.machine();

    let lock = held_by(locker.token("t/1").fingerprint("it")).await;
    let _ = other.token("t/1").fingerprint("it").begin().await.expect("an answer");
    let _ = other.token("t/1").fingerprint("else").begin().await.expect("an answer");
    let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
    lock.complete(&json!({ "b": 1.5, "a": [null] })).await.expect("done");
    let Begun::Completed(_) = other.token("t/1").begin().await.expect("an answer") else {
        panic!("not done")
    };
    held_by(locker.token("t/2")).await.release().await.expect("released");
    held_by(locker.token("t/2")).await.fail("no").await.expect("done");
    let _ = other.token("t/2").begin().await.expect("an answer");
    held_by(locker.token("t/3")).await.hold("odd").await.expect("held");
    let _ = other.token("t/3").begin().await.expect("an answer");
    let operator = Operator::new("me", "why").expect("an operator");
    let seen = record_of(&locker, "t/3").await;
    assert_eq!(locker.resolve(&seen, &Value::Null, &operator).await.expect("resolved"), Intervened::Done);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(locker.release(&seen, &operator).await.expect("an answer"), Intervened::Changed);
    assert_eq!(
        locker.release_completed(&record_of(&locker, "t/3").await, &operator).await.expect("released"),
        Intervened::Done
    );
    let late = held_by(locker.token("t/4").expect_within(Duration::from_secs(1))).await;
    bench.clock.advance(Duration::from_secs(60));
    let over = held_by(other.token("t/4").take_over_after(Duration::ZERO)).await;
    late.complete(&1).await.expect_err("lost");
    over.leave_in_doubt("no reply").await;
    let (impatient, deaf) = bench.impatient_machine();
    deaf.always(Fate::ReplyLost);
    impatient.token("t/5").begin().await.expect_err("unknown");
    wire.next([Fate::ReplyLost]);
    held_by(locker.token("t/6")).await.leave_in_doubt("no reply").await;

    use Outcome as O;
    assert_eq!(
        outcomes(&file),
        [
            (Op::Begin, O::Acquired),
            (Op::Begin, O::InProgress),
            (Op::Begin, O::Mismatch),
            (Op::Extend, O::Ok),
            (Op::Complete, O::Ok),
            (Op::Begin, O::Completed),
            (Op::Begin, O::Acquired),
            (Op::Release, O::Ok),
            (Op::Begin, O::Acquired),
            (Op::Fail, O::Ok),
            (Op::Begin, O::Failed),
            (Op::Begin, O::Acquired),
            (Op::Hold, O::Ok),
            (Op::Begin, O::Held),
            (Op::Resolve, O::Ok),
            (Op::ReleaseByOperator, O::Changed),
            (Op::ReleaseByOperator, O::Ok),
            (Op::Begin, O::Acquired),
            (Op::Begin, O::TookOver),
            (Op::Complete, O::Lost),
            (Op::Begin, O::Unknown),
            (Op::Release, O::Unknown),
            (Op::Begin, O::Acquired),
        ]
    );
    let events = events(&file);
    assert!(events.iter().all(|event| !event.owner.is_empty() && event.attempt.is_some()));
    let changed = events.iter().find(|event| event.outcome == Some(Outcome::Changed)).expect("changed");
    assert!(changed.found.is_some(), "the attempt that is there now");
    let stored = events.iter().find(|event| event.op == Op::Complete).expect("stored");
    let told = events.iter().find(|event| event.outcome == Some(O::Completed)).expect("told");
    assert!(stored.ttl.is_some() && stored.digest.is_some());
    assert_eq!((&told.digest, &told.found), (&stored.digest, &stored.attempt));

    let mut history = History::default();
    history.read(std::fs::read(file.path()).expect("read").as_slice()).expect("read");
    let report = check(&history, &std::collections::HashMap::new(), Rules::default(), |_| true);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!((report.unfinished, report.uncertain), (vec!["t/4".into(), "t/6".into()], vec!["t/5".into()]));
}

#[tokio::test(start_paused = true)]
async fn keys_are_shown_as_configured_and_answers_never() {
    let _alone = ALONE.lock().await;
    let (file, _guard) = listen();
    let bench = Bench::new().await;
    let (locker, _) = bench.machine_with(|settings| settings.keys_in_logs = KeysInLogs::Digest);
    held_by(locker.token("secret/key")).await.complete("secret answer").await.expect("done");
    let _ = locker.token("secret/key").begin().await.expect("an answer");
    let text = std::fs::read_to_string(file.path()).expect("text");
    assert_eq!(text.lines().count(), 6);
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_has_no_outcome() {
    let _alone = ALONE.lock().await;
    let (file, _guard) = listen();
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    wire.always(Fate::ReplyLost);
    let begin = locker.token("t/1").begin();
    tokio::time::timeout(Duration::from_millis(100), begin).await.expect_err("cut off");
    let events = events(&file);
    assert_eq!((events.len(), events[0].history), (1, Phase::Invoke));
}
