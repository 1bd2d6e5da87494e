//! The orders API on Lambda.

use lambda_http::{Error, Request, service_fn};
use locker_functions::orders::{caller, router};
use locker_functions::secrets::Secrets;
use locker_functions::telemetry::{Telemetry, Zeros};
use locker_functions::{purchase, settings};
use tower::ServiceExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::start("orders", Zeros::LeftOut)?;
    let client = settings::client()?;
    let secrets = Secrets::read().await?;
    let shop = settings::shop(&client, &secrets)?;
    shop.locker.connect().await;
    let mut app = router(shop, caller);
    if settings::has_purchases() {
        app = app.merge(purchase::router(settings::purchases(&client, &secrets)?, caller));
    }
    lambda_http::run(service_fn(|request: Request| async {
        let response = app.clone().oneshot(request).await;
        telemetry.flush();
        response
    }))
    .await
}
