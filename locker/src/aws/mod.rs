//! Targets of AWS: [Amazon SQS](Sqs), [Amazon SNS](Topic) and [Amazon EventBridge](EventBus); and
//! [Amazon S3](Bucket) for large bodies.
//!
//! Each message is the event's JSON ([`Envelope::to_json`](crate::message::Envelope::to_json)).
//! The reply of AWS determines the outcome for the message (see [`Sent`](crate::message::Sent)):
//!
//! | reply | class | the message |
//! |---|---|---|
//! | confirmed | `Done` | was sent |
//! | throttled, expired credentials or signature, no connection | `Later` | is retried |
//! | timeout, connection lost, 5xx | `Unknown` | may have been sent; is retried under the same id |
//! | too large, invalid characters, invalid JSON | `MessageRefused` | is dead-lettered at once |
//! | access denied, no such queue, topic or bus, any code of AWS KMS | `TargetRefused` | is retried; the alarm `TargetsRefuse` rises |
//! | any other 4xx | `Refused` | is retried |
//!
//! A batch that is refused as a whole is sent again one by one. Then one bad message is
//! dead-lettered and not the nine others. A request takes at most 4 seconds.
//!
//! Make the SDK client outside the handler, and share its HTTP client with DynamoDB's; on Lambda,
//! [`client::config`](crate::client::config) is the configuration for both. A relay has its own
//! pauses: the client needs no retries.

#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "eventbridge")]
mod event_bus;
#[cfg(feature = "sqs")]
mod poll;
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
