//! Logs as JSON, and metrics in CloudWatch's embedded format (EMF), both on standard output.

use lambda_runtime::Error;
use locker::{Key, KeysInLogs, Settings};
use metrics_cloudwatch_embedded::{Builder, Collector};

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "Locker";

/// Logs and metrics of a function.
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
    /// Zeros are written: an alarm on missing tasks needs the value 0.
    Written,
    /// Zeros are left out: no alarm needs them.
    LeftOut,
}

impl Telemetry {
    /// Initialise logs and metrics under the name of a service, with or without zeros.
    ///
    /// # Errors
    ///
    /// If they were initialised before.
    pub fn start(service: &'static str, zeros: Zeros) -> Result<Self, Error> {
        lambda_runtime::tracing::init_default_subscriber();
        // Separates the metrics of two stacks in one account.
        let stack = std::env::var("LOCKER_STACK").unwrap_or_else(|_| "locker".to_owned());
        let metrics = Builder::new()
            .cloudwatch_namespace(NAMESPACE)
            .with_dimension("service", service)
            .with_dimension("stack", stack);
        Ok(Self { metrics: metrics.emit_zeros(zeros == Zeros::Written).init()? })
    }

    /// Write the metrics counted since the last call. Call it at the end of every invocation: the
    /// environment is frozen after the response.
    pub fn flush(&self) {
        if let Err(error) = self.metrics.flush(std::io::stdout().lock()) {
            tracing::error!(%error, "metrics could not be written");
        }
    }
}

/// What a log shows of a key, by the settings.
pub(crate) fn shown(settings: &Settings, key: &Key) -> String {
    match settings.keys_in_logs {
        KeysInLogs::Digest => key.digest(),
        _ => key.as_str().to_owned(),
    }
}
