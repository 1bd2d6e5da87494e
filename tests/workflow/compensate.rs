//! Compensation: steps that completed or are in doubt, in reverse order, down to a pivot; once,
//! retried, and never without a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use locker::operator::{Act, Console, Part};
use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, RetryPolicy, State, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::ada;
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};

#[derive(Clone)]
struct Trip {
    books: Books,
    /// `c` is a pivot.
    pivot: bool,
    /// `c` ends without a word.
    doubt: bool,
    /// How the compensation of `a` fails, and how often.
    broken: Option<(Failure, u32)>,
    failures: Arc<AtomicU32>,
}

impl Trip {
    fn new() -> Self {
        Self { books: Books::default(), pivot: false, doubt: false, broken: None, failures: Arc::default() }
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["a", "b", "c", "d"] {
            let once = flow.once(name).retry(RetryPolicy::never());
            let once = if name == "c" && self.pivot {
                once.pivot()
            } else {
                once.compensate(&format!("undo-{name}"))
            };
            let done = once.run(|_| async move {
                self.books.enter(name);
                match name {
                    "c" if self.doubt => Err(Failure::in_doubt("no reply".to_owned())),
                    "d" => Err(Failure::permanent("no seat".to_owned())),
                    _ => Ok(format!("{name} done")),
                }
            });
            done.await?;
        }
        Ok(())
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        assert_eq!(compensation.name(), format!("undo-{}", compensation.step()));
        if let (Some((failure, times)), "a") = (&self.broken, compensation.step())
            && self.failures.fetch_add(1, Ordering::SeqCst) < *times
        {
            return Err(failure.clone());
        }
        let result: Option<String> = compensation.result().unwrap();
        self.books.enter(format!("undo {} ({})", compensation.step(), result.as_deref().unwrap_or("?")));
        self.books.enter(compensation.idempotency_key());
        Ok(Compensated::Done)
    }
}

async fn run(desk: &Desk, trip: &Trip) -> Outcome<()> {
    desk.machine().0.start(trip, "trip/1", &()).run().await.unwrap()
}

#[tokio::test]
async fn in_reverse_and_the_first_error_is_the_answer() {
    let desk = Desk::new().await;
    let trip = Trip::new();
    for replay in [false, true] {
        let outcome = run(&desk, &trip).await;
        let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
        assert_eq!((failed.failure().step(), failed.is_replay()), (Some("d"), replay));
        assert_eq!(failed.failure().error::<Failure>().unwrap().error, "no seat");
    }
    let compensated: Vec<_> = trip.books.entries().into_iter().skip(4).collect();
    assert_eq!(
        compensated,
        [
            "undo c (c done)",
            "trip/1 c~compensate",
            "undo b (b done)",
            "trip/1 b~compensate",
            "undo a (a done)",
            "trip/1 a~compensate"
        ]
    );
    let view = desk.view("trip/1").await;
    assert_eq!(view.state(), State::Failed);
    let compensated = view.steps().iter().filter(|step| step.state() == StepState::Compensated).count();
    assert_eq!(compensated, 3);
}

