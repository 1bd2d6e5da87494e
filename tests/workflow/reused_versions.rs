//! Versions of a key that another workflow uses after their deletion.

use locker::workflow::{Completer, Event, Outcome, Reaper, Signalled, State};
use locker_tests::DAY;

use crate::attacked_30::{ran, state};
use crate::bench::Desk;
use crate::interleavings::{Script, input};

const PAID: Event<u32> = Event::named("paid");

/// Waits in each version, and continues until the last version.
fn months(last: u32) -> Script {
    Script::new(move |flow, _| async move {
        let paid = flow.wait_for(PAID, 300 * DAY).await?;
        if flow.key_version() < last { Err(flow.continue_as_new(&input())) } else { Ok(format!("{paid:?}")) }
    })
}

async fn paid(desk: &Desk, version: u32, id: &str) -> Signalled {
    desk.machine().0.signal("r/1", PAID, &100).key_version(version).id(id).await.unwrap()
}

async fn outcome(desk: &Desk, version: u32) -> Option<Outcome<String>> {
    desk.machine().0.outcome::<Script>("r/1").key_version(version).fetch().await.unwrap()
}

async fn reap(desk: &Desk, code: &Script) {
    desk.bench.clock.advance(2 * DAY);
    let completer = Completer::new(&desk.machine().0).register(code.clone());
    drop(Reaper::new(&completer).run().await.unwrap());
}

/// The second version has a late event, so it outlives the versions before and after it.
#[tokio::test]
async fn kept_version_does_not_follow_a_later_workflow() {
    let (desk, code) = (Desk::new().await, months(3));
    drop(ran(&desk, &code).await);
    for month in ["e-1", "e-2", "e-3"] {
        assert_eq!(paid(&desk, 1, month).await, Signalled::Accepted);
        if month == "e-2" {
            assert_eq!(paid(&desk, 1, "e-2 again").await, Signalled::AlreadyGiven);
        }
        desk.settle(&code).await;
    }
    for _ in 0..3 {
        reap(&desk, &code).await;
    }
    let states = (state(&desk, 1).await, state(&desk, 2).await, state(&desk, 3).await);
    assert_eq!(states, (None, Some(State::Continued), None));
    assert!(matches!(ran(&desk, &code).await, Outcome::InProgress(_)));
    assert_eq!(paid(&desk, 2, "e-4").await, Signalled::NotStarted, "the later workflow has another life");
    let read = outcome(&desk, 2).await;
    assert!(read.is_none(), "{read:?}");
}

/// The reaper has deleted the latest version, and deletes the first one in its next run.
#[tokio::test]
async fn first_version_does_not_follow_another_workflow() {
    let (desk, code) = (Desk::new().await, months(2));
    drop(ran(&desk, &code).await);
    for month in ["e-1", "e-2"] {
        assert_eq!(paid(&desk, 1, month).await, Signalled::Accepted);
        desk.settle(&code).await;
    }
    reap(&desk, &code).await;
    assert_eq!((state(&desk, 1).await, state(&desk, 2).await), (Some(State::Continued), None));
    let other = Script::new(|_, _| async move { Ok("of another workflow".to_owned()) });
    let started = desk.machine().0.start(&other, "r/1", &input()).key_version(2).run().await.unwrap();
    assert!(matches!(started, Outcome::Completed(_)), "{started:?}");
    let read = outcome(&desk, 1).await;
    assert!(read.is_none(), "{read:?}");
    assert_eq!(paid(&desk, 1, "e-3").await, Signalled::NotStarted);
    reap(&desk, &code).await;
    assert_eq!(state(&desk, 1).await, None, "the other workflow keeps no first version");
}
