//! Which due workflow is driven next: types of workflow take turns, so that one that hangs leaves room for the others.

use std::collections::{HashMap, VecDeque};

use crate::store::Row;

/// A workflow that has lost its driver in this attempt or a later one may have killed it, and is driven alone.
const SUSPECT: u32 = 3;

/// Due workflows that were read and not begun, by the name of their type.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: HashMap<String, Lane>,
    alone: VecDeque<Row>,
    turn: u64,
}

#[derive(Debug, Default)]
struct Lane {
    rows: VecDeque<Row>,
    running: usize,
    /// When it last had a turn; 0: never.
    turn: u64,
}

impl Lanes {
    pub(crate) fn add(&mut self, name: &str, row: Row) {
        let lost_its_driver = row.locked_by.is_some();
        if lost_its_driver && row.attempts.is_some_and(|attempts| attempts >= SUSPECT) {
            self.alone.push_back(row);
        } else {
            self.lanes.entry(name.to_owned()).or_default().rows.push_back(row);
        }
    }

    /// Whether none is left that may be driven beside others.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.rows.is_empty())
    }

    /// Whether workflows of each of these types are waiting.
    pub(crate) fn has_each<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.all(|name| self.lanes.get(name).is_some_and(|lane| !lane.rows.is_empty()))
    }

    /// The next one to begin: of the type of which the fewest run, and of those the one whose turn was longest ago.
    pub(crate) fn next(&mut self) -> Option<Row> {
        let waiting = self.lanes.values_mut().filter(|lane| !lane.rows.is_empty());
        let lane = waiting
            .min_by_key(|lane| (lane.running, lane.turn, lane.rows.front().map(|row| row.due.clone())))?;
        self.turn += 1;
        lane.turn = self.turn;
        lane.running += 1;
        lane.rows.pop_front()
    }

    /// The next one that is driven while no other is.
    pub(crate) fn next_alone(&mut self) -> Option<Row> {
        self.alone.pop_front()
    }

    /// One that `next` gave has ended.
    pub(crate) fn ended(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.running = lane.running.saturating_sub(1);
        }
    }
}
