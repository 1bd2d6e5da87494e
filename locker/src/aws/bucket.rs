//! Amazon S3, for large bodies.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;

use crate::error::BoxError;
use crate::message::Bodies;

/// A bucket of Amazon S3, for a [`ClaimCheck`](crate::message::ClaimCheck).
///
/// A sender needs `s3:PutObject` on the objects of the prefix. A receiver needs `s3:GetObject` on
/// them and `s3:ListBucket` on the bucket. Without `s3:ListBucket`, S3 denies access to an absent
/// object, which is reported as a failure of the store. A call that takes longer than 30 seconds
/// fails.
///
/// Source: Amazon S3 API Reference, `GetObject`.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    name: String,
}

impl Bucket {
    /// The bucket of this name. Make the client once, outside the handler.
    #[must_use]
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        Self { client: client.clone(), name: name.into() }
    }
}

/// The time limit of a body. The recommended client has no limit.
const WITHIN: Duration = Duration::from_secs(30);

impl Bodies for Bucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), BoxError> {
        let put = self.client.put_object().bucket(&self.name).key(key).content_type("application/json");
        in_time(Box::pin(async {
            put.body(ByteStream::from(body)).send().await.map_err(|error| said(&error))?;
            Ok(())
        }))
        .await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
        let get = self.client.get_object().bucket(&self.name).key(key);
        in_time(Box::pin(async {
            match get.send().await {
                Ok(object) => Ok(Some(object.body.collect().await?.to_vec())),
                Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                    Ok(None)
                }
                Err(error) => Err(said(&error)),
            }
        }))
        .await
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let slow = |_| format!("Amazon S3 did not reply within {} s", WITHIN.as_secs());
    tokio::time::timeout(WITHIN, call).await.map_err(slow)?
}

fn said(error: &(impl std::error::Error + 'static)) -> BoxError {
    DisplayErrorContext(error).to_string().into()
}
