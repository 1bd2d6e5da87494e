//! The record of the step, the caller's rows and its messages: all or nothing, and reasons
//! distinguished.

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update};
use locker::Intervened;
use locker::workflow::{Flow, Outcome, Refused, StepState, Stop, Workflow};
use locker_tests::Fate;

use crate::bench::{Books, Desk, LATER};

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

#[derive(Clone)]
struct Take {
    rows: String,
    books: Books,
}

impl Take {
    fn update(&self, id: &str) -> Update {
        Update::builder()
            .table_name(&self.rows)
            .key("id", text(id))
            .update_expression("ADD held :one")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .build()
            .unwrap()
    }

    fn check(&self, id: &str) -> ConditionCheck {
        ConditionCheck::builder()
            .table_name(&self.rows)
            .key("id", text(id))
            .condition_expression("attribute_exists(id)")
            .build()
            .unwrap()
    }
}

impl Workflow for Take {
    const NAME: &'static str = "take";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let taken = flow
            .atomic("take")
            .update(self.update("book"))
            .check(self.check("shop"))
            .message("stock/taken", &"book")
            .outcome(&"taken".to_owned())
            .await?;
        Ok(taken.unwrap_or_else(|Refused { writes, .. }| {
            self.books.enter(format!("refused {writes:?}"));
            "closed".to_owned()
        }))
    }
}

async fn open(desk: &Desk) {
    let put = desk.bench.client.put_item().table_name(&desk.rows);
    put.item("id", text("shop")).send().await.unwrap();
}

async fn held(desk: &Desk) -> Option<String> {
    desk.row("book").await?.get("held")?.as_n().ok().cloned()
}

#[tokio::test]
async fn with_every_fault_it_is_committed_once_or_not_at_all() {
    for fault in [
        Fate::Ok,
        Fate::Lost,
        Fate::ReplyLost,
        Fate::ErrorBefore,
        Fate::ErrorAfter,
        Fate::Throttled,
        Fate::Conflict,
        Fate::Garbled,
    ] {
        let desk = Desk::new().await;
        open(&desk).await;
        let take = Take { rows: desk.rows.clone(), books: Books::default() };
        let (workflows, wire) = desk.machine();
        wire.next([Fate::Ok, fault]);
        let outcome = workflows.start(&take, "take/1", &()).run().await.unwrap();
        assert!(
            matches!(&outcome, Outcome::Completed(answer) if **answer == "taken"),
            "{fault:?}: {outcome:?}"
        );
        assert_eq!(held(&desk).await.as_deref(), Some("1"), "{fault:?}");
        assert_eq!(desk.view("take/1").await.messages().len(), 1);
    }
}

#[tokio::test]
async fn a_failed_condition_of_the_caller_is_reported_with_its_position_and_nothing_is_written() {
    let desk = Desk::new().await;
    let take = Take { rows: desk.rows.clone(), books: Books::default() };
    let outcome = desk.machine().0.start(&take, "take/1", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "closed"), "{outcome:?}");
    assert_eq!(take.books.entries(), ["refused [1]"]);
    assert_eq!(held(&desk).await, None);
    let view = desk.view("take/1").await;
    let steps: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state())).collect();
    assert_eq!(steps, [("take".to_owned(), StepState::Failed)], "the refusal is recorded");
    assert!(view.messages().is_empty());
}

#[tokio::test]
async fn a_stale_owner_writes_no_rows() {
    let desk = Desk::new().await;
    open(&desk).await;
    let take = Take { rows: desk.rows.clone(), books: Books::default() };
    let (workflows, wire) = desk.machine();
    // The transaction is in flight when the driver is taken over, and arrives after that.
    wire.next([Fate::Ok, Fate::Lost, Fate::Stalls]);
    let late = tokio::spawn({
        let take = take.clone();
        async move { workflows.start(&take, "take/1", &()).run().await.map(drop) }
    });
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    let stale = wire.take().remove(1).request;
    late.abort();
    let operator = locker::Operator::new("alice", "closing").unwrap();
    assert_eq!(desk.machine().0.cancel("take/1", 1, &operator).await.unwrap(), Intervened::Done);
    desk.settle(&take).await;
    let answer = desk.bench.engine.send("TransactWriteItems", &stale).await;
    assert!(answer.contains("[None, ConditionalCheckFailed, None"), "the fence alone refuses it: {answer}");
    assert_eq!(held(&desk).await, None);
}

/// Makes requests that DynamoDB does not accept.
struct Too(&'static str, String);

impl Workflow for Too {
    const NAME: &'static str = "too";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let Self(what, rows) = self;
        let put = |id: usize, bytes: usize| {
            let put = Put::builder().table_name(rows).item("id", text(&id.to_string()));
            put.item("text", text(&"x".repeat(bytes))).build().unwrap()
        };
        let delete = || Delete::builder().table_name(rows).key("id", text("1")).build().unwrap();
        let atomic = flow.atomic("a");
        let atomic = match *what {
            "many" => (0..99).fold(atomic, |atomic, id| atomic.put(put(id, 1))),
            "large" => (0..14).fold(atomic, |atomic, id| atomic.put(put(id, 300_000))),
            "twice" => atomic.delete(delete()).delete(delete()),
            _ => atomic.action(TransactWriteItem::builder().build()),
        };
        atomic.commit(&()).await
    }
}

#[tokio::test]
async fn limits_are_checked_before_anything_is_sent() {
    for (what, text) in [
        (
            "many",
            "step a cannot run: a transaction takes 100 actions, and this one has 101 with its own; split it",
        ),
        ("large", "step a cannot run: a transaction takes 4194304 bytes, and this one has about 42"),
        ("twice", "step a cannot run: two actions are on one item of the table "),
        ("empty", "step a cannot run: an action is neither a put, update, delete nor a condition check"),
    ] {
        let desk = Desk::new().await;
        let (workflows, wire) = desk.machine();
        let outcome = workflows.start(&Too(what, desk.rows.clone()), "too/1", &()).run().await.unwrap();
        let Outcome::Quarantined(reason) = outcome else { panic!("{what}: {outcome:?}") };
        assert!(reason.starts_with(text), "{reason}");
        assert!(wire.take().iter().all(|exchange| exchange.operation != "TransactWriteItems"));
    }
}

#[tokio::test]
async fn of_two_owners_the_first_commit_counts_for_both() {
    let desk = Desk::new().await;
    open(&desk).await;
    let take = Take { rows: desk.rows.clone(), books: Books::default() };
    let (workflows, wire) = desk.machine();
    wire.next([Fate::Ok, Fate::Hangs]);
    let cut = tokio::spawn({
        let take = take.clone();
        async move { workflows.start(&take, "take/1", &()).run().await.map(drop) }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    cut.abort();
    desk.bench.clock.advance(LATER);
    let outcome = desk.machine().0.start(&take, "take/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(held(&desk).await.as_deref(), Some("1"));
}
