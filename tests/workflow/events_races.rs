//! Races of an event, its driver, other senders, time, a cancel and faults, in each order of
//! requests.

use std::time::Duration;

use lock_token_testing::Fate;
use locker::workflow::{Completer, Outcome, Signalled, State, Workflows};
use locker_tests::{DAY, Wire, ada};

use crate::bench::Desk;
use crate::events::{Order, begun, signal, stored};

/// An act of others while a request of the driver is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Event,
    /// The same event from another process.
    Again,
    /// Another event under the name.
    Other,
    Cancel,
    /// The time of the wait passes.
    Time,
}

const PLAYS: [&[Act]; 11] = [
    &[Act::Event],
    &[Act::Event, Act::Again],
    &[Act::Event, Act::Other],
    &[Act::Other, Act::Event, Act::Again],
    &[Act::Cancel],
    &[Act::Event, Act::Cancel],
    &[Act::Cancel, Act::Event],
    &[Act::Time],
    &[Act::Event, Act::Time],
    &[Act::Time, Act::Event],
    &[Act::Event, Act::Cancel, Act::Other, Act::Time],
];

/// The state of the workflow before the driver begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The driver starts the workflow.
    Nothing,
    /// The workflow waits, and the event is stored.
    Event,
    /// The workflow waits, and the time of the wait has passed.
    Time,
    /// The workflow waits, and an operator has cancelled it.
    Cancel,
    /// The workflow has ended, and the event came too late.
    Late,
}

/// The answers of all senders, with the values of their events.
type Answers = Vec<(&'static str, Signalled)>;

async fn act(desk: &Desk, act: Act, answers: &mut Answers) {
    let workflows = desk.machine().0;
    match act {
        Act::Event | Act::Again => answers.push(("17", signal(&workflows, "e-1", "17").await)),
        Act::Other => answers.push(("18", signal(&workflows, "e-2", "18").await)),
        Act::Cancel => drop(workflows.cancel("o/1", 1, &ada()).await.unwrap()),
        Act::Time => desk.bench.clock.advance(4 * DAY),
    }
}

async fn prepared(desk: &Desk, code: &Order, before: Before) -> Answers {
    let mut answers = Answers::new();
    if before == Before::Nothing {
        return answers;
    }
    begun(desk, code).await;
    match before {
        Before::Nothing => {}
        Before::Event => act(desk, Act::Event, &mut answers).await,
        Before::Time => act(desk, Act::Time, &mut answers).await,
        Before::Cancel => act(desk, Act::Cancel, &mut answers).await,
        Before::Late => {
            act(desk, Act::Time, &mut answers).await;
            desk.settle(code).await;
            act(desk, Act::Event, &mut answers).await;
        }
    }
    // Waits until the workflow is due.
    desk.bench.clock.advance(Duration::from_secs(1));
    answers
}

/// Runs the driver once.
async fn drive(workflows: Workflows, code: Order, before: Before) {
    if before == Before::Nothing {
        let _ = workflows.start(&code, "o/1", &()).run().await;
    } else {
        let _ = Completer::new(&workflows).register(code).run().await;
    }
}

/// Asserts the rules that hold after each order.
async fn judge(desk: &Desk, code: &Order, answers: &Answers, play: &str) {
    for _ in 0..2 {
        desk.settle(code).await;
    }
    desk.bench.clock.advance(4 * DAY);
    desk.settle(code).await;
    let view = desk.machine().0.get("o/1", 1).await.unwrap();
    let Some(view) = view else {
        assert!(answers.iter().all(|(_, answer)| *answer == Signalled::NotStarted), "{play}: {answers:?}");
        return;
    };
    assert!(view.state().is_final(), "{play}: it has ended, {:?} {:?}", view.state(), view.reason());
    let outcome = desk.machine().0.start(code, "o/1", &()).run().await.unwrap();
    let outcome = match outcome {
        Outcome::Completed(answer) => answer.into_inner(),
        Outcome::Cancelled => "cancelled".to_owned(),
        other => panic!("{play}: {other:?}"),
    };
    let state = stored(desk, "event/paid", "state").await;
    let state = state.as_deref().unwrap_or("-");
    let refunds = code.0.entries();
    let main =
        answers.iter().find(|(_, answer)| matches!(answer, Signalled::Accepted | Signalled::Late { .. }));
    let stored_first = answers.iter().filter(|(_, answer)| {
        matches!(answer, Signalled::Accepted | Signalled::Late { .. } | Signalled::AlreadyGiven)
    });
    let mut values: Vec<_> = stored_first.map(|(value, _)| *value).collect();
    let stored_events = values.len();
    values.dedup();
    assert_eq!(values.len(), stored_events, "{play}: no event is stored twice: {answers:?}");
    match main {
        // After a cancel, an event that the code has is compensated as well.
        Some((value, _)) if state == "taken" => {
            assert_eq!(outcome, format!("paid {value}"), "{play}");
            assert_eq!(refunds.len(), 0, "{play}");
        }
        // The event was late or unread. If the wait had been reached, the event is refunded once.
        Some(_) => {
            let has_wait = stored(desk, "event/paid", "since").await.is_some();
            let expected = if has_wait { ("handled", 1) } else { ("late", 0) };
            assert_eq!((state, refunds.len()), expected, "{play}: {answers:?} {outcome}");
            assert!(!outcome.starts_with("paid"), "{play}: {outcome}");
        }
        None => {
            assert!(["-", "waiting", "expired"].contains(&state), "{play}: {state} {answers:?}");
            assert_eq!(refunds.len(), 0, "{play}");
        }
    }
    if let Some((_, answer)) = main.filter(|(_, answer)| *answer != Signalled::Accepted) {
        assert!(!outcome.starts_with("paid"), "{play}: {answer:?} and {outcome}");
    }
}

async fn play(before: Before, acts: &[Act], place: usize, fate: Fate) -> bool {
    let name = format!("{before:?}, {acts:?} at request {place} {fate:?}");
    let (desk, code) = (Desk::new().await, Order::default());
    let mut answers = prepared(&desk, &code, before).await;
    let (workflows, wire) = desk.machine();
    wire.nth(place, fate);
    let driver = tokio::spawn(drive(workflows, code.clone(), before));
    while wire.held() == 0 && !driver.is_finished() {
        tokio::task::yield_now().await;
    }
    let is_held = wire.held() > 0;
    if is_held {
        for one in acts {
            act(&desk, *one, &mut answers).await;
        }
        wire.let_through();
    }
    driver.await.unwrap();
    judge(&desk, &code, &answers, &name).await;
    is_held
}

/// Holds each request of a driver, before and after it is applied, while others act.
async fn every_order(before: Before) {
    let mut played = 0;
    for acts in PLAYS {
        for fate in [Fate::HeldBefore, Fate::HeldAfter] {
            let mut place = 1;
            while play(before, acts, place, fate).await {
                place += 1;
                played += 1;
            }
            assert!(place > 3, "the driver sends more requests than {place}");
        }
    }
    println!("{before:?}: {played} orders");
}

#[tokio::test]
async fn start_of_a_wait_meets_events_in_every_order() {
    every_order(Before::Nothing).await;
}

#[tokio::test]
async fn take_of_an_event_meets_others_in_every_order() {
    every_order(Before::Event).await;
}

#[tokio::test]
async fn end_of_the_time_meets_events_in_every_order() {
    every_order(Before::Time).await;
}

#[tokio::test]
async fn compensation_of_a_cancelled_workflow_meets_events_in_every_order() {
    every_order(Before::Cancel).await;
}

#[tokio::test]
async fn compensation_of_a_late_event_meets_others_in_every_order() {
    every_order(Before::Late).await;
}

const FAULTS: [Fate; 7] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::Garbled,
];