#[tokio::test]
async fn a_step_in_doubt_is_compensated_as_well() {
    let desk = Desk::new().await;
    let trip = Trip { doubt: true, ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let (workflows, _) = desk.machine();
    let seen = desk.view("trip/1").await;
    assert_eq!(workflows.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    let compensated: Vec<_> =
        trip.books.entries().into_iter().filter(|entry| entry.starts_with("undo ")).collect();
    assert_eq!(compensated, ["undo c (?)", "undo b (b done)", "undo a (a done)"]);
    assert_eq!(desk.view("trip/1").await.state(), State::Cancelled);
}

#[tokio::test]
async fn it_stops_at_a_pivot_and_is_quarantined() {
    let desk = Desk::new().await;
    let trip = Trip { pivot: true, ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("past its pivot c:"), "{reason}");
    assert_eq!(trip.books.entries(), ["a", "b", "c", "d"], "nothing before the pivot is compensated");
    let seen = desk.view("trip/1").await;
    assert!(seen.result().unwrap().contains("no seat"), "the first error is kept");
    // An operator repairs it, and closes the workflow.
    assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert!(matches!(run(&desk, &trip).await, Outcome::Failed(_)));
    assert_eq!(trip.books.entries().len(), 4);
}

#[tokio::test]
async fn pivot_in_doubt_stops_a_compensation_until_an_operator_decides() {
    let desk = Desk::new().await;
    let trip = Trip { pivot: true, doubt: true, ..Trip::new() };
    assert!(matches!(run(&desk, &trip).await, Outcome::Quarantined(_)));
    let (workflows, _) = desk.machine();
    let seen = desk.view("trip/1").await;
    assert_eq!(workflows.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    let seen = desk.view("trip/1").await;
    let reason = seen.reason().unwrap();
    assert!(reason.contains("it is unknown whether its pivot c happened"), "{reason}");
    let part = Part::Workflow(Box::new(seen.clone()));
    let meaning = Console::new().workflows(&workflows).check(&part, &Act::retry().step("c")).unwrap();
    assert_eq!(meaning.effect, "it did not happen: it does not run, and the steps before it are compensated");
    assert_eq!(workflows.retry_step(&seen, "c", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    let undone =
        trip.books.entries().into_iter().filter(|entry| entry.starts_with("undo ")).collect::<Vec<_>>();
    assert_eq!(undone, ["undo b (b done)", "undo a (a done)"]);
    assert_eq!((desk.view("trip/1").await.state(), trip.books.count("c")), (State::Cancelled, 1));
}

/// A pivot with a compensation, in each form of a step.
struct Recalled {
    is_atomic: bool,
}

impl Workflow for Recalled {
    const NAME: &'static str = "recalled";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        if self.is_atomic {
            return flow.atomic("ship").compensate(&"recall").pivot().commit(&()).await;
        }
        let ship = flow.once("ship").compensate(&"recall").pivot();
        ship.run(|_| async { Err::<(), _>(Failure::needs_operator("it ran".to_owned())) }).await
    }
}

#[tokio::test]
async fn pivot_with_a_compensation_is_refused_before_it_runs() {
    let desk = Desk::new().await;
    for is_atomic in [false, true] {
        let key = format!("recalled/{is_atomic}");
        let outcome = desk.machine().0.start(&Recalled { is_atomic }, &key, &()).run().await.unwrap();
        let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("step ship cannot run: a pivot is never compensated"), "{reason}");
        assert!(desk.view(&key).await.steps().is_empty());
    }
}

#[tokio::test]
async fn a_compensation_that_fails_transiently_is_retried() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::transient("down".to_owned()), 5)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&trip).await;
    let view = desk.view("trip/1").await;
    assert_eq!((view.state(), trip.books.count("undo a (a done)")), (State::Failed, 1));
    assert_eq!(trip.books.count("undo b (b done)"), 1, "a compensated step is not compensated again");
}

#[tokio::test]
async fn a_compensation_that_fails_permanently_is_kept_and_quarantined() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::permanent("refused".to_owned()), 1)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "the compensation of step a failed: refused");
    let seen = desk.view("trip/1").await;
    assert!(seen.result().unwrap().contains("no seat"), "the first error is not lost");
    let compensation = seen.steps().iter().find(|step| step.name() == "compensation:a").unwrap();
    assert!(compensation.state() == StepState::Failed && compensation.result().unwrap().contains("refused"));
    // An operator retries it, under another key.
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.retry_step(&seen, "compensation:a", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    assert_eq!(desk.view("trip/1").await.state(), State::Failed);
    assert_eq!(trip.books.entries().last().unwrap(), "trip/1 a~compensate ~v1.2");
}

#[tokio::test]
async fn a_compensation_in_doubt_is_quarantined_and_not_repeated() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::in_doubt("no reply".to_owned()), 1)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    // Its probe does not know; it is asked again until the attempts are exhausted.
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&trip).await;
    assert_eq!(desk.quarantine().await, ["trip/1"]);
    assert_eq!(trip.failures.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cancel_before_the_start_refuses_the_late_start() {
    let desk = Desk::new().await;
    let trip = Trip::new();
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("trip/1", 1, &ada()).await.unwrap(), Intervened::Done);
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");
    assert!(trip.books.entries().is_empty());
    assert_eq!(workflows.cancel("trip/1", 1, &ada()).await.unwrap(), Intervened::NotPossible);
}

/// A wallet that answers on request of the test.
#[derive(Clone)]
struct Seat {
    books: Books,
    charging: Arc<AtomicBool>,
    answer: Arc<Semaphore>,
    /// Whether a compensation finds the charge.
    sees_charge: bool,
    /// Whether a compensation needs an operator.
    asks: bool,
}

impl Seat {
    fn new() -> Self {
        let (charging, answer) = (Arc::default(), Arc::new(Semaphore::new(0)));
        Self { books: Books::default(), charging, answer, sees_charge: false, asks: false }
    }
}

