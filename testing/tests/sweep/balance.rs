//! Transactions of a program's own, which read the replies of DynamoDB wrongly.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use lock_token_testing::sweep::{Subject, World};
use locker::Failure;

use crate::{DAY, finds, passes};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Account {
    /// Takes a token of DynamoDB for as good as a lock token.
    TrustsTheRequestToken,
    /// Takes a cancelled transaction for one that was done before.
    TakesCancelledForDone,
    /// As it should be: cancelled because the row is there.
    ReadsTheReason,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

impl Account {
    /// Adds to the balance.
    fn update(self) -> TransactWriteItem {
        let update = Update::builder().table_name("rows").key("lockToken", text("balance"));
        let update = update.update_expression("ADD amount :one");
        let update = update.expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        TransactWriteItem::builder().update(update.build().unwrap()).build()
    }

    /// Puts a row for the order, unless there is one.
    fn put(self) -> Option<TransactWriteItem> {
        let put = Put::builder().table_name("rows").item("lockToken", text("order/7"));
        let put = put.condition_expression("attribute_not_exists(lockToken)").build().unwrap();
        (self != Self::TrustsTheRequestToken).then(|| TransactWriteItem::builder().put(put).build())
    }
}

impl Account {
    async fn add(self, world: &World) -> Result<String, Failure> {
        let transaction = world.dynamodb().transact_write_items().client_request_token("order-7");
        let actions = self.put().into_iter().chain([self.update()]).collect();
        let Err(error) = transaction.set_transact_items(Some(actions)).send().await else {
            return Ok("added".to_owned());
        };
        let is_cancelled = error.code() == Some("TransactionCanceledException");
        let is_there = || format!("{error:?}").contains("ConditionalCheckFailed");
        match is_cancelled {
            true if self == Self::TakesCancelledForDone || is_there() => Ok("added".to_owned()),
            true => Err(Failure::transient("it was cancelled".to_owned())),
            false => Err(Failure::in_doubt("it may have been added".to_owned())),
        }
    }
}

impl Subject for Account {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "rows").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        if *self == Self::TrustsTheRequestToken {
            return self.add(world).await.ok();
        }
        let locker = world.locker("rows").build().unwrap();
        // The condition lets only one attempt add.
        let token = locker.token("token/7").take_over_after(Duration::from_secs(60));
        token.run(|_| self.add(world)).await.ok().map(|added| added.into_inner())
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        let row = world.dynamodb().get_item().table_name("rows").key("lockToken", text("balance")).send();
        let row = row.await.unwrap().item.unwrap_or_default();
        let amount = row.get("amount").and_then(|amount| amount.as_n().ok().cloned());
        let is_right = amount.as_deref() == answer.map(|_| "1");
        if is_right {
            Vec::new()
        } else {
            vec![format!("the answer is {answer:?}, and the amount {amount:?}")]
        }
    }
}

#[test]
fn a_request_token_that_dynamodb_has_forgotten() {
    let plan = finds("request token", DAY, || Account::TrustsTheRequestToken);
    assert_eq!(plan, "none", "it needs no fault: a request that comes after ten minutes suffices");
}

#[test]
fn a_cancelled_transaction_that_was_not_done_before() {
    let plan = finds("cancelled for done", DAY, || Account::TakesCancelledForDone);
    assert!(plan.contains("Conflict"), "{plan}");
    passes("reads the reason", 50, DAY, || Account::ReadsTheReason);
}
