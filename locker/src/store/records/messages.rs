//! Messages that are kept.

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::ConsumedCapacity;
use chrono::{DateTime, Utc};

use crate::core::message::letter::Letter;
use crate::core::message::receipt::Remembered;
use crate::core::workflow::step::RecordId;
use crate::error::Error;
use crate::store::exchange::Failure;
use crate::store::expression::Condition;
use crate::store::item::{is_message, item_key, message_of, receipt_left, remembered_of};
use crate::store::read::Freshness;
use crate::store::{Action, Item, Store, Until};

/// The number of messages in one page of the oldest. Later messages that wait for a dead message
/// are not read.
const OLDEST: i32 = 50;

/// The end of a consumer's partition.
#[derive(Debug)]
pub(crate) struct Newest {
    /// The newest message that is not archived.
    pub(crate) message: Option<Letter>,
    /// Whether the partition has any item, such as the receipt of a message.
    pub(crate) has_any: bool,
}

impl Store {
    /// Reads a page of the messages of a partition, in the order of their sort keys, with strong
    /// consistency. Returns the messages, and the start of the next page.
    pub(crate) async fn read_messages(
        &self,
        partition: &str,
        start: Option<Item>,
        until: Until,
    ) -> Result<(Vec<Letter>, Option<Item>), Error> {
        let request = || self.query_oldest(partition, start.clone(), OLDEST);
        let output = self.read_until("read the messages", until, request).await?;
        let messages = output.items.as_deref().unwrap_or_default().iter().map(message_of);
        Ok((messages.collect::<Result<_, _>>()?, output.last_evaluated_key))
    }

    /// Returns up to `most` of the oldest messages of a partition. The flag: more may be stored.
    /// Strongly consistent. Archived messages, for which nothing waits, have other sort keys.
    pub(crate) async fn read_first_messages(
        &self,
        partition: &str,
        most: usize,
        until: Until,
    ) -> Result<(Vec<Letter>, bool), Error> {
        let most = i32::try_from(most).unwrap_or(OLDEST).min(OLDEST);
        let request = || self.query_oldest(partition, None, most);
        let output = self.read_until("read the first messages", until, request).await?;
        let messages = output.items.as_deref().unwrap_or_default().iter().map(message_of);
        Ok((messages.collect::<Result<_, _>>()?, output.last_evaluated_key.is_some()))
    }

    async fn query_oldest(
        &self,
        partition: &str,
        start: Option<Item>,
        limit: i32,
    ) -> Result<(QueryOutput, Option<ConsumedCapacity>), Failure> {
        sent(self.query_of(Condition::messages(partition), start).limit(limit)).await
    }

    /// Reads the end of a consumer's partition, one item, strongly consistent.
    pub(crate) async fn read_newest(&self, partition: &str, until: Until) -> Result<Newest, Error> {
        let query = || self.query_of(Condition::workflow(partition), None);
        let request = || sent(query().scan_index_forward(false).limit(1));
        let output = self.read_until("read the newest message", until, request).await?;
        let item = output.items.and_then(|items| items.into_iter().next());
        // Archived messages and receipts sort before all messages.
        let message = item.as_ref().filter(|item| is_message(item)).map(message_of).transpose()?;
        Ok(Newest { message, has_any: item.is_some() })
    }

    /// Returns the remembered message of a receipt, if its retention ends at this time or later.
    /// Reads with strong consistency.
    pub(crate) async fn remembers(
        &self,
        at: &RecordId,
        expired_at: DateTime<Utc>,
        until: Until,
    ) -> Result<Option<Remembered>, Error> {
        let key = item_key(&at.workflow, &at.item);
        let item = self.get("read what is remembered", key, Freshness::Strong, until).await?;
        Ok(item.and_then(|item| remembered_of(&item, expired_at).transpose()).transpose()?)
    }

    /// Returns the write that restarts the window of a receipt now, because its message leaves the
    /// table. `None`: there is no receipt.
    pub(crate) async fn remembered_from_now(
        &self,
        at: &RecordId,
        now: DateTime<Utc>,
        until: Until,
    ) -> Result<Option<Action>, Error> {
        let key = item_key(&at.workflow, &at.item);
        let found = self.get("read what is remembered", key, Freshness::Strong, until).await?;
        let Some(item) = found else { return Ok(None) };
        let (item, seen) = receipt_left(item, &self.ids.attempt(), now)?;
        Ok(Some(Action::PutOver { item, seen }))
    }

    /// Reads one message.
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
}

async fn sent(query: QueryFluentBuilder) -> Result<(QueryOutput, Option<ConsumedCapacity>), Failure> {
    let mut output = query.send().await.map_err(|error| Failure::of(error, |_| None))?;
    let consumed = output.consumed_capacity.take();
    Ok((output, consumed))
}
