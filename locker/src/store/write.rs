//! Sending a write until there is a clear answer, or no time.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnValuesOnConditionCheckFailure};

use super::exchange::Failure;
use super::expression::{Change, Request};
use super::item::{self, Item};
use super::{Store, Until, units};
use crate::core::record::Record;
use crate::core::retry::{Heard, Tries};
use crate::core::write::Write;
use crate::error::Error;
use crate::metrics;

/// What a write came to.
#[derive(Debug)]
pub(crate) enum Applied {
    /// It was applied.
    Yes,
    /// Its condition failed: the record that stands there, if any, and whether an earlier request of
    /// the same call may have been applied.
    No { record: Option<Box<Record>>, after_silence: bool },
}

/// What a conditional request came to.
#[derive(Debug)]
pub(super) enum Sent {
    Applied,
    /// Its condition failed, on this item if there is one.
    Refused(Option<Item>),
}

impl Store {
    /// Send a write until something definite is known.
    ///
    /// Sending the same conditional write again is safe: it carries the attempt's id, by which its
    /// own earlier success is recognised.
    pub(crate) async fn write(&self, write: &Write, until: Until) -> Result<Applied, Error> {
        self.write_on(write, Tries::default(), until).await
    }

    /// Send a write that may have been applied by an earlier call.
    pub(crate) async fn write_again(&self, write: &Write, until: Until) -> Result<Applied, Error> {
        self.write_on(write, Tries { silent: true, ..Tries::default() }, until).await
    }

    async fn write_on(&self, write: &Write, mut tries: Tries, until: Until) -> Result<Applied, Error> {
        let verb = write.verb();
        let item = match self.apply(verb, || Request::of(write), Some(write), &mut tries, until).await? {
            Sent::Applied => return Ok(Applied::Yes),
            Sent::Refused(item) => item,
        };
        match item.as_ref().map(item::to_record).transpose() {
            Ok(record) => Ok(Applied::No { record: record.map(Box::new), after_silence: tries.silent }),
            // What stands there cannot be read, so neither can whether it is ours.
            Err(error) if tries.silent => {
                Err(Error::Unknown { verb, tries: tries.made + 1, source: error.into() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Send a request until there is a clear answer to it. `token`: the write that it stands for, if it is one of
    /// a token's, whose rules a test can break.
    pub(super) async fn apply(
        &self,
        verb: &'static str,
        request: impl Fn() -> Request,
        token: Option<&Write>,
        tries: &mut Tries,
        until: Until,
    ) -> Result<Sent, Error> {
        #[cfg(not(feature = "mutants"))]
        let _ = token;
        loop {
            metrics::count_request(verb);
            let request = request();
            #[cfg(feature = "mutants")]
            let request = if token.is_some() { super::mutated::request(request) } else { request };
            let mut failure = match self.exchange(*tries, until, Box::pin(self.send(request))).await {
                Ok(consumed) => {
                    metrics::count_units(verb, units(consumed.as_ref()));
                    return Ok(Sent::Applied);
                }
                Err(failure) => failure,
            };
            if failure.heard == Heard::Refused {
                return Ok(Sent::Refused(failure.item.take()));
            }
            if failure.heard == Heard::Silence {
                metrics::count_silence(verb);
            }
            let after = self.after_failure(verb, tries, until, failure).await;
            #[cfg(feature = "mutants")]
            let after = match token {
                Some(write) => self.mutated_after(after, write, tries).await,
                None => after,
            };
            after?;
        }
    }

    async fn send(&self, request: Request) -> Result<Option<ConsumedCapacity>, Failure> {
        let Request { change, condition, names, values } = request;
        // The old item comes with the refusal, for no extra units: no second read, no race.
        let all_old = condition.as_ref().map(|_| ReturnValuesOnConditionCheckFailure::AllOld);
        let names = Some(names).filter(|names| !names.is_empty());
        let values = Some(values).filter(|values| !values.is_empty());
        // Three builders of one shape, each of its own type.
        macro_rules! send {
            ($builder:expr, $refused:path) => {
                $builder
                    .table_name(&self.table)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_return_values_on_condition_check_failure(all_old)
                    .set_return_consumed_capacity(self.capacity.clone())
                    .send()
                    .await
                    .map(|output| output.consumed_capacity)
                    .map_err(|error| Failure::of(error, $refused))
            };
        }
        match change {
            Change::Put(item) => send!(self.client.put_item().set_item(Some(item)), refused_put),
            Change::Update { key, expression } => {
                let update = self.client.update_item().set_key(Some(key)).update_expression(expression);
                send!(update, refused_update)
            }
            Change::Delete { key } => send!(self.client.delete_item().set_key(Some(key)), refused_delete),
        }
    }
}

fn refused_put(error: PutItemError) -> Option<Item> {
    match error {
        PutItemError::ConditionalCheckFailedException(refusal) => refusal.item,
        _ => None,
    }
}

fn refused_update(error: UpdateItemError) -> Option<Item> {
    match error {
        UpdateItemError::ConditionalCheckFailedException(refusal) => refusal.item,
        _ => None,
    }
}

fn refused_delete(error: DeleteItemError) -> Option<Item> {
    match error {
        DeleteItemError::ConditionalCheckFailedException(refusal) => refusal.item,
        _ => None,
    }
}
