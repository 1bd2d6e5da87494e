//! Messages of an SQS queue, each with its own outcome.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deadline::deadline;
use crate::clock::{Clock as _, SystemClock};
use crate::inbox::batch::{self, Handler, Handling, NotDone};
use crate::inbox::consumer::caught;
use crate::inbox::{Consumer, Delivery};

/// An event of an SQS queue. Each message is parsed separately, so that a malformed message does
/// not fail the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deliveries {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

/// The messages that the queue delivers again, as Lambda expects them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use = "return it to Lambda: otherwise messages that failed are deleted from the queue"]
pub struct Undelivered {
    #[serde(rename = "batchItemFailures")]
    failures: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Item {
    #[serde(rename = "itemIdentifier")]
    id: String,
}

impl Undelivered {
    /// The ids of the messages.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().map(|item| item.id.as_str())
    }
}

/// Processes the messages of an event in their order, one at a time.
///
/// If the handler of a message returns an error or panics, the message is delivered again, and
/// finally moved to the dead-letter queue. Give the event source
/// `FunctionResponseTypes: [ReportBatchItemFailures]`: otherwise Lambda treats all messages as
/// done.
///
/// - **FIFO queues**: after a failure, the later messages of the same group are skipped and
///   delivered again, in order. Other groups continue.
/// - **Time**: if less than `needs` is left of the invocation, no message is begun. The remaining
///   messages are delivered again.
/// - A message without an id cannot be reported alone, so its failure fails the whole batch. The
///   other messages are processed first.
///
/// ```no_run
/// # use lambda_runtime::{Error, LambdaEvent};
/// use std::time::Duration;
/// use locker::inbox::{Inbox, Incoming, ReceiveError, Taken};
/// use locker::lambda::{self, Deliveries, Undelivered};
///
/// async fn handle(inbox: &Inbox, event: LambdaEvent<Deliveries>) -> Result<Undelivered, Error> {
///     lambda::each_message(event, Duration::from_secs(5), async |delivery| {
///         let message = Incoming::parse(&delivery.body).map_err(|error| error.to_string())?;
///         let taken = inbox.atomic(&message).commit().await.map_err(|error| error.to_string())?;
///         taken.done().map_err(|failure| failure.to_string())
///     })
///     .await
/// }
/// ```
///
/// # Errors
///
/// If a message without an id failed: the whole batch is delivered again.
///
/// Source: AWS Lambda Developer Guide, *Handling errors for an SQS event source*.
pub async fn each_message<E, Fut>(
    event: LambdaEvent<Deliveries>,
    needs: Duration,
    handle: impl Fn(Delivery) -> Fut + Sync,
) -> Result<Undelivered, Error>
where
    E: fmt::Display,
    Fut: Future<Output = Result<(), E>> + Send,
{
    let handle = |delivery| -> Handling<'_, NotDone> {
        let handle = &handle;
        Box::pin(async move {
            let done = caught(async { handle(delivery).await.map_err(NotDone::now) }).await;
            done.unwrap_or_else(|panicked| Err(NotDone::now(panicked)))
        })
    };
    each_of(event, needs, &handle, None).await
}

/// Handles the messages of an event in their order. `hides` hides the later messages of a group
/// whose message failed.
pub(super) async fn each_of(
    event: LambdaEvent<Deliveries>,
    needs: Duration,
    handle: &Handler<'_, NotDone>,
    hides: Option<&Consumer>,
) -> Result<Undelivered, Error> {
    let until = deadline(&event.context, Duration::ZERO);
    let deliveries = event.payload.records.iter().map(delivery_of).collect();
    let ids = batch::each(deliveries, &|| has_time(until, needs), handle, hides, None).await;
    // Lambda takes an empty id for a failure of everything, and reports nothing.
    if ids.iter().any(String::is_empty) {
        return Err("a message without an id is not done, so the whole batch returns to the queue".into());
    }
    Ok(Undelivered { failures: ids.into_iter().map(|id| Item { id }).collect() })
}

/// Returns whether a message may begin. Otherwise Lambda would end its handler in the middle, after
/// a part of its effects.
fn has_time(until: Option<DateTime<Utc>>, needs: Duration) -> bool {
    let left = |until: DateTime<Utc>| (until - SystemClock.now()).to_std().unwrap_or_default();
    until.is_none_or(|until| left(until) > needs)
}

