//! Promise 5: done work is never reported as failed, and the outcome was logged before the save was
//! attempted.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locker::{Failure, Origin};
use locker_tests::{Bench, Fate, Wire};
use tracing_subscriber::fmt::MakeWriter;

/// A log that records how many requests had been made when each line was written.
#[derive(Clone)]
struct Log {
    wire: Wire,
    lines: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line).into_owned();
        self.lines.lock().expect("the log").push((self.wire.count(), text));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_succeeded_is_a_success_whatever_happens_to_the_save() {
    let bench = Bench::new().await;
    for fault in [Fate::Lost, Fate::ReplyLost, Fate::ErrorBefore, Fate::Throttled, Fate::Denied, Fate::Hangs]
    {
        let (locker, wire) = bench.impatient_machine();
        let faults = wire.clone();
        let answer = locker
            .token(format!("done/{fault:?}"))
            .run(async |_| {
                faults.always(fault);
                Ok::<_, Failure>("charged".to_owned())
            })
            .await
            .expect("the work succeeded");
        assert_eq!(*answer, "charged");
        assert!(matches!(answer.origin(), Origin::Unrecorded(_)), "{fault:?}: {:?}", answer.origin());
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_succeeded_too_late_is_a_success() {
    let bench = Bench::new().await;
    let (first, _) = bench.machine();
    let (second, _) = bench.machine();
    let answer = first
        .token("done/late")
        .run(async |_| {
            bench.clock.advance(Duration::from_secs(3600));
            let other = second.token("done/late").take_over_after(Duration::ZERO);
            other.run(async |_| Ok::<_, Failure>("second".to_owned())).await.expect("taken over");
            Ok::<_, Failure>("first".to_owned())
        })
        .await;
    // Both did the work, because the second chose to take over; each succeeds, and the first one
    // stored nothing.
    let answer = answer.expect("the work succeeded");
    assert_eq!(*answer, "first");
    let Origin::Unrecorded(end) = answer.origin() else { panic!("{:?}", answer.origin()) };
    assert!(matches!(end.error(), locker::Error::LostOwnership { record: Some(_), .. }), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_is_logged_before_the_save_is_tried() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let log = Log { wire: wire.clone(), lines: Arc::default() };
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let faults = wire.clone();
    let work = locker.token("done/logged").run(async |_| {
        assert_eq!(faults.count(), 1, "begin is one request");
        Ok::<_, Failure>(())
    });
    work.await.expect("done");
    let lines = log.lines.lock().expect("the log").clone();
    let (requests, line) =
        lines.iter().find(|(_, line)| line.contains("the work ended")).expect("the outcome");
    assert_eq!(*requests, 1, "begin was sent, the save was not");
    for part in [
        "lock.token=\"done/logged\"",
        "lock.owner=\"test/machine\"",
        "lock.outcome=\"success\"",
        "lock.attempt=",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(wire.count() > 1);
}

#[tokio::test(start_paused = true)]
async fn the_outcome_is_logged_even_if_it_cannot_be_stored_at_all() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let log = Log { wire: wire.clone(), lines: Arc::default() };
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let answer =
        locker.token("done/odd").run(async |_| Ok::<_, Failure>(f64::NAN)).await.expect("the work succeeded");
    assert!(answer.is_nan());
    let lines = log.lines.lock().expect("the log").clone();
    let all: String = lines.into_iter().map(|(_, line)| line).collect();
    for part in
        ["the work ended", "lock.outcome=\"success\"", "lock.token=\"done/odd\"", "could not be stored"]
    {
        assert!(all.contains(part), "{part} is not in {all}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_dropped_logs_a_warning_and_sends_nothing() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let lock = locker_tests::held_by(locker.token("dropped")).await;
    let log = Log { wire: wire.clone(), lines: Arc::default() };
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    wire.take();
    drop(lock);
    let lines = log.lines.lock().expect("the log").clone();
    assert!(lines.iter().any(|(_, line)| line.contains("WARN") && line.contains("dropped")), "{lines:?}");
    assert_eq!(wire.count(), 0);
    assert_eq!(locker_tests::record_of(&locker, "dropped").await.state(), locker::TokenState::InProgress);
}
