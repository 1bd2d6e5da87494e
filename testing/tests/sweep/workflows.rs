//! Workflows whose steps are not what they seem.

use lock_token_testing::sweep::{Subject, World};
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, Outcome, ProbeOutcome, Stop, Workflow, Workflows,
};
use locker::{Failure, Operator};

use crate::{DAY, charged_once, finds, passes};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    /// As it should be: a charge, then a seat; the charge is given back where there is no seat.
    Right { seats: bool },
    /// The name of the step is another one in each run.
    RenamesItsStep,
    /// The probe says that what was not found has happened.
    ProbeLies,
    /// The refund has a key of its own for each attempt.
    RefundsAnew,
    /// Says that the refund is done, and does nothing. Seats never run out, so only an operator who
    /// cancels sees it.
    ForgetsTheRefund,
    /// Charges in a step that runs at least once, under another key each time.
    Step,
    /// The provider may decline the seat. `refunds_anew`: the refund then has a key of its own for
    /// each attempt.
    BooksASeat { refunds_anew: bool },
}

#[derive(Clone)]
struct Trip {
    code: Code,
    world: World,
}

impl Trip {
    async fn seat(&self, flow: &Flow) -> Result<(), Stop> {
        let bank = self.world.provider();
        match self.code {
            Code::BooksASeat { .. } => {
                let seat = flow.once("seat").recognised_for(10 * DAY);
                seat.run(|attempt| bank.apply(attempt.idempotency_key(), "seat")).await.map(drop)
            }
            Code::Right { seats: false } | Code::RefundsAnew => Err(Stop::fail("no seat is left")),
            _ => Ok(()),
        }
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let bank = self.world.provider();
        let fresh = || self.world.ids().attempt();
        let receipt = match self.code {
            Code::Step => flow.step("charge").run(|_| bank.apply(&fresh(), "charge")).await?,
            Code::RenamesItsStep => {
                let charge = flow.once(format!("charge-{}", fresh())).recognised_for(10 * DAY);
                charge.run(|attempt| bank.apply(attempt.idempotency_key(), "charge")).await?
            }
            Code::ProbeLies => {
                let lies = |_| async { Ok(ProbeOutcome::done(&"receipt-0")?) };
                let charge = flow.once("charge").probe(lies);
                charge.run(|attempt| bank.apply(attempt.idempotency_key(), "charge")).await?
            }
            Code::Right { .. } | Code::RefundsAnew | Code::ForgetsTheRefund | Code::BooksASeat { .. } => {
                let charge = flow.once("charge").recognised_for(10 * DAY);
                let charge = charge.compensate_within(&"refund", 10 * DAY);
                charge.run(|attempt| bank.apply(attempt.idempotency_key(), "charge")).await?
            }
        };
        self.seat(flow).await?;
        Ok(receipt)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let bank = self.world.provider();
        if compensation.result::<String>().expect("a receipt").is_none() {
            // It may still come: the bank has to say, and then refuses it.
            if bank.find(compensation.tried_under()).await?.is_none() {
                return Ok(Compensated::Nothing);
            }
        }
        let key = match self.code {
            Code::RefundsAnew | Code::BooksASeat { refunds_anew: true } => self.world.ids().attempt(),
            _ => compensation.idempotency_key().to_owned(),
        };
        if self.code != Code::ForgetsTheRefund {
            bank.apply(&key, "refund").await?;
        }
        Ok(Compensated::Done)
    }
}

/// `CANCELS`: an operator may cancel the trip.
struct Trips<const CANCELS: bool>(Code);

impl<const CANCELS: bool> Trips<CANCELS> {
    fn workflows(&self, world: &World) -> (Workflows, Trip) {
        let trip = Trip { code: self.0, world: world.clone() };
        (world.workflows("workflows").build().unwrap(), trip)
    }
}

impl<const CANCELS: bool> Subject for Trips<CANCELS> {
    async fn prepare(&self, world: &World) {
        locker::workflow::create_table(&world.dynamodb(), "workflows").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let (workflows, trip) = self.workflows(world);
        match workflows.start(&trip, ("trip", 7), &()).run().await.ok()? {
            Outcome::Completed(receipt) => Some(receipt.into_inner()),
            Outcome::Cancelled => Some("failed: it was cancelled".to_owned()),
            Outcome::Failed(failed) => Some(format!("failed: {}", failed.failure().json())),
            _ => None,
        }
    }

    async fn go_on(&self, world: &World) {
        let (workflows, trip) = self.workflows(world);
        let _ = Completer::new(&workflows).register(trip).run().await;
    }

    const CANCELS: bool = CANCELS;
    const DECLINES: bool = true;

    async fn cancel(&self, world: &World) {
        let operator = Operator::new("ada", "the customer called").unwrap();
        let _ = self.workflows(world).0.cancel(("trip", 7), 1, &operator).await;
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        let (charges, refunds) = (world.provider().count("charge"), world.provider().count("refund"));
        match answer {
            Some(failed) if failed.starts_with("failed") && charges == refunds && charges <= 1 => Vec::new(),
            Some(failed) if failed.starts_with("failed") => {
                vec![format!("{charges} charges and {refunds} refunds of a trip that failed")]
            }
            answer => charged_once(world, answer),
        }
    }
}

fn finds_in(name: &str, broken: Code) -> String {
    finds(name, 10 * DAY, move || Trips::<true>(broken))
}

#[test]
fn a_step_with_another_name_in_each_run() {
    let _ = finds_in("renamed step", Code::RenamesItsStep);
}

#[test]
fn a_probe_that_says_more_than_it_knows() {
    let _ = finds_in("probe that lies", Code::ProbeLies);
}

#[test]
fn a_refund_under_another_key_each_time() {
    let _ = finds_in("refunds anew", Code::RefundsAnew);
}

#[test]
fn a_refund_that_is_forgotten() {
    let plan = finds_in("forgotten refund", Code::ForgetsTheRefund);
    assert!(plan.contains("cancel="), "{plan}");
}

#[test]
fn a_charge_in_a_step_that_runs_at_least_once() {
    let _ = finds_in("charge in a step", Code::Step);
}

#[test]
fn a_trip_that_is_as_it_should_be_passes() {
    for seats in [true, false] {
        let name = if seats { "trip" } else { "trip without a seat" };
        passes(name, 200, 10 * DAY, move || Trips::<true>(Code::Right { seats }));
    }
}

/// Without an operator who cancels, the refund is only reached after a decline.
#[test]
fn a_refund_under_another_key_each_time_after_a_decline() {
    let booked = |refunds_anew| move || Trips::<false>(Code::BooksASeat { refunds_anew });
    let plan = finds("refunds a declined seat anew", 10 * DAY, booked(true));
    assert!(plan.contains("Declined") && plan.contains(','), "{plan}");
    passes("declined seat", 200, 10 * DAY, booked(false));
}
