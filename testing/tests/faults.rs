//! What each fate does to a request or a call, where it strikes, and what a provider keeps of it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use lock_token_testing::{CallFate, Calls, Embedded, Fate, Provider, TestClock, Wire};
use locker::{Class, Classify as _, Clock as _};

/// A table with a wire to it, and a client that tries once.
async fn table() -> (Embedded, Wire, Client) {
    let (engine, wire) = (Embedded::memory().unwrap(), Wire::default());
    for table in ["locks", "others"] {
        locker::create_table(&engine.client(), table).await.unwrap();
    }
    let client = engine.client_over(&wire);
    let once = client.config().to_builder().retry_config(RetryConfig::disabled());
    (engine, wire, Client::from_conf(once.build()))
}

/// The code of the error, or the reason that there is none.
async fn put(client: &Client, table: &str, key: &str) -> Result<(), String> {
    let key = AttributeValue::S(key.to_owned());
    let put = client.put_item().table_name(table).item("lockToken", key).send().await;
    put.map(drop).map_err(|error| error.code().unwrap_or("no reply").to_owned())
}

async fn is_there(engine: &Embedded, key: &str) -> bool {
    let key = AttributeValue::S(key.to_owned());
    let got = engine.client().get_item().table_name("locks").key("lockToken", key).send().await;
    got.unwrap().item.is_some()
}

#[tokio::test]
async fn each_fate_applies_and_says_what_its_name_promises() {
    const BUSY: &str = "ProvisionedThroughputExceededException";
    let told = [
        (Fate::Ok, true, Ok(())),
        (Fate::Lost, false, Err("no reply")),
        (Fate::ReplyLost, true, Err("no reply")),
        (Fate::Late, false, Err("no reply")),
        (Fate::Throttled, false, Err(BUSY)),
        (Fate::Conflict, false, Err("TransactionConflictException")),
        (Fate::ErrorBefore, false, Err("InternalServerError")),
        (Fate::ErrorAfter, true, Err("InternalServerError")),
        (Fate::UnavailableBefore, false, Err("ServiceUnavailable")),
        (Fate::UnavailableAfter, true, Err("ServiceUnavailable")),
        (Fate::Denied, false, Err("AccessDeniedException")),
        (Fate::Garbled, true, Err("no reply")),
    ];
    let (engine, wire, client) = table().await;
    for (fate, applied, said) in told {
        let key = format!("{fate:?}");
        wire.next([fate]);
        let heard = put(&client, "locks", &key).await;
        assert_eq!(heard, said.map_err(str::to_owned), "{fate:?}");
        assert_eq!(is_there(&engine, &key).await, applied, "{fate:?}");
        assert_eq!(fate.applies(), applied, "{fate:?}");
    }
    wire.next([Fate::Conflict]);
    let key = AttributeValue::S("cancelled".to_owned());
    let action = || {
        let put = Put::builder().table_name("locks").item("lockToken", key.clone()).build().unwrap();
        TransactWriteItem::builder().put(put).build()
    };
    let transaction = client.transact_write_items().transact_items(action()).transact_items(action());
    let cancelled = transaction.send().await.unwrap_err().into_service_error();
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = cancelled else {
        panic!("{cancelled:?}")
    };
    let reasons: Vec<_> =
        cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap()).collect();
    assert_eq!(reasons, ["TransactionConflict", "None"]);
    assert_eq!(wire.deliver_late().await, 1);
    assert!(is_there(&engine, "Late").await);
    assert_eq!(wire.deliver_late().await, 0, "it is delivered once");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_or_dies_has_no_reply() {
    let (engine, wire, client) = table().await;
    let fates =
        [(Fate::Stalls, false), (Fate::Hangs, true), (Fate::DiesBefore, false), (Fate::DiesAfter, true)];
    for (fate, applied) in fates {
        let key = format!("{fate:?}");
        wire.next([fate]);
        let asks = client.clone();
        let asked = tokio::spawn({
            let key = key.clone();
            async move { put(&asks, "locks", &key).await }
        });
        while wire.take().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!asked.is_finished(), "{fate:?}");
        asked.abort();
        assert_eq!(is_there(&engine, &key).await, applied, "{fate:?}");
    }
}

#[tokio::test]
async fn held_request_waits_until_it_is_let_through() {
    let (engine, wire, client) = table().await;
    for (fate, applied) in [(Fate::HeldBefore, false), (Fate::HeldAfter, true)] {
        let (key, held) = (format!("{fate:?}"), wire.held());
        wire.next([fate]);
        let asks = client.clone();
        let asked = tokio::spawn({
            let key = key.clone();
            async move { put(&asks, "locks", &key).await }
        });
        while wire.held() == held {
            tokio::task::yield_now().await;
        }
        assert_eq!(is_there(&engine, &key).await, applied, "{fate:?}");
        wire.let_through();
        assert_eq!(asked.await.unwrap(), Ok(()));
        assert!(is_there(&engine, &key).await);
    }
}

#[tokio::test]
async fn a_fault_strikes_by_number_or_where_it_matches_and_then_no_more() {
    let (_engine, wire, client) = table().await;
    wire.nth(2, Fate::Throttled);
    wire.matching(|exchange| exchange.touches("others"), Fate::Denied);
    let mut went_well = Vec::new();
    for table in ["locks", "locks", "others", "others", "locks"] {
        went_well.push(put(&client, table, "7").await.is_ok());
    }
    assert_eq!(went_well, [true, false, false, true, true]);
    assert_eq!(wire.take().iter().map(|exchange| exchange.status).filter(Option::is_some).count(), 3);
    wire.always(Fate::ErrorBefore);
    for _ in 0..3 {
        assert!(put(&client, "locks", "8").await.is_err());
    }
    wire.next([]);
    assert_eq!(put(&client, "locks", "8").await, Ok(()));
}

