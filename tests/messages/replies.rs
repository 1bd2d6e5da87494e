//! What the replies of SQS, SNS and EventBridge mean for the messages that were sent, and what they
//! were asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use locker::aws::{Bucket, EventBus, Sqs, Topic};
use locker::message::{Bodies as _, Envelope, Router, Sent, Target};
use locker::relay::Relay;
use serde_json::{Value, json};

use crate::post::{Letters, MINUTE, Post};

/// What comes back of a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Is(u16, String),
    /// The status 200 after this time.
    Slow(Duration, String),
    NoConnection,
    Lost,
    Nothing,
    /// The connection stays open.
    Hangs,
}

/// A service that gives these replies, the last one for ever, and keeps what it was asked.
#[derive(Debug, Clone)]
pub(super) struct Service {
    replies: Arc<Mutex<Vec<Reply>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    pub(super) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Self { replies: Arc::new(Mutex::new(replies)), asked: Arc::default() }
    }

    fn client(&self) -> SharedHttpClient {
        let service = self.clone();
        http_client_fn(move |_, _| SharedHttpConnector::new(service.clone()))
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

impl HttpConnector for Service {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8(request.body().bytes().unwrap().to_vec()).unwrap();
        self.asked.lock().unwrap().push(body);
        let mut replies = self.replies.lock().unwrap();
        let reply = if replies.len() > 1 { replies.pop().unwrap() } else { replies[0].clone() };
        HttpConnectorFuture::ready(match reply {
            Reply::Hangs => return HttpConnectorFuture::new(std::future::pending()),
            Reply::Slow(after, body) => {
                return HttpConnectorFuture::new(async move {
                    tokio::time::sleep(after).await;
                    Ok(HttpResponse::new(200_u16.try_into().unwrap(), SdkBody::from(body)))
                });
            }
            Reply::Is(status, body) => Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))),
            Reply::NoConnection => Err(ConnectorError::user("no connection".into())),
            Reply::Lost => Err(ConnectorError::io("connection reset".into())),
            Reply::Nothing => Err(ConnectorError::timeout("no reply".into())),
        })
    }
}

macro_rules! client {
    ($sdk:ident, $service:expr) => {
        $sdk::Client::from_conf(
            $sdk::Config::builder()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .region(Region::new("eu-west-1"))
                .credentials_provider(Credentials::new("test", "test", None, None, "test"))
                .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
                .http_client($service.client())
                .build(),
        )
    };
}

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111122223333/packing";

pub(super) fn queue(service: &Service) -> Sqs {
    Sqs::queue(&client!(aws_sdk_sqs, service), URL)
}

pub(super) fn bus(service: &Service) -> EventBus {
    EventBus::new(&client!(aws_sdk_eventbridge, service), "orders")
}

pub(super) fn topic(service: &Service) -> Topic {
    Topic::new(&client!(aws_sdk_sns, service), "arn:aws:sns:eu-west-1:111122223333:orders.fifo")
}

/// Real envelopes, as a relay gives them to its target.
pub(super) async fn envelopes(count: usize) -> Vec<Envelope> {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(count), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, count);
    post.broker.took()
}

/// How a message ends: `D`one, `L`ater, refused for its own sake (`M`), for its target's (`T`) or for
/// an unlisted cause (`R`), `U`nknown.
fn letters(sent: &[Sent]) -> String {
    let letter = |sent: &Sent| match sent {
        Sent::Done => 'D',
        Sent::Later(_) => 'L',
        Sent::MessageRefused(_) => 'M',
        Sent::TargetRefused(_) => 'T',
        Sent::Refused(_) => 'R',
        Sent::Unknown(_) => 'U',
        _ => '?',
    };
    sent.iter().map(letter).collect()
}

fn cause(sent: &Sent) -> &str {
    match sent {
        Sent::Later(cause)
        | Sent::MessageRefused(cause)
        | Sent::TargetRefused(cause)
        | Sent::Refused(cause)
        | Sent::Unknown(cause) => cause,
        _ => "",
    }
}

fn error(status: u16, code: &str) -> Reply {
    Reply::Is(
        status,
        json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "so it is" }).to_string(),
    )
}

