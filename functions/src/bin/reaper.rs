//! The reaper on Lambda.

use lambda_runtime::{Error, service_fn};
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{reaper, settings, workflows};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("reaper", Zeros::Written)?;
    let purchases = settings::purchases(&settings::client()?)?;
    let completer = workflows::completer(&purchases.workflows, purchases.code);
    lambda_runtime::run(service_fn(|event| async {
        let report = reaper::handle(&completer, event).await;
        telemetry.flush();
        report
    }))
    .await
}
