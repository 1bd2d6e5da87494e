//! Messages that are kept.

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::types::ConsumedCapacity;

use super::put::Put;
use crate::core::message::letter::Letter;
use crate::error::Error;
use crate::store::exchange::Failure;
use crate::store::expression::Condition;
use crate::store::item::{item_key, message_item, message_of};
use crate::store::read::Freshness;
use crate::store::{Guard, Item, Store, Until};

/// Messages in one page of the newest ones.
const NEWEST: i32 = 10;

impl Store {
    /// Read the messages of a partition, in the order of their sort keys: one strongly consistent query, and one more for
    /// each further MB.
    pub(crate) async fn read_messages(&self, workflow: &str, until: Until) -> Result<Vec<Letter>, Error> {
        let mut messages = Vec::new();
        let mut start = None;
        loop {
            let request = || self.query_items(Condition::messages(workflow), start.clone());
            let output = self.read_until("read the messages", until, request).await?;
            for item in output.items.as_deref().unwrap_or_default() {
                messages.push(message_of(item)?);
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(messages);
            }
        }
    }

    /// Read a few messages of a partition, the newest first, strongly consistent; and where to go on.
    pub(crate) async fn read_newest_messages(
        &self,
        workflow: &str,
        start: Option<Item>,
        until: Until,
    ) -> Result<(Vec<Letter>, Option<Item>), Error> {
        let request = || self.query_newest(Condition::messages(workflow), start.clone());
        let output = self.read_until("read the newest messages", until, request).await?;
        let messages = output.items.as_deref().unwrap_or_default().iter().map(message_of);
        Ok((messages.collect::<Result<_, _>>()?, output.last_evaluated_key))
    }

    async fn query_newest(
        &self,
        condition: Condition,
        start: Option<Item>,
    ) -> Result<(QueryOutput, Option<ConsumedCapacity>), Failure> {
        let query = self.query_of(condition, start).scan_index_forward(false).limit(NEWEST);
        let mut output = query.send().await.map_err(|error| Failure::of(error, |_| None))?;
        let consumed = output.consumed_capacity.take();
        Ok((output, consumed))
    }

    /// Read one message.
    pub(crate) async fn read_message(
        &self,
        workflow: &str,
        item: &str,
        until: Until,
    ) -> Result<Option<Letter>, Error> {
        let key = item_key(workflow, item);
        let item = self.get("read the message", key, Freshness::Strong, until).await?;
        Ok(item.as_ref().map(message_of).transpose()?)
    }

    /// Put a message where there is none. Returns whether there was none.
    pub(crate) async fn put_new_message(&self, message: &Letter, until: Until) -> Result<bool, Error> {
        let item = || message_item(message, self.shards);
        let put = self.put_item("set the message aside", item, Some(&message.revision), Guard::Absent, until);
        Ok(matches!(put.await?, Put::Done))
    }
}
