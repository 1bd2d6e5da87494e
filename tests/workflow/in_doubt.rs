//! A step that was started and whose outcome is unknown: never run again by itself.

use std::time::Duration;

use locker::workflow::{Flow, Outcome, ProbeOutcome, RetryPolicy, Stop, Workflow};
use locker::{BoxError, Failure};
use locker_tests::Fate;

use crate::bench::{Books, Desk, LATER};
use crate::reported::{Order, Reply};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Knows {
    Nothing,
    Done,
    NotDone,
    Unknown,
    Broken,
    /// The provider recognises the key for a day.
    Key,
}

#[derive(Clone)]
struct Pay {
    books: Books,
    knows: Knows,
    /// The first calls, this many, end without a response.
    silent: usize,
}

impl Workflow for Pay {
    const NAME: &'static str = "pay";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let once = flow.once("pay").retry(RetryPolicy::never());
        let once = match self.knows {
            Knows::Nothing => once,
            Knows::Key => once.recognised_for(Duration::from_secs(24 * 3600)),
            knows => once.probe(move |attempt| async move {
                assert_eq!(attempt.idempotency_key(), "pay/1 pay");
                match knows {
                    Knows::Done => Ok(ProbeOutcome::done(&"found")?),
                    Knows::NotDone => Ok(ProbeOutcome::NotDone),
                    Knows::Unknown => Ok(ProbeOutcome::Unknown),
                    _ => Err(BoxError::from("the provider is down")),
                }
            }),
        };
        once.run(|attempt| async move {
            self.books.enter(attempt.idempotency_key());
            if self.books.entries().len() <= self.silent {
                return Err(Failure::in_doubt("no reply".to_owned()));
            }
            Ok("paid".to_owned())
        })
        .await
    }
}

async fn played(knows: Knows) -> (Desk, Pay, Outcome<String>) {
    let desk = Desk::new().await;
    let pay = Pay { books: Books::default(), knows, silent: 1 };
    let outcome = desk.machine().0.start(&pay, "pay/1", &()).run().await.unwrap();
    (desk, pay, outcome)
}

#[tokio::test]
async fn without_a_way_to_find_out_it_is_quarantined_at_once() {
    let (desk, pay, outcome) = played(Knows::Nothing).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "step pay is in doubt: it may or may not have happened: no reply");
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay"], "and never run again");
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn a_probe_that_found_it_gives_its_result() {
    let (_, pay, outcome) = played(Knows::Done).await;
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "found"), "{outcome:?}");
    assert_eq!(pay.books.entries().len(), 1);
}

#[tokio::test]
async fn a_probe_that_says_it_will_not_happen_lets_it_run_again_under_the_same_key() {
    let (desk, pay, outcome) = played(Knows::NotDone).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "one attempt was allowed: {outcome:?}");
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay", "pay/1 pay"]);
    assert_eq!(desk.view("pay/1").await.result(), Some("\"paid\""));
}

#[tokio::test]
async fn a_probe_that_does_not_know_or_fails_is_repeated_and_the_workflow_finally_quarantined() {
    for knows in [Knows::Unknown, Knows::Broken] {
        let (desk, pay, outcome) = played(knows).await;
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.settle(&pay).await;
        assert_eq!(pay.books.entries().len(), 1, "{knows:?}");
        let view = desk.view("pay/1").await;
        let reason = view.reason().unwrap();
        assert!(reason.starts_with("no progress in "), "{reason}");
        let last = "10 attempts: step pay is in doubt: it may or may not have happened";
        assert!(reason.ends_with(last), "{reason}");
    }
}

#[tokio::test]
async fn while_the_provider_recognises_the_key_it_is_sent_again() {
    let desk = Desk::new().await;
    let pay = Pay { books: Books::default(), knows: Knows::Key, silent: 2 };
    let outcome = desk.machine().0.start(&pay, "pay/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay"; 3]);
    assert_eq!(desk.view("pay/1").await.result(), Some("\"paid\""));
}

#[tokio::test]
async fn after_the_provider_no_longer_recognises_the_key_it_is_not() {
    let desk = Desk::new().await;
    let pay = Pay { books: Books::default(), knows: Knows::Key, silent: 1 };
    desk.machine().0.start(&pay, "pay/1", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER * 24);
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}

#[tokio::test]
async fn a_driver_that_was_suspended_as_it_took_over_sends_no_key_that_the_provider_has_forgotten() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order {
            key,
            recognised: Duration::from_secs(2 * 3600),
            ..Order::new(&[Reply::Silent, Reply::Paid])
        };
        let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.bench.clock.advance(Duration::from_secs(3600));
        let (workflows, wire) = desk.machine();
        // The refused start, the claim, the query, and then the start over that of the first
        // driver.
        let before = if key.is_some() { 4 } else { 3 };
        wire.next(std::iter::repeat_n(Fate::Ok, before).chain([Fate::HeldAfter]));
        let suspended = tokio::spawn({
            let code = code.clone();
            async move { workflows.start(&code, "o/1", &()).run().await.unwrap() }
        });
        while wire.held() == 0 && !suspended.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        desk.bench.clock.advance(Duration::from_secs(3600));
        wire.let_through();
        let outcome = suspended.await.unwrap();
        assert!(matches!(outcome, Outcome::Quarantined(_)), "{key:?}: {outcome:?}");
        let request = &wire.take()[before].request;
        // If the step has its own key, the takeover is a transaction.
        let put = if key.is_some() { &request["TransactItems"][0]["Put"] } else { request };
        assert_eq!(put["Item"]["state"]["S"], "started", "{key:?}");
        assert_eq!(code.books.count("charge"), 1, "{key:?}");
    }
}
