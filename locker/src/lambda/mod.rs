//! For AWS Lambda functions: deadlines, the scheduled functions, messages of queues, and the errors
//! that Lambda should receive.
//!
//! A scanner is ten lines. A completer, a reaper and a relay look the same ([`complete`], [`reap`],
//! [`relay`]), and so does a function that consumes a queue ([`consume`], [`each_message`]):
//!
//! ```no_run
//! use lambda_runtime::{Error, service_fn};
//! use locker::{Locker, lambda};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     // Without a subscriber, nobody sees what the scanner found.
//!     lambda_runtime::tracing::init_default_subscriber();
//!     let table = std::env::var("LOCKER_TABLE").map_err(|error| format!("LOCKER_TABLE: {error}"))?;
//!     let locker = Locker::new(&locker::client::lambda()?, table)?;
//!     locker.connect().await;
//!     lambda_runtime::run(service_fn(async |event| lambda::scan(&locker, event).await)).await
//! }
//! ```
//!
//! The alarms of the templates read metrics, so install a recorder and flush it after each event:
//! see [`metrics`](crate::metrics).
//!
//! # One event at a time, or several
//!
//! Everything here may be shared by concurrent invocations: clients, lockers, workflows and
//! completers hold no state of an invocation. A function handles one event at a time, unless it
//! runs on Lambda Managed Instances with the feature `concurrency-tokio` of `lambda_runtime`.
//!
//! # SnapStart
//!
//! [`client::lambda`](crate::client::lambda) reads the credentials of the environment once. Rust
//! functions run on `provided.al2023`, for which Lambda offers no SnapStart; a function that is
//! restored from a snapshot in another way has to make its client after the restore.

#[cfg(feature = "messages")]
mod consume;
mod deadline;
#[cfg(feature = "messages")]
mod deliveries;
mod diagnostic;
mod once;
mod owner;
mod scheduled;

#[cfg(feature = "messages")]
pub use consume::{Consumed, consume};
pub use deadline::deadline;
#[cfg(feature = "messages")]
pub use deliveries::{Deliveries, Undelivered, each_message};
pub use diagnostic::or_retry;
pub use once::{OncePerEvent, once};
#[cfg(feature = "messages")]
pub use once::{OncePerMessage, once_each};
pub use owner::owner;
#[cfg(feature = "messages")]
pub use scheduled::relay;
pub use scheduled::scan;
#[cfg(feature = "workflow")]
pub use scheduled::{complete, reap};

#[cfg(all(test, feature = "messages"))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lambda_runtime::{Error, LambdaEvent, service_fn};
    use serde_json::Value;

    use super::*;
    use crate::failure::Failure;
    use crate::inbox::{Consumer, Delivery};

    /// Data that a closure captures.
    #[derive(Debug, Default)]
    struct Shop(tokio::sync::Mutex<Vec<String>>);

    impl Shop {
        async fn pack(&self, delivery: &Delivery) -> Result<(), Failure> {
            self.0.lock().await.push(delivery.body.clone());
            Ok(())
        }
    }

    /// Compiled and not called: outside Lambda, the runtime has no events.
    #[allow(dead_code, reason = "the compiler is the test")]
    async fn handlers_run_under_the_concurrent_runtime(
        consumer: Consumer,
        shop: Arc<Shop>,
    ) -> Result<(), Error> {
        const NEEDS: Duration = Duration::from_secs(5);
        let (of_batch, of_consumer) = (Arc::clone(&shop), shop);
        let batch = move |event: LambdaEvent<Deliveries>| {
            let shop = Arc::clone(&of_batch);
            async move { each_message(event, NEEDS, async |delivery| shop.pack(&delivery).await).await }
        };
        lambda_runtime::run_concurrent(service_fn(batch)).await?;
        let consumes = move |event: LambdaEvent<Value>| {
            let (consumer, shop) = (consumer.clone(), Arc::clone(&of_consumer));
            async move { consume(&consumer, event, NEEDS, async |delivery| shop.pack(&delivery).await).await }
        };
        lambda_runtime::run_concurrent(service_fn(consumes)).await
    }
}
