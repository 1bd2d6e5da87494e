//! Sending a write until its outcome is clear, or the time is up.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnValuesOnConditionCheckFailure};

use super::action::Action;
use super::exchange::Failure;
use super::expression::{Change, Request};
use super::item::{self, Item};
use super::written::found;
use super::{Store, Until, Written, units};
use crate::core::retry::{Heard, Tries};
use crate::core::token::audit::Audit;
use crate::core::token::record::Record;
use crate::core::token::write::Write;
use crate::error::Error;
use crate::metrics;

/// The outcome of a write of a token. A refused write contains the stored record, if there is one.
type Applied = Written<Option<Box<Record>>>;

impl Store {
    /// Sends a write until its outcome is clear.
    ///
    /// Sending the same conditional write again is safe: it carries the attempt's id, which
    /// identifies its own earlier success.
    pub(crate) async fn write(&self, write: &Write, until: Until) -> Result<Applied, Error> {
        self.write_on(write, Tries::default(), until).await
    }

    /// Sends a write that may have been applied by an earlier call.
    pub(crate) async fn write_again(&self, write: &Write, until: Until) -> Result<Applied, Error> {
        self.write_on(write, Tries { silent: true, ..Tries::default() }, until).await
    }

    /// Sends an operator's write and its audit record, both or neither. `also`: writes of other
    /// items in the same transaction.
    pub(crate) async fn write_audited(
        &self,
        write: &Write,
        audit: Audit,
        also: &[Write],
        until: Until,
    ) -> Result<Applied, Error> {
        let (verb, id) = (write.verb(), self.ids.attempt());
        let mut actions = vec![Action::Token(Box::new(write.clone())), Action::Audit(Box::new(audit))];
        actions.extend(also.iter().map(|write| Action::Token(Box::new(write.clone()))));
        let (at, after_silence) = match self.transact(verb, &actions, &id, until).await? {
            Written::Done => return Ok(Written::Done),
            Written::Refused { found: at, after_silence } => (at, after_silence),
        };
        let mut item = None;
        for (place, found) in at {
            match place {
                0 => item = found,
                // Its key is made for this call, so an earlier request of the call was applied.
                1 => return Ok(Written::Done),
                // The item was deleted after it was read.
                _ => {}
            }
        }
        refused(item, (verb, 1), after_silence)
    }

    async fn write_on(&self, write: &Write, mut tries: Tries, until: Until) -> Result<Applied, Error> {
        let verb = write.verb();
        let item = match self.apply(verb, &|| Request::of(write), &mut tries, until).await? {
            Written::Done => return Ok(Written::Done),
            Written::Refused { found, .. } => found,
        };
        refused(item, (verb, tries.made + 1), tries.silent)
    }

    /// Sends a request until its outcome is clear.
    pub(super) async fn apply(
        &self,
        verb: &'static str,
        request: &(dyn Fn() -> Request + Sync),
        tries: &mut Tries,
        until: Until,
    ) -> Result<Written<Option<Item>>, Error> {
        loop {
            metrics::count_request(verb);
            let mut failure = match self.exchange(*tries, until, Box::pin(self.send(request()))).await {
                Ok(consumed) => {
                    metrics::count_write_units(verb, units(consumed.as_ref()));
                    return Ok(Written::Done);
                }
                Err(failure) => failure,
            };
            if failure.heard == Heard::Refused {
                // An earlier request was applied and its reply was lost. Then this request is
                // refused by its own write, which the caller must not take for the write of
                // another.
                let (found, after_silence) = (failure.item.take(), tries.silent);
                return Ok(Written::Refused { found, after_silence });
            }
            if failure.heard == Heard::Silence {
                metrics::count_silence(verb);
            }
            self.after_failure(verb, tries, until, failure).await?;
        }
    }

    async fn send(&self, request: Request) -> Result<Option<ConsumedCapacity>, Failure> {
        let Request { change, condition, names, values } = request;
        // A refusal returns the stored item at no extra cost, which avoids a second read and a
        // race.
        let all_old = condition.as_ref().map(|_| ReturnValuesOnConditionCheckFailure::AllOld);
        let names = Some(names).filter(|names| !names.is_empty());
        let values = Some(values).filter(|values| !values.is_empty());
        // Three builders with the same methods, but different types.
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

fn refused(item: Option<Item>, request: (&'static str, u32), after_silence: bool) -> Result<Applied, Error> {
    let record = found(item.as_ref().map(item::to_record).transpose(), request, after_silence)?;
    Ok(Written::Refused { found: record.map(Box::new), after_silence })
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
