//! A minimal function that uses Locker: it begins a token, and completes it with its answer.

use std::env;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use locker::{Begun, Locker};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let locker = Locker::new(&locker::client::lambda()?, env::var("LOCKER_TABLE")?)?;
    // For the benchmark, which compares both.
    if env::var_os("CONNECT").is_some() {
        locker.connect().await;
    }
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Value>| {
        match locker.token(("run", event.context.request_id.as_str())).begin().await? {
            Begun::Acquired(lock) => lock.complete(&event.payload).await?,
            other => return Err(Error::from(format!("{other:?}"))),
        }
        Ok(event.payload)
    }))
    .await
}
