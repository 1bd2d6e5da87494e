//! Scenes of tokens.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use lock_token_testing::{Fate, Wire};
use locker::{Begun, Error, Failure, Intervened, Lock, Locker, Operator};
use serde_json::json;

use super::paused::{self, Paused};
use super::{Scene, is_held_back, seen, served};
use crate::{Bench, held_by, record_of};

pub(super) const SCENES: &[Scene] = &[
    Scene { name: "token-is-gone", play: || served(an_end_whose_token_is_gone()) },
    Scene { name: "release-after-an-operator", play: || served(a_release_after_an_operator()) },
    Scene { name: "record-without-an-outcome", play: || served(a_record_without_an_outcome()) },
    Scene { name: "ttl-of-a-large-answer", play: || served(the_ttl_of_a_large_answer()) },
    Scene { name: "run-that-lost-its-token", play: || paused::block_on(a_run_that_lost_its_token()) },
    Scene { name: "run-that-stays-ahead", play: || paused::block_on(a_run_that_stays_ahead()) },
    Scene { name: "end-past-the-deadline", play: || paused::block_on(an_end_past_the_deadline()) },
    Scene {
        name: "transient-failure-after-a-takeover",
        play: || served(a_transient_failure_after_a_takeover()),
    },
    Scene { name: "key-after-a-refusal", play: || served(the_key_after_a_refusal()) },
    Scene { name: "takeover-a-day-later", play: || served(a_takeover_a_day_later()) },
    Scene { name: "release-of-the-living", play: || served(a_release_of_the_living()) },
];

async fn a_transient_failure_after_a_takeover() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let minute = Duration::from_secs(60);
    let _first = held_by(locker.token("taken").expect_within(minute)).await;
    bench.clock.advance(Duration::from_secs(66));
    let token = locker.token("taken").take_over_after(Duration::ZERO);
    let failed = token.run(async |_| Err::<(), _>(Failure::transient("refused".to_owned()))).await;
    failed.expect_err("it failed");
    seen(bench.item("taken").await.is_some(), || "the token is gone".to_owned())
}

async fn the_key_after_a_refusal() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("refused")).await.fail("declined").await.expect("stored");
    let record = record_of(&locker, "refused").await;
    let operator = Operator::new("ada", "the card is new").expect("an operator");
    let released = locker.release_completed(&record, &operator).await.expect("released");
    assert_eq!(released, Intervened::Done);
    let key = held_by(locker.token("refused")).await.attempt().idempotency_key();
    seen(key == "refused ~v2", || key)
}

async fn a_takeover_a_day_later() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let day = Duration::from_secs(24 * 60 * 60);
    let _first = held_by(locker.token("old")).await;
    bench.clock.advance(day);
    let token = locker.token("old").take_over_after(Duration::ZERO).recognised_for(day);
    let begun = token.begin().await.expect("an answer");
    seen(matches!(begun, Begun::InProgress(_)), || format!("{begun:?}"))
}

async fn a_release_of_the_living() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _living = held_by(locker.token("living")).await;
    let record = record_of(&locker, "living").await;
    let operator = Operator::new("ada", "it looked stuck").expect("an operator");
    let released = locker.release(&record, &operator).await.expect("an answer");
    seen(released == Intervened::NotPossible, || format!("{released:?}"))
}

/// A locker that waits for what a test holds back.
fn patient(bench: &Bench) -> (Locker, Wire) {
    bench.machine_with(|settings| {
        settings.attempt_timeout = Duration::from_secs(60);
        settings.give_up_after = Duration::from_secs(60);
    })
}

async fn an_end_whose_token_is_gone() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, wire) = patient(&bench);
    let lock = held_by(locker.token("scene/gone")).await;
    wire.next([Fate::ReplyLost, Fate::HeldBefore]);
    let end = tokio::spawn(lock.complete("done"));
    is_held_back(&wire).await;
    bench.delete("scene/gone").await;
    wire.let_through();
    let ended = end.await.expect("no panic");
    let told = ended.as_ref().map_err(|end| end.error());
    seen(matches!(told, Err(Error::Unknown { .. })), || format!("{told:?}"))
}

