//! A consumer outside Lambda, on a queue in memory behind the SDK of SQS.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use locker::Failure;
use locker::aws::Sqs;
use locker::inbox::Delivery;
use locker_tests::{Exchange, Fate};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::consumer;
use crate::post::Post;

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111122223333/packing.fifo";

/// A queue: its messages `GROUP/NUMBER` that are visible, and what it was asked since.
#[derive(Debug, Clone, Default)]
struct Queue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    visible: Vec<String>,
    asked: Vec<(String, Value)>,
    /// Receives that fail first.
    failing: usize,
    /// No message can be deleted.
    keeps: bool,
}

impl Queue {
    fn of(messages: &[&str]) -> Self {
        let visible = messages.iter().map(ToString::to_string).collect();
        Self(Arc::new(Mutex::new(State { visible, ..State::default() })))
    }

    fn sqs(&self) -> Sqs {
        let queue = self.clone();
        let http: SharedHttpClient = http_client_fn(move |_, _| SharedHttpConnector::new(queue.clone()));
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
            .timeout_config(aws_sdk_sqs::config::timeout::TimeoutConfig::disabled())
            .http_client(http);
        Sqs::queue(&aws_sdk_sqs::Client::from_conf(config.build()), URL)
    }

    /// What it was asked about messages, such as `DeleteMessage a/1` and `ChangeMessageVisibility
    /// a/1 7`.
    fn asked(&self) -> Vec<String> {
        let text = |(operation, body): &(String, Value)| {
            let seconds = body["VisibilityTimeout"].as_u64().map(|it| format!(" {it}")).unwrap_or_default();
            format!("{operation} {}{seconds}", body["ReceiptHandle"].as_str().unwrap_or_default())
        };
        let asked = &self.0.lock().unwrap().asked;
        asked.iter().filter(|(operation, _)| operation != "ReceiveMessage").map(text).collect()
    }
}

impl HttpConnector for Queue {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let (mut status, mut wait, mut reply) = (200, Duration::ZERO, json!({}));
        let mut state = self.0.lock().unwrap();
        state.asked.push((operation.clone(), body.clone()));
        if operation == "ReceiveMessage" && state.failing > 0 {
            state.failing -= 1;
            (status, reply) =
                (400, json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no" }));
        } else if operation == "DeleteMessage" && state.keeps {
            (status, reply) =
                (400, json!({ "__type": "com.amazonaws.sqs#ReceiptHandleIsInvalid", "message": "no" }));
        } else if operation == "ReceiveMessage" {
            let taken = std::mem::take(&mut state.visible);
            wait = Duration::from_secs(if taken.is_empty() { 20 } else { 0 });
            let message = |name: &String| {
                let group = name.split('/').next();
                // SQS returns what it is asked for.
                let attributes = match body["MessageSystemAttributeNames"] == json!(["All"]) {
                    true => {
                        json!({ "MessageGroupId": group, "ApproximateReceiveCount": "1", "SequenceNumber": "7" })
                    }
                    false => json!({}),
                };
                json!({ "MessageId": name, "ReceiptHandle": name, "Body": name, "Attributes": attributes })
            };
            reply = json!({ "Messages": taken.iter().map(message).collect::<Vec<_>>() });
        }
        HttpConnectorFuture::new(async move {
            tokio::time::sleep(wait).await;
            Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(reply.to_string())))
        })
    }
}

const NEEDS: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn polled_messages_follow_the_rules_of_groups_and_pauses() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let queue = Queue::of(&["a/1", "b/1", "a/2", "b/2"]);
    let sqs = queue.sqs();
    let consumer = consumer.concurrency(1).hiding(sqs.clone());
    let handled = Mutex::new(Vec::new());
    let handle = async |it: Delivery| {
        handled.lock().unwrap().push(it.body.clone());
        match it.body.as_str() {
            "a/1" => Err(Failure::transient("no box".to_owned()).after(Duration::from_secs(40))),
            _ => Ok(()),
        }
    };
    // It waits for a message when it is stopped.
    sqs.poll(&consumer, NEEDS, handle, tokio::time::sleep(Duration::from_secs(5))).await;
    assert_eq!(*handled.lock().unwrap(), ["a/1", "b/1", "b/2"]);
    assert_eq!(
        queue.asked(),
        [
            "ChangeMessageVisibility a/1 40",
            "DeleteMessage b/1",
            "DeleteMessage b/2",
            "ChangeMessageVisibility a/2 40"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn stop_lets_begun_messages_end_and_returns_the_others() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let queue = Queue::of(&["a/1", "b/1", "b/2"]);
    let sqs = queue.sqs();
    let (begun, consumer) = (Notify::new(), consumer.concurrency(1));
    let handle = async |_: Delivery| {
        begun.notify_one();
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok::<_, Failure>(())
    };
    sqs.poll(&consumer, NEEDS, handle, begun.notified()).await;
    let returned = ["DeleteMessage a/1", "ChangeMessageVisibility b/1 0", "ChangeMessageVisibility b/2 0"];
    assert_eq!(queue.asked(), returned);
}

#[tokio::test(start_paused = true)]
async fn poll_goes_on_after_an_error_of_the_queue() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let queue = Queue::of(&["a/1"]);
    queue.0.lock().unwrap().failing = 3;
    let sqs = queue.sqs();
    let (done, consumer) = (Notify::new(), consumer.concurrency(1));
    let handle = async |_: Delivery| {
        done.notify_one();
        Ok::<_, Failure>(())
    };
    sqs.poll(&consumer, NEEDS, handle, done.notified()).await;
    assert_eq!(queue.asked(), ["DeleteMessage a/1"]);
}

