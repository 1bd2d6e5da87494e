//! The operator's console: finds the records that need a decision, and acts on them.
//!
//! A [`Console`] covers the tables that it is given. Its verbs are
//! [`status`](Console::status), [`list`](Console::list), [`timeline`](Console::timeline),
//! [`check`](Console::check) and [`act`](Console::act) for one record, [`plan`](Console::plan) and
//! [`apply`](Console::apply) for all records that match, [`audit`](Console::audit) and
//! [`health`](Console::health).
//!
//! ```no_run
//! # async fn example(
//! #     locker: locker::Locker,
//! #     workflows: locker::workflow::Workflows,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use locker::Operator;
//! use locker::operator::{Act, ApplyOptions, Console, Filter};
//!
//! let console = Console::new().tokens(&locker).workflows(&workflows);
//! let status = console.status().await?;
//! let Some(group) = status.groups.first() else { return Ok(()) };
//! println!("{} {}: {}", group.count, group.need, group.cause);
//!
//! // The group needs an operator for one cause. The cause is repaired: free all of its tokens.
//! let operator = Operator::new("ada", "the mail relay is repaired")?;
//! let filter = Filter::new().group(&group.id);
//! let plan = console.plan(filter, Act::release(), &operator).await?;
//! println!("{} of {} would be released", plan.items.len(), plan.found);
//! let goes_on = |_: &_| std::ops::ControlFlow::Continue(());
//! let report = console.apply(&plan, &ApplyOptions::default(), goes_on).await?;
//! println!("{} released, {} changed since the plan", report.done, report.changed);
//! # Ok(()) }
//! ```

mod audit;
mod console;
mod filter;
mod group;
mod health;
mod listing;
mod lists;
mod matched;
mod part;
mod plan;
mod rule;
mod status;
mod subject;
mod timeline;
mod times;

pub use crate::session::heartbeat::{LastRun, Machine};
pub use audit::AuditTrail;
pub use console::Console;
pub use filter::Filter;
pub use group::{Group, Need, Subject};
pub use health::{Check, Health, TableHealth};
pub use listing::Listing;
pub use matched::{IndexEntry, Match};
pub use part::{Choice, Part, Verb};
pub use plan::{Act, Acted, ApplyOptions, ApplyReport, Done, LeftOut, Plan, Planned};
pub use rule::{About, Meaning, Refusal, Unless};
pub use status::Status;
pub use timeline::{Happening, Timeline, TimelineEvent};
