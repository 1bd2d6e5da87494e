//! Observability: metrics, and the history of calls.

pub mod history;
pub mod metrics;
