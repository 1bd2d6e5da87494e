//! The actions of a transaction, and whether DynamoDB takes them, before anything is sent.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "tokens and workflows use a part"))]

use std::collections::HashMap;

#[cfg(feature = "workflow")]
use aws_sdk_dynamodb::types::ConditionCheck;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
#[cfg(feature = "messages")]
use chrono::{DateTime, Utc};

#[cfg(feature = "workflow")]
use super::Store;
use super::exchange::Failure;
#[cfg(feature = "workflow")]
use super::expression::Condition;
use super::expression::{Change, Guard, Request};
#[cfg(feature = "messages")]
use super::item::message_item;
#[cfg(feature = "messages")]
use super::item::receipt_item;
use super::item::{Item, item_key};
#[cfg(feature = "messages")]
use crate::core::message::letter::Letter;
#[cfg(feature = "messages")]
use crate::core::message::receipt::{Kept, Receipt};
use crate::core::retry::Heard;
use crate::core::token::audit::Audit;
use crate::core::token::write::Write;
#[cfg(feature = "workflow")]
use crate::core::workflow::place::HEADER;

/// The limits of a transaction of DynamoDB.
pub(crate) const MAX_ACTIONS: usize = 100;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// One action of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Put an item of a workflow; if `absent`, where there is none.
    Put { item: Item, absent: bool },
    /// Puts an item of a workflow, if the stored item has the revision `seen`.
    PutOver { item: Item, seen: String },
    /// Puts the receipt of a message. Fails if an earlier receipt has not expired, or if the
    /// message is out of order.
    #[cfg(feature = "messages")]
    Receive { receipt: Box<Receipt>, expired_at: DateTime<Utc> },
    /// Deletes an item of a workflow, if the stored item has the revision `seen`.
    DeleteOver { workflow: String, item: String, seen: String },
    /// Deletes an item to which no record refers.
    Delete { workflow: String, item: String },
    /// A write of a token.
    Token(Box<Write>),
    /// Put an audit record, whose key is made for it.
    Audit(Box<Audit>),
    /// The same driver still has the workflow.
    #[cfg(feature = "workflow")]
    DrivenBy { workflow: String, attempt: String },
    /// The header has not changed since it was read.
    #[cfg(feature = "workflow")]
    Unchanged { workflow: String, seen: String },
    /// As the caller gives it.
    Given(Box<TransactWriteItem>),
}

impl Action {
    /// The action as the SDK takes it.
    pub(super) fn build(&self, table: &str) -> Result<TransactWriteItem, Failure> {
        let builder = TransactWriteItem::builder();
        Ok(match self {
            Self::Given(given) => TransactWriteItem::clone(given),
            Self::Token(write) => {
                let request = Request::of(write);
                match &request.change {
                    Change::Delete { .. } => builder.delete(delete(table, request)?).build(),
                    _ => builder.update(update(table, request)?).build(),
                }
            }
            Self::Audit(audit) => builder.put(put_of(table, Request::new_audit(audit))?).build(),
            Self::Put { item, absent } => {
                let guard = if *absent { Guard::Absent } else { Guard::None };
                builder.put(put(table, item, guard)?).build()
            }
            Self::PutOver { item, seen } => builder.put(put(table, item, Guard::Revision(seen))?).build(),
            #[cfg(feature = "messages")]
            Self::Receive { receipt, expired_at } => {
                let guard = match &receipt.kept {
                    Kept::Each { .. } | Kept::Beside { .. } => Guard::Forgotten(*expired_at),
                    Kept::Latest { number } => Guard::Newer(*number),
                    // Number 1 follows no receipt, and a comparison with a missing attribute fails.
                    Kept::Gapless { number: ..=1 } => Guard::Absent,
                    Kept::Gapless { number } => Guard::Follows(number - 1),
                };
                builder.put(put(table, &receipt_item(receipt), guard)?).build()
            }
            Self::Delete { workflow, item } => {
                let change = Change::Delete { key: item_key(workflow, item) };
                builder.delete(delete(table, Request::guarded(change, Guard::None))?).build()
            }
            Self::DeleteOver { workflow, item, seen } => {
                let change = Change::Delete { key: item_key(workflow, item) };
                builder.delete(delete(table, Request::guarded(change, Guard::Revision(seen)))?).build()
            }
            #[cfg(feature = "workflow")]
            Self::DrivenBy { workflow, attempt } => {
                builder.condition_check(check(table, workflow, Condition::driven_by(attempt))?).build()
            }
            #[cfg(feature = "workflow")]
            Self::Unchanged { workflow, seen } => {
                builder.condition_check(check(table, workflow, Condition::unchanged(seen))?).build()
            }
        })
    }
}

#[cfg(feature = "workflow")]
impl Store {
    /// A message as a put of a caller's transaction.
    #[cfg(feature = "messages")]
    pub(crate) fn put_of_message(&self, message: &Letter, shards: u16) -> Put {
        let put = Put::builder().table_name(&self.table).set_item(Some(message_item(message, shards)));
        put.build().unwrap_or_else(|_| unreachable!("it has a table and an item"))
    }
}

