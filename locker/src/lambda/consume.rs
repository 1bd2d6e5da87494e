//! A consumer as a function: messages of its queue, and what waits in its table.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use serde::Serialize;
use serde_json::Value;

use super::deadline::deadline;
use super::deliveries::{Deliveries, Undelivered, each_message};
use crate::failure::Classify;
use crate::inbox::{Consumer, ConsumerReport, Delivery};
use crate::session::due_work::RunReport;

/// The result of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Consumed {
    /// Of messages of a queue: those that it delivers again.
    Batch(Undelivered),
    /// Of a schedule: what was handled of those that wait.
    Waiting(RunReport<ConsumerReport>),
}

/// Handle messages of a queue, or, on an event of a schedule, what waits in the table.
///
/// Give the function two event sources: its queue, with
/// `FunctionResponseTypes: [ReportBatchItemFailures]`, and a schedule of about a minute, without
/// which nothing is handled that an operator redrives. `needs` is the time that one message takes
/// at most; see [`each_message`] for what is done with batches, and [`Consumer`] for what is set
/// aside.
///
/// ```no_run
/// use std::time::Duration;
/// use lambda_runtime::{Error, service_fn};
/// use locker::Failure;
/// use locker::inbox::{Delivery, Incoming};
/// use locker::{lambda, workflow::Workflows};
///
/// async fn pack(delivery: &Delivery) -> Result<(), Failure> {
///     let message = Incoming::parse(&delivery.body)?; // otherwise it is dead at once
///     println!("{}", message.id);
///     Ok(())
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Error> {
///     let consumer = Workflows::new(&locker::client::lambda()?, "workflows")?.inbox("packer")?.consumer();
///     let handle = async |event| lambda::consume(&consumer, event, Duration::from_secs(5), pack).await;
///     lambda_runtime::run(service_fn(handle)).await
/// }
/// ```
///
/// # Errors
///
/// If a message without an id failed, or nothing that waits could be listed.
pub async fn consume<E: Classify>(
    consumer: &Consumer,
    event: LambdaEvent<Value>,
    needs: Duration,
    handle: impl AsyncFn(&Delivery) -> Result<(), E>,
) -> Result<Consumed, Error> {
    if event.payload["Records"].is_array() {
        let LambdaEvent { payload, context, .. } = event;
        let event = LambdaEvent::new(serde_json::from_value::<Deliveries>(payload)?, context);
        let receive = async |delivery: Delivery| {
            consumer.receive(&delivery, async |delivery| handle(delivery).await).await.map(drop)
        };
        return Ok(Consumed::Batch(each_message(event, needs, receive).await?));
    }
    let until = deadline(&event.context, needs);
    let consumer = until.into_iter().fold(consumer.clone(), Consumer::deadline);
    Ok(Consumed::Waiting(consumer.run(handle).await?))
}
