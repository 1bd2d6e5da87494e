//! A handler that charges, asks another service, and passes the refusal of that service on.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use http::StatusCode;
use locker_tests::{Bench, Provider};

use super::{layer, posted, send};

#[tokio::test]
async fn a_refusal_that_a_handler_passes_on_after_its_charge_frees_nothing() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let provider = Provider::default();
    let books = provider.clone();
    // The mail service of the shop has a limit; the card of the customer has been charged before.
    let charge_and_mail = async move |Path(status): Path<u16>| {
        books.charge(&status.to_string());
        StatusCode::from_u16(status).expect("a status")
    };
    let app: Router = Router::new().route("/{status}", post(charge_and_mail)).layer(layer(locker, |_| {}));
    for status in [400, 401, 403, 404, 408, 409, 410, 422, 425, 429, 500, 501, 502, 503, 504] {
        let path = format!("/{status}");
        assert_eq!(send(&app, posted(&path), "").await.status, status);
        for _ in 0..2 {
            let again = send(&app, posted(&path), "").await;
            assert!(again.is_replay() || again.is_open(), "{status}: {again:?}");
        }
        assert_eq!(provider.charges(&status.to_string()), 1, "{status}");
    }
}
