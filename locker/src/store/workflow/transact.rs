//! Transactions: a recovery point, rows of the caller's, and messages, all or nothing.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem,
};

use super::attribute as w;
use super::put::{Guard, key_of};
use crate::core::retry::{Heard, Tries};
use crate::core::workflow::record::HEADER;
use crate::error::Error;
use crate::metrics;
use crate::store::attribute as a;
use crate::store::exchange::Failure;
use crate::store::item::{Item, text};
use crate::store::{Store, Until};

/// What DynamoDB takes in one transaction.
pub(crate) const MAX_ACTIONS: usize = 100;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// One action of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Put an item of a workflow; if `absent`, where there is none.
    Put { item: Item, absent: bool },
    /// Put an item of a workflow over the one that was seen.
    PutOver { item: Item, seen: String },
    /// Somebody still drives the workflow.
    DrivenBy { workflow: String, attempt: String },
    /// As the caller gives it.
    Given(Box<TransactWriteItem>),
}

/// What a transaction came to.
#[derive(Debug)]
pub(crate) enum Transacted {
    Done,
    /// The conditions at these places failed, counted from 0, with the item that was there.
    /// `after_silence`: an earlier request of this call may yet arrive.
    Refused {
        at: Vec<(usize, Option<Item>)>,
        after_silence: bool,
    },
}

/// Whether DynamoDB would take so many actions, before anything is sent. The reason says what to do.
pub(crate) fn check_actions(actions: &[Action]) -> Result<(), String> {
    if actions.len() > MAX_ACTIONS {
        return Err(format!(
            "a transaction takes {MAX_ACTIONS} actions, this step has {} with its own; split it",
            actions.len()
        ));
    }
    let bytes: usize = actions.iter().map(bytes_of).sum();
    if bytes > MAX_BYTES {
        return Err(format!("a transaction takes {MAX_BYTES} bytes, this step has about {bytes}; split it"));
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
        Action::DrivenBy { workflow, .. } => workflow.len(),
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

impl Store {
    /// Commit all of the actions or none.
    ///
    /// `token`: the same for every request of this call, so that DynamoDB recognises it for ten minutes.
    /// Beyond them the revision of the first put does.
    pub(crate) async fn transact(
        &self,
        verb: &'static str,
        actions: &[Action],
        token: &str,
        until: Until,
    ) -> Result<Transacted, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(verb);
            let mut failure =
                match self.exchange(tries, until, Box::pin(self.transact_once(actions, token))).await {
                    Ok(None) => return Ok(Transacted::Done),
                    Ok(Some(reasons)) => match read(&reasons, actions) {
                        Read::Applied => return Ok(Transacted::Done),
                        Read::Refused(at) => {
                            return Ok(Transacted::Refused { at, after_silence: tries.silent });
                        }
                        Read::Busy(said) => busy(said),
                        Read::Denied(said) => Failure {
                            heard: Heard::Denied,
                            code: Some("ValidationException".to_owned()),
                            cause: said.into(),
                            item: None,
                        },
                    },
                    Err(failure) => failure,
                };
            // The same request is on its way: what it comes to is not known yet.
            if failure.code.as_deref() == Some("TransactionInProgressException") {
                failure.heard = Heard::Silence;
            }
            if failure.heard == Heard::Silence {
                metrics::count_silence(verb);
            }
            self.after_failure(verb, &mut tries, until, failure).await?;
        }
    }

    async fn transact_once(
        &self,
        actions: &[Action],
        token: &str,
    ) -> Result<Option<Vec<CancellationReason>>, Failure> {
        let items = actions.iter().map(|action| self.transact_item(action)).collect::<Result<_, _>>()?;
        let sent = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(token)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match sent {
            Ok(output) => {
                for consumed in output.consumed_capacity.as_deref().unwrap_or_default() {
                    metrics::count_units("atomic", crate::store::units(Some(consumed)));
                }
                Ok(None)
            }
            Err(SdkError::ServiceError(error)) if error.err().is_transaction_canceled_exception() => {
                let TransactWriteItemsError::TransactionCanceledException(cancelled) = error.into_err()
                else {
                    return Ok(Some(Vec::new()));
                };
                Ok(Some(cancelled.cancellation_reasons.unwrap_or_default()))
            }
            Err(error) => {
                let mismatch = error.code() == Some("IdempotentParameterMismatchException");
                let mut failure = Failure::of(error, |_| None);
                // Never ours: every request of a call is the same.
                if mismatch {
                    failure.heard = Heard::Denied;
                }
                Err(failure)
            }
        }
    }

    fn transact_item(&self, action: &Action) -> Result<TransactWriteItem, Failure> {
        let builder = TransactWriteItem::builder();
        Ok(match action {
            Action::Given(given) => return Ok(TransactWriteItem::clone(given)),
            Action::Put { item, absent } => {
                let guard = if *absent { Guard::Absent } else { Guard::None };
                builder.put(self.put_of(item, guard)?).build()
            }
            Action::PutOver { item, seen } => builder.put(self.put_of(item, Guard::Revision(seen))?).build(),
            Action::DrivenBy { workflow, attempt } => {
                let check = ConditionCheck::builder()
                    .table_name(&self.table)
                    .set_key(Some(key_of(workflow, HEADER)))
                    .condition_expression("#attempt = :attempt")
                    .expression_attribute_names("#attempt", a::ATTEMPT)
                    .expression_attribute_values(":attempt", text(attempt))
                    .build()
                    .map_err(unbuilt)?;
                builder.condition_check(check).build()
            }
        })
    }

    fn put_of(&self, item: &Item, guard: Guard<'_>) -> Result<Put, Failure> {
        let put = Put::builder().table_name(&self.table).set_item(Some(item.clone()));
        let put = match guard {
            Guard::None => put,
            Guard::Absent => put
                .condition_expression("attribute_not_exists(#workflow)")
                .expression_attribute_names("#workflow", w::WORKFLOW),
            Guard::Revision(seen) => put
                .condition_expression("#revision = :seen")
                .expression_attribute_names("#revision", w::REVISION)
                .expression_attribute_values(":seen", text(seen)),
        };
        put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(unbuilt)
    }
}

