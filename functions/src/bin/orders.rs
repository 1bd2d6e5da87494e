//! The orders API on Lambda.

use lambda_http::{Error, Request, service_fn};
use locker_functions::orders::{Shop, caller, router};
use locker_functions::settings;
use locker_functions::telemetry::{Telemetry, Zeros};
use tower::ServiceExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("orders", Zeros::LeftOut)?;
    let mut shop = Shop::new(settings::locker()?, settings::payments()?);
    shop.expect_within = settings::expect_within()?;
    let app = router(shop, caller);
    lambda_http::run(service_fn(|request: Request| async {
        let response = app.clone().oneshot(request).await;
        telemetry.flush();
        response
    }))
    .await
}
