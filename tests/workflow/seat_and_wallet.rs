//! A seat is reserved, a wallet is charged, and the reservation is confirmed: in whatever order the
//! events come, seat and wallet agree in the end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Reported, RetryPolicy, State, Stop, Workflow,
};
use locker::{Failure, Intervened, Operator};

use crate::bench::{Desk, LATER};

/// What the wallet makes of a charge.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Funds {
    Enough,
    TooLittle,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) seat_is_taken: bool,
    pub(crate) is_confirmed: bool,
    pub(crate) charged: i64,
    /// The receipts that were refunded.
    pub(crate) refunds: Vec<String>,
}

/// The wallet answers no call: its events say what became of a charge.
#[derive(Clone, Default)]
struct Show(Arc<Mutex<World>>);

impl Show {
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// The wallet takes the charge in; its event follows.
    fn wallet_decides(&self, funds: Funds) {
        if funds == Funds::Enough {
            self.world().charged += 1;
        }
    }
}

impl Workflow for Show {
    const NAME: &'static str = "show";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let take = |_| async {
            self.world().seat_is_taken = true;
            Ok(())
        };
        flow.once("seat").compensate(&"free").run(take).await?;
        let sent = |_| async { Err::<String, _>(Failure::in_doubt("the event says".to_owned())) };
        flow.once("charge").retry(RetryPolicy::never()).compensate(&"refund").run(sent).await?;
        let confirm = |_| async {
            self.world().is_confirmed = true;
            Ok(())
        };
        flow.step("confirm").run(confirm).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.name() == "free" {
            self.world().seat_is_taken = false;
            return Ok(Compensated::Done);
        }
        let receipt = compensation.result::<String>().expect("a receipt");
        // Without a receipt there is nothing that the wallet could refund.
        let Some(receipt) = receipt else { return Ok(Compensated::Nothing) };
        self.world().charged -= 1;
        self.world().refunds.push(receipt);
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
    /// It comes before the workflow, and before its step.
    Early,
    /// It comes after another driver has looked at the workflow.
    AfterTakeover,
    /// It comes after the cancellation, which finds nothing.
    AfterCancel,
    /// The same, and the cancellation is repeated before and after it.
    AfterTwoCancels,
    /// It comes before the cancellation, while the workflow is on its way.
    BeforeCancel,
    /// It comes again after the end, and so does a cancellation.
    AgainAfterEnd,
}

const TWISTS: [Twist; 9] = [
    Twist::None,
    Twist::Lost,
    Twist::Twice,
    Twist::Early,
    Twist::AfterTakeover,
    Twist::AfterCancel,
    Twist::AfterTwoCancels,
    Twist::BeforeCancel,
    Twist::AgainAfterEnd,
];

async fn event(desk: &Desk, funds: Funds) -> Reported {
    let report = desk.machine().0.report("show/1", "charge");
    match funds {
        Funds::Enough => report.completed(&"receipt-1").await.unwrap(),
        Funds::TooLittle => report.failed(&"insufficient funds").await.unwrap(),
    }
}

async fn cancel(desk: &Desk) -> Intervened {
    let operator = Operator::new("alice", "the customer called").unwrap();
    desk.machine().0.cancel("show/1", 1, &operator).await.unwrap()
}

