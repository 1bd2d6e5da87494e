//! What the clients of a plan do.

use std::fmt;

/// How a client that holds the token goes on. The names are those of the state table in the docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Work, and store an answer that fits into the token.
    Complete,
    /// Work, and store an answer in a separate item.
    CompleteLarge,
    /// Work that fails permanently.
    Fail,
    /// Work that fails and needs an operator.
    Hold,
    /// Release without working, then begin again, and work.
    Release,
    /// Ask for more time, then work.
    Extend,
    /// Work, leave the token in doubt, and begin again.
    Doubt,
}

/// A scenario: how many clients, what they do, and whether they take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// 1, or 2 whose exchanges interleave in every order.
    pub clients: usize,
    /// What they do.
    pub verb: Verb,
    /// Whether they take over what is overdue. Then the clock may jump: a little past the due time,
    /// or far past it.
    pub take_over: bool,
}

const VERBS: [Verb; 7] =
    [Verb::Complete, Verb::CompleteLarge, Verb::Fail, Verb::Hold, Verb::Release, Verb::Extend, Verb::Doubt];

/// Every scenario with this many clients.
#[must_use]
pub fn scenarios(clients: usize) -> Vec<Scenario> {
    let both = VERBS.into_iter().flat_map(|verb| [(verb, false), (verb, true)]);
    both.map(|(verb, take_over)| Scenario { clients, verb, take_over }).collect()
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Complete => "complete",
            Verb::CompleteLarge => "complete-large",
            Verb::Fail => "fail",
            Verb::Hold => "hold",
            Verb::Release => "release",
            Verb::Extend => "extend",
            Verb::Doubt => "doubt",
        };
        let take_over = if self.take_over { "/take-over" } else { "" };
        write!(f, "{}/{verb}{take_over}", self.clients)
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = [1, 2].into_iter().flat_map(scenarios);
        all.find(|scenario| scenario.to_string() == name)
            .ok_or_else(|| format!("{name} is not a scenario; one is 2/complete/take-over"))
    }
}
