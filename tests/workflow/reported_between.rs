//! An outcome that is reported while a driver is about to leave the workflow is not lost.

use std::time::Duration;

use lock_token_testing::{Exchange, Fate};
use locker::workflow::{Outcome, Reported};

use crate::bench::Desk;
use crate::reported::{Order, Reply, report};

/// The write by which a driver leaves its workflow.
fn leaves(exchange: &Exchange) -> bool {
    let item = &exchange.request["Item"];
    exchange.operation == "PutItem"
        && item["lostIdle"].is_null() | item["lockedBy"].is_null()
        && item["name"].is_object()
}

#[tokio::test]
async fn report_while_its_workflow_goes_into_quarantine_resumes_it() {
    for fate in [Fate::HeldBefore, Fate::HeldAfter] {
        let desk = Desk::new().await;
        let code = Order::new(&[Reply::Silent]);
        let (workflows, wire) = desk.machine();
        wire.matching(leaves, fate);
        let drives = {
            let code = code.clone();
            tokio::spawn(async move { workflows.start(&code, "o/1", &()).run().await.unwrap() })
        };
        while wire.held() == 0 {
            assert!(!drives.is_finished(), "{fate:?}: it left in another way");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Recorded, "{fate:?}");
        wire.let_through();
        let outcome = drives.await.unwrap();
        assert!(!matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!(view.result(), Some("\"ch-1\""), "{fate:?}: {:?} {:?}", view.listed(), view.reason());
    }
}
