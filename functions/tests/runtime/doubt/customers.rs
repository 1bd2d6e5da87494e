//! What a customer gets when an order came to nothing: no sentence about the payment that is not
//! known.

use std::time::Duration;

use locker::{Intervened, Operator};
use locker_functions::sandbox::Mood;
use locker_tests::Function;
use serde_json::{Value, json};

use crate::orders::{event, send};
use crate::stack::Stack;
use crate::till::order;

const BINARY: &str = env!("CARGO_BIN_EXE_orders");

async fn post(function: &Function, id: &str, key: &str) -> (u64, Value) {
    let (status, said, _) =
        send(function, id, event("POST", "/orders", Some("alice"), Some(key), &order("7", 1000))).await;
    (status, said)
}

/// The card was charged, the reply was lost, and an operator released the order under the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_provider_is_no_proof_that_nothing_was_charged() {
    let stack = Stack::new().await;
    let function = stack.function(BINARY).await;
    stack.provider.set_mood(Mood::Dropping);
    assert_eq!(post(&function, "r1", "k1").await.0, 504);
    assert_eq!(stack.charges(), 1);
    let locker = stack.locker();
    let record = locker.get("@alice/order/create/7").await.expect("an answer").expect("a record");
    let ada = Operator::new("ada", "the provider is down; try again").expect("an operator");
    assert_eq!(locker.release(&record, &ada).await.expect("an answer"), Intervened::Done);
    stack.provider.set_mood(Mood::Busy);
    let (status, said) = post(&function, "r2", "k1").await;
    assert_eq!((status, &said["type"]), (503, &json!("urn:locker:orders:not-now")));
    assert!(!said.to_string().contains("nothing was charged"), "{said}");
    stack.provider.set_mood(Mood::Well);
    assert_eq!(post(&function, "r3", "k1").await.0, 201, "a retry goes on at once");
    assert_eq!(stack.charges(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_time_for_a_charge_nothing_is_said_of_the_provider() {
    let stack = Stack::new().await;
    // Less than the provider's ten seconds and the five of an end.
    let function = stack.start(BINARY, Duration::from_secs(12), &[("PAYMENTS_TIMEOUT_MS", "10000")]).await;
    let (status, said) = post(&function, "r1", "k1").await;
    assert_eq!((status, stack.charges()), (503, 0));
    assert!(!said.to_string().contains("provider"), "{said}");
}
