//! Messages that need an operator: the list, the acts on it, and code that decides.

mod acts;
mod decide;
mod list;

pub use decide::{DeadLetterReport, DeadLetters, Decision};
pub use list::MessageSummary;
