//! Messages that need an operator: the list, the acts on it, and code that decides.

mod acts;
mod decide;
mod list;

#[cfg(feature = "operator")]
pub(crate) use acts::corrected;
pub use decide::{DeadLetterReport, DeadLetters, Decision};
pub use list::MessageSummary;
