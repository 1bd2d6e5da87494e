//! The retry loop's decisions: what one exchange with DynamoDB proved, and what to do next.
//!
//! The SDK's own retries are off for these calls, because they hide what matters: once a request may
//! have been applied, a clear answer to a later one says nothing about it.

use std::time::Duration;

/// What an unsuccessful exchange proved about its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Its condition failed, so it was not applied; the stored item says why.
    Refused,
    /// It was not applied, and may be sent again: throttled, or in conflict with a transaction.
    Busy,
    /// It may have been applied: no reply, a broken one, or a server error.
    Silence,
    /// It was not applied, and a retry would not help: no permission, no table, no credentials.
    Denied,
}

/// What to do after an exchange.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// There is an answer.
    Done,
    /// Send the same request again after a pause.
    Again(Duration),
    /// Time is up, or a retry would not help.
    GiveUp(Why),
}

/// What is known when there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Some request of this call may have been applied.
    Unknown,
    /// None was applied, and it may work later.
    Unavailable,
    /// None was applied, and it will not work until something is changed.
    Denied,
}

/// The pauses between tries: full jitter over a doubling range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
}

impl Backoff {
    /// The pause after this many tries; `jitter` is in 0..1.
    pub(crate) fn pause(self, tries: u32, jitter: f64) -> Duration {
        let doubled = self.base.saturating_mul(1 << tries.saturating_sub(1).min(20));
        doubled.min(self.cap).mul_f64(jitter.clamp(0.0, 1.0))
    }
}

/// The exchanges of one call so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    pub(crate) made: u32,
    /// Whether one of them got no clear reply, so that it may have been applied.
    pub(crate) silent: bool,
}

impl Tries {
    /// Record one exchange and decide what to do next.
    pub(crate) fn hear(&mut self, heard: Heard, left: Duration, backoff: Backoff, jitter: f64) -> Step {
        self.made += 1;
        let given_up = match heard {
            Heard::Refused => return Step::Done,
            Heard::Busy => Why::Unavailable,
            Heard::Silence => {
                self.silent = true;
                Why::Unknown
            }
            Heard::Denied => return Step::GiveUp(self.at_worst(Why::Denied)),
        };
        let pause = backoff.pause(self.made, jitter);
        if pause < left { Step::Again(pause) } else { Step::GiveUp(self.at_worst(given_up)) }
    }

    const fn at_worst(self, why: Why) -> Why {
        if self.silent { Why::Unknown } else { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_millis(25), cap: Duration::from_secs(1) };
    const PLENTY: Duration = Duration::from_secs(5);

    fn play(heard: &[Heard], left: Duration) -> Step {
        let mut tries = Tries::default();
        let mut step = Step::Done;
        for heard in heard {
            step = tries.hear(*heard, left, BACKOFF, 0.5);
        }
        step
    }

    #[test]
    fn pauses_double_while_they_end_before_the_deadline() {
        let mut tries = Tries::default();
        let mut busy = |left| tries.hear(Heard::Busy, Duration::from_millis(left), BACKOFF, 1.0);
        assert_eq!(busy(26), Step::Again(Duration::from_millis(25)));
        assert_eq!(busy(51), Step::Again(Duration::from_millis(50)));
        assert_eq!(busy(100), Step::GiveUp(Why::Unavailable));
    }

    #[test]
    fn a_definite_error_after_silence_proves_nothing() {
        use Heard::{Busy, Denied, Silence};
        assert_eq!(play(&[Denied], PLENTY), Step::GiveUp(Why::Denied));
        assert_eq!(play(&[Busy], Duration::ZERO), Step::GiveUp(Why::Unavailable));
        assert_eq!(play(&[Silence, Denied], PLENTY), Step::GiveUp(Why::Unknown));
        assert_eq!(play(&[Silence, Busy], Duration::ZERO), Step::GiveUp(Why::Unknown));
    }

    #[test]
    fn a_clear_answer_ends_the_loop_whatever_went_before() {
        assert_eq!(play(&[Heard::Refused], Duration::ZERO), Step::Done);
        assert_eq!(play(&[Heard::Silence, Heard::Busy, Heard::Refused], PLENTY), Step::Done);
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_never_outlast_the_deadline() {
        assert_eq!(BACKOFF.pause(1, 1.0), Duration::from_millis(25));
        assert_eq!(BACKOFF.pause(3, 1.0), Duration::from_millis(100));
        assert_eq!(BACKOFF.pause(3, 0.25), Duration::from_millis(25));
        assert_eq!(BACKOFF.pause(60, 1.0), Duration::from_secs(1));
        let left = Duration::from_millis(10);
        assert_eq!(play(&[Heard::Busy], left), Step::GiveUp(Why::Unavailable));
    }
}
