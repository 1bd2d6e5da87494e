//! A step whose outcome is told from outside: the workflow waits for it, without attempts.

use std::time::Duration;

use lock_token_testing::Fate;
use locker::Failure;
use locker::workflow::{Compensated, Compensation, Flow, List, Outcome, Stop, Told, Workflow};
use locker_tests::DAY;

use crate::bench::{Books, Desk};

/// Paid, and then packed by others within three days.
#[derive(Clone, Default)]
struct Packed(Books);

impl Workflow for Packed {
    const NAME: &'static str = "packed";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let pay = |_| async {
            self.0.enter("pay");
            Ok::<_, Failure>(())
        };
        flow.once("pay").compensate("refund", &()).run(pay).await?;
        let parcel: String = flow.once("pack").told(3 * DAY).await?;
        self.0.enter(format!("sent {parcel}"));
        Ok(parcel)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

async fn tell(desk: &Desk, parcel: &str) -> Told {
    desk.machine().0.tell("o/1", "pack").completed(&parcel).await.unwrap()
}

async fn begun(desk: &Desk, code: &Packed) {
    let outcome = desk.machine().0.start(code, "o/1", &()).run().await.unwrap();
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.locked_by(), None, "no driver has it");
}

#[tokio::test]
async fn the_workflow_waits_and_goes_on_when_it_is_told() {
    let (desk, code) = (Desk::new().await, Packed::default());
    assert_eq!(tell(&desk, "p-1").await, Told::Unknown, "before its start");
    begun(&desk, &code).await;
    for _ in 0..20 {
        desk.bench.clock.advance(Duration::from_secs(3600));
        desk.settle(&code).await;
    }
    let view = desk.view("o/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 0), "a wait is no attempt");
    assert_eq!(tell(&desk, "p-1").await, Told::Recorded);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.result(), Some("\"p-1\""));
    assert_eq!(tell(&desk, "p-1").await, Told::Known);
    assert_eq!(code.0.entries(), ["pay", "sent p-1"]);
}

#[tokio::test]
async fn that_it_will_not_happen_compensates_the_steps_before_it() {
    let (desk, code) = (Desk::new().await, Packed::default());
    begun(&desk, &code).await;
    assert_eq!(desk.machine().0.tell("o/1", "pack").failed(&"sold out").await.unwrap(), Told::Recorded);
    desk.settle(&code).await;
    let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Failed(failed) if failed.failure().error::<String>().unwrap() == "sold out"),
        "{outcome:?}"
    );
    assert_eq!(code.0.entries(), ["pay", "refund"]);
}

#[tokio::test]
async fn once_the_time_is_over_an_operator_decides_and_it_can_still_be_told() {
    let (desk, code) = (Desk::new().await, Packed::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await.len(), 0);
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    assert_eq!(tell(&desk, "p-1").await, Told::Recorded);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.result(), Some("\"p-1\""));
}

/// Those who are told by a message may be faster than the workflow that waits for them.
#[tokio::test]
async fn what_is_told_at_any_moment_of_the_run_is_not_slept_through() {
    let mut told = Vec::new();
    for fate in [Fate::HeldBefore, Fate::HeldAfter] {
        for n in 1..=8 {
            let (desk, code) = (Desk::new().await, Packed::default());
            let (workflows, wire) = desk.machine();
            wire.nth(n, fate);
            let drives = {
                let code = code.clone();
                tokio::spawn(async move { workflows.start(&code, "o/1", &()).run().await.unwrap() })
            };
            while wire.held() == 0 && !drives.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if drives.is_finished() {
                break;
            }
            let came_to = tell(&desk, "p-1").await;
            wire.let_through();
            drives.await.unwrap();
            // Whoever hears that it is too early comes again.
            let again = if came_to == Told::Recorded { Told::Known } else { Told::Recorded };
            if came_to != Told::Recorded {
                assert_eq!(tell(&desk, "p-1").await, again, "{fate:?} {n}");
            }
            // An hour is far less than the wait.
            desk.bench.clock.advance(Duration::from_secs(3600));
            desk.settle(&code).await;
            assert_eq!(desk.view("o/1").await.result(), Some("\"p-1\""), "{fate:?} {n}: told {came_to:?}");
            told.push(came_to);
        }
    }
    assert!(told.contains(&Told::Recorded) && told.contains(&Told::Unknown), "{told:?}");
}

#[tokio::test]
async fn a_step_that_is_told_has_no_key_of_its_own() {
    struct Keyed;
    impl Workflow for Keyed {
        const NAME: &'static str = "keyed";
        type Input = ();
        type Output = ();
        async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
            flow.once("pack").key("parcel/1").told(DAY).await
        }
    }
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Keyed, "k/1", &()).run().await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Quarantined(why) if why.contains("no key of its own")),
        "{outcome:?}"
    );
}
