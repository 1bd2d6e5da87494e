//! Reading: single items of either table, and the one query that resumes a workflow.

#[cfg(feature = "workflow")]
use aws_sdk_dynamodb::operation::query::QueryOutput;
#[cfg(feature = "workflow")]
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::ConsumedCapacity;

#[cfg(feature = "workflow")]
use chrono::{DateTime, Utc};

use super::exchange::Failure;
#[cfg(any(feature = "workflow", feature = "operator"))]
use super::expression::Condition;
use super::item::{Item, to_answer, to_record, token_key};
#[cfg(feature = "workflow")]
use super::item::{event_of, event_receipt_of, failed_runs_of, header_of, item_key, message_of, record_of};
use super::schema::attribute as a;
use super::{Store, Until, units};
use crate::core::answer::{AnswerError, Codec, Encoded};
#[cfg(feature = "operator")]
use crate::core::invalid::InvalidRecord;
#[cfg(feature = "workflow")]
use crate::core::message::letter::Letter;
use crate::core::retry::Tries;
use crate::core::token::item::TokenItem;
use crate::core::token::record::Record;
#[cfg(feature = "workflow")]
use crate::core::workflow::event::{EventReceipt, EventRecord};
#[cfg(feature = "workflow")]
use crate::core::workflow::header::{FailedRuns, Header};
#[cfg(feature = "workflow")]
use crate::core::workflow::place::{EVENTS, HEADER, Place, SURPLUS_EVENTS};
#[cfg(feature = "workflow")]
use crate::core::workflow::step::{RecordId, StepRecord};
use crate::error::Error;
use crate::metrics;

#[cfg(feature = "workflow")]
const READ_WORKFLOW: &str = "read the workflow";

/// How fresh a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Half the price. The read may miss the writes of the last second, so only a terminal record
    /// is reliable.
    Eventual,
    /// All writes that were acknowledged before the read.
    Strong,
}

/// All that is stored of a workflow, without the ledger entries of earlier ones.
#[cfg(feature = "workflow")]
#[derive(Debug, Default)]
pub(crate) struct Everything {
    pub(crate) header: Option<Header>,
    pub(crate) records: Vec<StepRecord>,
    pub(crate) events: Vec<EventRecord>,
    pub(crate) messages: Vec<Letter>,
    /// The sort key of every item, for the reaper.
    pub(crate) items: Vec<String>,
}

/// A page of the tokens that have ended.
#[cfg(feature = "operator")]
#[derive(Debug)]
pub(crate) struct Ended {
    /// The key of each token, and the token if it can be read.
    pub(crate) tokens: Vec<(String, Result<Record, InvalidRecord>)>,
    /// The position of the next page. `None`: this was the last page.
    pub(crate) next: Option<Item>,
    /// The number of items that DynamoDB read.
    pub(crate) items_read: u64,
}

impl Store {
    /// Sends a read until there is a reply, or no time. A read changes nothing, so it is sent again
    /// if there is no reply.
    pub(super) async fn read_until<T, R>(
        &self,
        verb: &'static str,
        until: Until,
        request: impl Fn() -> R,
    ) -> Result<T, Error>
    where
        R: Future<Output = Result<(T, Option<ConsumedCapacity>), Failure>>,
    {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(verb);
            match self.exchange(tries, until, Box::pin(request())).await {
                Ok((output, consumed)) => {
                    metrics::count_read_units(verb, units(consumed.as_ref()));
                    return Ok(output);
                }
                Err(failure) => self.after_failure(verb, &mut tries, until, failure.of_read()).await?,
            }
        }
    }

    /// Reads a token.
    pub(crate) async fn read(
        &self,
        key: &str,
        freshness: Freshness,
        until: Until,
    ) -> Result<Option<Record>, Error> {
        let item = self.get("read the token", token_key(key), freshness, until).await?;
        Ok(item.as_ref().map(to_record).transpose()?)
    }

    /// Reads a page of the tokens that have ended, with keys that begin so. No index contains them,
    /// so this reads the table: 1 MB for each page, eventually consistent.
    #[cfg(feature = "operator")]
    pub(crate) async fn ended(&self, begin: &str, from: Option<Item>, until: Until) -> Result<Ended, Error> {
        let request = || async {
            let Condition { expression, names, values } = Condition::ended(begin);
            let scan = self
                .client
                .scan()
                .table_name(&self.table)
                .filter_expression(expression)
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()))
                .set_exclusive_start_key(from.clone())
                .set_return_consumed_capacity(self.capacity.clone());
            let mut output = scan.send().await.map_err(|error| Failure::of(error, |_| None))?;
            let consumed = output.consumed_capacity.take();
            Ok((output, consumed))
        };
        let output = self.read_until("list", until, request).await?;
        let key_of = |item: &Item| item.get(a::LOCK_TOKEN).and_then(|key| key.as_s().ok()).cloned();
        let items = output.items.iter().flatten();
        Ok(Ended {
            tokens: items.filter_map(|item| Some((key_of(item)?, to_record(item)))).collect(),
            next: output.last_evaluated_key,
            items_read: u64::try_from(output.scanned_count).unwrap_or_default(),
        })
    }

    /// Reads an answer from its separate item. The item is written before the token refers to it,
    /// so a strongly consistent read finds it.
    pub(crate) async fn read_answer(
        &self,
        token: &str,
        id: &str,
        codec: Codec,
        until: Until,
    ) -> Result<Encoded, Error> {
        let key = token_key(&TokenItem::Answer { token, id }.to_string());
        let item = self.get("read the answer", key, Freshness::Strong, until).await?;
        let item = item.ok_or(AnswerError::Missing)?;
        let wrong = AnswerError::Damaged { reason: "it is not encoded as its token states" };
        Ok(to_answer(&item, a::RESULT, codec).ok_or(wrong)?)
    }
}

