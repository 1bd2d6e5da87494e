//! A purchase sends a message to the packers, who pack it once and give it an event with the
//! parcel: the real functions, and a queue between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing;
use axum::{Json, Router};
use lock_token_testing::Broker;
use locker::Class;
use locker::message::MessageState;
use locker::workflow::{Outcome, Reaper, State, StepState};
use locker_functions::orders::Order;
use locker_functions::packer::{self, Packer};
use locker_functions::purchase::{Purchases, Refusal};
use locker_functions::workflows;
use locker_tests::{Function, Reply, fifo_message};
use serde_json::{Value, json};

use crate::kept::scheduled;
use crate::orders::{event, send};
use crate::stack::measured;
use crate::till::{self, Till, order, request};

/// A queue that speaks as much of the protocol of SQS as a sender needs.
#[derive(Clone, Default)]
struct Queue {
    bodies: Arc<Mutex<Vec<Value>>>,
    /// The error that it answers with.
    refuses: Arc<Mutex<Option<(u16, &'static str)>>>,
}

impl Queue {
    async fn serve(&self) -> String {
        let queue = self.clone();
        // Its type is that of the protocol, and not JSON's.
        let take = move |headers: HeaderMap, body: axum::body::Bytes| async move {
            queue.take(&headers, &serde_json::from_slice(&body).expect("JSON"))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().route("/", routing::post(take));
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn take(&self, headers: &HeaderMap, request: &Value) -> Response {
        assert_eq!(headers["x-amz-target"], "AmazonSQS.SendMessageBatch");
        assert_eq!(request["QueueUrl"], URL);
        if let Some((status, code)) = *self.refuses.lock().expect("no panic") {
            let error = Json(json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "no" }));
            return (StatusCode::from_u16(status).expect("a status"), error).into_response();
        }
        let entries = request["Entries"].as_array().expect("entries");
        let taken: Vec<_> = entries
            .iter()
            .map(|entry| json!({ "Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "00" }))
            .collect();
        self.bodies.lock().expect("no panic").extend(entries.iter().cloned());
        Json(json!({ "Successful": taken, "Failed": [] })).into_response()
    }

    fn taken(&self) -> Vec<Value> {
        self.bodies.lock().expect("no panic").clone()
    }
}

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/111122223333/packing.fifo";
const ORDERS: &str = env!("CARGO_BIN_EXE_orders");
const RELAY: &str = env!("CARGO_BIN_EXE_relay");
const PACKER: &str = env!("CARGO_BIN_EXE_packer");

async fn post(api: &Function, id: &str, number: &str) -> u64 {
    let key = format!("k{number}");
    send(api, id, event("POST", "/purchases", Some("alice"), Some(&key), &order(number, 1000))).await.0
}

/// Deliver a message to the packer. Whether it comes back.
async fn deliver(packer: &Function, id: &str, entry: &Value) -> bool {
    let group = entry["MessageGroupId"].as_str().unwrap_or("tea");
    let record = fifo_message(id, group, entry["MessageBody"].as_str().expect("a body"));
    let Reply::Response(response) = packer.invoke(id, json!({ "Records": [record] })).await else {
        panic!("no response")
    };
    response["batchItemFailures"].as_array().is_some_and(|failures| !failures.is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packers_pack_an_order_once_and_signal_its_purchase() {
    let (till, queue) = (Till::new().await, Queue::default());
    let endpoint = queue.serve().await;
    let sending = [("PACKING_QUEUE_URL", URL), ("AWS_ENDPOINT_URL_SQS", endpoint.as_str())];
    let api = till.function(ORDERS, &sending).await;
    assert_eq!(post(&api, "p1", "7").await, 202, "it waits for its parcel");
    let [entry] = &queue.taken()[..] else { panic!("{:?}", queue.taken()) };
    assert_eq!(entry["MessageGroupId"], "@alice/purchase/k7");
    assert_eq!(till.view("k7").await.messages().len(), 0, "it was sent at once");

    let packer = till.function(PACKER, &[]).await;
    for delivery in ["m1", "m2"] {
        assert!(!deliver(&packer, delivery, entry).await, "{delivery}");
        assert_eq!(till.row("7").await.expect("a row").0, "packed");
    }
    let (report, _) = till.completed(&sending).await;
    assert_eq!(report["completed"], 1, "{report}");
    assert_eq!(post(&api, "p2", "7").await, 200);
    let view = till.view("k7").await;
    assert_eq!(view.state(), State::Completed);
    assert_eq!(till.packed("k7").await.as_deref(), Some("taken"));
    // What is not paid is not packed: it waits for an operator, and what is no order, too.
    let mut stranger = entry.clone();
    let body = entry["MessageBody"].as_str().expect("a body");
    let mut event: Value = serde_json::from_str(&body.replace("order/7", "order/8")).expect("JSON");
    event["id"] = json!("another");
    event["data"]["order"]["orderId"] = json!("8");
    stranger["MessageBody"] = json!(event.to_string());
    assert!(!deliver(&packer, "m3", &stranger).await);
    assert!(!deliver(&packer, "m4", &json!({ "MessageBody": "tea" })).await);
    let Reply::Response(waiting) = packer.invoke("s1", scheduled()).await else { panic!("no report") };
    assert_eq!((&waiting["handled"], &waiting["finished"]), (&json!(0), &json!(true)), "{waiting}");
    let workflows = till.purchases(&till.stack.bench.client, Duration::ZERO).workflows;
    let dead = workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    let mut causes: Vec<_> = dead.iter().filter_map(|it| it.cause.as_deref()).collect();
    causes.sort_unstable();
    let [unpaid, tea] = causes[..] else { panic!("{causes:?}") };
    assert_eq!(unpaid, "[packing.notPaid] the order 8 is not paid by this purchase");
    assert!(tea.starts_with("[packing.unreadable] the message cannot be read: "), "{tea}");
}

/// Its row says that it is packed: whoever decides about the message is told that something may
/// have happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packed_order_without_a_purchase_is_in_doubt() {
    let (till, queue) = (Till::new().await, Queue::default());
    let endpoint = queue.serve().await;
    let sending = [("PACKING_QUEUE_URL", URL), ("AWS_ENDPOINT_URL_SQS", endpoint.as_str())];
    let api = till.function(ORDERS, &sending).await;
    assert_eq!(post(&api, "p1", "7").await, 202);
    let [entry] = &queue.taken()[..] else { panic!("{:?}", queue.taken()) };
    let mut event: Value =
        serde_json::from_str(entry["MessageBody"].as_str().expect("a body")).expect("JSON");
    event["subject"] = json!("@alice/purchase/none");
    till.hand_over("7", "@alice/purchase/none").await;
    let mut record = fifo_message("m1", "none", &event.to_string());
    let packer = till.function(PACKER, &[]).await;
    for receives in 1..=10 {
        record["attributes"]["ApproximateReceiveCount"] = json!(receives.to_string());
        packer.invoke("m1", json!({ "Records": [record] })).await;
    }
    assert_eq!(till.row("7").await.expect("a row").0, "packed");
    let workflows = till.purchases(&till.stack.bench.client, Duration::ZERO).workflows;
    let dead = workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    let seen: Vec<_> = dead.iter().map(|it| (it.class, it.cause.as_deref())).collect();
    let cause = "[packing.noPurchase] no purchase has this key";
    assert_eq!(seen, [(Some(Class::InDoubt), Some(cause))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_sends_unsent_message_when_the_queue_is_back() {
    let (till, queue) = (Till::new().await, Queue::default());
    let endpoint = queue.serve().await;
    let sending = [("PACKING_QUEUE_URL", URL), ("AWS_ENDPOINT_URL_SQS", endpoint.as_str())];
    *queue.refuses.lock().expect("no panic") = Some((503, "ServiceUnavailable"));
    let api = till.function(ORDERS, &sending).await;
    assert_eq!(post(&api, "p1", "7").await, 202);
    assert_eq!((queue.taken().len(), till.view("k7").await.messages().len()), (0, 1));

    let relay = till.function(RELAY, &sending).await;
    let Reply::Response(early) = relay.invoke("r0", json!({})).await else { panic!("no report") };
    assert_eq!(
        (&early["sent"], &early["finished"]),
        (&json!(0), &json!(true)),
        "its process may be sending it"
    );
    measured(&relay, "unsentMessages", json!(1.0)).await;
    // It is due 30 seconds after its commit.
    *queue.refuses.lock().expect("no panic") = None;
    for number in 1..120 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let Reply::Response(report) = relay.invoke(&format!("r{number}"), json!({})).await else {
            panic!("no report")
        };
        if report["sent"] == 1 {
            break;
        }
    }
    assert_eq!(queue.taken().len(), 1);
    measured(&relay, "relayFinished", json!(1.0)).await;
    let packer = till.function(PACKER, &[]).await;
    assert!(!deliver(&packer, "m1", &queue.taken()[0]).await);
}

/// The customer has the money back, and a packer that is late packs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchase_that_is_not_packed_in_time_is_compensated() {
    let (till, broker, bought) = bought_three_hours_ago().await;
    let client = &till.stack.bench.client;
    let Outcome::Failed(failed) = buy(&till.sending(client, &broker)).await else { panic!("no failure") };
    assert_eq!(failed.failure().error::<Refusal>().expect("a refusal"), Refusal::NotPacked);
    let view = till.view("k7").await;
    let compensated = view.steps().iter().filter(|it| it.state() == StepState::Compensated);
    assert_eq!(compensated.map(|it| it.name().to_owned()).collect::<Vec<_>>(), ["place", "charge"]);
    assert_eq!(till.row("7").await, None, "the row is withdrawn");
    let packer = till::packer(till.sending(client, &broker));
    assert_eq!(handle(&packer, &bought).await, 0, "an operator decides");
    assert_eq!(till.row("7").await, None);
    let dead = packer.workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    assert_eq!(dead[0].cause.as_deref(), Some("[packing.notPaid] the order 7 is not paid by this purchase"));
    assert_eq!(till.packed("k7").await.as_deref(), Some("expired"));
}

/// The first purchase failed, and the customer ordered again under the same number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_message_does_not_pack_the_order_of_another_purchase() {
    let (till, broker, late) = bought_three_hours_ago().await;
    let client = &till.stack.bench.client;
    let purchases = till.sending(client, &broker);
    assert!(matches!(buy(&purchases).await, Outcome::Failed(_)));
    let again = purchases.start("alice", "k8", &request("7")).expect("a key").run().await;
    assert!(matches!(again.expect("an outcome"), Outcome::InProgress(_)), "it waits for its parcel");
    let packer = till::packer(till.sending(client, &broker));
    assert_eq!(handle(&packer, &late).await, 0, "an operator decides");
    assert_eq!(till.row("7").await.expect("a row").0, "paid");
    let dead = packer.workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    assert_eq!(dead[0].cause.as_deref(), Some("[packing.notPaid] the order 7 is not paid by this purchase"));
    let body = broker.took()[1].to_json().expect("JSON");
    assert_eq!(handle_of(&packer, "k8", &body).await, 0);
    assert_eq!(till.row("7").await.expect("a row").0, "packed");
    assert_eq!(till.packed("k8").await.as_deref(), Some("given"));
}

/// The purchase gave it up a moment ago, and the customer gets the money back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_that_was_given_up_is_not_packed() {
    let (till, broker, bought) = bought_three_hours_ago().await;
    let packer = till::packer(till.sending(&till.stack.bench.client, &broker));
    till.set("7", "state", "givenUp").await;
    assert_eq!(handle(&packer, &bought).await, 0, "an operator decides");
    assert_eq!(till.row("7").await.expect("a row").0, "givenUp");
    let dead = packer.workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    assert_eq!(dead[0].cause.as_deref(), Some("[packing.notPaid] the order 7 is not paid by this purchase"));
}

/// The packer packed in time and stopped before it gave the event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchase_that_is_packed_without_its_event_is_complete() {
    let (till, broker, bought) = bought_three_hours_ago().await;
    let client = &till.stack.bench.client;
    let past =
        |client: &aws_sdk_dynamodb::Client| till.sending_behind(client, &broker, Duration::from_secs(60));
    let packer = till::packer(past(client));
    let wire = locker_tests::Wire::default();
    let cut = till::packer(past(&till.stack.bench.engine.client_over(&wire)));
    wire.matching(|it| it.operation == "GetItem", locker_tests::Fate::Denied);
    assert_eq!(handle(&cut, &bought).await, 1);
    assert_eq!(till.row("7").await.expect("a row").0, "packed");
    let outcome = buy(&past(client)).await;
    assert!(matches!(&outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(handle(&packer, &bought).await, 0);
    assert_eq!(till.packed("k7").await.as_deref(), Some("late"));
    let purchases = till.sending(client, &broker);
    let report = workflows::completer(&purchases.workflows, purchases.code).run().await.expect("a run");
    assert_eq!(till.packed("k7").await.as_deref(), Some("handled"), "{report:?}");
}

async fn bought_three_hours_ago() -> (Till, Broker, String) {
    let (till, broker) = (Till::new().await, Broker::new());
    let past = till.sending_behind(&till.stack.bench.client, &broker, Duration::from_secs(3 * 3600));
    assert!(matches!(buy(&past).await, Outcome::InProgress(_)));
    let body = broker.took()[0].to_json().expect("JSON");
    (till, broker, body)
}

async fn buy(purchases: &Purchases) -> Outcome<Order> {
    purchases.start("alice", "k7", &request("7")).expect("a key").run().await.expect("an outcome")
}

/// Of a purchase that was packed, nothing stays but its row, what the ledger says, and, until its
/// window ends, what the packer has heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_is_forgotten_after_its_retention() {
    let (till, broker) = (Till::new().await, Broker::new());
    let (client, days) = (&till.stack.bench.client, |days: u64| Duration::from_secs(days * 24 * 3600));
    // Each hears and sends a little later than the one before.
    let purchase = |behind| till.sending_behind(client, &broker, behind);
    buy(&purchase(days(40))).await;
    let body = broker.took()[0].to_json().expect("JSON");
    assert_eq!(handle(&till::packer(purchase(days(40))), &body).await, 0, "it is packed");
    buy(&purchase(days(40) - Duration::from_secs(60))).await;
    assert_eq!(till.view("k7").await.state(), State::Completed);

    let now = till.purchases(client, Duration::ZERO);
    let completer = workflows::completer(&now.workflows, now.code);
    let reaped = Reaper::new(&completer).run().await.expect("a run");
    assert_eq!((reaped.deleted, reaped.kept), (1, 0), "{reaped:?}");
    let left = client.scan().table_name(till.table()).send().await.expect("a scan").items.unwrap_or_default();
    let mut places: Vec<_> = left
        .iter()
        .map(|item| {
            let text = |name: &str| item[name].as_s().expect("text").as_str();
            let kind = text("workflow").split(' ').take(3).collect::<Vec<_>>().join(" ");
            let sort = text("item").split('/').next().expect("a part");
            (kind, sort.to_owned(), item.contains_key("ttl"))
        })
        .collect();
    places.sort();
    let of = |kind: &str, sort: &str, expires| (kind.to_owned(), sort.to_owned(), expires);
    places.retain(|(kind, ..)| !kind.starts_with("locker runs"));
    assert_eq!(
        places,
        [of("@alice/purchase/k7", "~ledger", false), of("locker inbox packer", "received", true)]
    );
    assert_eq!(till.row("7").await.expect("its row").0, "packed");
}

/// How many messages come again of a batch with this one.
async fn handle(packer: &Packer, body: &str) -> usize {
    handle_of(packer, "k7", body).await
}

/// The same for a message of another purchase.
async fn handle_of(packer: &Packer, purchase: &str, body: &str) -> usize {
    let record = fifo_message(&format!("m-{purchase}"), &format!("@alice/purchase/{purchase}"), body);
    let event = json!({ "Records": [record] });
    let event = lambda_runtime::LambdaEvent::new(event, lambda_runtime::Context::default());
    match packer::handle(packer, event).await.expect("it is handled") {
        locker::lambda::Consumed::Batch(undelivered) => undelivered.ids().count(),
        other => panic!("{other:?}"),
    }
}

/// Neither in the transaction that takes the message nor in the signal to the purchase.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_fails_makes_no_message_dead() {
    let (till, broker) = (Till::new().await, Broker::new());
    let purchases = till.sending(&till.stack.bench.client, &broker);
    purchases.start("alice", "k7", &request("7")).expect("a key").run().await.expect("an outcome");
    let body = broker.took()[0].to_json().expect("JSON");
    let wire = locker_tests::Wire::default();
    let packer = till::packer(till.sending(&till.stack.bench.engine.client_over(&wire), &broker));
    for operation in ["TransactWriteItems", "GetItem"] {
        wire.matching(move |it| it.operation == operation, locker_tests::Fate::Denied);
        assert_eq!(handle(&packer, &body).await, 1, "{operation}: it comes again");
        let dead = packer.workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
        assert!(dead.is_empty(), "{operation}: {dead:?}");
    }
    assert_eq!(handle(&packer, &body).await, 0);
    assert_eq!(till.packed("k7").await.as_deref(), Some("given"));
}

/// The packer stopped after it had packed and before it gave the event. The next delivery gives it,
/// but not to a purchase that does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_is_given_although_the_packer_stopped_after_packing() {
    let (till, broker) = (Till::new().await, Broker::new());
    let client = &till.stack.bench.client;
    let purchases = till.sending(client, &broker);
    purchases.start("alice", "k7", &request("7")).expect("a key").run().await.expect("an outcome");
    let body = broker.took()[0].to_json().expect("JSON");
    let message = locker::inbox::Incoming::parse(&body).expect("an event");
    let packed = till::packer(purchases);
    assert_eq!(packed.inbox.atomic(&message).commit().await.expect("taken"), locker::inbox::Taken::Now);
    assert_eq!(handle(&packed, &body).await, 0);
    assert_eq!(till.packed("k7").await.as_deref(), Some("given"));
    let mut early: Value = serde_json::from_str(&body).expect("JSON");
    early["subject"] = json!("@alice/purchase/none");
    early["id"] = json!("early");
    let early_message = locker::inbox::Incoming::parse(&early.to_string()).expect("an event");
    assert_eq!(packed.inbox.atomic(&early_message).commit().await.expect("taken"), locker::inbox::Taken::Now);
    assert_eq!(handle(&packed, &early.to_string()).await, 1, "it comes again");
    let dead = packed.workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    assert!(dead.is_empty(), "{dead:?}");
}

/// If less time is left than one message takes, no message is begun and the run fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_message_is_not_begun_without_enough_time() {
    let (till, broker) = (Till::new().await, Broker::new());
    let client = &till.stack.bench.client;
    let workflows = till.sending_behind(client, &broker, Duration::from_secs(60)).workflows;
    let packer = till::packer(till.sending(client, &broker));
    let tea = locker::inbox::Delivery::new("1", "tea");
    packer.inbox.consumer().dead_letter(&tea, locker::Class::InDoubt, "x").await.expect("it is kept");
    let dead = workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
    let dead = workflows.message(&dead[0].work).await.expect("read").expect("there");
    let ada = locker::Operator::new("ada", "x").expect("an operator");
    assert_eq!(workflows.redrive(&dead, &ada).await.expect("done"), locker::Intervened::Done);
    for (left, dead) in [(Duration::from_secs(10), None), (Duration::from_secs(60), Some(1))] {
        let mut context = lambda_runtime::Context::default();
        let now =
            u64::try_from(locker::Clock::now(&locker::SystemClock).timestamp_millis()).expect("after 1970");
        context.deadline = now + u64::try_from(left.as_millis()).expect("a number");
        let event = lambda_runtime::LambdaEvent::new(scheduled(), context);
        match packer::handle(&packer, event).await {
            Ok(report) => {
                let report = serde_json::to_value(report).expect("JSON");
                assert_eq!(report["dead"].as_u64(), dead, "{left:?}: {report}");
            }
            Err(error) => {
                assert!(dead.is_none() && error.to_string().contains("raise the timeout"), "{error}")
            }
        }
    }
}
