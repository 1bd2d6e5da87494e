//! The scenarios in real processes, killed at random moments; then the books and the rows are
//! compared.

mod bank;
mod operator;
mod processes;
mod queue;
mod storm;
mod work;

pub(crate) use storm::{Storm, run};
pub(crate) use work::{Place, complete, receive, relay, work};

/// The number of requests of one worker process. The next process begins in the middle of them.
const SPAN: u64 = 16;
