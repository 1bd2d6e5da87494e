//! The packer on Lambda.

use lambda_runtime::Error;
use locker_functions::telemetry::Telemetry;
use locker_functions::{Deployment, packer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_requests("packer")?;
    let packer = Deployment::read().await?.packer()?;
    packer.workflows.connect().await;
    telemetry.serve(async |event| packer::handle(&packer, event).await).await
}
