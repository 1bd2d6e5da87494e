//! The requests and read units of one page.

use std::cell::Cell;
use std::future::Future;

tokio::task_local! {
    static USED: Cell<Used>;
}

/// Requests and read units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) requests: u32,
    pub(super) read_units: f64,
}

/// Measures the reads of a future.
pub(super) async fn measured<F: Future>(page: F) -> F::Output {
    USED.scope(Cell::default(), page).await
}

/// Counts a request of the page of this task.
pub(super) fn count(read_units: f64) {
    let _ = USED.try_with(|used| {
        let before = used.get();
        used.set(Used { requests: before.requests + 1, read_units: before.read_units + read_units });
    });
}

/// Returns the reads of this task's page until now.
pub(super) fn so_far() -> Used {
    USED.try_with(Cell::get).unwrap_or_default()
}
