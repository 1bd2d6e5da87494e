//! Steps that the closure of another step calls.

use locker::workflow::{Event, Flow, List, Outcome, Stop};
use locker::{Classify as _, Failure};

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input};

const CALLED: Event<String> = Event::named("called");

/// Calls a step of this kind.
async fn inner(flow: Flow, kind: &str) -> Result<(), Stop> {
    match kind {
        "a step" => flow.step("note").run(async |_| paid()).await.map(drop),
        "a timer" => flow.sleep("pause", LATER).await,
        "an event" => flow.wait_for(CALLED, LATER).await.map(drop),
        "a map" => flow.map("mails", [("ada", ())], 1, |_, ()| async { Ok(()) }).await.map(drop),
        _ => tokio::spawn(async move { flow.sleep("pause", LATER).await }).await.unwrap(),
    }
}

/// Without the refusal, the charge counts as not done while its inner step waits, and happens again.
#[tokio::test]
async fn step_inside_the_closure_of_a_step_is_refused() {
    for kind in ["a step", "a timer", "an event", "a map", "a timer in a task of its own"] {
        let desk = Desk::new().await;
        let (workflows, _) = desk.machine();
        let script = Script::new(move |flow, script| async move {
            let charge = async |_| {
                script.books.enter("charge");
                inner(flow.clone(), kind).await?;
                paid()
            };
            flow.once("charge").run(charge).await
        });
        let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
        let Outcome::Quarantined(why) = outcome else { panic!("{kind}: {outcome:?}") };
        let is_spawned = kind.contains("task");
        assert!(
            is_spawned || why.contains("it is called inside the closure of another step"),
            "{kind}: {why}"
        );
        desk.settle(&script).await;
        assert_eq!(script.books.count("charge"), 1, "{kind}");
        assert_eq!(desk.view("s/1").await.listed(), Some(List::Quarantine), "{kind}");
    }
}

/// Another workflow has steps of its own, also if a step runs it.
#[tokio::test]
async fn step_may_run_another_workflow() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let child = Script::new(|flow, script| async move {
        let noted = flow.step("note").run(async |_| paid()).await?;
        let reads = async {
            flow.once("audit").run(async |_| Err::<String, _>(Failure::permanent("no".to_owned()))).await
        };
        let failure = Failure::from(reads.await.expect_err("it fails"));
        script.books.enter(failure.class().as_str());
        Ok(noted)
    });
    let seen = child.clone();
    let parent = Script::new(move |flow, _| {
        let (workflows, child) = (workflows.clone(), child.clone());
        async move {
            let run = async |_| {
                let outcome = workflows.start(&child, "s/child", &input()).run().await;
                match outcome.map_err(|error| Failure::transient(error.to_string()))? {
                    Outcome::Completed(said) => Ok(said.into_inner()),
                    other => Err(Failure::permanent(format!("{other:?}"))),
                }
            };
            flow.step("child").run(run).await
        }
    });
    let outcome = desk.machine().0.start(&parent, "s/1", &input()).run().await.unwrap();
    let Outcome::Completed(said) = outcome else { panic!("{outcome:?}") };
    assert_eq!((said.as_str(), seen.books.entries()), ("paid", vec!["permanent".to_owned()]));
}

fn paid() -> Result<String, Failure> {
    Ok("paid".to_owned())
}
