//! Reading one token, and an answer that lies beside it.

use aws_sdk_dynamodb::operation::get_item::GetItemOutput;

use super::exchange::Failure;
use super::item::{self, Item};
use super::{Store, Until, units};
use crate::core::answer::{AnswerError, Codec, Encoded};
use crate::core::record::Record;
use crate::core::retry::Tries;
use crate::core::write::answer_key;
use crate::error::Error;
use crate::metrics;

/// How fresh a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Half the price. It may be a second behind, so only a terminal record may be believed.
    Eventual,
    /// As of now.
    Strong,
}

impl Store {
    /// Read a token.
    pub(crate) async fn read(
        &self,
        key: &str,
        freshness: Freshness,
        until: Until,
    ) -> Result<Option<Record>, Error> {
        let item = self.get("read the token", key, freshness, until).await?;
        Ok(item.as_ref().map(item::to_record).transpose()?)
    }

    /// Read an answer that lies beside its token. It was written before the token pointed to it, so
    /// a strong read finds it.
    pub(crate) async fn read_answer(
        &self,
        token: &str,
        id: &str,
        codec: Codec,
        until: Until,
    ) -> Result<Encoded, Error> {
        let key = answer_key(token, id);
        let item = self.get("read the answer", &key, Freshness::Strong, until).await?;
        let encoded = item.as_ref().ok_or(AnswerError::Missing).map(|item| item::to_answer(item, codec))?;
        Ok(encoded.ok_or(AnswerError::Damaged { reason: "it is not in the form that its token says" })?)
    }

    async fn get(
        &self,
        verb: &'static str,
        key: &str,
        freshness: Freshness,
        until: Until,
    ) -> Result<Option<Item>, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(verb);
            match self.exchange(tries, until, Box::pin(self.get_once(key, freshness))).await {
                Ok(output) => {
                    metrics::count_units(verb, units(output.consumed_capacity.as_ref()));
                    return Ok(output.item);
                }
                Err(failure) => self.after_failure(verb, &mut tries, until, failure.of_read()).await?,
            }
        }
    }

    async fn get_once(&self, key: &str, freshness: Freshness) -> Result<GetItemOutput, Failure> {
        self.client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(item::key_of(key)))
            .consistent_read(freshness == Freshness::Strong)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|error| Failure::of(error, |_| None))
    }
}
