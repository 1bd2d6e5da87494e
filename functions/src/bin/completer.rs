//! The completer on Lambda.

use lambda_runtime::{Error, service_fn};
use locker::lambda;
use locker::workflow::Completer;
use locker_functions::secrets::Secrets;
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{settings, workflows};

// Code that blocks its thread does not hold the workflows beside it: none of them is left in doubt, or counted out.
#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("completer", Zeros::Written)?;
    let purchases = settings::purchases(&settings::client()?, &Secrets::read().await?)?;
    purchases.workflows.connect().await;
    let completer = workflows::completer(&purchases.workflows, purchases.code);
    let completer = settings::concurrency()?.into_iter().fold(completer, Completer::concurrency);
    lambda_runtime::run(service_fn(|event| async {
        let report = lambda::complete(&completer, event).await;
        telemetry.flush();
        report
    }))
    .await
}