#[cfg(feature = "workflow")]
impl Store {
    /// Reads a workflow without its large results: one strongly consistent query, and one more for
    /// each further MB.
    pub(crate) async fn read_workflow(&self, workflow: &str, until: Until) -> Result<Everything, Error> {
        self.read_all(|| Condition::workflow(workflow), until).await
    }

    /// Reads a workflow to delete it, with all large results. A driver that died before it wrote
    /// the record leaves a large result without a reference; it is included.
    pub(crate) async fn read_whole_workflow(
        &self,
        workflow: &str,
        until: Until,
    ) -> Result<Everything, Error> {
        self.read_all(|| Condition::whole_workflow(workflow), until).await
    }

    async fn read_all(&self, condition: impl Fn() -> Condition, until: Until) -> Result<Everything, Error> {
        let mut all = Everything::default();
        let mut start = None;
        // DynamoDB ends a page after 1 MB. A run that did not read the other pages would run the
        // steps on them again, or end the workflow without their compensation.
        loop {
            let request = || self.query_items(condition(), start.clone());
            let output = self.read_until(READ_WORKFLOW, until, request).await?;
            for item in output.items.as_deref().unwrap_or_default() {
                all.take_in(item)?;
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(all);
            }
        }
    }

    /// The failed runs of a workflow that was started at this time, by cause. A cause that cannot
    /// be read is left out: no decision depends on it.
    pub(crate) async fn read_failed_runs(
        &self,
        workflow: &str,
        started: DateTime<Utc>,
        until: Until,
    ) -> Result<Vec<FailedRuns>, Error> {
        let request = || self.query_items(Condition::failed_runs(workflow, started), None);
        let output = self.read_until(READ_WORKFLOW, until, request).await?;
        Ok(output.items.iter().flatten().filter_map(|item| failed_runs_of(item).ok()).collect())
    }

    /// Reads the events of a workflow, one for each name.
    pub(crate) async fn read_events(&self, workflow: &str, until: Until) -> Result<Vec<EventRecord>, Error> {
        self.events_that_begin(workflow, EVENTS, until).await
    }

    /// Reads the other events under this name, or under all names.
    pub(crate) async fn read_surplus(
        &self,
        workflow: &str,
        name: Option<&str>,
        until: Until,
    ) -> Result<Vec<EventRecord>, Error> {
        let begin = match name {
            Some(name) => format!("{SURPLUS_EVENTS}{name} "),
            None => SURPLUS_EVENTS.to_owned(),
        };
        self.events_that_begin(workflow, &begin, until).await
    }

    async fn events_that_begin(
        &self,
        workflow: &str,
        begin: &str,
        until: Until,
    ) -> Result<Vec<EventRecord>, Error> {
        let (mut events, mut start) = (Vec::new(), None);
        // DynamoDB ends a page after 1 MB. The reaper would not see a late event on another page,
        // and would delete its workflow before the event is handled.
        loop {
            let request = || self.query_items(Condition::events(workflow, begin), start.clone());
            let output = self.read_until(READ_WORKFLOW, until, request).await?;
            for item in output.items.as_deref().unwrap_or_default() {
                events.push(event_of(item)?);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(events);
            }
        }
    }

    /// A page of the items in a partition, strongly consistent.
    pub(super) async fn query_items(
        &self,
        condition: Condition,
        start: Option<Item>,
    ) -> Result<(QueryOutput, Option<ConsumedCapacity>), Failure> {
        let query = self.query_of(condition, start);
        let mut output = query.send().await.map_err(|error| Failure::of(error, |_| None))?;
        let consumed = output.consumed_capacity.take();
        Ok((output, consumed))
    }

