//! The scanner on Lambda.

use lambda_runtime::{Error, service_fn};
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{scanner, settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("scanner", Zeros::Written)?;
    let locker = settings::locker(&settings::client()?)?;
    lambda_runtime::run(service_fn(|event| async {
        let report = scanner::handle(&locker, event).await;
        telemetry.flush();
        report
    }))
    .await
}
