//! The metrics that a test records.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use metrics::{Key, LocalRecorderGuard};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Records the metrics of this thread, which also runs the tasks of `#[tokio::test]`.
pub struct Recorded(RefCell<Option<Recording>>);

struct Recording {
    snapshotter: Snapshotter,
    _guard: LocalRecorderGuard<'static>,
}

/// The metrics that were recorded between two reads.
#[derive(Debug)]
pub struct Metrics(Vec<(Key, DebugValue)>);

impl Recorded {
    /// Records until the returned value is dropped.
    #[must_use]
    pub fn start() -> Self {
        Self(RefCell::new(Some(Recording::start())))
    }

    /// Returns the metrics that were recorded since the last call.
    #[must_use]
    pub fn take(&self) -> Metrics {
        // A guard restores the recorder before it, so the old guard is dropped before the new one
        // exists.
        let snapshotter = self.0.take().map(|recording| recording.snapshotter);
        self.0.replace(Some(Recording::start()));
        let metrics = snapshotter.map(|it| it.snapshot().into_vec()).unwrap_or_default();
        Metrics(metrics.into_iter().map(|(key, _, _, value)| (key.into_parts().1, value)).collect())
    }
}

impl Recording {
    fn start() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        Self { snapshotter: recorder.snapshotter(), _guard: metrics::set_default_local_recorder(recorder) }
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

    /// The value of a gauge. `None`: it was not set.
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

    /// Returns the sum of a counter, or the number of values of a histogram, for each value of a
    /// label.
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

    /// Returns the sum of a counter, or the number of values of a histogram, over all labels.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counts(name, "").into_values().sum()
    }
}
