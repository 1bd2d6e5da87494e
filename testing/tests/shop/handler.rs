//! The shop: its handler in two forms, and what its books have to say.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lock_token_testing::Provider;
use lock_token_testing::sweep::{Subject, World};
use locker::{BoxError, Failure, Locker};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The order is recorded behind the token: where the receipt is a replay, that was done before.
    RecordsBehind,
    /// The order is recorded under the token, before it is completed.
    RecordsUnder,
}

/// The handler and what it calls.
pub(crate) struct Shop {
    pub(crate) form: Form,
    pub(crate) locker: Locker,
    pub(crate) dynamodb: Client,
    pub(crate) bank: Provider,
}

impl Shop {
    /// Charges an order once, and records it for the warehouse. Returns the receipt.
    pub(crate) async fn place(&self, order: &str) -> Result<String, BoxError> {
        let token = self.locker.token(("order", order)).expect_within(Duration::from_secs(60));
        match self.form {
            Form::RecordsBehind => {
                let charge = token.run(|attempt| self.bank.apply(&attempt.idempotency_key(), "charge"));
                let paid = charge.await?;
                if !paid.is_replay() {
                    self.record(order).await?;
                }
                Ok(paid.into_inner())
            }
            Form::RecordsUnder => {
                // The bank recognises the key, and to record an order twice is to record it once.
                let token = token.take_over_after(Duration::from_secs(60));
                let placed = token
                    .run(|attempt| async move {
                        let receipt = self.bank.apply(&attempt.idempotency_key(), "charge").await?;
                        self.record(order).await.map_err(|error| Failure::in_doubt(error.to_string()))?;
                        Ok::<_, Failure>(receipt)
                    })
                    .await?;
                Ok(placed.into_inner())
            }
        }
    }

    async fn record(&self, order: &str) -> Result<(), BoxError> {
        let key = AttributeValue::S(order.to_owned());
        self.dynamodb.put_item().table_name("orders").item("lockToken", key).send().await?;
        Ok(())
    }
}

/// The tables of the shop.
pub(crate) async fn tables(dynamodb: &Client) -> Result<(), BoxError> {
    for table in ["locks", "orders"] {
        locker::create_table(dynamodb, table).await?;
    }
    Ok(())
}

/// Whether the warehouse knows an order.
pub(crate) async fn is_recorded(dynamodb: &Client, order: &str) -> Result<bool, BoxError> {
    let key = AttributeValue::S(order.to_owned());
    let got = dynamodb.get_item().table_name("orders").key("lockToken", key).send().await?;
    Ok(got.item.is_some())
}

/// What a sweep plays: one customer who orders.
pub(crate) struct Customer(pub(crate) Form);

impl Subject for Customer {
    async fn prepare(&self, world: &World) {
        tables(&world.dynamodb()).await.expect("tables");
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let locker = world.locker("locks").build().expect("settings");
        let shop = Shop { form: self.0, locker, dynamodb: world.dynamodb(), bank: world.provider() };
        shop.place("7").await.ok()
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        let charges = world.provider().count("charge");
        let is_recorded = is_recorded(&world.dynamodb(), "7").await.expect("an answer");
        let mut wrong = Vec::new();
        if charges > 1 {
            wrong.push(format!("the card was charged {charges} times"));
        }
        if answer.is_some() && !is_recorded {
            wrong.push("the order is paid, and the warehouse does not know it".to_owned());
        }
        wrong
    }
}
