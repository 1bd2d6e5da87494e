//! A history: the calls on each token, read from lines in any order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead};

use crate::history::event::{Event, Line, Op, Outcome, Phase, Time};

/// One call: from its invocation to its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "docs/evidence/reliability.md has the table")]
pub struct Call {
    pub id: Box<str>,
    pub op: Op,
    pub owner: Box<str>,
    pub attempt: Option<Box<str>>,
    /// [`Time::START`] if the history lacks the invocation.
    pub invoked: Time,
    /// [`Time::NEVER`] while there is no outcome, or the outcome is *unknown*.
    pub ended: Time,
    pub outcome: Option<Outcome>,
    pub found: Option<Box<str>>,
    pub digest: Option<Box<str>>,
    pub ttl: Option<i64>,
}

impl Call {
    /// Whether its outcome is not known: it was cut off, or the outcome is *unknown*.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.outcome, None | Some(Outcome::Unknown))
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == Some(Outcome::Ok)
    }

    /// Whether it changed the token, or may have.
    pub(crate) fn may_have_happened(&self) -> bool {
        self.is_open() || self.is_ok() || self.outcome.is_some_and(Outcome::holds)
    }
}

/// The calls on one token.
pub type Token = Vec<Call>;

/// A history: the calls on every token.
#[derive(Debug, Default)]
pub struct History {
    tokens: HashMap<Box<str>, Token>,
    /// The index of each call in its token, by the id of the call.
    places: HashMap<Box<str>, usize>,
    /// Lines that are not part of the history.
    pub other_lines: u64,
    /// Lines of the history that cannot be read, such as the last one of a process that was killed.
    pub damaged_lines: u64,
    /// Events that were read more than once: logs are delivered at least once.
    pub repeated: u64,
    /// Events that were read.
    pub events: u64,
}

impl History {
    /// Reads lines, in addition to those that were read before.
    ///
    /// # Errors
    ///
    /// If the reader fails.
    pub fn read(&mut self, mut lines: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            match Line::of(&String::from_utf8_lossy(&line)) {
                Line::Event(event) => self.add(*event),
                Line::Other => self.other_lines += 1,
                Line::Damaged => self.damaged_lines += 1,
            }
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        let calls = self.tokens.entry(event.token.as_str().into()).or_default();
        let call = match self.places.entry(event.call.as_str().into()) {
            Entry::Occupied(place) => calls.get_mut(*place.get()),
            Entry::Vacant(place) => {
                place.insert(calls.len());
                calls.push(Call {
                    id: event.call.as_str().into(),
                    op: event.op,
                    owner: event.owner.as_str().into(),
                    attempt: event.attempt.as_deref().map(Into::into),
                    invoked: Time::START,
                    ended: Time::NEVER,
                    outcome: None,
                    found: None,
                    digest: None,
                    ttl: None,
                });
                calls.last_mut()
            }
        };
        // The call of this id is on another token, which the library does not write.
        let Some(call) = call.filter(|call| *call.id == *event.call) else {
            self.damaged_lines += 1;
            return;
        };
        let known = match event.history {
            Phase::Invoke => call.invoked != Time::START,
            Phase::Outcome => call.outcome.is_some(),
        };
        if known {
            self.repeated += 1;
            return;
        }
        self.events += 1;
        call.digest = call.digest.take().or_else(|| event.digest.as_deref().map(Into::into));
        match event.history {
            Phase::Invoke => {
                call.invoked = event.at;
                call.ttl = event.ttl;
            }
            Phase::Outcome => {
                call.outcome = event.outcome;
                call.found = event.found.as_deref().map(Into::into);
                if !call.is_open() {
                    call.ended = event.at;
                }
            }
        }
    }

    /// The tokens, sorted by key.
    #[must_use]
    pub fn tokens(&self) -> Vec<(&str, &[Call])> {
        let mut tokens: Vec<_> = self.tokens.iter().map(|(key, calls)| (&**key, calls.as_slice())).collect();
        tokens.sort_unstable_by_key(|(key, _)| *key);
        tokens
    }
}
