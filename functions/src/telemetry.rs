//! Logs as JSON, and metrics in CloudWatch's embedded format (EMF), both on standard output.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use locker::{Key, KeysInLogs, Settings};
use metrics_cloudwatch_embedded::{Builder, Collector};
use serde::Serialize;
use serde::de::DeserializeOwned;

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

impl Telemetry {
    /// Initialises logs and metrics of a function that requests call. Metrics that are zero are
    /// left out.
    ///
    /// # Errors
    ///
    /// If they were initialised before.
    pub fn of_requests(service: &'static str) -> Result<Self, Error> {
        Self::start(service, false)
    }

    /// The same for a scheduled function. Zeros are written: an alarm on missing tasks needs the
    /// value 0.
    ///
    /// # Errors
    ///
    /// If they were initialised before.
    pub fn of_schedule(service: &'static str) -> Result<Self, Error> {
        Self::start(service, true)
    }

    fn start(service: &'static str, zeros: bool) -> Result<Self, Error> {
        lambda_runtime::tracing::init_default_subscriber();
        // Separates the metrics of two stacks in one account.
        let stack = std::env::var("LOCKER_STACK").unwrap_or_else(|_| "locker".to_owned());
        let metrics = Builder::new()
            .cloudwatch_namespace("Locker")
            .with_dimension("service", service)
            .with_dimension("stack", stack);
        Ok(Self { metrics: metrics.emit_zeros(zeros).init()? })
    }

    /// Runs a function: calls the handler for each event, and writes the metrics after it.
    ///
    /// # Errors
    ///
    /// If the Runtime API of Lambda cannot be reached.
    pub async fn serve<E: DeserializeOwned, R: Serialize>(
        &self,
        handler: impl AsyncFn(LambdaEvent<E>) -> Result<R, Error>,
    ) -> Result<(), Error> {
        let served = service_fn(async |event| {
            let response = handler(event).await;
            self.flush();
            response
        });
        lambda_runtime::run(served).await
    }

    /// Writes the metrics counted since the last call. Call it at the end of every invocation: the
    /// environment is frozen after the response.
    pub fn flush(&self) {
        if let Err(error) = self.metrics.flush(std::io::stdout().lock()) {
            tracing::error!(%error, "metrics could not be written");
        }
    }
}

/// Returns the form of a key in logs, by the settings.
pub(crate) fn shown(settings: &Settings, key: &Key) -> String {
    match settings.keys_in_logs {
        KeysInLogs::Digest => key.digest(),
        _ => key.as_str().to_owned(),
    }
}
