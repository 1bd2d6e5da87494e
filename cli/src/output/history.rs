//! The file of `--history`: a layer of `tracing-subscriber`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};

use super::escaped;

/// The target of the events, as `docs/evidence/reliability.md` documents it.
const TARGET: &str = "locker::history";

/// Appends each event of the history to a file, as a JSON line, before the call continues.
///
/// Each line is one write to a file that is open for appending, so several processes may share the
/// file. Use [`Writer::only`] as its filter.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
}

impl Writer {
    /// Opens a file, and creates it if it does not exist.
    pub(crate) fn append(file: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(file)? })
    }

    /// A filter that only the events of the history pass.
    pub(crate) fn only<S>() -> impl Filter<S> + Send + Sync + 'static {
        tracing_subscriber::filter::FilterFn::new(is_history).with_max_level_hint(Level::DEBUG)
    }
}

fn is_history(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TARGET && *metadata.level() <= Level::DEBUG
}

impl<S: Subscriber> Layer<S> for Writer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !is_history(event.metadata()) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = escaped(&Value::Object(fields.0).to_string()) + "\n";
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            tracing::error!(%error, "an event of the history could not be written; the history has a gap");
        }
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
