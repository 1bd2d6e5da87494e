//! Limits that hold on every machine, because they are counted and not timed.

use crate::side::{Operation, Size};
use crate::workflows::Shape;

/// The requests of one operation, exactly as in the price table of the book.
pub(crate) const fn requests(operation: Operation, size: Size) -> u64 {
    match (operation, size) {
        (Operation::Pair | Operation::Run, Size::Small) | (Operation::Replay, Size::Large) => 2,
        (Operation::Replay | Operation::Conflict, _) => 1,
        (Operation::Pair | Operation::Run, Size::Large) => 3,
    }
}

/// The allocations of one operation of the library in excess of the bare SDK making the same
/// requests.
pub(crate) const fn extra_allocations(operation: Operation, size: Size) -> i64 {
    match (operation, size) {
        (Operation::Pair, _) => 30,
        (Operation::Run, _) => 40,
        (Operation::Replay | Operation::Conflict, Size::Small) => 30,
        (Operation::Replay | Operation::Conflict, Size::Large) => 35,
    }
}

/// The requests of a whole workflow: its start, its steps, its answer and its end.
pub(crate) const fn workflow_requests(shape: Shape) -> f64 {
    match shape {
        Shape::Step => 4.0,
        Shape::Once => 6.0,
        Shape::Replay => 2.0,
    }
}

/// The allocations of a whole workflow in excess of the bare SDK sending the same requests.
pub(crate) const fn workflow_allocations(shape: Shape) -> f64 {
    match shape {
        Shape::Step => 180.0,
        Shape::Once => 235.0,
        Shape::Replay => 70.0,
    }
}
