//! The packer on Lambda.

use lambda_runtime::{Error, service_fn};
use locker_functions::packer::{self, Packer};
use locker_functions::settings;
use locker_functions::telemetry::{Telemetry, Zeros};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("packer", Zeros::LeftOut)?;
    let workflows = settings::workflows(&settings::client()?)?;
    let (inbox, orders_table) = (workflows.inbox("packer")?, settings::orders_table()?);
    let packer = Packer { workflows, inbox, orders_table, queue: settings::packing()? };
    packer.workflows.connect().await;
    lambda_runtime::run(service_fn(|event| async {
        let response = packer::handle(&packer, event).await;
        telemetry.flush();
        response
    }))
    .await
}
