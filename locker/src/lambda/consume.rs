//! A consumer as a function: messages of its queue, and waiting messages of its table.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use serde::Serialize;
use serde_json::Value;

use super::deliveries::{Deliveries, Undelivered, each_of};
use super::scheduled::until;
use crate::failure::Classify;
use crate::inbox::batch::{Handling, NotDone};
use crate::inbox::{Consumer, ConsumerReport, Delivery};
use crate::session::due_work::RunReport;

/// The result of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[must_use = "return it to Lambda: otherwise messages that failed are deleted from the queue"]
#[non_exhaustive]
pub enum Consumed {
    /// For an event of a queue: the messages that it delivers again.
    Batch(Undelivered),
    /// For an event of a schedule: the report about the waiting messages.
    Waiting(RunReport<ConsumerReport>),
}

/// Processes messages of a queue. On an event of a schedule, processes the waiting messages of the
/// table.
///
/// Give the function two event sources: its queue, with
/// `FunctionResponseTypes: [ReportBatchItemFailures]`, and a schedule that runs about once a
/// minute. Without the schedule, redriven messages are not processed. Set `needs` to the longest
/// time of one message, plus 4 seconds if you use [`hiding`](Consumer::hiding). See
/// [`each_message`](super::each_message) for batches, and [`Consumer`] for dead letters.
///
/// An event of a schedule has the `source` `aws.events` or `aws.scheduler`. Give a schedule of
/// EventBridge Scheduler the input `{"source": "aws.scheduler"}`.
///
/// ```no_run
/// use std::time::Duration;
/// use lambda_runtime::{Error, service_fn};
/// use locker::Failure;
/// use locker::inbox::{Delivery, Incoming};
/// use locker::{lambda, workflow::Workflows};
///
/// async fn pack(delivery: Delivery) -> Result<(), Failure> {
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
/// In each case nothing was processed:
/// - The waiting messages could not be listed.
/// - On an event of a schedule, less than `needs` is left: raise the timeout of the function.
/// - The event is neither of a queue nor of a schedule. The error names its source and the setting
///   to change. Lambda tries an event of an asynchronous source (SNS, EventBridge) twice more, so
///   give the function a destination for failures.
pub async fn consume<E, Fut>(
    consumer: &Consumer,
    event: LambdaEvent<Value>,
    needs: Duration,
    handle: impl Fn(Delivery) -> Fut + Sync,
) -> Result<Consumed, Error>
where
    E: Classify,
    Fut: Future<Output = Result<(), E>> + Send,
{
    let LambdaEvent { payload, context, .. } = event;
    match Source::of(&payload)? {
        Source::Queue => {
            let event = LambdaEvent::new(serde_json::from_value::<Deliveries>(payload)?, context);
            let receive = |delivery: Delivery| -> Handling<'_, NotDone> {
                let handle = &handle;
                Box::pin(async move {
                    consumer.receive(&delivery, handle).await?;
                    Ok(())
                })
            };
            Ok(Consumed::Batch(each_of(event, needs, &receive, Some(consumer)).await?))
        }
        Source::Schedule => {
            let until = until(&context, needs, Duration::ZERO)?;
            let consumer = until.into_iter().fold(consumer.clone(), Consumer::deadline);
            Ok(Consumed::Waiting(consumer.run(handle).await?))
        }
    }
}

/// The service that sent an event.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Queue,
    Schedule,
}

impl Source {
    /// Reads the source of an event. An event of another service must fail: if the function
    /// succeeded, that service would not send the event again, and its message would be lost.
    fn of(event: &Value) -> Result<Self, String> {
        let is_of_queue =
            |record: &Value| record["eventSource"] == "aws:sqs" && record["messageId"].as_str().is_some();
        let records = event["Records"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !records.is_empty() && records.iter().all(is_of_queue) {
            return Ok(Self::Queue);
        }
        // Senders of events cannot use a source that begins with `aws.`.
        let is_of_schedule = matches!(event["source"].as_str(), Some("aws.events" | "aws.scheduler"));
        if is_of_schedule && matches!(event["detail-type"].as_str(), None | Some("Scheduled Event")) {
            return Ok(Self::Schedule);
        }
        let first = records.first().unwrap_or(&Value::Null);
        // A record of SNS has `EventSource`.
        let named = [&first["eventSource"], &first["EventSource"], &event["source"]];
        let named = named.into_iter().find_map(Value::as_str).unwrap_or("an unknown source");
        Err(format!(
            "this event is from {named}, and it is neither messages of an SQS queue, each with its id, nor an event \
             of a schedule; for messages of a topic or a bus, subscribe a queue to it and give the function that queue; a schedule of \
             EventBridge Scheduler needs the input {{\"source\": \"aws.scheduler\"}}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn event_of_another_service_is_an_error_that_names_it() {
        let sqs = json!({ "eventSource": "aws:sqs", "messageId": "1", "body": "tea" });
        let sns = json!({ "EventSource": "aws:sns", "Sns": { "MessageId": "1", "Message": "tea" } });
        for (event, source) in [
            (json!({ "Records": [sns] }), "aws:sns"),
            (json!({ "Records": [{ "eventSource": "aws:s3" }] }), "aws:s3"),
            (json!({ "Records": [{ "eventSource": "aws:kinesis", "eventID": "1" }] }), "aws:kinesis"),
            (json!({ "Records": [sqs, sns] }), "aws:sqs"),
            (json!({ "Records": [{ "eventSource": "aws:sqs" }] }), "aws:sqs"),
            (json!({ "Records": [] }), "an unknown source"),
            (json!({ "source": "shop", "detail-type": "order/placed", "detail": {} }), "shop"),
            (json!({ "source": "aws.s3", "detail-type": "Object Created" }), "aws.s3"),
            (
                json!({ "source": "aws.scheduler", "detail-type": "AWS API Call via CloudTrail" }),
                "aws.scheduler",
            ),
            (json!({}), "an unknown source"),
            (json!("tea"), "an unknown source"),
        ] {
            let error = Source::of(&event).unwrap_err();
            assert!(error.starts_with(&format!("this event is from {source}, ")), "{event}: {error}");
        }
    }

    #[test]
    fn queue_and_schedule_are_recognised() {
        let record = |id: &str| json!({ "eventSource": "aws:sqs", "messageId": id, "body": "tea" });
        assert_eq!(Source::of(&json!({ "Records": [record("1"), record("2")] })), Ok(Source::Queue));
        // As rules and schedules of EventBridge send it, and as the template does.
        for event in [
            json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} }),
            json!({ "source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}" }),
            json!({ "source": "aws.scheduler" }),
        ] {
            assert_eq!(Source::of(&event), Ok(Source::Schedule), "{event}");
        }
    }
}
