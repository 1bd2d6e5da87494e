//! Targets of AWS: [Amazon SQS](Sqs), [Amazon SNS](Topic) and [Amazon EventBridge](EventBus); and
//! [Amazon S3](Bucket) for large bodies.
//!
//! Each message is the event's JSON ([`Envelope::to_json`](crate::message::Envelope::to_json)).
//! What AWS says of it, this way:
//!
//! | reply | the message |
//! |---|---|
//! | confirmed | was sent |
//! | throttled, expired credentials or signature, no connection | is sent again later |
//! | timeout, connection lost, 5xx | may have been sent: is sent again, under the same id |
//! | any other refusal: no such queue, access denied, too large | is dead: an operator acts, and has it sent again |
//!
//! A batch that is refused as a whole is sent again one by one, so that one message is dead for
//! what is wrong with it, and not the nine beside it.
//!
//! Make the SDK client outside the handler, and share its HTTP client with DynamoDB's; on Lambda,
//! [`client::config`](crate::client::config) is the configuration for both. A relay has its own
//! pauses: the client needs no retries.

#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "eventbridge")]
mod event_bus;
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
mod reply;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "sns")]
mod topic;

#[cfg(feature = "s3")]
pub use bucket::Bucket;
#[cfg(feature = "eventbridge")]
pub use event_bus::EventBus;
#[cfg(feature = "sqs")]
pub use sqs::Sqs;
#[cfg(feature = "sns")]
pub use topic::Topic;
