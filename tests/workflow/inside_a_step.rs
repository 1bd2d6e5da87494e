//! Steps that the closure of another step calls.

use locker::Failure;
use locker::workflow::{List, Outcome};

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, input};

/// Without the refusal, the charge counts as not done while its inner step waits, and happens again.
#[tokio::test]
async fn step_inside_the_closure_of_a_step_is_refused() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let script = Script::new(|flow, script| async move {
        let charge = async |_| {
            script.books.enter("charge");
            flow.sleep("pause", LATER).await?;
            paid()
        };
        flow.once("charge").run(charge).await
    });
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    let Outcome::Quarantined(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("it is called inside the closure of another step"), "{why}");
    desk.settle(&script).await;
    assert_eq!(script.books.count("charge"), 1);
    assert_eq!(desk.view("s/1").await.listed(), Some(List::Quarantine));
}

/// Another workflow has steps of its own, also if a step runs it.
#[tokio::test]
async fn step_may_run_another_workflow() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let child = Script::new(|flow, _| async move { flow.step("note").run(async |_| paid()).await });
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
    assert_eq!(*said, "paid");
}

fn paid() -> Result<String, Failure> {
    Ok("paid".to_owned())
}
