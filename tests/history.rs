//! The history tells every call as it was. A program of its own, and one test at a time: subscribers that
//! come and go on other threads while an event is first met may leave it switched off.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use locker::{Begun, KeysInLogs, Person};
use locker_history::{Event, History, Op, Outcome, Phase, Rules, Writer, check};
use locker_tests::{Bench, Fault, held_by, record_of};
use serde_json::{Value, json};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A file that the events of this thread are written to.
fn listen() -> (tempfile::NamedTempFile, tracing::subscriber::DefaultGuard) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let writer = Writer::append(file.path()).expect("it opens").with_filter(Writer::only());
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(writer));
    (file, guard)
}

fn events(file: &tempfile::NamedTempFile) -> Vec<Event> {
    let text = std::fs::read_to_string(file.path()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

fn outcomes(file: &tempfile::NamedTempFile) -> Vec<(Op, Outcome)> {
    let ended = events(file).into_iter().filter(|event| event.history == Phase::Outcome);
    ended.map(|event| (event.op, event.outcome.expect("an outcome"))).collect()
}

#[tokio::test]
async fn each_call_is_told_with_its_outcome() {
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
    held_by(locker.token("t/2")).await.complete_err("no").await.expect("done");
    let _ = other.token("t/2").begin().await.expect("an answer");
    held_by(locker.token("t/3")).await.fail("odd").await.expect("held");
    let _ = other.token("t/3").begin().await.expect("an answer");
    let person = Person::new("me", "why").expect("a person");
    let seen = record_of(&locker, "t/3").await;
    locker.resolve(&seen, &person, &Value::Null).await.expect("resolved");
    bench.clock.advance(Duration::from_millis(1));
    locker.release(&seen, &person).await.expect_err("changed");
    locker.release(&record_of(&locker, "t/3").await, &person).await.expect("released");
    let late = held_by(locker.token("t/4").expect_within(Duration::from_secs(1))).await;
    bench.clock.advance(Duration::from_secs(60));
    let over = held_by(other.token("t/4").take_over_after(Duration::ZERO)).await;
    late.complete(&1).await.expect_err("lost");
    over.leave_in_doubt();
    let (impatient, deaf) = bench.impatient_machine();
    deaf.always(Fault::LoseReply);
    impatient.token("t/5").begin().await.expect_err("unknown");
    wire.next([Fault::LoseReply]);
    held_by(locker.token("t/6")).await.leave_in_doubt();

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
            (Op::CompleteErr, O::Ok),
            (Op::Begin, O::Failed),
            (Op::Begin, O::Acquired),
            (Op::Fail, O::Ok),
            (Op::Begin, O::NeedsPerson),
            (Op::Resolve, O::Ok),
            (Op::ReleaseByPerson, O::Changed),
            (Op::ReleaseByPerson, O::Ok),
            (Op::Begin, O::Acquired),
            (Op::Begin, O::TookOver),
            (Op::Complete, O::Lost),
            (Op::Begin, O::Unknown),
            (Op::Begin, O::Acquired),
        ]
    );
    let events = events(&file);
    assert!(events.iter().all(|event| !event.owner.is_empty() && event.attempt.is_some()));
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

#[tokio::test]
async fn keys_are_shown_as_the_settings_say_and_answers_never() {
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

#[tokio::test]
async fn an_abandoned_call_has_no_outcome() {
    let _alone = ALONE.lock().await;
    let (file, _guard) = listen();
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    wire.always(Fault::LoseReply);
    let begin = locker.token("t/1").begin();
    tokio::time::timeout(Duration::from_millis(100), begin).await.expect_err("cut off");
    let events = events(&file);
    assert_eq!((events.len(), events[0].history), (1, Phase::Invoke));
}
