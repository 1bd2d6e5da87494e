//! Logs as JSON, and metrics in CloudWatch's embedded format (EMF), both on standard output.

use lambda_runtime::Error;
use metrics_cloudwatch_embedded::{Builder, Collector};

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "Locker";

/// What a function tells while it runs.
#[derive(Clone, Copy)]
pub struct Telemetry {
    metrics: &'static Collector,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

/// Whether metrics that are zero are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// They are: an alarm on missing tasks has to hear that there are none.
    Written,
    /// They are not: nobody asks how often nothing happened.
    LeftOut,
}

impl Telemetry {
    /// Start telling, under the name of a service, with or without what is zero.
    ///
    /// # Errors
    ///
    /// If it was started before.
    pub fn start(service: &'static str, zeros: Zeros) -> Result<Self, Error> {
        lambda_runtime::tracing::init_default_subscriber();
        // Two stacks in one account do not count for each other.
        let stack = std::env::var("LOCKER_STACK").unwrap_or_else(|_| "locker".to_owned());
        let metrics = Builder::new()
            .cloudwatch_namespace(NAMESPACE)
            .with_dimension("service", service)
            .with_dimension("stack", stack);
        Ok(Self { metrics: metrics.emit_zeros(zeros == Zeros::Written).init()? })
    }

    /// Write what has been counted since the last time. Call it at the end of every invocation: after the
    /// reply the environment is frozen.
    pub fn flush(&self) {
        if let Err(error) = self.metrics.flush(std::io::stdout().lock()) {
            tracing::error!(%error, "metrics could not be written");
        }
    }
}
