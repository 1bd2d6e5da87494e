//! `locker dead import` from a dead-letter queue of Moto, a simulation of Amazon SQS.

use std::process::Command;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use locker_tests::command::{Place, Ran};

use crate::dead;
use crate::place;

struct Queues {
    client: Client,
    url: String,
    runtime: tokio::runtime::Runtime,
    /// Of orders.
    orders: String,
    /// Of orders that nobody handled.
    dead: String,
}

fn event(order: u32) -> String {
    format!(
        r#"{{"specversion":"1.0","id":"{order}","source":"/orders","type":"order.placed","data":{order}}}"#
    )
}

impl Queues {
    fn new() -> Self {
        let url = std::env::var("LOCKER_MOTO").expect("LOCKER_MOTO; run this by tests/moto");
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .http_client(locker::client::http_client())
            .endpoint_url(&url)
            .build();
        let client = Client::from_conf(config);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (orders, dead) = runtime.block_on(async {
            let dead = client.create_queue().queue_name("importing-dead").send().await.expect("a queue");
            let dead = dead.queue_url.expect("a URL");
            let asked = client.get_queue_attributes().queue_url(&dead);
            let arn = asked.attribute_names(QueueAttributeName::QueueArn).send().await.expect("an answer");
            let arn = arn.attributes.expect("attributes")[&QueueAttributeName::QueueArn].clone();
            let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"1"}}"#);
            let orders = client.create_queue().queue_name("importing");
            let orders = orders.attributes(QueueAttributeName::RedrivePolicy, policy).send().await;
            (orders.expect("a queue").queue_url.expect("a URL"), dead)
        });
        Self { client, url, runtime, orders, dead }
    }

    fn send(&self, queue: &str, order: u32) {
        let sent = self.client.send_message().queue_url(queue).message_body(event(order)).send();
        self.runtime.block_on(sent).expect("it is sent");
    }

    /// Receive what is there, as a function that is killed each time would.
    fn receive_in_vain(&self) {
        for _ in 0..4 {
            let asked = self.client.receive_message().queue_url(&self.orders).max_number_of_messages(10);
            self.runtime.block_on(asked.visibility_timeout(0).send()).expect("an answer");
        }
    }

    /// How many messages a queue has, hidden ones as well.
    fn count(&self, queue: &str) -> u32 {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let asked = self.client.get_queue_attributes().queue_url(queue);
        let asked = asked.set_attribute_names(Some(names.to_vec())).send();
        let attributes = self.runtime.block_on(asked).expect("an answer").attributes.expect("attributes");
        names.iter().map(|name| attributes[name].parse::<u32>().expect("a number")).sum()
    }

    fn import(&self, place: &Place) -> Ran {
        self.ran(place.command(&["dead", "import", &self.dead, "--consumer", "packer"]))
    }

    fn ran(&self, mut command: Command) -> Ran {
        Ran::of(command.env("AWS_ENDPOINT_URL_SQS", &self.url).output().expect("the command runs"))
    }
}

#[test]
#[ignore = "needs Moto: run by tests/moto"]
fn given_up_message_is_stored_before_its_queue_deletes_it() {
    let (queues, place) = (Queues::new(), place());
    for order in 0..3 {
        queues.send(&queues.orders, order);
    }
    queues.receive_in_vain();
    assert_eq!((queues.count(&queues.orders), queues.count(&queues.dead)), (0, 3));

    assert_eq!(place.run(&["workflow", "table", "create"]).code, 0);
    let imported = queues.import(&place);
    assert_eq!(imported.code, 0, "{}", imported.said);
    assert!(imported.said.contains("3 imported; look at them with: locker --"), "{}", imported.said);
    assert_eq!(queues.count(&queues.dead), 0);
    let groups = dead::groups(&place);
    assert_eq!(
        (&groups[0]["count"], &groups[0]["cause"]),
        (&3.into(), &"its queue gave it up, and what its handler did is not known".into())
    );
    let sample = groups[0]["sample"].as_str().expect("an id");
    let one = place.run(&["dead", "show", sample, "--content", "--output", "json"]).json();
    assert!(one["body"].as_str().is_some_and(|body| body.contains("order.placed")), "{one}");
    assert!(one["attempts"].as_u64().is_some_and(|attempts| attempts >= 1), "{one}");

    // One that comes again, since it was kept and not deleted, is the same one.
    queues.send(&queues.dead, 1);
    assert_eq!(queues.import(&place).code, 0);
    assert_eq!((queues.count(&queues.dead), &dead::groups(&place)[0]["count"]), (0, &3.into()));
    let none = queues.import(&place);
    assert!(none.code == 3 && none.said.contains("there is no message to import"), "{}", none.said);

    // What cannot be kept stays where it is.
    queues.send(&queues.dead, 7);
    let import = ["dead", "import", &queues.dead, "--consumer", "packer"];
    let nowhere = ["--table", "none", "--workflows", "none", "--endpoint-url", "http://127.0.0.1:9"];
    let left = queues.ran(place.bare(&[&import[..], &nowhere].concat()));
    assert_eq!(left.code, 5, "{}", left.said);
    assert!(left.said.contains("0 imported; 1 left where they are"), "{}", left.said);
    assert_eq!(queues.count(&queues.dead), 1);
}
