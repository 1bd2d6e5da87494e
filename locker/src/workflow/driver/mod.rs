//! Drivers of workflows: claiming, driving forward, compensating, and the completer and the reaper.

pub(super) mod claim;
pub(super) mod code;
pub(super) mod compensate;
pub(super) mod completer;
pub(super) mod drive;
pub(super) mod end;
pub(super) mod fence;
pub(super) mod one;
pub(super) mod reaper;
pub(super) mod report;
mod run;
