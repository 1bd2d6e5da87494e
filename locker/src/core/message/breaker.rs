//! The breaker of a target: decides from the outcomes of its calls whether messages are sent to it.
//!
//! A target may refuse all messages: a missing permission, a disabled key, a deleted queue. Trying
//! every due message against it would cost two writes for each, every few minutes, for the whole
//! outage. The breaker stops that after the second message.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only the relay asks for the whole of it"))]

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::time;

/// Calls in a row that got no message accepted, after which nothing is sent for a while.
const CALLS: u32 = 5;
/// The pause before a sender that has no runs sends a probe. A run of the relay sends one at its
/// start.
const PAUSE: Duration = Duration::from_secs(60);

/// The conclusion about a target from the outcome of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The target accepts messages.
    Accepts,
    /// The target refuses messages, independent of their content.
    Refuses,
    /// The target is busy, out of reach, or does not reply.
    Fails,
    /// The message had no reply before either. That is its own fault as likely as the target's.
    FailsAgain,
    /// Nothing: the refusal is about the message, or its code is in no list.
    Nothing,
}

/// Whether a sender may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Send,
    /// This sender sends one message first, under this number. All others wait for its outcome.
    Probe(u64),
    /// A probe is under way.
    Wait,
    No,
}

/// A change of the breaker that an operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing more is sent. `refuses`: the target refuses messages; otherwise it fails.
    Opened { refuses: bool },
    /// A probe found the target unchanged.
    StaysOpen { refuses: bool },
    /// The target accepts messages again.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        since: DateTime<Utc>,
    },
    /// The next sender sends a probe.
    HalfOpen,
    Probing(u64),
}

/// The breaker of one target in one process.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    /// Calls in a row that got no message accepted.
    calls: u32,
    /// The subject of the last message that the target refused. A refusal counts once a message of
    /// another subject confirms it: a message with an odd body must not stop all others.
    refused: Option<String>,
    probes: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed, calls: 0, refused: None, probes: 0 }
    }
}

impl Breaker {
    /// A run of the relay begins: it tries the target once.
    pub(crate) fn begin_run(&mut self) {
        if let State::Open { .. } = self.state {
            self.state = State::HalfOpen;
        }
    }

    /// Asks whether a message may be sent.
    pub(crate) fn ask(&mut self, now: DateTime<Utc>) -> Admission {
        match self.state {
            State::Closed => Admission::Send,
            State::Probing(_) => Admission::Wait,
            State::Open { since } if now < time::after(since, PAUSE) => Admission::No,
            State::Open { .. } | State::HalfOpen => {
                self.probes += 1;
                self.state = State::Probing(self.probes);
                Admission::Probe(self.probes)
            }
        }
    }

