//! Messages that could not be sent or processed: the list, the acts on it, and code that decides.
//!
//! A dead message stays in the table, and later messages of its subject wait, until it is redriven,
//! archived or discarded. [`DeadLetters`] lets your code decide on a schedule. An operator decides
//! about the others, with [`redrive`](crate::workflow::Workflows::redrive),
//! [`archive`](crate::workflow::Workflows::archive) and
//! [`discard`](crate::workflow::Workflows::discard).

mod acts;
mod decide;
mod list;

#[cfg(feature = "operator")]
pub(crate) use acts::corrected;
pub use decide::{DeadLetterReport, DeadLetters, Decision};
pub use list::MessageSummary;
