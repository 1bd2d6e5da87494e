//! Reading the audit records of operators' acts.

use aws_sdk_dynamodb::types::AttributeValue;

#[cfg(feature = "workflow")]
use super::expression::Condition;
#[cfg(feature = "workflow")]
use super::item::item_key;
use super::item::{Item, to_answer, token_key};
#[cfg(feature = "workflow")]
use super::listing::{Row, to_row};
use super::read::Freshness;
#[cfg(feature = "workflow")]
use super::schema::Layout;
use super::schema::attribute as a;
use super::{Store, Until};
use crate::core::answer::{AnswerError, Codec, Encoded};
use crate::error::Error;

const VERB: &str = "read the audit";

#[cfg(feature = "workflow")]
impl Store {
    /// The acts on one workflow, oldest first.
    pub(crate) async fn read_acts(&self, workflow: &str, until: Until) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut start = None;
        loop {
            let output = self
                .read_until(VERB, until, || self.query_items(Condition::acts(workflow), start.clone()))
                .await?;
            let items = output.items.unwrap_or_default();
            rows.extend(items.iter().filter_map(|item| to_row(&Layout::WORKFLOWS, item)));
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(rows);
            }
        }
    }

    /// The result that an operator gave, from an audit record in the table of workflows.
    pub(crate) async fn given_to_workflow(
        &self,
        workflow: &str,
        item: &str,
        until: Until,
    ) -> Result<Option<Encoded>, Error> {
        let item = self.get(VERB, item_key(workflow, item), Freshness::Strong, until).await?;
        item.as_ref().map_or(Ok(None), inline)
    }
}

impl Store {
    /// The answer that an audit record in the table of tokens repeats. `None`: it repeats no text
    /// of the work, or it has expired. The inner value is the id of a separate item.
    pub(crate) async fn repeated(&self, key: &str, until: Until) -> Result<Option<Option<String>>, Error> {
        let Some(item) = self.get(VERB, token_key(key), Freshness::Strong, until).await? else {
            return Ok(None);
        };
        let repeats = [a::RESULT, a::RESULT_ID, a::CAUSE].iter().any(|name| item.contains_key(*name));
        Ok(repeats.then(|| text(&item, a::RESULT_ID).map(str::to_owned)))
    }

    /// The answer that an operator gave or found, from an audit record in the table of tokens.
    pub(crate) async fn given_to_token(
        &self,
        token: &str,
        key: &str,
        until: Until,
    ) -> Result<Option<Encoded>, Error> {
        let Some(item) = self.get(VERB, token_key(key), Freshness::Strong, until).await? else {
            return Ok(None);
        };
        let (Some(id), Some(codec)) = (text(&item, a::RESULT_ID), codec(&item)) else { return inline(&item) };
        match self.read_answer(token, id, codec, until).await {
            // It expired with the token.
            Err(Error::Answer(AnswerError::Missing)) => Ok(None),
            read => read.map(Some),
        }
    }
}

fn inline(item: &Item) -> Result<Option<Encoded>, Error> {
    let Some(codec) = codec(item) else { return Ok(None) };
    let damaged = AnswerError::Damaged { reason: "it is not encoded as its audit record states" };
    Ok(Some(to_answer(item, a::RESULT, codec).ok_or(damaged)?))
}

fn codec(item: &Item) -> Option<Codec> {
    text(item, a::RESULT_CODEC).and_then(Codec::named)
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).map(String::as_str)
}
