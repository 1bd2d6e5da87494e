//! A refused atomic step that the code answers by going another way: the refusal is recorded, and
//! stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put};
use locker::workflow::{Flow, Outcome, RetryPolicy, State, StepState, Stop, Workflow};
use locker::{Failure, Intervened, Operator};
use locker_tests::Fate;

use crate::bench::{Books, Desk, LATER};

/// Takes the last book of the stock, or says that it is sold out; then its mail is down once.
#[derive(Clone)]
struct Buy {
    books: Books,
    rows: String,
    asks_again: bool,
    mail_is_up: Arc<AtomicBool>,
}

impl Buy {
    fn new(desk: &Desk) -> Self {
        let (books, rows) = (Books::default(), desk.rows.clone());
        Self { books, rows, asks_again: false, mail_is_up: Arc::default() }
    }
}

impl Workflow for Buy {
    const NAME: &'static str = "buy";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let in_stock = ConditionCheck::builder()
            .table_name(&self.rows)
            .key("id", AttributeValue::S("book".to_owned()))
            .condition_expression("attribute_exists(id)");
        let reserve = flow.atomic("reserve").check(in_stock.build().unwrap()).compensate(&"give-back");
        let reserve = if self.asks_again { reserve.ask_again() } else { reserve };
        let answer = match reserve.outcome(&()).await? {
            Ok(()) => "bought",
            Err(refused) => {
                assert_eq!(refused.writes, [0]);
                "sold out"
            }
        };
        self.books.enter(answer);
        let mail = |_| async {
            if self.mail_is_up.load(Ordering::SeqCst) {
                Ok(())
            } else {
                Err(Failure::transient("down".to_owned()))
            }
        };
        flow.step("mail").retry(RetryPolicy::never()).run(mail).await?;
        Ok(answer.to_owned())
    }
}

async fn stock_comes_in(desk: &Desk) {
    let item = Put::builder().table_name(&desk.rows).item("id", AttributeValue::S("book".to_owned()));
    let item = item.build().unwrap().item;
    desk.bench.client.put_item().table_name(&desk.rows).set_item(Some(item)).send().await.expect("put");
}

#[tokio::test]
async fn the_way_that_was_taken_is_taken_again_whatever_has_changed() {
    for asks_again in [false, true] {
        let desk = Desk::new().await;
        let code = Buy { asks_again, ..Buy::new(&desk) };
        let outcome = desk.machine().0.start(&code, "buy/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        stock_comes_in(&desk).await;
        code.mail_is_up.store(true, Ordering::SeqCst);
        desk.settle(&code).await;
        let view = desk.view("buy/1").await;
        assert_eq!(view.state(), State::Completed);
        // A code that asks again has to be able to go on either way.
        let (ways, state) = if asks_again {
            (["sold out", "bought"], StepState::Completed)
        } else {
            (["sold out"; 2], StepState::Failed)
        };
        assert_eq!(
            (code.books.entries(), view.steps()[0].state()),
            (ways.map(str::to_owned).to_vec(), state)
        );
    }
}

#[tokio::test]
async fn a_transaction_that_arrives_after_the_refusal_is_refused_as_well() {
    let desk = Desk::new().await;
    let code = Buy::new(&desk);
    let (workflows, wire) = desk.machine();
    // The put of the header; then the transaction waits on its way, and is sent again.
    wire.next([Fate::Ok, Fate::HeldBefore]);
    let run = tokio::spawn({
        let code = code.clone();
        async move { workflows.start(&code, "buy/1", &()).run().await.unwrap() }
    });
    let outcome = run.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(code.books.entries(), ["sold out"]);
    stock_comes_in(&desk).await;
    wire.let_through();
    code.mail_is_up.store(true, Ordering::SeqCst);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["sold out", "sold out"]);
    assert_eq!(desk.view("buy/1").await.result(), Some("\"sold out\""));
}

#[tokio::test]
async fn an_operator_has_a_refused_step_tried_again() {
    let desk = Desk::new().await;
    let code = Buy::new(&desk);
    desk.machine().0.start(&code, "buy/1", &()).run().await.unwrap();
    stock_comes_in(&desk).await;
    let operator = Operator::new("alice", "the stock came in").unwrap();
    let seen = desk.view("buy/1").await;
    let retried = desk.machine().0.retry_step(&seen, "reserve", &operator).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    code.mail_is_up.store(true, Ordering::SeqCst);
    desk.bench.clock.advance(LATER);
    desk.settle(&code).await;
    assert_eq!(desk.view("buy/1").await.result(), Some("\"bought\""));
}

#[tokio::test]
async fn ask_again_keeps_its_branch_while_a_transaction_may_arrive() {
    for fault in [Fate::Lost, Fate::ErrorBefore] {
        let desk = Desk::new().await;
        let code = Buy { asks_again: true, ..Buy::new(&desk) };
        let (workflows, wire) = desk.machine();
        wire.next([Fate::Ok, fault]);
        let error = workflows.start(&code, "buy/1", &()).run().await;
        assert_eq!(code.books.entries(), Vec::<String>::new(), "{fault:?}: {error:?}");
        stock_comes_in(&desk).await;
        code.mail_is_up.store(true, Ordering::SeqCst);
        desk.settle(&code).await;
        assert_eq!(desk.view("buy/1").await.result(), Some("\"bought\""), "{fault:?}");
    }
}
