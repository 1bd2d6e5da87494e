//! A workflow that charges, finds no seat, and gives the money back.
//!
//! Run it with `cargo run -p locker-examples --bin compensation`.

use std::sync::{Arc, Mutex, PoisonError};

use lock_token_testing::Embedded;
use locker::workflow::{Compensated, Compensation, Flow, Outcome, StepAttempt, Stop, Workflow, Workflows};
use locker::{BoxError, Failure};
use serde::{Deserialize, Serialize};

/// How the steps of a trip are compensated.
#[derive(Serialize, Deserialize)]
enum Undo {
    Refund { cents: u64 },
}

/// A trip, with the books of a bank that stands for your provider.
#[derive(Default)]
struct Trip {
    books: Arc<Mutex<Vec<String>>>,
    seats: u64,
}

impl Trip {
    fn enter(&self, entry: String) {
        self.books.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    async fn charge(&self, attempt: StepAttempt, cents: u64) -> Result<String, Failure> {
        self.enter(format!("charge {cents} under {}", attempt.idempotency_key()));
        Ok("receipt 1".to_owned())
    }

    async fn reserve(&self) -> Result<u64, Failure> {
        if self.seats == 0 { Err(Failure::permanent("no seat is left".to_owned())) } else { Ok(self.seats) }
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: &Flow, cents: u64) -> Result<String, Stop> {
        let charge = flow.once("charge").input(&cents).compensate(&Undo::Refund { cents });
        let receipt = charge.run(async |attempt| self.charge(attempt, cents).await).await?;
        // A permanent failure that is returned compensates the earlier steps, last step first.
        let seat = flow.once("reserve").run(async |_| self.reserve().await).await?;
        Ok(format!("seat {seat}, {receipt}"))
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Undo::Refund { cents } = compensation.undo()?;
        // Without a result it is unknown whether the bank charged. Ask it first, as in the example
        // `probe`.
        if compensation.result::<String>()?.is_none() {
            return Err(Failure::in_doubt("it is unknown whether the bank charged".to_owned()));
        }
        self.enter(format!("refund {cents} under {}", compensation.idempotency_key()));
        Ok(Compensated::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let books = Arc::default();
    for (order, seats) in [(7, 1), (8, 0), (8, 0)] {
        let trip = Trip { books: Arc::clone(&books), seats };
        match workflows.start(&trip, ("trip", order), &1000).run().await? {
            Outcome::Completed(answer) => println!("trip {order}: {}", *answer),
            Outcome::Failed(failed) => {
                println!("trip {order}: {}, replay: {}", failed.failure().json(), failed.is_replay());
            }
            other => return Err(format!("trip {order}: {other:?}").into()),
        }
    }
    for entry in books.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("books: {entry}");
    }
    Ok(())
}
