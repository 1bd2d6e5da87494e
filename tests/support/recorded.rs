//! The metrics that a test records.

use std::collections::BTreeMap;
use std::fmt;

use metrics::{Key, LocalRecorderGuard};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Records the metrics of this thread, which also runs the tasks of `#[tokio::test]`.
pub struct Recorded {
    snapshotter: Snapshotter,
    _recording: LocalRecorderGuard<'static>,
}

/// The metrics that were recorded between two reads.
#[derive(Debug)]
pub struct Metrics(Vec<(Key, DebugValue)>);

impl Recorded {
    /// Starts to record, until this value is dropped.
    #[must_use]
    pub fn start() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        Self {
            snapshotter: recorder.snapshotter(),
            _recording: metrics::set_default_local_recorder(recorder),
        }
    }

    /// Returns the metrics, and sets each of them to 0.
    #[must_use]
    pub fn take(&self) -> Metrics {
        let metrics = self.snapshotter.snapshot().into_vec().into_iter();
        Metrics(metrics.map(|(key, _, _, value)| (key.into_parts().1, value)).collect())
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Recorded").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The key of each metric, with its labels.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The value of a gauge. `None`: it was never set.
    #[must_use]
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.gauges().remove(name)
    }

    /// The values of all gauges, by their names.
    #[must_use]
    pub fn gauges(&self) -> BTreeMap<String, f64> {
        let gauges = self.0.iter().filter_map(|(key, value)| match value {
            DebugValue::Gauge(value) => Some((key.name().to_owned(), value.into_inner())),
            _ => None,
        });
        gauges.collect()
    }

    /// For each value of a label, the sum of a counter, or how many values a histogram has.
    #[must_use]
    pub fn counts(&self, name: &str, label: &str) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (key, value) in self.0.iter().filter(|(key, _)| key.name() == name) {
            let of = key.labels().find(|known| known.key() == label).map_or("", |found| found.value());
            *counts.entry(of.to_owned()).or_insert(0) += match value {
                DebugValue::Counter(count) => *count,
                DebugValue::Histogram(values) => values.len() as u64,
                DebugValue::Gauge(_) => 0,
            };
        }
        counts
    }

    /// The sum of a counter over all labels, or how many values a histogram has.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counts(name, "").into_values().sum()
    }
}
