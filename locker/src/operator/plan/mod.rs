//! One act on all that matches: a plan, which is shown first, and then is run.
//!
//! ```no_run
//! # async fn example(locker: locker::Locker) -> Result<(), Box<dyn std::error::Error>> {
//! use locker::Operator;
//! use locker::operator::{Act, Bulk};
//! use locker::operator::Filter;
//!
//! let bulk = Bulk::new().tokens(&locker);
//! let operator = Operator::new("ada", "the mail relay is repaired")?;
//! let plan = bulk.plan(Filter::new().group("9a8fac0a"), Act::release(), &operator).await?;
//! println!("{} of {}, the oldest since {:?}", plan.items.len(), plan.found, plan.items.first().map(|it| it.since));
//!
//! let report = bulk.run(&plan, |_| std::ops::ControlFlow::Continue(())).await?;
//! println!("{} done, {} changed meanwhile", report.done, report.changed);
//! # Ok(()) }
//! ```
//!
//! A plan has each record with its [revision](crate::Record::revision) as it was read, and a record that has changed since is left as it is.
//! So a plan that is run twice acts once, and one that was stopped, or whose process died, goes on where it is run again: an act that was
//! done by an earlier run of the same plan is [known by its audit record](Done::Done).

mod act;
mod following;
mod outcome;
mod plan;
mod planning;
mod running;

pub use act::Act;
pub use outcome::{Acted, BulkReport, Done};
pub use plan::{LeftOut, Plan, Planned};
pub use running::Bulk;
