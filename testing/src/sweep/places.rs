//! Where a play can go wrong: the numbers of its requests and calls.

/// How many requests and calls were sent by processes that may have faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) requests: usize,
    pub(super) calls: usize,
}

/// The numbers of requests and calls that are worth a fault, in the play without faults.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) requests: Vec<usize>,
    pub(super) calls: Vec<usize>,
    /// What was sent until the first final answer. What comes after it depends on the faults.
    pub(super) answered: Counted,
}

impl Places {
    /// Everything until the first final answer.
    pub(super) fn until(answered: Counted) -> Self {
        let Counted { requests, calls } = answered;
        Self { requests: (1..=requests).collect(), calls: (1..=calls).collect(), answered }
    }

    /// And what was sent in between.
    pub(super) fn and(&mut self, before: Counted, after: Counted) {
        self.requests.extend(before.requests + 1..=after.requests);
        self.calls.extend(before.calls + 1..=after.calls);
    }
}
