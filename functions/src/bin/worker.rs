//! The SQS worker on Lambda.

use lambda_runtime::{Error, service_fn};
use locker_functions::secrets::Secrets;
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{settings, worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("worker", Zeros::LeftOut)?;
    let shop = settings::shop(&settings::client()?, &Secrets::read().await?)?;
    shop.locker.connect().await;
    lambda_runtime::run(service_fn(|event| async {
        let response = worker::handle(&shop, event).await;
        telemetry.flush();
        response
    }))
    .await
}
