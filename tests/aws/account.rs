//! An account in Moto, whose names are of one test.

use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_eventbridge::types::Target;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};
use aws_sdk_sqs::types::QueueAttributeName;
use cloudevents::Event;

macro_rules! client {
    ($sdk:ident, $url:expr $(, $option:ident($value:expr))*) => {
        $sdk::Client::from_conf(
            $sdk::Config::builder()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .region(Region::new("eu-west-1"))
                .credentials_provider(Credentials::new("test", "test", None, None, "test"))
                .http_client(locker::client::http_client())
                .endpoint_url($url)
                $(.$option($value))*
                .build(),
        )
    };
}

pub(crate) struct Account {
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) sns: aws_sdk_sns::Client,
    pub(crate) events: aws_sdk_eventbridge::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    /// Distinguishes the resources of a test.
    name: &'static str,
}

/// A message as a queue gives it.
pub(crate) struct Received {
    pub(crate) body: String,
    pub(crate) group: Option<String>,
}

impl Received {
    /// The event, read by a reader that is not ours.
    pub(crate) fn event(&self) -> Event {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Account {
    pub(crate) fn new(name: &'static str) -> Self {
        let url = std::env::var("LOCKER_MOTO").expect("LOCKER_MOTO; run this by tests/moto");
        Self {
            sqs: client!(aws_sdk_sqs, &url),
            sns: client!(aws_sdk_sns, &url),
            events: client!(aws_sdk_eventbridge, &url),
            // A bucket is no host on loopback.
            s3: client!(aws_sdk_s3, &url, force_path_style(true)),
            name,
        }
    }

    /// A queue, FIFO if its name says so. Its URL.
    pub(crate) async fn queue(&self, name: &str) -> String {
        let mut queue = self.sqs.create_queue().queue_name(format!("{}-{name}", self.name));
        if name.ends_with(".fifo") {
            queue = queue.attributes(QueueAttributeName::FifoQueue, "true");
        }
        queue.send().await.unwrap().queue_url.unwrap()
    }

    /// A bucket. Its name.
    pub(crate) async fn bucket(&self) -> String {
        let place = BucketLocationConstraint::EuWest1;
        let place = CreateBucketConfiguration::builder().location_constraint(place).build();
        let name = format!("{}-bucket", self.name);
        let bucket = self.s3.create_bucket().bucket(&name).create_bucket_configuration(place);
        bucket.send().await.unwrap();
        name
    }

    /// A topic that a queue subscribes with raw delivery and this filter policy. Its ARN.
    pub(crate) async fn topic(&self, name: &str, queue: &str, filter: Option<&str>) -> String {
        self.topic_with(name, queue, filter, true).await
    }

    pub(crate) async fn topic_with(
        &self,
        name: &str,
        queue: &str,
        filter: Option<&str>,
        is_raw: bool,
    ) -> String {
        let mut topic = self.sns.create_topic().name(format!("{}-{name}", self.name));
        if name.ends_with(".fifo") {
            topic = topic.attributes("FifoTopic", "true");
        }
        let arn = topic.send().await.unwrap().topic_arn.unwrap();
        let queue = self.arn_of(queue).await;
        let subscription = self.sns.subscribe().topic_arn(&arn).protocol("sqs").endpoint(queue);
        let subscription = subscription.attributes("RawMessageDelivery", is_raw.to_string());
        let subscription = match filter {
            Some(filter) => subscription.attributes("FilterPolicy", filter),
            None => subscription,
        };
        subscription.send().await.unwrap();
        arn
    }

    /// A bus whose events of this pattern go to a queue. Its name.
    pub(crate) async fn bus(&self, pattern: &str, queue: &str) -> String {
        let name = format!("{}-bus", self.name);
        self.events.create_event_bus().name(&name).send().await.unwrap();
        let rule = self.events.put_rule().name("rule").event_bus_name(&name).event_pattern(pattern);
        rule.send().await.unwrap();
        let target = Target::builder().id("queue").arn(self.arn_of(queue).await).build().unwrap();
        let targets = self.events.put_targets().rule("rule").event_bus_name(&name).targets(target);
        targets.send().await.unwrap();
        name
    }

    async fn arn_of(&self, queue: &str) -> String {
        let asked = self.sqs.get_queue_attributes().queue_url(queue);
        let attributes = asked.attribute_names(QueueAttributeName::QueueArn).send().await.unwrap();
        attributes.attributes.unwrap()[&QueueAttributeName::QueueArn].clone()
    }

    /// Everything that is in a queue, deleted from it; a FIFO queue gives the next of a group after
    /// that.
    pub(crate) async fn receive(&self, queue: &str) -> Vec<Received> {
        let mut received = Vec::new();
        let mut empty = 0;
        while empty < 3 {
            let asked = self.sqs.receive_message().queue_url(queue).max_number_of_messages(10);
            let asked = asked.message_system_attribute_names("All".into());
            let messages = asked.send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                empty += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for message in messages {
                let group = message.attributes().and_then(|it| it.get(&"MessageGroupId".into()).cloned());
                received.push(Received { body: message.body.clone().unwrap(), group });
                let handle = message.receipt_handle.unwrap();
                self.sqs.delete_message().queue_url(queue).receipt_handle(handle).send().await.unwrap();
            }
        }
        received
    }
}
