//! The workflow as a request's idempotency record: fingerprint, replay, key versions, input,
//! tombstones.

use std::collections::HashMap;

use locker::workflow::{Flow, Outcome, Stop, Workflow, Workflows};
use locker::{Error, Failure};

use crate::bench::{Books, Desk};

#[derive(Clone)]
struct Ship {
    books: Books,
    valid: bool,
}

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = HashMap<String, String>;
    type Output = String;

    async fn run(&self, flow: &Flow, input: HashMap<String, String>) -> Result<String, Stop> {
        flow.once("label")
            .run(|attempt| {
                let valid = self.valid;
                let to = input.get("to").cloned().unwrap_or_default();
                async move {
                    self.books.enter(attempt.idempotency_key());
                    if valid {
                        Ok(format!("to {to}"))
                    } else {
                        Err(Failure::permanent("no such address".to_owned()))
                    }
                }
            })
            .await
    }
}

fn request(to: &str) -> HashMap<String, String> {
    (0..20).map(|n| (format!("k{n}"), "v".to_owned())).chain([("to".to_owned(), to.to_owned())]).collect()
}

async fn run(workflows: &Workflows, ship: &Ship, to: &str, version: u32) -> Outcome<String> {
    workflows.start(ship, ("ship", 7), &request(to)).key_version(version).run().await.unwrap()
}

#[tokio::test]
async fn recovery_points_and_the_answer_share_the_key_of_the_request() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let ship = Ship { books: Books::default(), valid: true };
    let first = run(&workflows, &ship, "Ada", 1).await;
    assert!(
        matches!(&first, Outcome::Completed(answer) if **answer == "to Ada" && !answer.is_replay()),
        "{first:?}"
    );
    // A map is serialized in another order each time; the request is the same.
    for _ in 0..5 {
        let again = run(&workflows, &ship, "Ada", 1).await;
        assert!(
            matches!(&again, Outcome::Completed(answer) if **answer == "to Ada" && answer.is_replay()),
            "{again:?}"
        );
    }
    let other = run(&workflows, &ship, "Bob", 1).await;
    assert!(matches!(other, Outcome::Mismatch), "{other:?}");
    assert_eq!(ship.books.entries(), ["ship/7 label"]);
}

#[tokio::test]
async fn a_failure_is_the_answer_until_the_next_version_of_the_key() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let ship = Ship { books: Books::default(), valid: false };
    for replay in [false, true] {
        let outcome = run(&workflows, &ship, "Nowhere", 1).await;
        let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failed.is_replay(), replay);
        assert_eq!(failed.failure().step(), Some("label"));
        assert_eq!(failed.failure().error::<Failure>().unwrap().error, "no such address");
    }
    let mended = Ship { valid: true, ..ship.clone() };
    let outcome = run(&workflows, &mended, "Nowhere", 2).await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(ship.books.entries(), ["ship/7 label", "ship/7 label ~v2.1"], "the provider got another key");
}

#[tokio::test]
async fn another_workflow_under_the_same_key_is_a_mismatch() {
    struct Other;
    impl Workflow for Other {
        const NAME: &'static str = "other";
        type Input = HashMap<String, String>;
        type Output = String;
        async fn run(&self, _: &Flow, _: HashMap<String, String>) -> Result<String, Stop> {
            panic!("it does not run")
        }
    }
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    run(&workflows, &Ship { books: Books::default(), valid: true }, "Ada", 1).await;
    let outcome = workflows.start(&Other, ("ship", 7), &request("Ada")).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Mismatch), "{outcome:?}");
}

#[tokio::test]
async fn a_large_input_and_a_large_answer_come_back_bit_for_bit() {
    #[derive(Clone)]
    struct Echo;
    impl Workflow for Echo {
        const NAME: &'static str = "echo";
        type Input = String;
        type Output = String;
        async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
            let text = flow
                .step("echo")
                .run(|_| {
                    let text = input.clone();
                    async { Ok(text) }
                })
                .await?;
            Ok(text)
        }
    }
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for bytes in [0, 1, 399, 401, 2000, 200_000] {
        let text: String = (0..bytes).map(|_| fastrand::alphanumeric()).collect();
        let key = format!("echo/{bytes}");
        // Driven by a completer, so the input comes from the table.
        let outcome = workflows.start(&Echo, &key, &text).enqueue().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.settle(&Echo).await;
        let outcome = workflows.start(&Echo, &key, &text).run().await.unwrap();
        assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == text), "{bytes}");
        for item in desk.items().await {
            let header = item.get("item").is_some_and(|sort| sort.as_s().unwrap() == "#");
            let bytes: usize = item.values().map(|value| value.as_s().map_or(8, String::len)).sum();
            assert!(!header || bytes < 1024, "a header of {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_written() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let ship = Ship { books: Books::default(), valid: true };
    let request = request("Ada");
    let start = || workflows.start(&ship, "ship/1", &request);
    for (start, text) in [
        (
            workflows.start(&ship, "", &request),
            "the key is empty; name what is to be done once, such as order/create/12345",
        ),
        (start().key_version(0), "key_version must be at least 1, got 0"),
        (
            start().owner(""),
            "the owner must be 1 to 256 bytes without control characters, such as order_update/<request id>",
        ),
        (
            start().deadline(chrono::DateTime::UNIX_EPOCH),
            "could not start the workflow: the deadline has passed; nothing was written, call again with more time",
        ),
    ] {
        assert_eq!(start.run().await.unwrap_err().to_string(), text);
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test]
async fn a_header_that_cannot_be_read_is_neither_absent_nor_an_answer() {
    use aws_sdk_dynamodb::types::AttributeValue;
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = desk.bench.client.put_item().table_name(&desk.table);
    put.item("workflow", text("ship/7")).item("item", text("#")).send().await.unwrap();
    let ship = Ship { books: Books::default(), valid: true };
    let error = workflows.start(&ship, ("ship", 7), &request("Ada")).run().await.unwrap_err();
    assert!(matches!(error, Error::Record { .. }), "{error}");
    assert!(ship.books.entries().is_empty());
}
