//! The client of the provider sends each charge once, and reads no proof into an answer that is
//! none.

use std::time::Duration;

use locker::Class;
use locker_functions::payments::{Charge, Payments, RefundRequest};

use super::wire::{Asked, Wire, answer};

const PATIENCE: Duration = Duration::from_secs(30);

fn charge() -> Charge {
    Charge { cents: 1000, currency: "EUR".to_owned() }
}

fn charged(asked: &Asked) -> String {
    answer("201 Created", "", &format!(r#"{{"charge":"for {}"}}"#, asked.key))
}

#[tokio::test]
async fn a_provider_that_closes_a_connection_it_kept_open_leaves_no_charge_in_doubt() {
    // A proxy that gave up an idle connection, as the client writes on it.
    let provider = Wire::new(|asked| (asked.before == 0).then(|| charged(asked))).await;
    let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
    for key in ["first", "second", "third"] {
        let receipt = payments.charge(&charge(), key.to_owned()).await;
        assert_eq!(receipt.expect("charged").charge, format!("for {key}"));
    }
    let asked: Vec<_> = provider.asked().into_iter().map(|asked| asked.key).collect();
    assert_eq!(asked, ["first", "second", "third"], "each was sent once");
}

#[tokio::test]
async fn a_redirected_charge_is_not_sent_a_second_time() {
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let provider = Wire::new(|asked| {
            let status = asked.key.replace('-', " ");
            Some(match asked.what.as_str() {
                "POST /charges" => answer(&status, "location: /elsewhere\r\n", ""),
                _ => charged(asked),
            })
        })
        .await;
        let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
        let failure = payments.charge(&charge(), status.replace(' ', "-")).await.expect_err("no receipt");
        assert_eq!(failure.class, Class::InDoubt, "{status}: {failure}");
        let asked: Vec<_> = provider.asked().into_iter().map(|asked| asked.what).collect();
        assert_eq!(asked, ["POST /charges"], "{status}");
    }
}

#[tokio::test]
async fn proxy_error_after_a_lost_provider_is_in_doubt() {
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        // The provider charged, and its proxy did not hear of it.
        let provider = Wire::new(|asked| {
            Some(answer(&asked.key.replace('-', " "), "retry-after: 1\r\n", "upstream reset"))
        })
        .await;
        let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
        let failure = payments.charge(&charge(), status.replace(' ', "-")).await.expect_err("no receipt");
        assert_eq!(failure.class, Class::InDoubt, "{status}: {failure}");
    }
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_is_in_doubt() {
    const BODIES: [&str; 4] = ["", "{\"charge\":", "{\"id\":7}", "charged"];
    let provider = Wire::new(|asked| {
        let number: usize = asked.key.parse().expect("a number");
        Some(answer("201 Created", "", BODIES[number]))
    })
    .await;
    let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
    for (number, body) in BODIES.into_iter().enumerate() {
        let failure = payments.charge(&charge(), number.to_string()).await.expect_err("no receipt");
        assert_eq!(failure.class, Class::InDoubt, "{body}: {failure}");
    }
}

#[tokio::test]
async fn every_request_carries_the_credential() {
    let provider = Wire::new(|asked| match asked.what.as_str() {
        "POST /refunds" => Some(answer("201 Created", "", r#"{"refund":"re_1"}"#)),
        _ => Some(charged(asked)),
    })
    .await;
    let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
    let payments = payments.with_credential("a-token").expect("a header");
    assert!(!format!("{payments:?}").contains("a-token"), "{payments:?}");
    payments.charge(&charge(), "7".to_owned()).await.expect("charged");
    let request = RefundRequest { charge_key: "7".to_owned() };
    payments.refund(&request, "7-refund".to_owned()).await.expect("refunded");
    payments.find("7").await.expect("an answer").expect("a receipt");
    let asked: Vec<_> =
        provider.asked().into_iter().map(|asked| (asked.what, asked.key, asked.authorization)).collect();
    let sent = |what: &str, key: &str| (what.to_owned(), key.to_owned(), "Bearer a-token".to_owned());
    assert_eq!(
        asked,
        [sent("POST /charges", "7"), sent("POST /refunds", "7-refund"), sent("GET /charges/7", "")]
    );
}

#[tokio::test]
async fn a_charge_that_the_provider_does_not_know_is_none_and_no_error() {
    let provider = Wire::new(|asked| match asked.what.as_str() {
        "GET /charges/7" => Some(answer("404 Not Found", "", "")),
        _ => Some(answer("500 Internal Server Error", "", "")),
    })
    .await;
    let payments = Payments::new(&provider.url, PATIENCE).expect("a client");
    assert_eq!(payments.find("7").await.expect("a clear answer"), None);
    payments.find("8").await.expect_err("it proves nothing");
}
