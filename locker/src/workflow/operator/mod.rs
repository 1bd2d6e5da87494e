//! Operations for operators: list and view workflows, and change them or their steps.

mod audit;
pub(super) mod event;
pub(super) mod list;
pub(super) mod message;
pub(super) mod sent;
pub(super) mod step;
pub(super) mod view;
pub(super) mod workflow;
