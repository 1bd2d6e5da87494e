//! The places for faults in a play: the numbers of its requests and calls.

/// The number of requests and calls from processes that may have faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) requests: usize,
    pub(super) calls: usize,
}

/// The numbers of the requests and calls in the play without faults that get a fault.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) requests: Vec<usize>,
    pub(super) calls: Vec<usize>,
    /// The number of requests and calls until the first final answer. Later ones depend on the
    /// faults.
    pub(super) answered: Counted,
}

impl Places {
    /// Creates the places of all requests and calls until the first final answer.
    pub(super) fn until(answered: Counted) -> Self {
        let Counted { requests, calls } = answered;
        Self { requests: (1..=requests).collect(), calls: (1..=calls).collect(), answered }
    }

    /// Adds the requests and calls between these two counts.
    pub(super) fn and(&mut self, before: Counted, after: Counted) {
        self.requests.extend(before.requests + 1..=after.requests);
        self.calls.extend(before.calls + 1..=after.calls);
    }
}
