//! A step whose outcome is reported from outside: the workflow waits for it, without attempts.

use std::time::Duration;

use lock_token_testing::Fate;
use locker::workflow::{Compensated, Compensation, Flow, List, Outcome, Reported, Stop, Workflow};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

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
            Ok(())
        };
        flow.once("pay").compensate(&"refund").run(pay).await?;
        let parcel: String = flow.once("pack").reported_within(3 * DAY).await?;
        self.0.enter(format!("sent {parcel}"));
        Ok(parcel)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn wait_for_a_report_names_its_step_and_counts_as_no_doubt() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // This test runs on one thread, and so do its tasks.
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    let doubts = || {
        let known = snapshotter.snapshot().into_vec().into_iter();
        let mut known = known.filter(|(key, ..)| key.key().name() == "stepsInDoubt");
        known.next().map(|(_, _, _, value)| value)
    };
    let (desk, code) = (Desk::new().await, Packed::default());
    begun(&desk, &code).await;
    for _ in 0..3 {
        let view = desk.view("o/1").await;
        let reason = view.reason().unwrap();
        assert!(reason.starts_with("step pack waits for a report of its outcome until 2"), "{reason}");
        // Somebody looks at it before it is due.
        let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        let retried = desk.machine().0.retry(&view, &ada()).await.unwrap();
        assert_eq!(retried, Intervened::Done);
        desk.settle(&code).await;
    }
    assert_eq!(doubts(), None, "no look at it is a doubt");
    // After its time, it is one.
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    assert_eq!(doubts(), Some(DebugValue::Counter(1)));
}

async fn report(desk: &Desk, parcel: &str) -> Reported {
    desk.machine().0.report("o/1", "pack").completed(&parcel).await.unwrap()
}

async fn begun(desk: &Desk, code: &Packed) {
    let outcome = desk.machine().0.start(code, "o/1", &()).run().await.unwrap();
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.locked_by(), None, "no driver has it");
}

#[tokio::test]
async fn waiting_workflow_resumes_after_the_report() {
    let (desk, code) = (Desk::new().await, Packed::default());
    assert_eq!(report(&desk, "p-1").await, Reported::Unknown, "before its start");
    begun(&desk, &code).await;
    for _ in 0..20 {
        desk.bench.clock.advance(Duration::from_secs(3600));
        desk.settle(&code).await;
    }
    let view = desk.view("o/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 0), "a wait is no attempt");
    assert_eq!(report(&desk, "p-1").await, Reported::Recorded);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.result(), Some("\"p-1\""));
    assert_eq!(report(&desk, "p-1").await, Reported::Known);
    assert_eq!(code.0.entries(), ["pay", "sent p-1"]);
}

#[tokio::test]
async fn that_it_will_not_happen_compensates_the_steps_before_it() {
    let (desk, code) = (Desk::new().await, Packed::default());
    begun(&desk, &code).await;
    assert_eq!(desk.machine().0.report("o/1", "pack").failed(&"sold out").await.unwrap(), Reported::Recorded);
    desk.settle(&code).await;
    let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Failed(failed) if failed.failure().error::<String>().unwrap() == "sold out"),
        "{outcome:?}"
    );
    assert_eq!(code.0.entries(), ["pay", "refund"]);
}

#[tokio::test]
async fn report_counts_after_the_time_is_over() {
    let (desk, code) = (Desk::new().await, Packed::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await.len(), 0);
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    assert_eq!(report(&desk, "p-1").await, Reported::Recorded);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.result(), Some("\"p-1\""));
}

/// The receiver of a message may report before the workflow waits for the report.
#[tokio::test]
async fn report_at_any_request_of_the_run_resumes_the_workflow() {
    let mut reported = Vec::new();
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
            let came_to = report(&desk, "p-1").await;
            wire.let_through();
            drives.await.unwrap();
            // A reporter that was too early reports again.
            let again = if came_to == Reported::Recorded { Reported::Known } else { Reported::Recorded };
            if came_to != Reported::Recorded {
                assert_eq!(report(&desk, "p-1").await, again, "{fate:?} {n}");
            }
            // An hour is far less than the wait.
            desk.bench.clock.advance(Duration::from_secs(3600));
            desk.settle(&code).await;
            assert_eq!(
                desk.view("o/1").await.result(),
                Some("\"p-1\""),
                "{fate:?} {n}: reported {came_to:?}"
            );
            reported.push(came_to);
        }
    }
    assert!(reported.contains(&Reported::Recorded) && reported.contains(&Reported::Unknown), "{reported:?}");
}

#[tokio::test]
async fn step_with_a_key_of_its_own_cannot_wait_for_a_report() {
    struct Keyed;
    impl Workflow for Keyed {
        const NAME: &'static str = "keyed";
        type Input = ();
        type Output = ();
        async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
            flow.once("pack").key("parcel/1").reported_within(DAY).await
        }
    }
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Keyed, "k/1", &()).run().await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Quarantined(why) if why.contains("no key of its own")),
        "{outcome:?}"
    );
}
