//! Purchases through the API, and through the completer where the API did not finish them.

use std::time::Duration;

use locker::Intervened;
use locker::workflow::{List, Outcome, State, StepState};
use locker_functions::payments::Payments;
use locker_functions::sandbox::{Mood, Sandbox};
use locker_tests::{Function, Reply};
use serde_json::{Value, json};

use crate::orders::{event, send};
use crate::stack::{measured, said};
use crate::till::{Till, order, request, workflow};

const API: &str = env!("CARGO_BIN_EXE_orders");
const COMPLETER: &str = env!("CARGO_BIN_EXE_completer");

/// Status, body and whether it is a replay.
async fn buy(function: &Function, id: &str, key: &str, order: &str) -> (u64, Value, bool) {
    send(function, id, event("POST", "/purchases", Some("alice"), Some(key), order)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_is_answered_once_and_replayed() {
    let till = Till::new().await;
    let api = till.function(API, &[]).await;
    let done = json!({ "orderId": "7", "charge": "ch_1" });
    assert_eq!(buy(&api, "p1", "k1", &order("7", 1000)).await, (201, done.clone(), false));
    assert_eq!(buy(&api, "p2", "k1", &order("7", 1000)).await, (200, done, true));
    let (status, body, _) = buy(&api, "p3", "k1", &order("7", 2000)).await;
    assert_eq!((status, &body["type"]), (422, &json!("urn:locker:problem:key-reused")));
    let (status, body, _) = buy(&api, "p4", "k2", &order("7", 1000)).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:locker:purchases:order-exists")));
    assert_eq!(till.row("7").await, Some(("paid".to_owned(), Some("ch_1".to_owned()))));
    let charged = till.stack.provider.entries();
    assert_eq!(
        (charged.len(), charged[0].asked, charged[0].key.as_str()),
        (1, 1, "@alice/purchase/k1 charge")
    );
    let view = till.view("k1").await;
    assert_eq!(view.state(), State::Completed);
    assert_eq!(view.messages().len(), 0, "there are no packers to be told");
    // The same key and number of another customer are different ones.
    let bob = event("POST", "/purchases", Some("bob"), Some("k1"), &order("7", 1000));
    let Reply::Response(bob) = api.invoke("p5", bob).await else { panic!("no response") };
    assert_eq!((bob["statusCode"].as_u64(), till.stack.charges()), (Some(201), 2));
    // Purchases do not affect plain orders.
    let plain = event("POST", "/orders", Some("alice"), Some("k1"), &order("7", 1000));
    let Reply::Response(plain) = api.invoke("p6", plain).await else { panic!("no response") };
    assert_eq!(plain["statusCode"], 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_card_compensates_the_order_and_stays_declined() {
    let till = Till::new().await;
    let api = till.function(API, &[]).await;
    till.stack.provider.set_mood(Mood::Declining);
    let (status, body, replayed) = buy(&api, "d1", "k1", &order("8", 1000)).await;
    assert_eq!((status, &body["type"], replayed), (402, &json!("urn:locker:purchases:declined"), false));
    till.stack.provider.set_mood(Mood::Well);
    let (status, _, replayed) = buy(&api, "d2", "k1", &order("8", 1000)).await;
    assert_eq!((status, replayed), (402, true), "the answer is the answer");
    assert_eq!((till.row("8").await, till.stack.charges()), (None, 0));
    assert_eq!(buy(&api, "d3", "k2", &order("8", 1000)).await.0, 201, "a new key is a new purchase");
    assert_eq!(till.stack.charges(), 1);
}

/// The customer ordered again under the same number before a delayed request arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_withdrawal_does_not_delete_the_row_of_another_purchase() {
    let till = Till::new().await;
    let wire = locker_tests::Wire::default();
    wire.matching(|it| it.operation == "DeleteItem", locker_tests::Fate::Late);
    till.stack.provider.set_mood(Mood::Declining);
    let client = till.stack.bench.engine.client_over(&wire);
    let purchases = till.purchases(&client, Duration::ZERO);
    let first =
        purchases.start("alice", "k1", &request("7")).expect("a key").run().await.expect("an outcome");
    assert!(matches!(first, Outcome::Failed(_)), "the client sent it again: {first:?}");
    assert_eq!(till.row("7").await, None);
    till.stack.provider.set_mood(Mood::Well);
    let api = till.function(API, &[]).await;
    assert_eq!(buy(&api, "w2", "k2", &order("7", 1000)).await.0, 201);
    assert_eq!(wire.deliver_late().await, 1);
    assert_eq!(till.row("7").await.expect("a row").0, "paid");
}

/// A charge takes up to 20 seconds, and the function has 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchase_charges_nothing_without_enough_time() {
    let till = Till::new().await;
    let api = till.function_within(Duration::from_secs(10), API, &[]).await;
    assert_eq!(buy(&api, "s1", "k1", &order("7", 1000)).await.0, 202);
    assert_eq!(till.stack.charges(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchases_that_are_not_allowed_are_refused_and_charge_nothing() {
    let till = Till::new().await;
    let api = till.function(API, &[]).await;
    let long = "k".repeat(256);
    for (name, user, key, body, status) in [
        ("no key", Some("alice"), None, order("1", 1), 400),
        ("a long key", Some("alice"), Some(long.as_str()), order("1", 1), 400),
        ("two keys", Some("alice"), Some("k1, k2"), order("1", 1), 400),
        ("no caller", None, Some("k1"), order("1", 1), 401),
        ("no order", Some("alice"), Some("k2"), "{}".to_owned(), 422),
        ("no JSON", Some("alice"), Some("k3"), "tea".to_owned(), 400),
        ("an odd number", Some("alice"), Some("k4"), order("caf\u{e9}", 1), 400),
        ("no number", Some("alice"), Some("k5"), order("", 1), 400),
    ] {
        let event = event("POST", "/purchases", user, key, &body);
        let Reply::Response(response) = api.invoke(&name.replace(' ', "-"), event).await else {
            panic!("no response to {name}")
        };
        assert_eq!(response["statusCode"], status, "{name}: {response}");
    }
    let listed = till.workflows().list(List::Unfinished).fetch().await.expect("a listing");
    assert_eq!((listed.items.len(), till.stack.charges()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_whose_process_is_killed_while_it_charges_is_completed_with_one_charge() {
    let till = Till::new().await;
    let mut api = till.function(API, &[]).await;
    till.stack.provider.set_mood(Mood::Slow);
    let killed = {
        let event = event("POST", "/purchases", Some("alice"), Some("k1"), &order("9", 1000));
        let charged = async {
            while till.stack.charges() < 1 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            reply = api.invoke("killed", event) => Some(reply),
            () = charged => None,
        }
    };
    assert_eq!(killed, None, "it was charging");
    api.kill().await;
    till.stack.provider.set_mood(Mood::Well);
    assert_eq!(till.row("9").await, Some(("placed".to_owned(), None)), "half of it is done");
    let second = till.function(API, &[]).await;
    let (status, body, _) = buy(&second, "soon", "k1", &order("9", 1000)).await;
    assert_eq!((status, &body["status"]), (202, &json!("inProgress")));

    let (report, completer) = till.completed(&[]).await;
    assert_eq!((&report["claimed"], &report["completed"]), (&json!(1), &json!(1)), "{report}");
    measured(&completer, "completerFinished", json!(1.0)).await;
    measured(&completer, "unfinishedWorkflows", json!(0.0)).await;
    let charged = till.stack.provider.entries();
    assert_eq!((charged.len(), charged[0].asked), (1, 2), "sent again under the same key");
    assert_eq!(till.row("9").await, Some(("paid".to_owned(), Some("ch_1".to_owned()))));
    let late = buy(&second, "late", "k1", &order("9", 1000)).await;
    assert_eq!(late, (200, json!({ "orderId": "9", "charge": "ch_1" }), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_in_doubt_is_sent_again_under_its_key_or_quarantined() {
    let till = Till::new().await;
    // A charge that is not answered takes this long.
    let api = till.function(API, &[("PAYMENTS_TIMEOUT_MS", "2000")]).await;
    let moods = [Mood::Dropping, Mood::Failing, Mood::Slow];
    for mood in moods {
        till.stack.provider.set_mood(mood);
        let id = format!("{mood:?}");
        assert_eq!(buy(&api, &id, &id, &order(&id, 1000)).await.0, 202, "{mood:?}");
    }
    till.stack.provider.set_mood(Mood::Well);
    for mood in moods {
        let id = format!("{mood:?}");
        for _ in moods {
            if till.view(&id).await.state() != State::Completed {
                till.completed(&[]).await;
            }
        }
        assert_eq!(till.view(&id).await.state(), State::Completed, "{mood:?}");
    }
    let asked: Vec<_> = till.stack.provider.entries().into_iter().map(|entry| entry.asked).collect();
    assert!(asked.len() == 3 && asked.iter().all(|asked| *asked > 1), "{asked:?}");

    // The provider does not answer: the second run is the last one.
    till.stack.provider.set_mood(Mood::Mute);
    assert_eq!(buy(&api, "mute", "mute", &order("mute", 1000)).await.0, 202);
    let (report, completer) = till.completed(&[("LOCKER_ATTEMPTS", "2"), ("LOCKER_RETRY_HOURS", "0")]).await;
    assert_eq!((&report["quarantined"], &report["completed"]), (&json!(1), &json!(0)), "{report}");
    measured(&completer, "workflowsInQuarantine", json!(1.0)).await;
    measured(&completer, "workflowsQuarantined", json!(1)).await;
    let line = said(&completer, "a workflow is in quarantine").await;
    assert_eq!(line["fields"]["workflow.key"], "@alice/purchase/mute");
    let (status, body, _) = buy(&api, "quarantined", "mute", &order("mute", 1000)).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:locker:purchases:quarantine")));
    let view = till.view("mute").await;
    let charge = view.steps().iter().find(|step| step.name() == "charge").expect("the step");
    assert_eq!(charge.state(), StepState::Started, "the evidence stays");
    for line in completer.logged() {
        assert!(
            line.get("_aws").is_none() || !line.to_string().contains("alice"),
            "no key in a metric: {line}"
        );
    }
    assert_eq!(till.stack.charges(), 4, "each purchase was charged once");
}

/// The provider recognises a key for a day. A lookup that finds nothing after that proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charge_in_doubt_is_not_sent_to_a_provider_that_has_forgotten_its_key() {
    const HOUR: Duration = Duration::from_secs(3600);
    let till = Till::new().await;
    till.stack.provider.set_mood(Mood::Mute);
    let start = async |key: &str, ago: Duration, provider: Payments| {
        let mut purchases = till.purchases(&till.stack.bench.client, ago);
        purchases.code.payments = provider;
        purchases.start("alice", key, &request(key)).expect("a key").run().await.expect("an outcome")
    };
    for (key, later, sent) in [("late", HOUR * 25, 0), ("soon", HOUR * 23, 1)] {
        let begun = start(key, HOUR * 25, till.stack.payments()).await;
        assert!(matches!(begun, Outcome::InProgress(_)), "{key}: {begun:?}");
        let (forgetful, provider) = forgetful().await;
        let again = start(key, HOUR * 25 - later, provider).await;
        assert_eq!(matches!(again, Outcome::Completed(_)), sent == 1, "{key}: {again:?}");
        assert_eq!(forgetful.entries().len(), sent, "{key}");
    }
}

/// A provider that has forgotten everything.
async fn forgetful() -> (Sandbox, Payments) {
    let sandbox = Sandbox::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let router = sandbox.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (sandbox, Payments::new(&address, Duration::from_secs(20)).expect("a client"))
}

/// Otherwise the customer would be told that the money is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refund_of_a_charge_that_the_provider_has_forgotten_waits_for_an_operator() {
    let till = Till::new().await;
    let broker = lock_token_testing::Broker::new();
    let purchases = till.sending_behind(&till.stack.bench.client, &broker, Duration::from_secs(600));
    let start = purchases.start("alice", "k1", &request("9")).expect("a key");
    assert!(
        matches!(start.run().await.expect("an outcome"), Outcome::InProgress(_)),
        "it waits to be packed"
    );
    let operator = locker::Operator::new("ada", "the customer called").expect("an operator");
    let cancelled = purchases.workflows.cancel(workflow("k1"), 1, &operator).await;
    assert_eq!(cancelled.expect("an answer"), Intervened::Done);
    let mut purchases = till.sending(&till.stack.bench.client, &broker);
    purchases.code.payments = forgetful().await.1;
    let completer = locker_functions::workflows::completer(&purchases.workflows, purchases.code);
    completer.run().await.expect("a run");
    let view = till.view("k1").await;
    assert_eq!(
        (view.listed(), view.state()),
        (Some(List::Quarantine), State::Compensating),
        "{:?}",
        view.reason()
    );
    assert_eq!(till.stack.provider.kept().len(), 1, "the money is not back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_purchase_is_refunded_and_refuses_a_late_charge() {
    let till = Till::new().await;
    let mut purchases = till.purchases(&till.stack.bench.client, Duration::from_secs(3600));
    till.stack.provider.set_mood(Mood::Mute);
    for key in ["charged", "lost"] {
        let start = purchases.start("alice", key, &request(key)).expect("a key");
        assert!(matches!(start.run().await.expect("an outcome"), Outcome::InProgress(_)));
        // The charge of the second one does not reach the provider.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let unresponsive = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        purchases.code.payments = Payments::new(unresponsive, Duration::from_millis(500)).expect("a client");
    }
    assert_eq!(till.stack.charges(), 1);
    let operator = locker::Operator::new("ada", "the customer called").expect("an operator");
    for key in ["charged", "lost"] {
        assert_eq!(
            till.workflows().cancel(workflow(key), 1, &operator).await.expect("cancelled"),
            Intervened::Done
        );
    }
    till.stack.provider.set_mood(Mood::Well);
    let function = till.function(COMPLETER, &[]).await;
    let mut compensated = 0;
    for number in 0..300 {
        let Reply::Response(report) = function.invoke(&format!("c{number}"), json!({})).await else {
            panic!("no report")
        };
        compensated += report["compensated"].as_u64().expect("a number");
        if compensated == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(compensated, 2, "{:?}", function.logged());
    assert_eq!((till.stack.charges(), till.stack.provider.kept().len()), (1, 0), "the money is back");
    assert_eq!((till.row("charged").await, till.row("lost").await), (None, None));
    for key in ["charged", "lost"] {
        assert_eq!(till.view(key).await.state(), State::Cancelled);
    }
    // The late charge.
    let charge = request("lost").charge;
    let again = till.stack.payments().charge(&charge, "@alice/purchase/lost charge".to_owned()).await;
    let error = again.expect_err("refused");
    assert_eq!(error.class, locker::Class::Permanent, "{error}");
}