enum Read {
    Applied,
    Refused(Vec<(usize, Option<Item>)>),
    Busy(String),
    Denied(String),
}

/// Tell the reasons of a cancelled transaction apart, place by place.
fn read(reasons: &[CancellationReason], actions: &[Action]) -> Read {
    let mut refused = Vec::new();
    let mut busy = None;
    for (place, reason) in reasons.iter().enumerate() {
        let said = || reason.message().unwrap_or("no message").to_owned();
        match reason.code() {
            None | Some("None") => {}
            Some("ConditionalCheckFailed") => {
                let mine = match actions.get(place) {
                    Some(Action::Put { item, .. } | Action::PutOver { item, .. }) => revision_of(item),
                    _ => None,
                };
                if mine.is_some() && mine == reason.item.as_ref().and_then(revision_of) {
                    return Read::Applied;
                }
                refused.push((place, reason.item.clone()));
            }
            Some(code @ ("TransactionConflict" | "ProvisionedThroughputExceeded" | "ThrottlingError")) => {
                busy = Some(format!("{code} at action {place}: {}", said()))
            }
            Some(code) => return Read::Denied(format!("{code} at action {place}: {}", said())),
        }
    }
    if !refused.is_empty() {
        return Read::Refused(refused);
    }
    // Cancelled without a reason: nothing was applied.
    Read::Busy(busy.unwrap_or_else(|| "the transaction was cancelled without a reason".to_owned()))
}

fn revision_of(item: &Item) -> Option<&String> {
    item.get(w::REVISION)?.as_s().ok()
}

fn busy(said: String) -> Failure {
    Failure {
        heard: Heard::Busy,
        code: Some("TransactionCanceledException".to_owned()),
        cause: said.into(),
        item: None,
    }
}

fn unbuilt(error: aws_sdk_dynamodb::error::BuildError) -> Failure {
    Failure { heard: Heard::Denied, code: None, cause: error.into(), item: None }
}