#[tokio::test(start_paused = true)]
async fn no_polled_message_is_begun_without_its_time_in_hiding() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let queue = Queue::of(&["a/1", "b/1", "c/1"]);
    let sqs = queue.sqs();
    let consumer = consumer.concurrency(1);
    // Hidden for 55 seconds; the second message would begin after 50.
    let slow = async |_: Delivery| {
        tokio::time::sleep(Duration::from_secs(50)).await;
        Ok::<_, Failure>(())
    };
    sqs.poll(&consumer, NEEDS, slow, tokio::time::sleep(Duration::from_secs(52))).await;
    let returned = ["DeleteMessage a/1", "ChangeMessageVisibility b/1 0", "ChangeMessageVisibility c/1 0"];
    assert_eq!(queue.asked(), returned);
    let received = queue.0.lock().unwrap().asked[0].1["VisibilityTimeout"].as_u64();
    assert_eq!(received, Some(55), "the visibility timeout of the queue may be shorter");
}

/// Otherwise it is delivered again after the later one.
#[tokio::test(start_paused = true)]
async fn later_messages_wait_for_one_that_cannot_be_deleted() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let queue = Queue::of(&["a/1", "a/2", "b/1"]);
    queue.0.lock().unwrap().keeps = true;
    let (sqs, consumer) = (queue.sqs(), consumer.concurrency(1));
    let handled = Mutex::new(Vec::new());
    let handle = async |it: Delivery| {
        handled.lock().unwrap().push(it.body.clone());
        Ok::<_, Failure>(())
    };
    sqs.poll(&consumer, NEEDS, handle, tokio::time::sleep(Duration::from_secs(5))).await;
    assert_eq!(*handled.lock().unwrap(), ["a/1", "b/1"]);
    let shown = queue.asked().into_iter().filter(|it| it.starts_with("ChangeMessageVisibility "));
    assert_eq!(shown.count(), 3, "it does not hold up its group for the time in hiding");
}

/// The time in hiding is 11 times as long as one message takes: hours, if a message takes 15
/// minutes.
#[tokio::test(start_paused = true)]
async fn message_that_fails_without_a_pause_is_soon_visible_again() {
    let post = Post::new().await;
    let (consumer, _, wire) = consumer(&post);
    let queue = Queue::of(&["a/1", "a/2", "b/1"]);
    let (sqs, consumer) = (queue.sqs(), consumer.concurrency(1));
    wire.always(Fate::Denied);
    let handle = async |_: Delivery| Ok::<_, Failure>(());
    sqs.poll(&consumer, NEEDS, handle, tokio::time::sleep(Duration::from_secs(5))).await;
    let asked = queue.asked();
    let (messages, seconds): (Vec<_>, Vec<_>) = asked
        .iter()
        .map(|it| it.rsplit_once(' ').unwrap())
        .map(|(message, seconds)| (message, seconds.parse::<u64>().unwrap()))
        .unzip();
    let shown = ["ChangeMessageVisibility a/1", "ChangeMessageVisibility a/2", "ChangeMessageVisibility b/1"];
    assert_eq!(messages, shown);
    // Half of the pause is by chance. The second message of the group waits for the first.
    assert!((2..=5).contains(&seconds[0]) && (2..=5).contains(&seconds[2]), "{seconds:?}");
    assert_eq!(seconds[1], 0);
}

#[tokio::test(start_paused = true)]
async fn run_that_an_error_stopped_is_repeated_after_a_minute() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine_with(|settings, _| settings.shards = 3);
    let consumer = workflows.inbox("packer").unwrap().consumer().concurrency(1);
    let is_list = |it: &Exchange| it.operation == "Query" && it.request.to_string().contains("\"waiting_1\"");
    wire.matching(is_list, Fate::Denied);
    let handle = async |_: Delivery| Ok::<_, Failure>(());
    let sqs = Queue::default().sqs();
    sqs.poll(&consumer, NEEDS, handle, tokio::time::sleep(Duration::from_secs(90))).await;
    assert_eq!(wire.take().iter().filter(|it| is_list(it)).count(), 2);
}
