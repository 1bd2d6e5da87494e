//! The binaries of the functions over the Lambda Runtime API, with real events, against a real
//! engine and a provider that records its charges.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cost;
mod doubt;
mod kept;
mod odd;
mod odd_events;
mod orders;
mod packers;
mod packing;
mod permissions;
mod purchases;
mod reaper;
mod scanner;
mod stack;
mod start;
mod template;
mod till;
mod watched;
mod worker;