#[tokio::test]
async fn a_transaction_and_a_batch_touch_their_tables() {
    let (_engine, wire, client) = table().await;
    let key = |key: &str| AttributeValue::S(key.to_owned());
    let check =
        aws_sdk_dynamodb::types::ConditionCheck::builder().table_name("others").key("lockToken", key("7"));
    let check = check.condition_expression("attribute_not_exists(lockToken)").build().unwrap();
    let action = aws_sdk_dynamodb::types::TransactWriteItem::builder().condition_check(check).build();
    client.transact_write_items().transact_items(action).send().await.unwrap();
    let keys = aws_sdk_dynamodb::types::KeysAndAttributes::builder()
        .keys([("lockToken".to_owned(), key("7"))].into())
        .build();
    client.batch_get_item().request_items("others", keys.unwrap()).send().await.unwrap();
    let exchanges = wire.take();
    assert_eq!(exchanges.len(), 2);
    for exchange in exchanges {
        assert!(exchange.touches("others"), "{exchange:?}");
        assert!(!exchange.touches("locks"), "{exchange:?}");
    }
}

#[tokio::test]
async fn each_fate_of_a_call_happens_and_says_what_its_name_promises() {
    let told = [
        (CallFate::Ok, true, None),
        (CallFate::Refused, false, Some(Class::Transient)),
        (CallFate::Busy, false, Some(Class::Transient)),
        (CallFate::Declined, false, Some(Class::Permanent)),
        (CallFate::Lost, false, Some(Class::InDoubt)),
        (CallFate::ReplyLost, true, Some(Class::InDoubt)),
        (CallFate::Late, false, Some(Class::InDoubt)),
    ];
    let (calls, happened) = (Calls::default(), Arc::new(AtomicUsize::new(0)));
    let call = async |what: &str| {
        let happened = Arc::clone(&happened);
        calls.call(what, move || happened.fetch_add(1, Ordering::SeqCst)).await
    };
    for (fate, happens, class) in told {
        let before = happened.load(Ordering::SeqCst);
        calls.next([fate]);
        let heard = call("mail").await;
        assert_eq!(heard.err().map(|failure| failure.class), class, "{fate:?}");
        assert_eq!(happened.load(Ordering::SeqCst) - before, usize::from(happens), "{fate:?}");
    }
    assert_eq!((calls.deliver_late(), calls.deliver_late()), (1, 0));
    assert_eq!(happened.load(Ordering::SeqCst), 3);
    calls.nth(2, CallFate::Declined);
    calls.matching(|what| what.starts_with("fax"), CallFate::Refused);
    let mut classes = Vec::new();
    for what in ["mail", "mail", "fax", "fax"] {
        classes.push(call(what).await.err().map(|failure| failure.class));
    }
    assert_eq!(classes, [None, Some(Class::Permanent), Some(Class::Transient), None]);
}

#[tokio::test]
async fn a_provider_recognises_a_key_for_its_time_and_keeps_books() {
    let clock = TestClock::new();
    let calls = Calls::default();
    let hour = Duration::from_secs(3600);
    let bank = Provider::new().recognises_for(hour).with_clock(Arc::new(clock.clone())).over(&calls);
    let first = bank.apply("order/7", "charge").await.unwrap();
    assert_eq!(bank.apply("order/7", "charge").await.unwrap(), first);
    assert_eq!(bank.find("order/7").await.unwrap(), Some(first.clone()));
    assert_eq!(bank.find("order/8").await.unwrap(), None);
    clock.advance(hour);
    assert_ne!(bank.apply("order/7", "charge").await.unwrap(), first);
    assert_eq!(bank.count("charge"), 2);
    calls.next([CallFate::Late]);
    assert!(bank.apply("order/8", "charge").await.is_err());
    assert_eq!(bank.count("charge"), 2);
    calls.deliver_late();
    let keys: Vec<_> = bank.books().into_iter().map(|entry| (entry.key, entry.at)).collect();
    let (then, now) = (clock.behind(hour).now(), clock.now());
    assert_eq!(keys, [("order/7".into(), then), ("order/7".into(), now), ("order/8".into(), now)]);
}

#[tokio::test]
async fn a_provider_does_nothing_under_a_key_that_it_refuses_and_says_what_it_did_before() {
    let calls = Calls::default();
    let bank = Provider::new().over(&calls);
    calls.next([CallFate::Late]);
    assert_eq!(bank.apply("late", "charge").await.unwrap_err().class(), locker::Class::InDoubt);
    assert_eq!(bank.refuse("late").await.unwrap(), None, "it has not arrived");
    calls.deliver_late();
    assert_eq!(bank.apply("late", "charge").await.unwrap_err().class(), locker::Class::Permanent);
    assert_eq!(bank.count("charge"), 0);
    let receipt = bank.apply("done", "charge").await.unwrap();
    assert_eq!(bank.refuse("done").await.unwrap(), Some(receipt.clone()));
    assert_eq!(bank.apply("done", "charge").await.unwrap(), receipt, "what was done is done");
}