#[tokio::test]
async fn each_entry_of_a_reply_is_for_its_message_whatever_their_order() {
    let batch = envelopes(5).await;
    let failed = |id: &str, code: &str, ours: bool| json!({ "Id": id, "Code": code, "Message": "why", "SenderFault": ours });
    let reply = json!({
        "Successful": [{ "Id": "3", "MessageId": "m", "MD5OfMessageBody": "5" }],
        "Failed": [
            failed("1", "InvalidMessageContents", true),
            failed("0", "InternalError", false),
            failed("2", "KmsThrottled", true),
        ],
    });
    let service = Service::new([Reply::Is(200, reply.to_string())]);
    let sent = queue(&service).send(&batch).await;
    assert_eq!(letters(&sent), "LMLDU", "{sent:?}");
    assert_eq!(cause(&sent[1]), "InvalidMessageContents: why");
    assert_eq!(cause(&sent[4]), "the reply does not name the message");
}

#[tokio::test]
async fn a_reply_that_refuses_all_of_a_batch_says_what_becomes_of_it() {
    let one = envelopes(1).await;
    for (reply, letter) in [
        (error(400, "QueueDoesNotExist"), "T"),
        (error(403, "AccessDeniedException"), "T"),
        (error(400, "KmsDisabled"), "T"),
        (error(400, "InvalidMessageContents"), "M"),
        (error(400, "BatchRequestTooLong"), "M"),
        (error(400, "InvalidParameterValue"), "R"),
        (error(400, "Whatever"), "R"),
        (error(400, "RequestThrottled"), "L"),
        (error(429, "Whatever"), "L"),
        (error(503, "Whatever"), "U"),
        (error(500, "InternalFailure"), "U"),
        (Reply::Is(500, "<html>".to_owned()), "U"),
        (Reply::Is(200, "<html>".to_owned()), "U"),
        (Reply::Is(403, "<html>".to_owned()), "L"),
        (Reply::NoConnection, "L"),
        (Reply::Nothing, "U"),
    ] {
        let service = Service::new([reply.clone()]);
        let sent = queue(&service).send(&one).await;
        assert_eq!(letters(&sent), letter, "{reply:?}: {sent:?}");
        assert!(!cause(&sent[0]).is_empty());
    }
    let sent = queue(&Service::new([error(400, "QueueDoesNotExist")])).send(&one).await;
    assert_eq!(cause(&sent[0]), "QueueDoesNotExist: so it is");
}

