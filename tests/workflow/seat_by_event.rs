//! The same seat and wallet as in `seat_and_wallet`, with the other model: the workflow sends the
//! charge, and waits for the event of the wallet.

use std::sync::{Arc, Mutex};

use locker::workflow::{Compensated, Compensation, Event, Flow, List, Signalled, State, Stop, Workflow};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada};
use serde::{Deserialize, Serialize};

use crate::bench::{Desk, LATER};
use crate::seat_and_wallet::World;

/// What the wallet says of the charge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Charged {
    Receipt(String),
    Declined,
}

const CHARGED: Event<Charged> = Event::named("charged");

#[derive(Debug, Serialize, Deserialize)]
enum Undo {
    Free,
    Refund,
}

#[derive(Clone, Default)]
struct Show {
    world: Arc<Mutex<World>>,
    /// The confirmation is retried for ever.
    is_down: bool,
}

impl Show {
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }
}

impl Workflow for Show {
    const NAME: &'static str = "show";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let take = async |_| {
            self.world().seat_is_taken = true;
            Ok(())
        };
        flow.once("seat").compensate(&Undo::Free).run(take).await?;
        match flow.wait_for(CHARGED, 7 * DAY).on_late(&Undo::Refund).await? {
            Some(Charged::Receipt(_)) => {}
            Some(Charged::Declined) => return Err(Stop::fail("insufficient funds")),
            None => return Err(Stop::fail("the wallet did not answer")),
        }
        let confirm = async |_| {
            if self.is_down {
                return Err(Failure::transient("down".to_owned()));
            }
            self.world().is_confirmed = true;
            Ok(())
        };
        flow.step("confirm").run(confirm).await
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        match it.undo()? {
            Undo::Free => self.world().seat_is_taken = false,
            Undo::Refund => {
                let Some(Charged::Receipt(receipt)) = it.result()? else { return Ok(Compensated::Nothing) };
                let mut world = self.world();
                world.charged -= 1;
                world.refunds.push(receipt);
            }
        }
        Ok(Compensated::Done)
    }
}

/// What happens around the event of the wallet.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Twist {
    None,
    /// The event is lost, and sent again after three days.
    Lost,
    Twice,
    /// It comes before the start, and before the wait.
    Early,
    /// It comes after the time of the wait.
    AfterTime,
    /// It comes after the cancellation.
    AfterCancel,
    /// It comes before the cancellation, and the code has not read it.
    BeforeCancel,
    /// The code has it when the cancellation comes.
    Taken,
    /// The same, and it came before the wait.
    EarlyAndTaken,
    /// It comes again after the end, and so does a cancellation.
    AgainAfterEnd,
}

const TWISTS: [Twist; 10] = [
    Twist::None,
    Twist::Lost,
    Twist::Twice,
    Twist::Early,
    Twist::AfterTime,
    Twist::AfterCancel,
    Twist::BeforeCancel,
    Twist::Taken,
    Twist::EarlyAndTaken,
    Twist::AgainAfterEnd,
];

async fn sent(desk: &Desk, event: &Charged) -> Signalled {
    desk.machine().0.signal("show/1", CHARGED, event).id("op-1").await.unwrap()
}

async fn cancel(desk: &Desk) -> Intervened {
    desk.machine().0.cancel("show/1", 1, &ada()).await.unwrap()
}

async fn played(event: Charged, twist: Twist) {
    let what = format!("{event:?}, {twist:?}");
    let desk = Desk::new().await;
    let is_taken = matches!(twist, Twist::Taken | Twist::EarlyAndTaken);
    let show = Show { is_down: is_taken, ..Show::default() };
    if twist == Twist::Early {
        assert_eq!(sent(&desk, &event).await, Signalled::NotStarted, "{what}");
    }
    desk.machine().0.start(&show, "show/1", &()).enqueue().await.unwrap();
    if matches!(event, Charged::Receipt(_)) {
        show.world().charged += 1;
    }
    let is_early = matches!(twist, Twist::Early | Twist::EarlyAndTaken);
    if is_early {
        assert_eq!(sent(&desk, &event).await, Signalled::Accepted, "{what}");
    }
    let run = async || {
        desk.bench.clock.advance(LATER);
        drop(desk.machine().0.start(&show, "show/1", &()).run().await.unwrap());
    };
    run().await;
    let (mut cancelled, mut timeout) = (false, false);
    match twist {
        Twist::Lost => desk.bench.clock.advance(3 * DAY),
        Twist::AfterTime => {
            desk.bench.clock.advance(8 * DAY);
            desk.settle(&show).await;
            timeout = true;
        }
        Twist::AfterCancel => {
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}");
            desk.settle(&show).await;
            cancelled = true;
        }
        _ => {}
    }
    if !is_early {
        let answer = sent(&desk, &event).await;
        let is_late = matches!(answer, Signalled::Late { compensates: true, .. });
        assert_eq!((is_late, answer.is_stored()), (cancelled || timeout, true), "{what}: {answer:?}");
    }
    match twist {
        Twist::Twice => assert_eq!(sent(&desk, &event).await, Signalled::Duplicate, "{what}"),
        Twist::BeforeCancel => {
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}");
            cancelled = true;
        }
        // With a declined charge the workflow fails at once, and nothing is left to cancel.
        Twist::Taken | Twist::EarlyAndTaken if event != Charged::Declined => {
            run().await;
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}");
            cancelled = true;
        }
        _ => {}
    }
    desk.settle(&show).await;
    if twist == Twist::AgainAfterEnd {
        assert_eq!(sent(&desk, &event).await, Signalled::Duplicate, "{what}");
        assert_eq!(cancel(&desk).await, Intervened::NotPossible, "{what}");
        desk.settle(&show).await;
    }
    let stands = event != Charged::Declined && !cancelled && !timeout;
    let state = match (stands, cancelled) {
        (true, _) => State::Completed,
        (false, true) => State::Cancelled,
        (false, false) => State::Failed,
    };
    let view = desk.view("show/1").await;
    assert_eq!((view.state(), view.listed()), (state, Some(List::Finished)), "{what}: {view:?}");
    let world = show.world();
    assert_eq!((world.seat_is_taken, world.is_confirmed), (stands, stands), "{what}: {world:?}");
    assert_eq!(world.charged, i64::from(stands), "{what}: {world:?}");
    let refunded = usize::from(event != Charged::Declined && !stands);
    assert_eq!(world.refunds.len(), refunded, "{what}: {world:?}");
}

#[tokio::test]
async fn charge_counts_or_is_refunded_once_whenever_its_event_comes() {
    for twist in TWISTS {
        played(Charged::Receipt("receipt-1".to_owned()), twist).await;
    }
}

#[tokio::test]
async fn declined_charge_frees_the_seat_whenever_its_event_comes() {
    for twist in TWISTS {
        played(Charged::Declined, twist).await;
    }
}
