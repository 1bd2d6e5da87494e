//! The relay on Lambda.

use lambda_runtime::Error;
use locker::lambda;
use locker_functions::Deployment;
use locker_functions::telemetry::Telemetry;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_schedule("relay")?;
    let deployment = Deployment::read().await?;
    let workflows = deployment.workflows()?;
    let relay = deployment.relay(&workflows)?;
    telemetry.serve(async |event| lambda::relay(&relay, event).await).await
}