#[tokio::test]
async fn a_batch_that_is_refused_as_a_whole_is_sent_one_by_one() {
    let batch = envelopes(3).await;
    let done =
        json!({ "Successful": [{ "Id": "0", "MessageId": "m", "MD5OfMessageBody": "5" }], "Failed": [] });
    let done = Reply::Is(200, done.to_string());
    let refused = error(400, "InvalidMessageContents");
    let service = Service::new([refused.clone(), done.clone(), refused.clone(), done]);
    assert_eq!(letters(&queue(&service).send(&batch).await), "DMD");
    let sizes: Vec<_> = service.asked().iter().map(|it| it["Entries"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [3, 1, 1, 1]);
    // If the target refuses two of them alone, it refuses the others.
    let denied = error(403, "AccessDeniedException");
    let service = Service::new([denied.clone()]);
    assert_eq!(letters(&queue(&service).send(&batch).await), "TTT");
    assert_eq!(service.asked().len(), 3, "the third message is not tried");
    // After a request without a reply, the others wait.
    let service = Service::new([refused, Reply::Nothing]);
    assert_eq!(letters(&queue(&service).send(&batch).await), "ULL");
    assert_eq!(service.asked().len(), 2);
    // What may have been sent, and what is taken later, is not sent at once again.
    for (reply, letters_of) in [(Reply::Nothing, "UUU"), (error(400, "RequestThrottled"), "LLL")] {
        let service = Service::new([reply]);
        assert_eq!(letters(&queue(&service).send(&batch).await), letters_of);
        assert_eq!(service.asked().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_hangs_ends_by_itself() {
    let batch = envelopes(2).await;
    let service = Service::new([Reply::Hangs]);
    let began = tokio::time::Instant::now();
    assert_eq!(letters(&queue(&service).send(&batch).await), "UU");
    assert_eq!((began.elapsed().as_secs(), service.asked.lock().unwrap().len()), (4, 1));
    let bucket = Bucket::new(&client!(aws_sdk_s3, service), "bodies");
    let began = tokio::time::Instant::now();
    let error = bucket.get("key").await.unwrap_err();
    assert_eq!(error.to_string(), "Amazon S3 did not reply within 30 s");
    assert_eq!(began.elapsed().as_secs(), 30);
}

/// A call that is cut off after 10 seconds has no outcome for any of its messages.
#[tokio::test(start_paused = true)]
async fn slow_call_keeps_its_outcomes_and_leaves_the_other_messages() {
    let batch = envelopes(5).await;
    let done =
        json!({ "Successful": [{ "Id": "0", "MessageId": "m", "MD5OfMessageBody": "5" }], "Failed": [] });
    let slow = Reply::Slow(Duration::from_secs(3), done.to_string());
    let service = Service::new([error(400, "InvalidMessageContents"), slow]);
    let began = tokio::time::Instant::now();
    let sent = queue(&service).send(&batch).await;
    assert_eq!(letters(&sent), "DDLLL", "{sent:?}");
    assert_eq!(cause(&sent[4]), "no time was left in this call");
    assert_eq!((began.elapsed().as_secs(), service.asked().len()), (6, 3));
}

#[tokio::test]
async fn a_fifo_queue_is_given_groups_and_ids_and_a_standard_one_is_not() {
    let batch = envelopes(2).await;
    let service = Service::new([Reply::Is(200, "{}".to_owned())]);
    let fifo = Sqs::queue(&client!(aws_sdk_sqs, service), format!("{URL}.fifo"));
    fifo.send(&batch).await;
    queue(&service).send(&batch).await;
    let [to_fifo, to_standard] = &service.asked()[..] else { panic!() };
    for (entry, envelope) in to_fifo["Entries"].as_array().unwrap().iter().zip(&batch) {
        assert_eq!(entry["MessageGroupId"], "letters/1");
        assert_eq!(entry["MessageDeduplicationId"], envelope.id);
        assert_eq!(entry["MessageBody"], envelope.to_json().unwrap());
    }
    assert_eq!(to_fifo["QueueUrl"], format!("{URL}.fifo"));
    for entry in to_standard["Entries"].as_array().unwrap() {
        assert!(entry.get("MessageGroupId").is_none() && entry.get("MessageDeduplicationId").is_none());
    }
}

#[tokio::test]
async fn a_bus_says_of_each_event_what_became_of_it() {
    let batch = envelopes(4).await;
    let refused = |code: &str| json!({ "ErrorCode": code, "ErrorMessage": "why" });
    let entries = [
        json!({ "EventId": "e" }),
        refused("ThrottlingException"),
        refused("InternalFailure"),
        refused("NotAuthorizedForSourceException"),
    ];
    let reply = json!({ "FailedEntryCount": 3, "Entries": entries });
    let service = Service::new([Reply::Is(200, reply.to_string()), Reply::Is(200, "{}".to_owned())]);
    let bus = bus(&service);
    let sent = bus.send(&batch).await;
    assert_eq!(letters(&sent), "DLLT", "{sent:?}");
    assert_eq!(letters(&bus.send(&batch).await), "UUUU", "a reply that says nothing");
    let asked = &service.asked()[0]["Entries"][0];
    assert_eq!(asked["EventBusName"], "orders");
    assert_eq!((&asked["Source"], &asked["DetailType"]), (&json!("/letters"), &json!("told.0")));
    assert_eq!(asked["Detail"], batch[0].to_json().unwrap());
}

#[tokio::test]
async fn a_topic_says_of_each_message_what_became_of_it() {
    let batch = envelopes(3).await;
    let reply = "<PublishBatchResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><PublishBatchResult>\
        <Successful><member><Id>1</Id><MessageId>m</MessageId></member></Successful>\
        <Failed><member><Id>0</Id><Code>InvalidParameter</Code><Message>why</Message><SenderFault>true</SenderFault></member>\
        <member><Id>2</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member></Failed>\
        </PublishBatchResult></PublishBatchResponse>";
    let service = Service::new([Reply::Is(200, reply.to_owned())]);
    let topic = topic(&service);
    let sent = topic.send(&batch).await;
    assert_eq!(letters(&sent), "MDL", "{sent:?}");
    let asked = service.asked.lock().unwrap()[0].clone();
    for part in [
        "MessageGroupId=letters%2F1",
        "MessageAttributes.entry.1.Value.StringValue=told%2F0",
        &format!("MessageDeduplicationId={}", batch[0].id),
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    assert_eq!(topic.maximum_message_size(1_000_000).most_bytes(), 1_000_000 - 5_120);
}

/// The whole way from the reply to the stored message.
#[tokio::test]
async fn only_a_refusal_that_names_the_message_is_dead_at_once() {
    for (reply, dead, waiting) in [
        (error(400, "InvalidMessageContents"), 1, 0),
        (error(400, "QueueDoesNotExist"), 0, 1),
        (error(400, "Whatever"), 0, 1),
        (error(400, "RequestThrottled"), 0, 1),
    ] {
        let post = Post::new().await;
        let (workflows, _) = post.desk.machine();
        workflows.start(&Letters::in_order(2), "letters/1", &()).run().await.unwrap();
        post.desk.bench.clock.advance(MINUTE);
        let service = Service::new([reply]);
        let router = Router::new().route("*", queue(&service));
        let done = Relay::new(&workflows, router).run().await.unwrap();
        assert_eq!((done.sent, done.dead, done.waiting), (0, dead, waiting), "{done:?}");
        assert_eq!(service.asked().len(), 1, "the second one waits behind the first");
    }
}

/// A request that could not be made was not sent, and one whose connection was lost may have been.
#[tokio::test]
async fn unsent_request_is_retried_and_a_lost_connection_is_unknown() {
    let one = envelopes(1).await;
    let service = Service::new([Reply::Lost]);
    let sent = queue(&service).send(&one).await;
    assert_eq!(letters(&sent), "U", "{sent:?}");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
        .http_client(service.client())
        .build();
    // It has no region.
    let sent = Sqs::queue(&aws_sdk_sqs::Client::from_conf(config), URL).send(&one).await;
    assert_eq!(letters(&sent), "L", "{sent:?}");
    assert_eq!(service.asked().len(), 1);
}

#[tokio::test]
async fn a_queue_is_told_for_how_long_to_hide_a_message() {
    use locker::inbox::{Delivery, Visibility};
    let service = Service::new([Reply::Is(200, "{}".to_owned())]);
    let mut delivery = Delivery::new("1", "x");
    queue(&service).hide(&delivery, Duration::from_secs(7)).await;
    assert_eq!(service.asked().len(), 0, "it has no handle");
    delivery.receipt_handle = Some("h".to_owned());
    for (pause, seconds) in [(7, 7), (900, 900), (13 * 3600, 11 * 3600)] {
        queue(&service).hide(&delivery, Duration::from_secs(pause)).await;
        let asked = service.asked().pop().unwrap();
        assert_eq!((&asked["QueueUrl"], &asked["ReceiptHandle"]), (&json!(URL), &json!("h")));
        assert_eq!(asked["VisibilityTimeout"], seconds);
    }
    // What cannot be told is logged.
    queue(&Service::new([error(400, "ReceiptHandleIsInvalid")]))
        .hide(&delivery, Duration::from_secs(7))
        .await;
}

#[tokio::test]
async fn an_event_has_the_time_of_its_commit() {
    let batch = envelopes(1).await;
    let service = Service::new([Reply::Is(200, "{}".to_owned())]);
    bus(&service).send(&batch).await;
    let time = service.asked()[0]["Entries"][0]["Time"].as_f64().unwrap();
    assert!((time - batch[0].time.timestamp_millis() as f64 / 1000.0).abs() < 0.01, "{time}");
}