#[tokio::test]
async fn fault_at_any_request_of_a_driver_changes_nothing() {
    for before in [Before::Nothing, Before::Event, Before::Time, Before::Cancel, Before::Late] {
        for fault in FAULTS {
            for place in 1.. {
                let (desk, code) = (Desk::new().await, Order::default());
                let answers = prepared(&desk, &code, before).await;
                let (workflows, wire) = desk.machine();
                wire.nth(place, fault);
                drive(workflows, code.clone(), before).await;
                let is_last = wire.count() < place;
                judge(&desk, &code, &answers, &format!("{before:?}, {fault:?} at {place}")).await;
                if is_last {
                    break;
                }
            }
        }
    }
}

/// The sender sends its request again, and finds its own event, or an event that a driver has
/// taken.
#[tokio::test]
async fn fault_at_any_request_of_a_sender_answers_as_if_it_had_gone_well() {
    for before in [Before::Nothing, Before::Time, Before::Late] {
        let mut expected = None;
        for fault in [Fate::Ok].into_iter().chain(FAULTS) {
            for place in 1..6 {
                let (desk, code) = (Desk::new().await, Order::default());
                let mut answers = prepared(&desk, &code, before).await;
                if before == Before::Nothing {
                    begun(&desk, &code).await;
                }
                let (workflows, wire) = desk.machine();
                wire.nth(place, fault);
                let answer = signal(&workflows, "e-3", "19").await;
                assert_eq!(*expected.get_or_insert(answer), answer, "{before:?}, {fault:?} at {place}");
                answers.push(("19", answer));
                judge(&desk, &code, &answers, &format!("{before:?}, sender, {fault:?} at {place}")).await;
            }
        }
    }
}

/// The reply to the sender's transaction is lost, and the driver takes the event before the sender
/// sends it again.
#[tokio::test]
async fn sender_whose_event_was_taken_meanwhile_is_not_answered_duplicate() {
    for cancels in [false, true] {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, wire) = desk.machine();
        wire.next([Fate::Ok, Fate::Ok, Fate::ErrorAfter, Fate::HeldBefore]);
        let sender = tokio::spawn(async move { signal(&workflows, "e-1", "17").await });
        while wire.held() == 0 {
            tokio::task::yield_now().await;
        }
        if cancels {
            act(&desk, Act::Cancel, &mut Answers::new()).await;
        }
        desk.settle(&code).await;
        desk.settle(&code).await;
        wire.let_through();
        assert_eq!(sender.await.unwrap(), Signalled::Accepted);
        let state = desk.view("o/1").await.state();
        assert_eq!(state, if cancels { State::Cancelled } else { State::Completed });
        assert_eq!(code.0.entries().len(), usize::from(cancels));
    }
}

/// A driver that lost the workflow may have read the event before.
#[tokio::test]
async fn driver_that_lost_the_workflow_cannot_take_the_event() {
    let (desk, code) = (Desk::new().await, Order::default());
    let mut answers = prepared(&desk, &code, Before::Event).await;
    let (workflows, wire) = desk.machine();
    let takes = |exchange: &lock_token_testing::Exchange| exchange.operation == "TransactWriteItems";
    wire.matching(takes, Fate::HeldBefore);
    let driver = tokio::spawn(drive(workflows, code.clone(), Before::Event));
    until_held(&wire).await;
    act(&desk, Act::Cancel, &mut answers).await;
    wire.let_through();
    driver.await.unwrap();
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("given"));
    judge(&desk, &code, &answers, "cancelled before the take").await;
    assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
}

async fn until_held(wire: &Wire) {
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
}
