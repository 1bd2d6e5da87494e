//! The reaper on Lambda.

use lambda_runtime::{Error, service_fn};
use locker::lambda;
use locker::workflow::Reaper;
use locker_functions::secrets::Secrets;
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{settings, workflows};

// Code that blocks its thread does not hold the workflows beside it: none of them is left in doubt, or counted out.
#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("reaper", Zeros::Written)?;
    let purchases = settings::purchases(&settings::client()?, &Secrets::read().await?)?;
    purchases.workflows.connect().await;
    let completer = workflows::completer(&purchases.workflows, purchases.code);
    let reaper = settings::concurrency()?.into_iter().fold(Reaper::new(&completer), Reaper::concurrency);
    lambda_runtime::run(service_fn(|event| async {
        let report = lambda::reap(&reaper, event).await;
        telemetry.flush();
        report
    }))
    .await
}
