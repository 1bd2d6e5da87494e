//! The registered workflows: one list for the API, the functions and the command.

use locker::workflow::{Completer, Workflows};

use crate::purchase::Purchase;

/// Creates a completer with the code of every workflow. It also builds a
/// [`Reaper`](locker::workflow::Reaper).
pub fn completer(workflows: &Workflows, purchase: Purchase) -> Completer {
    register(Completer::new(workflows), purchase)
}

/// Adds the code of every workflow to a completer.
pub fn register(completer: Completer, purchase: Purchase) -> Completer {
    completer.register(purchase)
}
