//! The client of the provider sends each charge once, and reads no proof into an answer that is none.

use std::time::Duration;

use locker::Class;
use locker_functions::payments::{Charge, Payments};

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
async fn what_a_proxy_answers_after_it_lost_the_provider_is_in_doubt() {
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
