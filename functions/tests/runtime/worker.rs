//! The worker: SQS events in, partial batch responses out.

use std::time::Duration;

use locker::Intervened;
use locker_functions::sandbox::Mood;
use locker_tests::{Function, Reply, ada, held_by, record_of, sqs_message};
use serde_json::{Value, json};

use crate::stack::Stack;

const BINARY: &str = env!("CARGO_BIN_EXE_worker");

fn order(id: &str, order_id: &str, cents: u64) -> Value {
    let order = json!({ "orderId": order_id, "cents": cents, "currency": "EUR" });
    sqs_message(id, &json!({ "customer": "alice", "order": order }).to_string())
}

/// The ids of the messages to be redelivered.
async fn batch(function: &Function, id: &str, messages: Vec<Value>) -> Vec<String> {
    let Reply::Response(response) = function.invoke(id, json!({ "Records": messages })).await else {
        panic!("no response to {id}")
    };
    let failures = response["batchItemFailures"].as_array().expect("failures").iter();
    failures.map(|failure| failure["itemIdentifier"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_has_its_own_outcome() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    // Another caller has order 3 in progress.
    let twin =
        stack.locker().token(("order/create", 3)).tenant("alice").expect_within(Duration::from_secs(600));
    let twin = held_by(twin).await;
    let messages = vec![
        order("new", "1", 1000),
        order("replay", "1", 1000),
        order("other request", "1", 9999),
        sqs_message("poison", "tea"),
        order("twin at work", "3", 1000),
        order("another", "4", 1000),
    ];
    let back = batch(&function, "b1", messages).await;
    assert_eq!(back, ["other request", "poison", "twin at work"]);
    assert_eq!(stack.charges(), 2);

    // The other caller released it, so the redelivered message is done.
    twin.release().await.expect("released");
    assert_eq!(batch(&function, "b2", vec![order("twin at work", "3", 1000)]).await, Vec::<String>::new());
    assert_eq!(stack.charges(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_an_answer_and_a_busy_provider_is_not() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    stack.provider.set_mood(Mood::Declining);
    assert_eq!(batch(&function, "b1", vec![order("m1", "1", 1000)]).await, Vec::<String>::new());
    stack.provider.set_mood(Mood::Busy);
    assert_eq!(batch(&function, "b2", vec![order("m2", "2", 1000)]).await, ["m2"]);
    stack.provider.set_mood(Mood::Dropping);
    assert_eq!(batch(&function, "b3", vec![order("m3", "3", 1000)]).await, ["m3"]);
    stack.provider.set_mood(Mood::Well);
    // Redelivered: the declined one is answered, the busy one is done, the one in doubt stays in
    // doubt.
    let again = vec![order("m1", "1", 1000), order("m2", "2", 1000), order("m3", "3", 1000)];
    assert_eq!(batch(&function, "b4", again).await, ["m3"]);
    assert_eq!(stack.provider.entries().into_iter().map(|entry| entry.asked).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_kept_for_ever_so_that_its_number_is_never_charged_again() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    stack.provider.set_mood(Mood::Declining);
    assert_eq!(batch(&function, "b1", vec![order("declined", "1", 1000)]).await, Vec::<String>::new());
    stack.provider.set_mood(Mood::Well);
    assert_eq!(batch(&function, "b2", vec![order("charged", "2", 1000)]).await, Vec::<String>::new());
    for key in ["@alice/order/create/1", "@alice/order/create/2"] {
        let item = stack.bench.item(key).await.expect("a token");
        assert!(item.contains_key("actualCompletion") && !item.contains_key("ttl"), "{item:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_of_an_erased_order_leaves_its_queue() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    assert_eq!(batch(&function, "b1", vec![order("m1", "1", 1000)]).await, Vec::<String>::new());
    let locker = stack.locker();
    let record = record_of(&locker, "@alice/order/create/1").await;
    assert_eq!(locker.redact(&record, &ada()).await.expect("redacted"), Intervened::Done);
    assert_eq!(batch(&function, "b2", vec![order("m2", "1", 1000)]).await, Vec::<String>::new());
    assert_eq!(stack.charges(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_names_the_invocation_that_charged_for_it() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    assert_eq!(batch(&function, "b1", vec![order("m1", "1", 1000)]).await, Vec::<String>::new());
    let record = record_of(&stack.locker(), "@alice/order/create/1").await;
    assert_eq!(record.locked_by(), "worker/b1");
}