    /// Strongly consistent: a driver records a step and is lost, and the next driver reads at once.
    /// Without this, the next driver could miss the record and run the step again.
    pub(super) fn query_of(&self, condition: Condition, start: Option<Item>) -> QueryFluentBuilder {
        let Condition { expression, names, values } = condition;
        self.client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .set_exclusive_start_key(start)
            .set_return_consumed_capacity(self.capacity.clone())
    }

    /// Reads a header.
    pub(crate) async fn read_header(&self, workflow: &str, until: Until) -> Result<Option<Header>, Error> {
        let item = self.get_item(workflow, HEADER, until).await?;
        Ok(item.as_ref().map(header_of).transpose()?)
    }

    /// Reads the record of a step.
    pub(crate) async fn read_record(&self, id: &RecordId, until: Until) -> Result<Option<StepRecord>, Error> {
        let item = self.get_item(&id.workflow, &id.item, until).await?;
        Ok(item.as_ref().map(record_of).transpose()?)
    }

    /// Reads the event of a name.
    pub(crate) async fn read_event(
        &self,
        workflow: &str,
        name: &str,
        until: Until,
    ) -> Result<Option<EventRecord>, Error> {
        let item = self.get_item(workflow, &Place::Event(name).to_string(), until).await?;
        Ok(item.as_ref().map(event_of).transpose()?)
    }

    /// Reads the receipt of an event from the partition of the first version.
    pub(crate) async fn read_event_receipt(
        &self,
        workflow: &str,
        place: &str,
        until: Until,
    ) -> Result<Option<EventReceipt>, Error> {
        let item = self.get_item(workflow, place, until).await?;
        Ok(item.as_ref().map(event_receipt_of).transpose()?)
    }

    /// Reads the sort keys of all receipts of events of a workflow with this start.
    pub(crate) async fn receipts_of_events(
        &self,
        workflow: &str,
        started: DateTime<Utc>,
        until: Until,
    ) -> Result<Vec<String>, Error> {
        Ok(self.read_all(|| Condition::receipts(workflow, started), until).await?.items)
    }

    /// Reads an input, an answer or a result from its separate item.
    pub(crate) async fn read_beside(
        &self,
        workflow: &str,
        item: &str,
        codec: Codec,
        until: Until,
    ) -> Result<Encoded, Error> {
        let item = self.get_item(workflow, item, until).await?.ok_or(AnswerError::Missing)?;
        let wrong = AnswerError::Damaged { reason: "it is not encoded as its workflow states" };
        Ok(to_answer(&item, a::RESULT, codec).ok_or(wrong)?)
    }

    async fn get_item(&self, workflow: &str, item: &str, until: Until) -> Result<Option<Item>, Error> {
        self.get(READ_WORKFLOW, item_key(workflow, item), Freshness::Strong, until).await
    }
}

impl Store {
    pub(super) async fn get(
        &self,
        verb: &'static str,
        key: Item,
        freshness: Freshness,
        until: Until,
    ) -> Result<Option<Item>, Error> {
        self.read_until(verb, until, || self.get_once(key.clone(), freshness)).await
    }

    async fn get_once(
        &self,
        key: Item,
        freshness: Freshness,
    ) -> Result<(Option<Item>, Option<ConsumedCapacity>), Failure> {
        let get = self.client.get_item().table_name(&self.table).set_key(Some(key));
        let get = get
            .consistent_read(freshness == Freshness::Strong)
            .set_return_consumed_capacity(self.capacity.clone());
        let output = get.send().await.map_err(|error| Failure::of(error, |_| None))?;
        Ok((output.item, output.consumed_capacity))
    }
}

#[cfg(feature = "workflow")]
impl Everything {
    fn take_in(&mut self, item: &Item) -> Result<(), Error> {
        let sort = item.get(a::ITEM).and_then(|sort| sort.as_s().ok()).cloned().unwrap_or_default();
        match Place::parse(&sort)? {
            Place::Header => self.header = Some(header_of(item)?),
            Place::Step(_) | Place::Former { .. } | Place::Nested { .. } | Place::Compensation { .. } => {
                self.records.push(record_of(item)?);
            }
            Place::Event(_) => self.events.push(event_of(item)?),
            Place::Message(_) | Place::Archived(_) => self.messages.push(message_of(item)?),
            // These items are no part of the workflow: a single step with the same key, and items
            // that are read by their id.
            _ => {}
        }
        self.items.push(sort);
        Ok(())
    }
}
