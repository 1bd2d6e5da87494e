//! What must hold whatever the machine: it is counted, not timed.

use crate::side::{Operation, Size};

/// Requests of one operation: those of the README's price table, and no more.
pub(crate) const fn requests(operation: Operation, size: Size) -> u64 {
    match (operation, size) {
        (Operation::Pair | Operation::Run, Size::Small) | (Operation::Replay, Size::Large) => 2,
        (Operation::Replay | Operation::Conflict, _) => 1,
        (Operation::Pair | Operation::Run, Size::Large) => 3,
    }
}

/// Allocations of one operation of the library beyond those of the bare SDK making the same requests.
pub(crate) const fn extra_allocations(operation: Operation, size: Size) -> i64 {
    match (operation, size) {
        (Operation::Pair, _) => 60,
        (Operation::Run, _) => 80,
        (Operation::Replay | Operation::Conflict, Size::Small) => 45,
        (Operation::Replay | Operation::Conflict, Size::Large) => 50,
    }
}