/// Returns a condition on a header that the transaction does not write.
#[cfg(feature = "workflow")]
fn check(table: &str, workflow: &str, condition: Condition) -> Result<ConditionCheck, Failure> {
    let Condition { expression, names, values } = condition;
    let check = ConditionCheck::builder()
        .table_name(table)
        .set_key(Some(item_key(workflow, HEADER)))
        .condition_expression(expression)
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(Some(values));
    check.build().map_err(unbuilt)
}

fn put(table: &str, item: &Item, guard: Guard<'_>) -> Result<Put, Failure> {
    put_of(table, Request::guarded(Change::Put(item.clone()), guard))
}

fn put_of(table: &str, request: Request) -> Result<Put, Failure> {
    let Request { change, condition, names, values } = request;
    let Change::Put(item) = change else { return Err(not_of_this_kind()) };
    Put::builder()
        .table_name(table)
        .set_item(Some(item))
        .set_condition_expression(condition)
        .set_expression_attribute_names(Some(names).filter(|names| !names.is_empty()))
        .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(unbuilt)
}

fn delete(table: &str, request: Request) -> Result<Delete, Failure> {
    let Request { change, condition, names, values } = request;
    let Change::Delete { key } = change else { return Err(not_of_this_kind()) };
    Delete::builder()
        .table_name(table)
        .set_key(Some(key))
        .set_condition_expression(condition)
        .set_expression_attribute_names(Some(names).filter(|names| !names.is_empty()))
        .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()))
        .build()
        .map_err(unbuilt)
}

fn update(table: &str, request: Request) -> Result<Update, Failure> {
    let Request { change, condition, names, values } = request;
    let Change::Update { key, expression } = change else { return Err(not_of_this_kind()) };
    Update::builder()
        .table_name(table)
        .set_key(Some(key))
        .update_expression(expression)
        .set_condition_expression(condition)
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(Some(values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(unbuilt)
}

fn not_of_this_kind() -> Failure {
    let cause = "the action and its request are of different kinds".into();
    Failure { heard: Heard::Denied, code: None, cause, item: None }
}

fn unbuilt(error: aws_sdk_dynamodb::error::BuildError) -> Failure {
    Failure { heard: Heard::Denied, code: None, cause: error.into(), item: None }
}

/// Checks the limits of a transaction before it is sent. The error names the limit and the remedy.
pub(crate) fn check_actions(actions: &[Action]) -> Result<(), String> {
    if actions.len() > MAX_ACTIONS {
        return Err(format!(
            "a transaction takes {MAX_ACTIONS} actions, and this one has {} with its own; split it",
            actions.len()
        ));
    }
    let bytes: usize = actions.iter().map(bytes_of).sum();
    if bytes > MAX_BYTES {
        return Err(format!(
            "a transaction takes {MAX_BYTES} bytes, and this one has about {bytes}; split it"
        ));
    }
    let mut seen: Vec<(String, &HashMap<String, AttributeValue>)> = Vec::new();
    for action in actions {
        let Action::Given(given) = action else { continue };
        for key in keyed(given) {
            if seen.contains(&key) {
                return Err(format!(
                    "two actions are on one item of the table {}; a transaction takes one",
                    key.0
                ));
            }
            seen.push(key);
        }
        if is_empty(given) {
            return Err("an action is neither a put, update, delete nor a condition check".to_owned());
        }
    }
    Ok(())
}

const fn is_empty(given: &TransactWriteItem) -> bool {
    given.put.is_none() && given.update.is_none() && given.delete.is_none() && given.condition_check.is_none()
}

/// The keys that an action names. A put names none apart from its item.
fn keyed(given: &TransactWriteItem) -> Vec<(String, &HashMap<String, AttributeValue>)> {
    let update = given.update.as_ref().map(|update| (update.table_name.clone(), &update.key));
    let delete = given.delete.as_ref().map(|delete| (delete.table_name.clone(), &delete.key));
    let check = given.condition_check.as_ref().map(|check| (check.table_name.clone(), &check.key));
    [update, delete, check].into_iter().flatten().collect()
}

fn bytes_of(action: &Action) -> usize {
    match action {
        Action::Put { item, .. } | Action::PutOver { item, .. } => item_bytes(item),
        // They are small.
        Action::Token(_) | Action::Audit(_) => 0,
        #[cfg(feature = "messages")]
        Action::Receive { .. } => 0,
        #[cfg(feature = "workflow")]
        Action::DrivenBy { workflow, .. } | Action::Unchanged { workflow, .. } => workflow.len(),
        Action::DeleteOver { workflow, .. } | Action::Delete { workflow, .. } => workflow.len(),
        Action::Given(given) => {
            let put = given.put.as_ref().map_or(0, |put| item_bytes(&put.item));
            let update = given.update.as_ref().map_or(0, |update| {
                item_bytes(&update.key) + update.expression_attribute_values.as_ref().map_or(0, item_bytes)
            });
            put + update
        }
    }
}

fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(values) => values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>() + 3,
        AttributeValue::M(values) => item_bytes(values) + values.len() + 3,
        AttributeValue::Ss(texts) | AttributeValue::Ns(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Bs(blobs) => blobs.iter().map(|blob| blob.as_ref().len()).sum(),
        _ => 1,
    }
}
