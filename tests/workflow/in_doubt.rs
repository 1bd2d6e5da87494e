//! A step that was started and of which nobody knows: never run again by itself.

use std::time::Duration;

use locker::workflow::{Flow, Found, Outcome, RetryPolicy, Stop, Workflow};
use locker::{BoxError, Failure};

use crate::bench::{Books, Desk, LATER};

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
    /// The first so many calls end without a word.
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
                    Knows::Done => Ok(Found::done(&"found")?),
                    Knows::NotDone => Ok(Found::NotDone),
                    Knows::Unknown => Ok(Found::Unknown),
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
    let outcome = desk.machine().0.workflow(&pay, "pay/1", &()).run().await.unwrap();
    (desk, pay, outcome)
}

#[tokio::test]
async fn without_a_way_to_find_out_it_is_parked_at_once() {
    let (desk, pay, outcome) = played(Knows::Nothing).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "nobody knows whether step pay happened");
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
    assert!(matches!(outcome, Outcome::InProgress(_)), "one try was allowed: {outcome:?}");
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay", "pay/1 pay"]);
    assert_eq!(desk.view("pay/1").await.result(), Some("\"paid\""));
}

#[tokio::test]
async fn a_probe_that_does_not_know_or_fails_is_asked_again_and_parked_in_the_end() {
    for knows in [Knows::Unknown, Knows::Broken] {
        let (desk, pay, outcome) = played(knows).await;
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.settle(&pay).await;
        assert_eq!(pay.books.entries().len(), 1, "{knows:?}");
        let view = desk.view("pay/1").await;
        assert_eq!(view.reason(), Some("10 attempts are used up: nobody knows whether step pay happened"));
    }
}

#[tokio::test]
async fn while_the_provider_recognises_the_key_it_is_sent_again() {
    let desk = Desk::new().await;
    let pay = Pay { books: Books::default(), knows: Knows::Key, silent: 2 };
    let outcome = desk.machine().0.workflow(&pay, "pay/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay"; 3]);
    assert_eq!(desk.view("pay/1").await.result(), Some("\"paid\""));
}

#[tokio::test]
async fn after_the_provider_has_forgotten_the_key_it_is_not() {
    let desk = Desk::new().await;
    let pay = Pay { books: Books::default(), knows: Knows::Key, silent: 1 };
    desk.machine().0.workflow(&pay, "pay/1", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER * 24);
    desk.settle(&pay).await;
    assert_eq!(pay.books.entries(), ["pay/1 pay"]);
    assert_eq!(desk.quarantine().await, ["pay/1"]);
}
