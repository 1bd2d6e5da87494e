//! The reply of a charge is lost. A probe asks the bank whether it charged, so the charge is not
//! repeated.
//!
//! Run it with `cargo run -p locker-examples --bin probe`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lock_token_testing::Embedded;
use locker::workflow::{Flow, Outcome, ProbeOutcome, StepAttempt, Stop, Workflow, Workflows};
use locker::{BoxError, Failure};

/// A payment, with a bank that charges and does not reply. Its books are by idempotency key.
#[derive(Default)]
struct Payment {
    books: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Payment {
    async fn charge(&self, attempt: StepAttempt) -> Result<String, Failure> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let charges = books.entry(attempt.idempotency_key().to_owned()).or_default();
        charges.push(format!("receipt {}", charges.len() + 1));
        // Not transient: a transient failure would mean that nothing happened.
        Err(Failure::in_doubt("the connection was reset".to_owned()))
    }

    async fn find(&self, attempt: StepAttempt) -> Result<ProbeOutcome, BoxError> {
        println!("probe: is there a charge under {}?", attempt.idempotency_key());
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        match books.get(attempt.idempotency_key()).and_then(|charges| charges.first()) {
            Some(receipt) => Ok(ProbeOutcome::done(receipt)?),
            // Not in the books yet: the request may still be under way, so this is not `NotDone`.
            None => Ok(ProbeOutcome::Unknown),
        }
    }
}

impl Workflow for Payment {
    const NAME: &'static str = "payment";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = flow.once("charge").probe(|attempt| self.find(attempt));
        charge.run(|attempt| self.charge(attempt)).await
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let payment = Payment::default();
    let Outcome::Completed(receipt) = workflows.start(&payment, ("payment", 7), &()).run().await? else {
        return Err("the payment is not completed".into());
    };
    println!("the answer: {}", *receipt);
    for (key, charges) in payment.books.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("books: {key}: {charges:?}");
    }
    Ok(())
}
