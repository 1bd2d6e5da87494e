//! A webhook inside the HTTP layer, in a plain tower service. The id of the event is the key.
//!
//! Run it with `cargo run -p locker-examples --bin http_webhook`. It delivers events to itself.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use lock_token_testing::Embedded;
use locker::http::{IdempotencyLayer, KeySource};
use locker::{BoxError, Locker};
use serde_json::Value;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Ships an order that was paid. The provider delivers an event again until it gets a 2xx.
async fn shipped(request: Request<Full<Bytes>>) -> Result<Response<String>, BoxError> {
    let event: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    println!("handler: ship order {}", event["order"]);
    Ok(Response::new(format!("shipped {}", event["order"])))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    // A layer outside of this one has checked the signature of the provider.
    let layer = IdempotencyLayer::new(locker, "payment/event", |_| Some("provider".to_owned()))
        .key(KeySource::field("/id"))
        // Two deliveries of one event differ in the time of sending.
        .fingerprint(|_, body| {
            let event = serde_json::from_slice::<Value>(body);
            event.map_or_else(|_| body.to_vec(), |event| event["order"].to_string().into_bytes())
        });
    let service = layer.layer(service_fn(shipped));
    for event in [
        r#"{"id":"evt_1","order":7,"sent":"10:00"}"#,
        r#"{"id":"evt_1","order":7,"sent":"10:05"}"#,
        r#"{"id":"evt_1","order":8,"sent":"10:06"}"#,
        r#"{"id":"evt_2","order":8,"sent":"10:07"}"#,
        r#"{"order":9}"#,
    ] {
        let request = Request::post("/events").body(Full::from(event))?;
        let response = service.clone().oneshot(request).await?;
        let replayed = response.headers().contains_key("idempotent-replayed");
        println!("{event}: {} replay: {replayed}", response.status().as_u16());
    }
    Ok(())
}
