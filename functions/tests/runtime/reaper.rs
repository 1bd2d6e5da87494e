//! The reaper deletes finished purchases, and never unfinished ones.

use std::time::Duration;

use locker::workflow::{List, Outcome};
use locker_functions::sandbox::Mood;
use locker_tests::Reply;
use serde_json::json;

use crate::stack::measured;
use crate::till::{Till, request, workflow};

const BINARY: &str = env!("CARGO_BIN_EXE_reaper");
/// Longer than a finished purchase is kept.
const LONG_AGO: Duration = Duration::from_secs(40 * 24 * 60 * 60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_purchases_are_deleted_and_unfinished_ones_never() {
    let till = Till::new().await;
    let old = till.purchases(&till.stack.bench.client, LONG_AGO);
    let fresh = till.purchases(&till.stack.bench.client, Duration::ZERO);
    for (key, purchases, mood) in
        [("told", &old, Mood::Well), ("fresh", &fresh, Mood::Well), ("stuck", &old, Mood::Mute)]
    {
        till.stack.provider.set_mood(mood);
        let outcome =
            purchases.start("alice", key, &request(key)).expect("a key").run().await.expect("an outcome");
        assert_eq!(matches!(outcome, Outcome::Completed(_)), mood == Mood::Well, "{key}: {outcome:?}");
    }
    let before = till.items("@alice/purchase/stuck").await;

    let reaper = till.function(BINARY, &[]).await;
    let Reply::Response(report) = reaper.invoke("r1", json!({})).await else { panic!("no report") };
    let expected = json!({
        "deleted": 1, "kept": 0, "completed": 0, "quarantined": 1, "failed": 0, "unknown": {}, "finished": true
    });
    assert_eq!(report, expected);
    measured(&reaper, "reaperFinished", json!(1.0)).await;
    let left = till.items("@alice/purchase/told").await;
    assert!(
        left.len() == 1 && left[0].starts_with("~ledger/"),
        "a ledger record, and nothing else: {left:?}"
    );
    assert!(till.workflows().get(workflow("told"), 1).await.expect("an answer").is_none());
    // What is not due stays.
    assert!(till.view("fresh").await.ended().is_some());
    let stuck = till.view("stuck").await;
    assert_eq!(stuck.listed(), Some(List::Quarantine));
    assert!(
        stuck.reason().is_some_and(|reason| reason.contains("its last attempt did not finish it")),
        "{stuck:?}"
    );
    let after = till.items("@alice/purchase/stuck").await;
    assert!(before.iter().all(|item| after.contains(item)), "all of it is there: {after:?}");

    let Reply::Response(again) = reaper.invoke("r2", json!({})).await else { panic!("no report") };
    assert_eq!((&again["deleted"], &again["quarantined"]), (&json!(0), &json!(0)), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_read_fails_so_that_the_schedule_retries() {
    let till = Till::new().await;
    for binary in [BINARY, env!("CARGO_BIN_EXE_completer")] {
        let function = till.function(binary, &[("LOCKER_WORKFLOWS_TABLE", "nowhere")]).await;
        let Reply::Error(error) = function.invoke("r1", json!({})).await else { panic!("it worked") };
        let text = error["errorMessage"].as_str().unwrap_or_default();
        assert!(text.contains("the table nowhere does not exist"), "{error}");
        let gauge = if binary == BINARY { "reaperFinished" } else { "completerFinished" };
        measured(&function, gauge, json!(0.0)).await;
    }
}
