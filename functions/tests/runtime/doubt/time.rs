//! A charge begins only if the time that is left suffices for the provider's answer and for
//! recording it.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use chrono::{DateTime, TimeDelta, Utc};
use locker::lambda::deadline;
use locker::{Class, Clock as _, Error, RunError, SystemClock};
use locker_functions::orders::{Shop, router};
use locker_tests::{Fate, Reply, sqs_message};
use serde_json::json;
use tower::ServiceExt as _;

use crate::stack::{Stack, refused, said};
use crate::till::request;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");
/// Long enough that no machine is too slow for it.
const LONG: Duration = Duration::from_secs(60);

/// The time at which this much is left before the deadline has come.
async fn is_left(deadline: DateTime<Utc>, left: Duration) {
    while deadline - TimeDelta::from_std(left).expect("a duration") > SystemClock.now() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_too_late_begins_nothing_and_returns_to_the_queue() {
    let stack = Stack::new().await;
    // Less than the provider's half a second and the five seconds of an end.
    let function = stack.start(WORKER, Duration::from_secs(5), &[("PAYMENTS_TIMEOUT_MS", "500")]).await;
    let order = json!({ "customer": "alice", "order": request("1") });
    let records = json!({ "Records": [sqs_message("late", &order.to_string())] });
    let Reply::Response(response) = function.invoke("b1", records).await else { panic!("no response") };
    assert_eq!(response, json!({ "batchItemFailures": [{ "itemIdentifier": "late" }] }));
    let line = said(&function, "a message is not done and returns to the queue").await;
    assert_eq!(line["fields"]["reason"], "not enough time is left to begin it");
    assert_eq!((stack.charges(), stack.bench.items().await.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_is_not_sent_if_its_begin_took_the_time_and_the_token_is_released() {
    let stack = Stack::new().await;
    let (locker, wire) = stack.bench.machine_with(|settings| {
        settings.attempt_timeout = LONG;
        settings.give_up_after = LONG;
    });
    let shop = Shop::new(locker, stack.payments());
    let needed = shop.time_for_a_charge();
    assert!(needed > LONG, "the end of a token may take {LONG:?}");
    let deadline =
        SystemClock.now() + TimeDelta::from_std(needed).expect("a duration") + TimeDelta::seconds(1);
    wire.next([Fate::HeldBefore]);
    let order = request("1");
    let create = shop.create("alice", &order, None, Some(deadline));
    let late = async {
        is_left(deadline, needed).await;
        wire.let_through();
    };
    let (created, ()) = tokio::join!(create, late);
    let Err(RunError::Failed { class, error, .. }) = created else { panic!("{created:?}") };
    assert_eq!((class, stack.charges()), (Class::Transient, 0), "{error}");
    assert!(error.to_string().contains("not enough time is left"), "{error}");
    assert_eq!(stack.bench.items().await.len(), 0, "the token is released");

    let created = shop.create("alice", &order, None, None).await.expect("an order");
    assert_eq!((created.receipt.charge.as_str(), stack.charges()), ("ch_1", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_deadline_no_token_is_begun() {
    let stack = Stack::new().await;
    let (locker, wire) = stack.bench.machine();
    let deadline = SystemClock.now() - TimeDelta::minutes(1);
    let created =
        Shop::new(locker, stack.payments()).create("alice", &request("1"), None, Some(deadline)).await;
    assert!(matches!(created, Err(RunError::Locker(Error::Expired { .. }))), "{created:?}");
    assert_eq!((stack.charges(), wire.count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_charges_only_in_the_time_of_its_invocation_less_that_for_the_response() {
    let stack = Stack::new().await;
    let (locker, _) = stack.bench.machine();
    let shop = Shop::new(locker, stack.payments());
    let needed = TimeDelta::from_std(shop.time_for_a_charge()).expect("a duration");
    let api = router(shop, |_| Some("alice".to_owned()));
    // Enough for the charge, but not for the response behind it.
    for (left, status) in [(needed + TimeDelta::milliseconds(900), 503), (needed + TimeDelta::hours(1), 201)]
    {
        let mut context = lambda_http::Context::default();
        let deadline = SystemClock.now() + left;
        context.deadline = deadline.timestamp_millis().try_into().expect("after 1970");
        let order = serde_json::to_string(&request("1")).expect("JSON");
        let asked = Request::post("/orders").header("content-type", "application/json");
        let asked = asked.header("idempotency-key", "k1").extension(context);
        let asked = asked.body(Body::from(order)).expect("a request");
        let answered = api.clone().oneshot(asked).await.expect("a response");
        assert_eq!(answered.status().as_u16(), status, "{left} are left");
        assert_eq!(stack.charges(), usize::from(status == 201));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_has_no_time_if_less_than_the_reserve_is_left() {
    let stack = Stack::new().await;
    let shop = Shop::new(stack.locker(), stack.payments());
    let mut context = lambda_runtime::Context::default();
    let now = SystemClock.now().timestamp_millis();
    for left in [900, 2000] {
        context.deadline = u64::try_from(now + left).expect("after 1970");
        let deadline = deadline(&context, Duration::from_secs(1));
        assert!(!shop.has_time(deadline), "{left} ms are left, and the deadline is {deadline:?}");
    }
}

#[tokio::test]
async fn a_provider_that_may_answer_after_the_functions_end_is_refused_at_start() {
    for binary in [env!("CARGO_BIN_EXE_orders"), WORKER] {
        for (payments, function, is_refused) in
            [("10001", "", true), ("500", "20000", true), ("9999", "30000", false), ("20000", "60000", false)]
        {
            let environment = [
                ("LOCKER_TABLE", "locks"),
                ("PAYMENTS_URL", "http://127.0.0.1:9"),
                ("PAYMENTS_TIMEOUT_MS", payments),
                ("FUNCTION_TIMEOUT_MS", function),
            ];
            // Without a Runtime API a function that accepts its environment fails, too, for another
            // reason.
            let said = refused(binary, &environment).await;
            assert_eq!(said.contains("PAYMENTS_TIMEOUT_MS and FUNCTION_TIMEOUT_MS"), is_refused, "{said}");
        }
    }
}
