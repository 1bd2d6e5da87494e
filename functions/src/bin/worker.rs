//! The SQS worker on Lambda.

use lambda_runtime::Error;
use locker_functions::telemetry::Telemetry;
use locker_functions::{Deployment, worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_requests("worker")?;
    let shop = Deployment::read().await?.shop()?;
    shop.locker.connect().await;
    telemetry.serve(async |event| worker::handle(&shop, event).await).await
}
