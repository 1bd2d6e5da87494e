//! The workflows that are registered: one list for the API, the functions and the command.

use locker::workflow::{Completer, Workflows};

use crate::purchase::Purchase;

/// A completer with the code of every workflow here. A [`Reaper`](locker::workflow::Reaper) is made of it.
pub fn completer(workflows: &Workflows, purchase: Purchase) -> Completer {
    Completer::new(workflows).register(purchase)
}
