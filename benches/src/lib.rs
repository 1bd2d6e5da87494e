//! Costs of Locker, compared with hand-written calls of the bare SDK.
//!
//! - [`canned`]: a server of canned, minimal DynamoDB replies, so that only the client's cost is
//!   measured.
//! - [`bare`]: the same requests, written by hand with `aws-sdk-dynamodb` alone.
//! - [`answer`]: answers of a given size.

// A bench that cannot measure can only stop.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod answer;
pub mod bare;
pub mod canned;
