//! Messages over the real SDKs to queues, topics and buses of Moto, a simulation of AWS.
//!
//! ```sh
//! tests/moto cargo test -p locker-tests --test aws -- --ignored
//! ```

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "aws/account.rs"]
mod account;
#[path = "workflow/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of workflows")]
mod bench;
#[path = "aws/bodies.rs"]
mod bodies;
#[path = "messages/post.rs"]
#[allow(dead_code, reason = "shared with the tests of messages")]
mod post;
#[path = "aws/receiving.rs"]
mod receiving;
#[path = "aws/sending.rs"]
mod sending;
