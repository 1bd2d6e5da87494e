//! The scanner on Lambda.

use lambda_runtime::Error;
use locker::lambda;
use locker_functions::Deployment;
use locker_functions::telemetry::Telemetry;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_schedule("scanner")?;
    let locker = Deployment::read().await?.locker()?;
    locker.connect().await;
    telemetry.serve(async |event| lambda::scan(&locker, event).await).await
}