impl Workflow for Seat {
    const NAME: &'static str = "seat";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").compensate(&"refund").run(|_| async {
            self.charging.store(true, Ordering::SeqCst);
            let _told = self.answer.acquire().await.unwrap();
            self.books.enter("charged");
            Ok(10)
        });
        charge.await?;
        // A driver that was fenced off notices here at the latest.
        flow.once("confirm")
            .run(|_| async {
                self.books.enter("confirmed");
                Ok(())
            })
            .await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if self.asks {
            return Err(Failure::needs_operator("look".to_owned()));
        }
        if compensation.is_late() || self.sees_charge {
            self.books.enter("refunded");
            return Ok(Compensated::Done);
        }
        self.books.enter("nothing to refund");
        Ok(Compensated::Nothing)
    }
}

/// A charge is in flight when the workflow is cancelled and compensated; then its answer arrives.
async fn confirmed_after_cancel(seat: &Seat) -> Desk {
    let desk = Desk::new().await;
    let late = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.start(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.machine().0.cancel("seat/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(seat).await;
    assert_eq!(desk.view("seat/1").await.state(), State::Cancelled);
    seat.answer.add_permits(10);
    late.await.unwrap();
    desk
}

#[tokio::test]
async fn a_late_outcome_after_a_cancel_is_refunded_once() {
    let seat = Seat::new();
    let desk = confirmed_after_cancel(&seat).await;
    let view = desk.view("seat/1").await;
    assert_eq!((view.state(), view.listed()), (State::Compensating, Some(List::Unfinished)));
    for _ in 0..3 {
        desk.settle(&seat).await;
    }
    assert_eq!(seat.books.entries(), ["nothing to refund", "charged", "refunded"]);
    assert_eq!(desk.view("seat/1").await.state(), State::Cancelled);
}

#[tokio::test]
async fn a_late_outcome_that_was_refunded_before_is_not_refunded_again() {
    let seat = Seat { sees_charge: true, ..Seat::new() };
    let desk = confirmed_after_cancel(&seat).await;
    desk.settle(&seat).await;
    assert_eq!(seat.books.entries(), ["refunded", "charged"]);
    assert_eq!(desk.view("seat/1").await.state(), State::Cancelled);
}

#[tokio::test]
async fn a_late_outcome_after_an_operator_closed_it_is_shown_and_nothing_is_compensated_again() {
    let desk = Desk::new().await;
    let seat = Seat { asks: true, ..Seat::new() };
    let late = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.start(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("seat/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&seat).await;
    let quarantined = desk.view("seat/1").await;
    assert_eq!(workflows.close(&quarantined, &ada()).await.unwrap(), Intervened::Done);
    seat.answer.add_permits(1);
    late.await.unwrap();
    let calm = Seat { asks: false, ..seat.clone() };
    desk.settle(&calm).await;
    assert_eq!(desk.quarantine().await, ["seat/1"]);
    assert_eq!(seat.books.entries(), ["charged"]);
}

#[tokio::test]
async fn a_step_that_may_be_running_is_awaited_before_it_is_compensated() {
    let desk = Desk::new().await;
    let seat = Seat::new();
    let busy = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.start(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("seat/1", 1, &ada()).await.unwrap(), Intervened::Done);
    locker::workflow::Completer::new(&workflows).register(seat.clone()).run().await.unwrap();
    assert!(seat.books.entries().is_empty(), "it may yet end");
    // It does, and its outcome is recorded before it is compensated.
    seat.answer.add_permits(1);
    let outcome = busy.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    let sees = Seat { sees_charge: true, ..seat.clone() };
    desk.settle(&sees).await;
    assert_eq!(seat.books.entries(), ["charged", "refunded"]);
}

/// Fails with more than can be stored, after a step that has to be compensated.
#[derive(Clone)]
struct Wordy {
    books: Books,
    at_a_step: bool,
}

impl Workflow for Wordy {
    const NAME: &'static str = "wordy";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("seat").compensate(&"free").run(|_| async { Ok(1) }).await?;
        let words: String = std::iter::repeat_with(fastrand::alphanumeric).take(600_000).collect();
        if self.at_a_step {
            let fails = |_| async { Err::<(), _>(Failure::permanent(words.clone())) };
            return flow.once("charge").run(fails).await;
        }
        Err(Stop::fail(words))
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.books.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn a_failure_that_is_too_large_to_be_stored_is_compensated_all_the_same() {
    for at_a_step in [false, true] {
        let desk = Desk::new().await;
        let code = Wordy { books: Books::default(), at_a_step };
        let outcome = desk.machine().0.start(&code, "wordy/1", &()).run().await.unwrap();
        let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
        let text: String = failed.failure().error().unwrap();
        assert!(text.starts_with("the failure could not be stored whole: the encoded value has "), "{text}");
        assert_eq!(failed.failure().step(), at_a_step.then_some("charge"));
        assert_eq!(code.books.entries(), ["free"]);
    }
}
