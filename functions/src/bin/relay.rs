//! The relay on Lambda.

use lambda_runtime::{Error, service_fn};
use locker::lambda;
use locker::relay::Relay;
use locker_functions::settings;
use locker_functions::telemetry::{Telemetry, Zeros};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("relay", Zeros::Written)?;
    let workflows = settings::workflows(&settings::client()?)?;
    let relay = Relay::new(&workflows, settings::routes()?);
    workflows.connect().await;
    lambda_runtime::run(service_fn(|event| async {
        let report = lambda::relay(&relay, event).await;
        telemetry.flush();
        report
    }))
    .await
}
