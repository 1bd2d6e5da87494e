//! The same function without Locker: the same two requests, with the SDK alone.

use std::env;
use std::time::Duration;

use aws_sdk_dynamodb::config::Credentials;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use locker_benches::answer::to_json;
use locker_benches::bare::{Bare, Begun, as_locker, defaults};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (key, secret) = (env::var("AWS_ACCESS_KEY_ID")?, env::var("AWS_SECRET_ACCESS_KEY")?);
    let credentials = Credentials::new(key, secret, env::var("AWS_SESSION_TOKEN").ok(), None, "environment");
    let config = defaults(env::var("AWS_ENDPOINT_URL_DYNAMODB").ok(), env::var("AWS_REGION")?, credentials);
    let client = as_locker(config, Duration::from_secs(1));
    let bare = Bare::new(client, env::var("LOCKER_TABLE")?, env::var("AWS_LAMBDA_LOG_STREAM_NAME")?);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Value>| {
        let key = format!("run/{}", event.context.request_id);
        match bare.begin(key.clone()).await {
            Begun::Acquired(attempt) => bare.complete(key, attempt, to_json(&event.payload)).await,
            other => return Err(Error::from(format!("{other:?}"))),
        }
        Ok(event.payload)
    }))
    .await
}