async fn played(funds: Funds, twist: Twist) {
    let what = format!("{funds:?}, {twist:?}");
    let desk = Desk::new().await;
    let show = Show::default();
    if twist == Twist::Early {
        assert_eq!(event(&desk, funds).await, Reported::Unknown, "{what}");
    }
    let (workflows, _) = desk.machine();
    workflows.start(&show, "show/1", &()).enqueue().await.unwrap();
    if twist == Twist::Early {
        assert_eq!(event(&desk, funds).await, Reported::Unknown, "{what}");
    }
    desk.settle(&show).await;
    show.wallet_decides(funds);
    let mut cancels = matches!(twist, Twist::AfterCancel | Twist::AfterTwoCancels);
    match twist {
        Twist::Lost => desk.bench.clock.advance(LATER * 72),
        Twist::AfterTakeover => {
            let seen = desk.view("show/1").await;
            let operator = Operator::new("alice", "look again").unwrap();
            assert_eq!(workflows.retry(&seen, &operator).await.unwrap(), Intervened::Done, "{what}");
            desk.settle(&show).await;
        }
        Twist::AfterCancel | Twist::AfterTwoCancels => {
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}");
            if twist == Twist::AfterTwoCancels {
                assert_eq!(cancel(&desk).await, Intervened::Done, "{what}: it is on its way");
            }
            desk.settle(&show).await;
            assert_eq!(desk.view("show/1").await.state(), State::Cancelled, "{what}");
        }
        _ => {}
    }
    let expected = match funds {
        Funds::Enough if cancels => Reported::Compensates,
        _ => Reported::Recorded,
    };
    assert_eq!(event(&desk, funds).await, expected, "{what}");
    match twist {
        Twist::Twice => assert_eq!(event(&desk, funds).await, Reported::Known, "{what}"),
        Twist::BeforeCancel => {
            cancels = true;
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}");
        }
        Twist::AfterTwoCancels if funds == Funds::Enough => {
            assert_eq!(cancel(&desk).await, Intervened::Done, "{what}: it compensates again");
        }
        _ => {}
    }
    desk.settle(&show).await;
    if twist == Twist::AgainAfterEnd {
        assert_eq!(event(&desk, funds).await, Reported::Known, "{what}");
        assert_eq!(cancel(&desk).await, Intervened::NotPossible, "{what}");
        desk.settle(&show).await;
    }
    check(&desk, &show, funds, cancels, &what).await;
}

async fn check(desk: &Desk, show: &Show, funds: Funds, cancelled: bool, what: &str) {
    let view = desk.view("show/1").await;
    let stands = funds == Funds::Enough && !cancelled;
    let states = match (stands, cancelled) {
        (true, _) => State::Completed,
        (false, true) => State::Cancelled,
        (false, false) => State::Failed,
    };
    assert_eq!((view.state(), view.listed()), (states, Some(List::Finished)), "{what}: {view:?}");
    let world = show.world();
    assert_eq!((world.seat_is_taken, world.charged), (stands, i64::from(stands)), "{what}: {world:?}");
    assert_eq!(world.is_confirmed, stands, "{what}");
    let refunds: Vec<_> =
        if funds == Funds::Enough && cancelled { vec!["receipt-1".to_owned()] } else { vec![] };
    assert_eq!(world.refunds, refunds, "{what}");
    let names: BTreeSet<_> = view.steps().iter().map(locker::workflow::StepView::name).collect();
    assert_eq!(names.len(), view.steps().len(), "{what}");
}

#[tokio::test]
async fn a_charge_is_confirmed_or_refunded_whenever_its_event_comes() {
    for twist in TWISTS {
        played(Funds::Enough, twist).await;
    }
}

#[tokio::test]
async fn a_charge_that_was_declined_frees_the_seat_whenever_its_event_comes() {
    for twist in TWISTS {
        played(Funds::TooLittle, twist).await;
    }
}

#[tokio::test]
async fn an_event_that_comes_while_the_seat_is_freed_is_refunded_as_well() {
    let desk = Desk::new().await;
    let show = Show::default();
    desk.machine().0.start(&show, "show/1", &()).enqueue().await.unwrap();
    desk.settle(&show).await;
    show.wallet_decides(Funds::Enough);
    assert_eq!(cancel(&desk).await, Intervened::Done);
    // The event comes before the completer has begun to compensate.
    assert_eq!(event(&desk, Funds::Enough).await, Reported::Compensates);
    desk.bench.clock.advance(LATER);
    let completer = Completer::new(&desk.machine().0).register(show.clone());
    assert_eq!(completer.run().await.unwrap().compensated, 1);
    check(&desk, &show, Funds::Enough, true, "while it compensates").await;
}
