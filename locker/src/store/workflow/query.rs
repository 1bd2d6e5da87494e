//! Reading: the one query that resumes a workflow, and single items.

use aws_sdk_dynamodb::operation::get_item::GetItemOutput;
use aws_sdk_dynamodb::operation::query::QueryOutput;

use super::attribute as w;
use super::item::{Message, header_of, message_of, record_of};
use super::put::key_of;
use crate::core::answer::{AnswerError, Codec, Encoded};
use crate::core::retry::Tries;
use crate::core::workflow::header::Header;
use crate::core::workflow::record::{HEADER, LATE_UNDO, LEDGER, MESSAGE, RecordId, STEP, StepRecord, UNDO};
use crate::error::Error;
use crate::metrics;
use crate::store::exchange::Failure;
use crate::store::item::{Item, text, to_answer};
use crate::store::{Store, Until, units};

const READ: &str = "read the workflow";

/// All that is stored of a workflow, without what stays of former ones.
#[derive(Debug, Default)]
pub(crate) struct Everything {
    pub(crate) header: Option<Header>,
    pub(crate) records: Vec<StepRecord>,
    pub(crate) messages: Vec<Message>,
    /// The sort keys of every item, for whoever forgets them.
    pub(crate) items: Vec<String>,
}

impl Store {
    /// Read all of a workflow: one strongly consistent query, and one more for each further MB.
    pub(crate) async fn read_workflow(&self, workflow: &str, until: Until) -> Result<Everything, Error> {
        let mut all = Everything::default();
        let mut start = None;
        loop {
            let output = self.query_workflow(workflow, start, until).await?;
            for item in output.items.as_deref().unwrap_or_default() {
                let sort = item.get(w::ITEM).and_then(|sort| sort.as_s().ok()).cloned().unwrap_or_default();
                if sort == HEADER {
                    all.header = Some(header_of(item)?);
                } else if [STEP, UNDO, LATE_UNDO].iter().any(|prefix| sort.starts_with(prefix)) {
                    all.records.push(record_of(item)?);
                } else if sort.starts_with(MESSAGE) {
                    all.messages.push(message_of(item)?);
                }
                all.items.push(sort);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(all);
            }
        }
    }

    async fn query_workflow(
        &self,
        workflow: &str,
        start: Option<Item>,
        until: Until,
    ) -> Result<QueryOutput, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(READ);
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .consistent_read(true)
                .key_condition_expression("#workflow = :workflow AND #item < :ledger")
                .expression_attribute_names("#workflow", w::WORKFLOW)
                .expression_attribute_names("#item", w::ITEM)
                .expression_attribute_values(":workflow", text(workflow))
                .expression_attribute_values(":ledger", text(LEDGER))
                .set_exclusive_start_key(start.clone())
                .set_return_consumed_capacity(self.capacity.clone());
            let reply = Box::pin(async { query.send().await.map_err(|error| Failure::of(error, |_| None)) });
            match self.exchange(tries, until, reply).await {
                Ok(output) => {
                    metrics::count_units(READ, units(output.consumed_capacity.as_ref()));
                    return Ok(output);
                }
                Err(failure) => self.after_failure(READ, &mut tries, until, failure.of_read()).await?,
            }
        }
    }

    /// Read a header as of now.
    pub(crate) async fn read_header(&self, workflow: &str, until: Until) -> Result<Option<Header>, Error> {
        let item = self.get_item(workflow, HEADER, until).await?;
        Ok(item.as_ref().map(header_of).transpose()?)
    }

    /// Read a record as of now.
    pub(crate) async fn read_record(&self, id: &RecordId, until: Until) -> Result<Option<StepRecord>, Error> {
        let item = self.get_item(&id.workflow, &id.item, until).await?;
        Ok(item.as_ref().map(record_of).transpose()?)
    }

    /// Read an input or an answer that lies beside its header.
    pub(crate) async fn read_beside(
        &self,
        workflow: &str,
        item: &str,
        codec: Codec,
        until: Until,
    ) -> Result<Encoded, Error> {
        let item = self.get_item(workflow, item, until).await?.ok_or(AnswerError::Missing)?;
        let wrong = AnswerError::Damaged { reason: "it is not in the form that its workflow says" };
        Ok(to_answer(&item, codec).ok_or(wrong)?)
    }

    async fn get_item(&self, workflow: &str, item: &str, until: Until) -> Result<Option<Item>, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(READ);
            match self.exchange(tries, until, Box::pin(self.get_item_once(workflow, item))).await {
                Ok(output) => {
                    metrics::count_units(READ, units(output.consumed_capacity.as_ref()));
                    return Ok(output.item);
                }
                Err(failure) => self.after_failure(READ, &mut tries, until, failure.of_read()).await?,
            }
        }
    }

    async fn get_item_once(&self, workflow: &str, item: &str) -> Result<GetItemOutput, Failure> {
        self.client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key_of(workflow, item)))
            .consistent_read(true)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|error| Failure::of(error, |_| None))
    }
}
