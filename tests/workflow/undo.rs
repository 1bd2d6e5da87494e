//! Undoing: in reverse, what completed or is in doubt, down to a pivot; once, retried, and never swallowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use locker::workflow::{
    Flow, Intervened, Listed, Outcome, RetryPolicy, StepState, Stop, Undo, Undone, Workflow, WorkflowState,
};
use locker::{Failure, Person};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};

#[derive(Clone)]
struct Trip {
    books: Books,
    /// `c` is a pivot.
    pivot: bool,
    /// `c` ends without a word.
    doubt: bool,
    /// How an undoing of `a` fails, and how often.
    broken: Option<(Failure, u32)>,
    undoings: Arc<AtomicU32>,
}

impl Trip {
    fn new() -> Self {
        Self { books: Books::default(), pivot: false, doubt: false, broken: None, undoings: Arc::default() }
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["a", "b", "c", "d"] {
            let once = flow.once(name).compensate(format!("undo-{name}"), &name).retry(RetryPolicy::never());
            let once = if name == "c" && self.pivot { once.pivot() } else { once };
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

    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        let input: String = undo.input().unwrap();
        assert_eq!(undo.name(), format!("undo-{input}"));
        if let (Some((failure, times)), "a") = (&self.broken, undo.step())
            && self.undoings.fetch_add(1, Ordering::SeqCst) < *times
        {
            return Err(failure.clone());
        }
        let result: Option<String> = undo.result().unwrap();
        self.books.enter(format!("undo {} ({})", undo.step(), result.as_deref().unwrap_or("?")));
        self.books.enter(undo.idempotency_key());
        Ok(Undone::Done)
    }
}

async fn run(desk: &Desk, trip: &Trip) -> Outcome<()> {
    desk.machine().0.workflow(trip, "trip/1", &()).run().await.unwrap()
}

fn person() -> Person {
    Person::new("alice", "the customer called").unwrap()
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
    let undone: Vec<_> = trip.books.entries().into_iter().skip(4).collect();
    assert_eq!(
        undone,
        [
            "undo c (c done)",
            "trip/1 c~undo",
            "undo b (b done)",
            "trip/1 b~undo",
            "undo a (a done)",
            "trip/1 a~undo"
        ]
    );
    let view = desk.view("trip/1").await;
    assert_eq!(view.state(), WorkflowState::Failed);
    let undone = view.steps().iter().filter(|step| step.state() == StepState::Undone).count();
    assert_eq!(undone, 3);
}

#[tokio::test]
async fn what_is_in_doubt_is_undone_as_well() {
    let desk = Desk::new().await;
    let trip = Trip { doubt: true, ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let (workflows, _) = desk.machine();
    let seen = desk.view("trip/1").await;
    assert_eq!(workflows.compensate(&seen, &person()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    let undone: Vec<_> =
        trip.books.entries().into_iter().filter(|entry| entry.starts_with("undo ")).collect();
    assert_eq!(undone, ["undo c (?)", "undo b (b done)", "undo a (a done)"]);
    assert_eq!(desk.view("trip/1").await.state(), WorkflowState::Cancelled);
}

#[tokio::test]
async fn it_stops_at_a_pivot_and_somebody_is_told() {
    let desk = Desk::new().await;
    let trip = Trip { pivot: true, ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("past its pivot"), "{reason}");
    assert_eq!(trip.books.entries(), ["a", "b", "c", "d"], "nothing before the pivot is undone");
    let seen = desk.view("trip/1").await;
    assert!(seen.result().unwrap().contains("no seat"), "the first error is kept");
    // A person puts it right, and says so.
    assert_eq!(desk.machine().0.close(&seen, &person()).await.unwrap(), Intervened::Done);
    assert!(matches!(run(&desk, &trip).await, Outcome::Failed(_)));
    assert_eq!(trip.books.entries().len(), 4);
}

#[tokio::test]
async fn an_undoing_that_fails_in_passing_is_tried_again() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::transient("down".to_owned()), 5)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&trip).await;
    let view = desk.view("trip/1").await;
    assert_eq!((view.state(), trip.books.count("undo a (a done)")), (WorkflowState::Failed, 1));
    assert_eq!(trip.books.count("undo b (b done)"), 1, "what is undone is not undone again");
}

#[tokio::test]
async fn an_undoing_that_fails_for_good_is_kept_and_parked() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::permanent("refused".to_owned()), 1)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "undoing step a failed");
    let seen = desk.view("trip/1").await;
    assert!(seen.result().unwrap().contains("no seat"), "the first error is not lost");
    let undo = seen.steps().iter().find(|step| step.name() == "undo:a").unwrap();
    assert!(undo.state() == StepState::Failed && undo.result().unwrap().contains("refused"));
    // A person lets it be tried again, under another key.
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.retry_step(&seen, "undo:a", &person()).await.unwrap(), Intervened::Done);
    desk.settle(&trip).await;
    assert_eq!(desk.view("trip/1").await.state(), WorkflowState::Failed);
    assert_eq!(trip.books.entries().last().unwrap(), "trip/1 a~undo ~v1.2");
}