async fn a_release_after_an_operator() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, wire) = patient(&bench);
    let (other, _) = bench.machine();
    let operator = Operator::new("ada", "the provider's books say so").expect("an operator");
    let lock = held_by(locker.token("scene/resolved")).await;
    wire.next([Fate::Lost, Fate::HeldBefore]);
    let end = tokio::spawn(lock.release());
    is_held_back(&wire).await;
    let record = record_of(&other, "scene/resolved").await;
    let resolved = other.resolve_running(&record, &json!("by hand"), &operator).await.expect("an answer");
    assert_eq!(resolved, Intervened::Done);
    wire.let_through();
    let ended = end.await.expect("no panic");
    let told = ended.as_ref().map_err(|end| end.error());
    seen(matches!(told, Err(Error::LostOwnership { .. })), || format!("{told:?}"))
}

async fn a_record_without_an_outcome() -> Result<(), String> {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let item = [
        ("lockToken", text("scene/foreign")),
        ("lockedBy", text("another/writer")),
        ("created", text("2020-01-02T03:04:05.000Z")),
        ("expectedCompletion", text("2020-01-02T03:05:05.000Z")),
        ("ttl", AttributeValue::N("1577934245".to_owned())),
    ];
    bench.put(item.map(|(name, value)| (name.to_owned(), value)).into()).await;
    let before = bench.items().await;
    let begun = locker.token("scene/foreign").begin().await;
    seen(bench.items().await == before, || format!("it was overwritten: {begun:?}"))
}

async fn the_ttl_of_a_large_answer() -> Result<(), String> {
    const DAY: i64 = 24 * 60 * 60;
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    held_by(locker.token("scene/large")).await.complete(&large).await.expect("completed");
    let items = bench.items().await;
    let ttls: Vec<_> = items.iter().map(|item| item.get("ttl")?.as_n().ok()?.parse::<i64>().ok()).collect();
    // The token's key is a prefix of its answer's.
    seen(matches!(ttls[..], [Some(token), Some(answer)] if answer == token + DAY), || format!("{ttls:?}"))
}

const EXPECTED: Duration = Duration::from_secs(60);

async fn run(locker: &Locker, work: impl Future<Output = ()>) {
    let run = locker.token("scene/run").expect_within(EXPECTED).keep_extended();
    // What becomes of the answer is not what the scene is about.
    let _ = run
        .run(|_| async {
            work.await;
            Ok::<_, Failure>(7)
        })
        .await;
}

async fn a_run_that_lost_its_token() -> Result<(), String> {
    let (paused, locker) = Paused::new().await;
    run(&locker, async {
        tokio::time::sleep(EXPECTED).await;
        paused.delete("scene/run");
        paused.take_extensions();
        tokio::time::sleep(10 * EXPECTED).await;
    })
    .await;
    let extensions = paused.take_extensions().len();
    seen(extensions == 1, || format!("{extensions} requests to extend a token that is gone"))
}

async fn a_run_that_stays_ahead() -> Result<(), String> {
    let (paused, locker) = Paused::new().await;
    let mut due = paused.now() + EXPECTED;
    run(&locker, tokio::time::sleep(10 * EXPECTED)).await;
    let extensions = paused.take_extensions();
    for extension in &extensions {
        let left = due - extension.at;
        if left < TimeDelta::seconds(30) {
            return Err(format!("extended {left} before it was due"));
        }
        due = extension.due;
    }
    seen(extensions.len() > 10, || format!("{} extensions", extensions.len()))
}

async fn an_end_past_the_deadline() -> Result<(), String> {
    let (paused, locker) = Paused::new().await;
    let lock = lock_until(&locker, &paused, TimeDelta::seconds(1)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    paused.delay_replies(Duration::from_millis(200));
    lock.complete("done").await.map_err(|end| end.to_string())
}

async fn lock_until(locker: &Locker, paused: &Paused, time: TimeDelta) -> Lock {
    held_by(locker.token("scene/late").deadline(paused.now() + time)).await
}