/// One message of an event of Lambda.
pub(super) fn delivery_of(record: &Value) -> Delivery {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attributes = &record["attributes"];
    // A standard queue may have groups as well. They define no order.
    let is_fifo = record["eventSourceARN"].as_str().is_some_and(|arn| arn.ends_with(".fifo"));
    let group = attributes["MessageGroupId"].as_str().filter(|_| is_fifo).map(str::to_owned);
    let receives = attributes["ApproximateReceiveCount"].as_str().and_then(|count| count.parse().ok());
    let mut said = record.clone();
    if let Some(said) = said.as_object_mut() {
        // A handle is valid for this receive only, and the body has its own field.
        said.remove("receiptHandle");
        said.remove("body");
    }
    let delivery = Delivery::new(text(&record["messageId"]), text(&record["body"]));
    let receipt_handle = record["receiptHandle"].as_str().map(str::to_owned);
    Delivery { group, attributes: said, receipt_handle, ..delivery.receives(receives.unwrap_or(1)) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lambda_runtime::Context;
    use serde_json::json;

    use super::*;
    use crate::inbox::Visibility;
    use crate::workflow::Workflows;

    /// The messages that a queue hid.
    #[derive(Debug, Clone, Default)]
    struct Hidden(Arc<Mutex<Vec<(String, Duration)>>>);

    impl Visibility for Hidden {
        async fn hide(&self, delivery: &Delivery, pause: Duration) {
            self.0.lock().unwrap().push((delivery.id.clone(), pause));
        }
    }

    const FIFO: &str = "arn:aws:sqs:eu-west-1:111122223333:packing.fifo";

    /// Messages `ID GROUP`.
    fn event(queue: &str, messages: &[&str]) -> LambdaEvent<Deliveries> {
        let record = |message: &&str| {
            let (id, group) = message.split_once(' ').unwrap();
            json!({
                "messageId": id, "body": format!("body of {id}"), "eventSourceARN": queue,
                "attributes": { "MessageGroupId": group, "ApproximateReceiveCount": "3" },
            })
        };
        LambdaEvent::new(Deliveries { records: messages.iter().map(record).collect() }, Context::default())
    }

    /// Fails those with these ids. Returns which were handled, and which come back.
    async fn run(event: LambdaEvent<Deliveries>, failing: &[&str]) -> (String, Result<String, String>) {
        let handled = Mutex::new(Vec::new());
        let done = each_message(event, Duration::from_secs(1), async |delivery: Delivery| {
            assert_eq!((delivery.body, delivery.receives), (format!("body of {}", delivery.id), 3));
            handled.lock().unwrap().push(delivery.id.clone());
            if failing.contains(&delivery.id.as_str()) { Err("not now") } else { Ok(()) }
        })
        .await;
        let back =
            done.map(|done| done.ids().collect::<Vec<_>>().join(" ")).map_err(|error| error.to_string());
        (handled.into_inner().unwrap().join(" "), back)
    }

    #[tokio::test]
    async fn a_handler_that_panics_fails_alone() {
        let handle = async |delivery: Delivery| {
            assert_ne!(delivery.id, "a1", "a bug");
            Ok::<_, String>(())
        };
        let done = each_message(event(FIFO, &["a1 a", "b1 b", "a2 a"]), Duration::ZERO, handle).await;
        assert_eq!(done.unwrap().ids().collect::<Vec<_>>(), ["a1", "a2"]);
    }

    #[tokio::test]
    async fn a_failure_holds_up_its_group_of_a_fifo_queue_and_nothing_else() {
        let messages = ["a1 a", "b1 b", "a2 a", "b2 b", "a3 a", "c1 c"];
        let (handled, back) = run(event(FIFO, &messages), &["a2", "b1"]).await;
        assert_eq!((handled.as_str(), back.unwrap().as_str()), ("a1 b1 a2 c1", "b1 a2 b2 a3"));
        let standard = FIFO.strip_suffix(".fifo").unwrap();
        let (handled, back) = run(event(standard, &messages), &["a2", "b1"]).await;
        assert_eq!((handled.as_str(), back.unwrap().as_str()), ("a1 b1 a2 b2 a3 c1", "b1 a2"));
        assert_eq!(run(event(FIFO, &messages), &[]).await.1.unwrap(), "");
    }

    #[tokio::test]
    async fn later_messages_of_a_failed_group_are_hidden_for_its_pause() {
        let dynamodb = lock_token_testing::Embedded::memory().unwrap().client();
        let workflows = Workflows::new(&dynamodb, "workflows").unwrap();
        let hidden = Hidden::default();
        let consumer = workflows.inbox("packer").unwrap().consumer().hiding(hidden.clone());
        let pause = Duration::from_secs(7);
        let handle = |delivery: Delivery| -> Handling<'_, NotDone> {
            Box::pin(async move {
                match delivery.id.as_str() {
                    "a1" => Err(NotDone { cause: "busy".to_owned(), pause: Some(pause) }),
                    "b1" => Err(NotDone::now("no table")),
                    _ => Ok(()),
                }
            })
        };
        let event = event(FIFO, &["a1 a", "b1 b", "a2 a", "b2 b", "c1 c", "a3 a"]);
        let done = each_of(event, Duration::ZERO, &handle, Some(&consumer)).await.unwrap();
        assert_eq!(done.ids().collect::<Vec<_>>(), ["a1", "b1", "a2", "b2", "a3"]);
        let hidden = hidden.0.lock().unwrap();
        assert_eq!(*hidden, [("a2".to_owned(), pause), ("a3".to_owned(), pause)]);
    }

    /// A queue that does not answer, such as in a VPC without an endpoint.
    struct Silent;

    impl Visibility for Silent {
        async fn hide(&self, _: &Delivery, _: Duration) {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_queue_delays_a_batch_once_and_not_for_each_message() {
        let dynamodb = lock_token_testing::Embedded::memory().unwrap().client();
        let workflows = Workflows::new(&dynamodb, "workflows").unwrap();
        let consumer = workflows.inbox("packer").unwrap().consumer().hiding(Silent);
        let handle = |_: Delivery| -> Handling<'_, NotDone> {
            let pause = Some(Duration::from_secs(7));
            Box::pin(async move { Err(NotDone { cause: "busy".to_owned(), pause }) })
        };
        let messages: Vec<_> = (0..10).map(|number| format!("a{number} a")).collect();
        let messages: Vec<_> = messages.iter().map(String::as_str).collect();
        let began = tokio::time::Instant::now();
        let done = each_of(event(FIFO, &messages), Duration::ZERO, &handle, Some(&consumer)).await.unwrap();
        assert_eq!(done.ids().count(), 10);
        assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn no_message_is_begun_without_the_time_for_it() {
        let mut event = event(FIFO, &["a1 a", "b1 b"]);
        event.context.deadline = u64::try_from(SystemClock.now().timestamp_millis()).unwrap() + 500;
        let (handled, back) = run(event, &[]).await;
        assert_eq!((handled.as_str(), back.unwrap().as_str()), ("", "a1 b1"));
    }

    #[tokio::test]
    async fn a_message_without_an_id_fails_the_batch_and_not_in_silence() {
        let (handled, back) = run(event(FIFO, &[" a", "b1 b"]), &[""]).await;
        assert!(back.unwrap_err().contains("the whole batch"));
        assert_eq!(handled, " b1", "the others are done all the same");
        // If it is done, nothing has to name it.
        assert_eq!(run(event(FIFO, &[" a", "b1 b"]), &["b1"]).await.1.unwrap(), "b1");
    }

    #[test]
    fn stored_record_contains_neither_its_handle_nor_its_body_twice() {
        let mut record =
            json!({ "messageId": "a", "eventSourceARN": FIFO, "attributes": { "MessageGroupId": "7" } });
        let kept = record.clone();
        record["receiptHandle"] = json!("h");
        record["body"] = json!("7");
        let delivery = delivery_of(&record);
        assert_eq!((delivery.receipt_handle.as_deref(), delivery.body.as_str()), (Some("h"), "7"));
        assert_eq!(delivery.attributes, kept);
    }

    #[test]
    fn the_response_is_what_lambda_expects() {
        let undelivered = Undelivered { failures: vec![Item { id: "a".to_owned() }] };
        assert_eq!(json!(undelivered), json!({ "batchItemFailures": [{ "itemIdentifier": "a" }] }));
        assert_eq!(json!(Undelivered::default()), json!({ "batchItemFailures": [] }));
        let odd = delivery_of(&json!("no object"));
        assert_eq!((odd.id.as_str(), odd.body.as_str(), odd.receives), ("", "", 1));
    }
}
