//! The deadline of an invocation.

use std::time::Duration;

use chrono::{DateTime, Utc};
use lambda_runtime::Context;
use locker::{Clock as _, SystemClock};

/// Until when an invocation may work, less a reserve for its answer.
///
/// `None` where the runtime says a time that has passed: no invocation starts after its end, and
/// `cargo lambda watch` says 600,000 milliseconds, which is ten minutes after midnight in 1970.
#[must_use]
pub fn deadline(context: &Context, reserve: Duration) -> Option<DateTime<Utc>> {
    let deadline: DateTime<Utc> = (context.deadline() - reserve).into();
    (deadline > SystemClock.now()).then_some(deadline)
}