    /// The sender of a probe has ended. Without an outcome, another sender sends the probe.
    pub(crate) fn leave(&mut self, probe: u64) {
        // The probe may have its outcome, and the next probe may be under way. Without this, the
        // end of the first sender would allow a third probe.
        if self.state == State::Probing(probe) {
            self.state = State::HalfOpen;
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Records the outcome of one call: the subject and the conclusion of each message.
    pub(crate) fn record(&mut self, call: &[(&str, Shown)], now: DateTime<Utc>) -> Option<Turn> {
        let has = |shown: Shown| call.iter().any(|(_, of)| *of == shown);
        if has(Shown::Accepts) {
            let was_closed = self.state == State::Closed;
            *self = Self { probes: self.probes, ..Self::default() };
            return (!was_closed).then_some(Turn::Closed);
        }
        let is_probe = matches!(self.state, State::Probing(_));
        let mut refuses = false;
        for (subject, _) in call.iter().filter(|(_, shown)| *shown == Shown::Refuses) {
            refuses |= self.refused.as_deref().is_some_and(|other| other != *subject);
            self.refused = Some((*subject).to_owned());
        }
        self.calls += u32::from(has(Shown::Fails));
        let fails = self.calls >= CALLS && has(Shown::Fails)
            || is_probe && (has(Shown::Fails) || has(Shown::FailsAgain));
        if !refuses && !fails {
            if is_probe {
                self.state = State::HalfOpen;
            }
            return None;
        }
        let was_open = self.is_open();
        self.state = State::Open { since: now };
        match (was_open, is_probe) {
            // Of a call that was under way when the breaker opened.
            (true, _) => None,
            (false, true) => Some(Turn::StaysOpen { refuses }),
            (false, false) => Some(Turn::Opened { refuses }),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::Shown::{Accepts, Fails, FailsAgain, Nothing, Refuses};
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    /// A breaker after these calls of one message each.
    fn after(calls: &[(&str, Shown)]) -> Breaker {
        let mut breaker = Breaker::default();
        for call in calls {
            breaker.record(&[*call], at(0));
        }
        breaker
    }

    #[test]
    fn refusal_opens_once_another_subject_confirms_it() {
        for (calls, is_open) in [
            (&[("a", Refuses)][..], false),
            (&[("a", Refuses), ("a", Refuses)], false),
            (&[("a", Refuses), ("b", Refuses)], true),
            (&[("a", Refuses), ("b", Accepts), ("c", Refuses)], false),
            (&[("a", Refuses), ("b", Nothing), ("c", Fails), ("d", Refuses)], true),
        ] {
            assert_eq!(after(calls).is_open(), is_open, "{calls:?}");
        }
        let mut both = Breaker::default();
        assert_eq!(
            both.record(&[("a", Refuses), ("b", Refuses)], at(0)),
            Some(Turn::Opened { refuses: true })
        );
        let mut three = Breaker::default();
        let call = ["a", "b", "c"].map(|subject| (subject, Refuses));
        assert_eq!(three.record(&call, at(0)), Some(Turn::Opened { refuses: true }));
        let mut one_of = Breaker::default();
        one_of.record(&[("a", Refuses), ("b", Accepts)], at(0));
        one_of.record(&[("c", Refuses)], at(0));
        assert!(!one_of.is_open(), "the target accepted a message in between");
    }

    #[test]
    fn fifth_failing_call_opens_and_a_refused_message_changes_no_count() {
        let fails = |count: usize| vec![("a", Fails); count];
        assert!(!after(&fails(4)).is_open());
        assert!(after(&fails(5)).is_open());
        for (shown, is_open) in [(Nothing, true), (FailsAgain, true), (Accepts, false)] {
            let calls = [fails(4), vec![("b", shown)], fails(1)].concat();
            assert_eq!(after(&calls).is_open(), is_open, "{shown:?}");
        }
        assert!(!after(&[("a", FailsAgain); 20]).is_open());
        assert!(!after(&[("a", Nothing); 20]).is_open());
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.record(&[("a", Fails); 10], at(0));
        }
        assert!(!breaker.is_open(), "a call counts once, however many messages it has");
    }

    #[test]
    fn open_breaker_admits_one_probe_in_a_run_or_after_a_minute() {
        let mut breaker = after(&[("a", Refuses), ("b", Refuses)]);
        assert_eq!(breaker.ask(at(59)), Admission::No);
        assert_eq!(breaker.ask(at(60)), Admission::Probe(1));
        assert_eq!(breaker.ask(at(60)), Admission::Wait);
        assert_eq!(breaker.record(&[("c", Refuses)], at(61)), Some(Turn::StaysOpen { refuses: true }));
        assert_eq!(breaker.ask(at(62)), Admission::No);
        breaker.begin_run();
        assert_eq!(breaker.ask(at(62)), Admission::Probe(2));
        assert_eq!(breaker.record(&[("d", Accepts)], at(63)), Some(Turn::Closed));
        assert_eq!(breaker.ask(at(63)), Admission::Send);
        assert_eq!(breaker.record(&[("e", Accepts)], at(63)), None);
    }

    #[test]
    fn probe_without_a_meaning_is_followed_by_another() {
        for shown in [Nothing, Refuses] {
            let mut breaker = after(&[("a", Refuses), ("b", Refuses)]);
            breaker.begin_run();
            assert_eq!(breaker.ask(at(1)), Admission::Probe(1));
            // A result of the subject that was refused last.
            assert_eq!(breaker.record(&[("b", shown)], at(1)), None, "{shown:?}");
            assert_eq!(breaker.ask(at(1)), Admission::Probe(2));
            breaker.leave(1);
            assert_eq!(breaker.ask(at(1)), Admission::Wait, "the first one has nothing to say");
            breaker.leave(2);
            assert_eq!(breaker.ask(at(1)), Admission::Probe(3));
        }
        for shown in [Fails, FailsAgain] {
            let mut breaker = after(&[("a", Fails); 5]);
            breaker.begin_run();
            assert_eq!(breaker.ask(at(1)), Admission::Probe(1));
            let turn = Some(Turn::StaysOpen { refuses: false });
            assert_eq!(breaker.record(&[("b", shown)], at(1)), turn, "{shown:?}");
        }
    }

    #[test]
    fn end_of_an_accepted_probe_does_not_end_the_next_probe() {
        let mut breaker = after(&[("a", Refuses), ("b", Refuses)]);
        assert_eq!(breaker.ask(at(60)), Admission::Probe(1));
        assert_eq!(breaker.record(&[("c", Accepts)], at(61)), Some(Turn::Closed));
        breaker.record(&[("a", Refuses), ("b", Refuses)], at(62));
        breaker.begin_run();
        assert_eq!(breaker.ask(at(63)), Admission::Probe(2));
        breaker.leave(1);
        assert_eq!(breaker.ask(at(63)), Admission::Wait);
    }
}
