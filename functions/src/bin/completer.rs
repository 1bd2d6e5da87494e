//! The completer on Lambda.

use lambda_runtime::Error;
use locker::lambda;
use locker_functions::Deployment;
use locker_functions::telemetry::Telemetry;

// Code that blocks its thread must not delay the other workflows until they are in doubt.
#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_schedule("completer")?;
    let deployment = Deployment::read().await?;
    let purchases = deployment.purchases()?;
    purchases.workflows.connect().await;
    let completer = deployment.completer(purchases);
    telemetry.serve(async |event| lambda::complete(&completer, event).await).await
}
