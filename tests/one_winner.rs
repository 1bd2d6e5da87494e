//! Promise 1: of any number of concurrent begins on a key, exactly one acquires.

use std::time::Duration;

use locker::{Begun, Failure};
use locker_tests::{Bench, Provider, held_by};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_charge_once_and_all_get_the_same_receipt() {
    let bench = Bench::new().await;
    let provider = Provider::default();
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        // One machine each: they share nothing but the table.
        let (locker, _) = bench.machine();
        let provider = provider.clone();
        tasks.spawn(async move {
            let answer = locker
                .token(("card/charge", 7))
                .wait_for(Duration::from_secs(300))
                .run(|attempt| async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok::<_, Failure>(provider.charge(attempt.key().as_str()))
                })
                .await
                .expect("an answer");
            (answer.is_replay(), answer.into_inner())
        });
    }
    let answers = tasks.join_all().await;
    assert_eq!(provider.charges("card/charge/7"), 1);
    assert_eq!(answers.iter().filter(|(replay, _)| !replay).count(), 1);
    assert!(answers.iter().all(|(_, receipt)| receipt == "receipt 1 for card/charge/7"), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_round_has_exactly_one_winner() {
    let bench = Bench::new().await;
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (locker, _) = bench.machine();
            tasks.spawn(async move { locker.token(("race", round)).begin().await.expect("an answer") });
        }
        let begun = tasks.join_all().await;
        let winners = begun.iter().filter(|begun| matches!(begun, Begun::Acquired(_))).count();
        let losers = begun.iter().filter(|begun| matches!(begun, Begun::InProgress(_))).count();
        assert_eq!((winners, losers), (1, 15));
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_token_is_acquired_again_by_exactly_one() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("again")).await.release().await.expect("released");
    let _lock = held_by(locker.token("again")).await;
    let begun = locker.token("again").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
}
