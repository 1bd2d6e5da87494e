//! Deleting the items of a finished workflow, in small batches.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};

use super::item::item_key;
use crate::core::retry::Tries;
use crate::error::Error;
use crate::metrics;
use crate::store::exchange::Failure;
use crate::store::{Store, Until, units};

const VERB: &str = "delete the workflow";
/// What DynamoDB takes in one batch.
const BATCH: usize = 25;

impl Store {
    /// Deletes items of one workflow, however often DynamoDB takes only a part of a batch.
    pub(crate) async fn delete_items(
        &self,
        workflow: &str,
        items: &[String],
        until: Until,
    ) -> Result<(), Error> {
        for batch in items.chunks(BATCH) {
            let mut left = batch.iter().map(|item| delete(workflow, item)).collect::<Result<Vec<_>, _>>()?;
            let mut tries = Tries::default();
            while !left.is_empty() {
                metrics::count_request(VERB);
                match self.exchange(tries, until, Box::pin(self.delete_batch(left.clone()))).await {
                    Ok(unprocessed) => {
                        left = unprocessed;
                        if !left.is_empty() {
                            let busy = Failure {
                                heard: crate::core::retry::Heard::Busy,
                                code: None,
                                cause: "a part of the batch was not processed".into(),
                                item: None,
                            };
                            self.after_failure(VERB, &mut tries, until, busy).await?;
                        }
                    }
                    // Deleting again is harmless.
                    Err(failure) => self.after_failure(VERB, &mut tries, until, failure.of_read()).await?,
                }
            }
        }
        Ok(())
    }

    async fn delete_batch(&self, requests: Vec<WriteRequest>) -> Result<Vec<WriteRequest>, Failure> {
        let output = self
            .client
            .batch_write_item()
            .set_request_items(Some(HashMap::from([(self.table.clone(), requests)])))
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|error| Failure::of(error, |_| None))?;
        for consumed in output.consumed_capacity.as_deref().unwrap_or_default() {
            metrics::count_write_units(VERB, units(Some(consumed)));
        }
        Ok(output.unprocessed_items.and_then(|mut items| items.remove(&self.table)).unwrap_or_default())
    }
}

fn delete(workflow: &str, item: &str) -> Result<WriteRequest, Error> {
    let request = DeleteRequest::builder().set_key(Some(item_key(workflow, item))).build();
    let request = request.map_err(|error| Error::Denied {
        verb: VERB,
        code: None,
        advice: "the request could not be built".to_owned(),
        source: error.into(),
    })?;
    Ok(WriteRequest::builder().delete_request(request).build())
}
