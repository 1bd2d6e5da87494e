//! The orders API on Lambda.

use lambda_http::{Error, Request, service_fn};
use locker_functions::orders::{caller, router};
use locker_functions::telemetry::Telemetry;
use locker_functions::{Deployment, purchase};
use tower::ServiceExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::of_requests("orders")?;
    let deployment = Deployment::read().await?;
    let shop = deployment.shop()?;
    shop.locker.connect().await;
    let mut app = router(shop, caller);
    if deployment.has_purchases() {
        app = app.merge(purchase::router(deployment.purchases()?, caller));
    }
    lambda_http::run(service_fn(|request: Request| async {
        let response = app.clone().oneshot(request).await;
        telemetry.flush();
        response
    }))
    .await
}
