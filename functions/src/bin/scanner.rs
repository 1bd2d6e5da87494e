//! The scanner on Lambda.

use lambda_runtime::{Error, service_fn};
use locker::lambda;
use locker_functions::secrets::Secrets;
use locker_functions::settings;
use locker_functions::telemetry::{Telemetry, Zeros};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("scanner", Zeros::Written)?;
    let locker = settings::locker(&settings::client()?, &Secrets::default())?;
    locker.connect().await;
    lambda_runtime::run(service_fn(|event| async {
        let report = lambda::scan(&locker, event).await;
        telemetry.flush();
        report
    }))
    .await
}
