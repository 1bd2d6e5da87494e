//! What must hold after every plan.

use std::fmt;

/// What must hold, whatever happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// Without takeovers, a token's work is done at most once.
    OneEffect,
    /// Every answer that a client got is the one that is stored, and can be read.
    OneAnswer,
    /// No client gets *no*, *lost* or *not applied* while the table says otherwise.
    TrueNo,
    /// No client gets *acquired* or *done* for what was not written, and no step completes that did
    /// not take place.
    TrueYes,
    /// No write changes a record that another attempt holds, or that is finished.
    OwnRecord,
    /// An extension never brings the due time nearer.
    NeverNearer,
    /// Nothing that is unfinished, or waits for an operator, has a `ttl`.
    NothingExpires,
    /// Once faults stop, each token is finished, released, or listed by the scanner, and each
    /// workflow has ended or is in quarantine.
    Visible,
    /// Each effect of a workflow counts, is compensated, or is shown to operators.
    Accounted,
    /// No effect is compensated twice.
    OneCompensation,
    /// What was told of a step never changes, and is never another branch.
    Stands,
    /// What a workflow that ended had started is ended, too.
    NoLooseEnd,
    /// Steps are compensated in the reverse order of their starts.
    Reverse,
    /// No step is taken over or compensated while its driver may be at work.
    NotEarly,
    /// Once faults stop, each message of a committed step is sent, and no other.
    Sent,
    /// Messages of a subject come in the order of their commits, but for copies.
    InOrder,
    /// One version of a key is the latest one, and the first version names it.
    OneLatest,
    /// Each event that an operator gave has one audit record, with a reason.
    Audited,
    /// What a receiver that remembers does for a message takes place once.
    TakenOnce,
}

/// What did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub seen: String,
}

impl Invariant {
    /// All invariants.
    pub const ALL: [Self; 19] = [
        Self::OneEffect,
        Self::OneAnswer,
        Self::TrueNo,
        Self::TrueYes,
        Self::OwnRecord,
        Self::NeverNearer,
        Self::NothingExpires,
        Self::Visible,
        Self::Accounted,
        Self::OneCompensation,
        Self::Stands,
        Self::NoLooseEnd,
        Self::Reverse,
        Self::NotEarly,
        Self::Sent,
        Self::InOrder,
        Self::OneLatest,
        Self::Audited,
        Self::TakenOnce,
    ];

    /// In words, for a table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneEffect => "one effect",
            Self::OneAnswer => "one answer",
            Self::TrueNo => "true no",
            Self::TrueYes => "true yes",
            Self::OwnRecord => "own record",
            Self::NeverNearer => "never nearer",
            Self::NothingExpires => "nothing expires",
            Self::Visible => "visible",
            Self::Accounted => "accounted",
            Self::OneCompensation => "one compensation",
            Self::Stands => "stands",
            Self::NoLooseEnd => "no loose end",
            Self::Reverse => "reverse",
            Self::NotEarly => "not early",
            Self::Sent => "sent",
            Self::InOrder => "in order",
            Self::OneLatest => "one latest version",
            Self::Audited => "audited",
            Self::TakenOnce => "taken once",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.as_str(), self.seen)
    }
}