#[tokio::test]
async fn an_undoing_of_which_nobody_knows_is_parked_and_not_repeated() {
    let desk = Desk::new().await;
    let trip = Trip { broken: Some((Failure::in_doubt("no reply".to_owned()), 1)), ..Trip::new() };
    let outcome = run(&desk, &trip).await;
    // Its probe does not know; it is asked again until the attempts are used up.
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&trip).await;
    assert_eq!(desk.quarantine().await, ["trip/1"]);
    assert_eq!(trip.undoings.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cancel_before_the_start_refuses_the_late_start() {
    let desk = Desk::new().await;
    let trip = Trip::new();
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("trip/1", 1, &person()).await.unwrap(), Intervened::Done);
    let outcome = run(&desk, &trip).await;
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");
    assert!(trip.books.entries().is_empty());
    assert_eq!(workflows.cancel("trip/1", 1, &person()).await.unwrap(), Intervened::NotPossible);
}

/// A wallet that answers when it is told to.
#[derive(Clone)]
struct Seat {
    books: Books,
    charging: Arc<AtomicBool>,
    answer: Arc<Semaphore>,
    /// Whether an undoing finds the charge.
    sees_charge: bool,
    /// Whether an undoing asks for a person.
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
        let charge = flow.once("charge").compensate("refund", &10).run(|_| async {
            self.charging.store(true, Ordering::SeqCst);
            let _told = self.answer.acquire().await.unwrap();
            self.books.enter("charged");
            Ok::<_, Failure>(10)
        });
        charge.await?;
        // Whoever was shut out notices at the latest here.
        flow.once("confirm")
            .run(|_| async {
                self.books.enter("confirmed");
                Ok::<_, Failure>(())
            })
            .await
    }

    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        if self.asks {
            return Err(Failure::needs_person("look".to_owned()));
        }
        if undo.is_late() || self.sees_charge {
            self.books.enter("refunded");
            return Ok(Undone::Done);
        }
        self.books.enter("nothing to refund");
        Ok(Undone::Nothing)
    }
}

/// A charge is on its way when the workflow is cancelled and undone; then its answer comes.
async fn confirmed_after_cancel(seat: &Seat) -> Desk {
    let desk = Desk::new().await;
    let late = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.workflow(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    desk.machine().0.cancel("seat/1", 1, &person()).await.unwrap();
    desk.settle(seat).await;
    assert_eq!(desk.view("seat/1").await.state(), WorkflowState::Cancelled);
    seat.answer.add_permits(10);
    late.await.unwrap();
    desk
}

#[tokio::test]
async fn a_late_outcome_after_a_cancel_is_refunded_once() {
    let seat = Seat::new();
    let desk = confirmed_after_cancel(&seat).await;
    let view = desk.view("seat/1").await;
    assert_eq!((view.state(), view.listed()), (WorkflowState::Compensating, Some(Listed::Unfinished)));
    for _ in 0..3 {
        desk.settle(&seat).await;
    }
    assert_eq!(seat.books.entries(), ["nothing to refund", "charged", "refunded"]);
    assert_eq!(desk.view("seat/1").await.state(), WorkflowState::Cancelled);
}

#[tokio::test]
async fn a_late_outcome_that_was_refunded_before_is_not_refunded_again() {
    let seat = Seat { sees_charge: true, ..Seat::new() };
    let desk = confirmed_after_cancel(&seat).await;
    desk.settle(&seat).await;
    assert_eq!(seat.books.entries(), ["refunded", "charged"]);
    assert_eq!(desk.view("seat/1").await.state(), WorkflowState::Cancelled);
}

#[tokio::test]
async fn a_late_outcome_after_a_person_closed_it_is_shown_and_nothing_is_undone_again() {
    let desk = Desk::new().await;
    let seat = Seat { asks: true, ..Seat::new() };
    let late = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.workflow(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    workflows.cancel("seat/1", 1, &person()).await.unwrap();
    desk.settle(&seat).await;
    let parked = desk.view("seat/1").await;
    assert_eq!(workflows.close(&parked, &person()).await.unwrap(), Intervened::Done);
    seat.answer.add_permits(1);
    late.await.unwrap();
    let calm = Seat { asks: false, ..seat.clone() };
    desk.settle(&calm).await;
    assert_eq!(desk.quarantine().await, ["seat/1"]);
    assert_eq!(seat.books.entries(), ["charged"]);
}

#[tokio::test]
async fn a_step_that_may_be_at_work_is_waited_for_before_it_is_undone() {
    let desk = Desk::new().await;
    let seat = Seat::new();
    let busy = tokio::spawn({
        let (workflows, seat) = (desk.machine().0, seat.clone());
        async move { workflows.workflow(&seat, "seat/1", &()).run().await.unwrap() }
    });
    while !seat.charging.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    workflows.cancel("seat/1", 1, &person()).await.unwrap();
    locker::workflow::Completer::new(&workflows).register(seat.clone()).run().await.unwrap();
    assert!(seat.books.entries().is_empty(), "it may yet end");
    // It does, and its outcome is recorded before it is undone.
    seat.answer.add_permits(1);
    let outcome = busy.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);
    let sees = Seat { sees_charge: true, ..seat.clone() };
    desk.settle(&sees).await;
    assert_eq!(seat.books.entries(), ["charged", "refunded"]);
}
