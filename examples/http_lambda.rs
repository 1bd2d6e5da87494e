//! The HTTP layer around a handler of `lambda_http`, whose provider recognises a key for a day.
//!
//! Run it with `cargo run -p locker-examples --bin http_lambda`: outside AWS Lambda it handles four
//! requests.

use std::time::Duration;

use lambda_http::http::request::Parts;
use lambda_http::{Body, Error, Request, RequestExt as _, Response, run, service_fn};
use lock_token_testing::Embedded;
use locker::http::{Deadline, HttpSettings, IdempotencyLayer, Operation, Owner, Resumable};
use locker::{Attempt, Locker, lambda};
use tower::{Layer as _, Service, ServiceExt as _};

async fn charge(request: Request) -> Result<Response<Body>, Error> {
    let attempt: &Attempt = request.extensions().get().ok_or("the layer inserts the attempt")?;
    let Body::Text(amount) = request.body() else {
        return Ok(Response::builder().status(400).body("an amount, such as EUR 10.00".into())?);
    };
    // The provider recognises a request that it has seen under this key.
    println!("handler: charge {amount} under {}", attempt.idempotency_key());
    Ok(Response::builder().status(201).body(format!("charged {amount}").into())?)
}

/// Stands for the claims that the authoriser of API Gateway has verified. Do not use a header for
/// this: a client can send the name of another customer.
fn customer(request: &Parts) -> Option<String> {
    request.headers.get("x-customer")?.to_str().ok().map(str::to_owned)
}

/// Inserts the end of the invocation and the name of its owner for the layer.
fn invocation(mut request: Request) -> Request {
    let Some(context) = request.lambda_context_ref() else { return request };
    let owner = Owner(format!("charges/{}", context.request_id));
    let deadline = lambda::deadline(context, Duration::from_secs(1));
    request.extensions_mut().insert(owner);
    // There is no deadline outside of AWS Lambda.
    if let Some(deadline) = deadline {
        request.extensions_mut().insert(Deadline(deadline));
    }
    request
}

fn function(
    locker: Locker,
) -> impl Service<Request, Response = Response<locker::http::Body>, Error = Error, Future: Send> + Clone {
    let mut settings = HttpSettings::default();
    settings.resumable = Some(Resumable::recognised_for(Duration::from_secs(24 * 60 * 60)));
    let layer = IdempotencyLayer::new(locker, Operation::method_and_path(), customer).settings(settings);
    layer.layer(service_fn(charge)).map_request(invocation)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        let table = std::env::var("LOCKER_TABLE").map_err(|error| format!("LOCKER_TABLE: {error}"))?;
        let locker = Locker::new(&locker::client::lambda()?, table)?;
        locker.connect().await; // so that the first event does not wait for TLS
        return run(function(locker)).await;
    }
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let function = function(Locker::new(&dynamodb, "locks")?);
    for (customer, amount) in
        [("alice", "EUR 10.00"), ("alice", "EUR 10.00"), ("alice", "EUR 99.00"), ("bob", "EUR 10.00")]
    {
        let request = lambda_http::http::Request::post("/charges")
            .header("Idempotency-Key", "7f3c")
            .header("X-Customer", customer)
            .body(Body::from(amount))?;
        let response = function.clone().oneshot(request).await?;
        let replayed = response.headers().contains_key("idempotent-replayed");
        println!("{customer}, {amount}: {} replay: {replayed}", response.status().as_u16());
    }
    Ok(())
}
