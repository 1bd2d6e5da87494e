//! The history of calls on lock tokens, read and checked against the promises.
//!
//! The library emits its calls as `tracing` events (target `locker::history`). [`layer`] appends
//! the events to a file in the form of a function's log. [`History`] reads such files and the files
//! of `locker --history`. [`check()`] checks the calls against the promises and the provider's
//! books.

mod calls;
mod check;
mod effect;
mod event;
mod report;

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

pub use calls::{Call, History, Token};
pub use check::{Rules, check};
pub use effect::Effect;
pub use event::{Event, Op, Outcome, Phase, Time};
pub use report::{Finding, Report, Rule, Severity};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Appends each event of the history to a file, before its call continues.
///
/// # Errors
///
/// If the file cannot be opened.
pub fn layer<S>(file: &Path) -> io::Result<impl Layer<S> + use<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let file = OpenOptions::new().create(true).append(true).open(file)?;
    let only = Targets::new().with_target("locker::history", Level::DEBUG);
    Ok(fmt::layer().json().with_writer(file).with_filter(only))
}
