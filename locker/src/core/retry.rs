//! The retry loop's decisions: what one exchange with DynamoDB proved, and what to do next.
//!
//! The SDK's own retries are off for these calls, because they hide lost replies. If a request may
//! have been applied, a clear answer to a later request proves nothing about the first.

use std::time::Duration;

/// The knowledge about a request after an unsuccessful exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Its condition failed, so it was not applied. The stored item shows the reason.
    Refused,
    /// It was not applied, and may be sent again: throttled, or in conflict with a transaction.
    Busy,
    /// It was not applied, because its credentials, its signature or its time were refused. The
    /// next request gets a new signature, with the credentials and the time of that moment.
    Unsigned,
    /// It may have been applied: no reply, a broken one, or a server error.
    Silence,
    /// It was not applied, and a retry would not help: no permission, no table.
    Denied,
}

/// The time and the signatures that a call has left for further requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub(crate) time: Duration,
    /// The number of refused signatures after which the request is sent again. Credentials that are
    /// wrong, and not only expired, are refused each time.
    pub(crate) signatures: u32,
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

/// The knowledge about a call without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Some request of this call may have been applied.
    Unknown,
    /// None was applied, and it may work later.
    Unavailable,
    /// None was applied, and it will not work until something is changed.
    Denied,
}

/// The pauses between tries: a random part of a range that grows with each try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Backoff {
    /// The range of the first pause.
    pub(crate) base: Duration,
    /// The longest range.
    pub(crate) cap: Duration,
    /// By how much the range grows with each try, at least 1.
    pub(crate) factor: f64,
}

impl Backoff {
    /// The pauses of a message that its target or its handler does not take.
    #[cfg(feature = "messages")]
    pub(crate) const OF_MESSAGES: Self = Self::doubling(Duration::from_secs(5), Duration::from_secs(15 * 60));

    pub(crate) const fn doubling(base: Duration, cap: Duration) -> Self {
        Self { base, cap, factor: 2.0 }
    }

    fn range(self, tries: u32) -> Duration {
        let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX).min(64);
        let range = self.base.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        Duration::try_from_secs_f64(range).map_or(self.cap, |range| range.min(self.cap))
    }

    /// Returns a pause between zero and the whole range (full jitter), after this many tries.
    /// `jitter`: 0..1.
    ///
    /// Full jitter spreads callers that collide best. It fits retries of one request, which are
    /// short anyway.
    pub(crate) fn full(self, tries: u32, jitter: f64) -> Duration {
        self.range(tries).mul_f64(jitter.clamp(0.0, 1.0))
    }

    /// Returns a pause between half of the range and all of it (equal jitter), after this many
    /// tries.
    ///
    /// It fits work that must not be tried again at once, whatever number is drawn.
    pub(crate) fn equal(self, tries: u32, jitter: f64) -> Duration {
        self.range(tries).mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// Returns the longer of our pause and the pause that the other side asked for. At most `most` of
/// the latter counts: with a wrong `Retry-After` of ten years, the work would wait without being
/// listed.
#[cfg(feature = "workflow")]
pub(crate) fn heeding(own: Duration, asked: Option<Duration>, most: Duration) -> Duration {
    own.max(asked.unwrap_or_default().min(most))
}

/// The exchanges of one call so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    pub(crate) made: u32,
    /// Whether a request got no clear reply, so that it may have been applied.
    pub(crate) silent: bool,
    /// How many signatures were refused.
    pub(crate) unsigned: u32,
}

impl Tries {
    /// Records one exchange and decides what to do next.
    pub(crate) fn hear(&mut self, heard: Heard, left: Left, backoff: Backoff, jitter: f64) -> Step {
        self.made += 1;
        let given_up = match heard {
            Heard::Refused => return Step::Done,
            Heard::Busy => Why::Unavailable,
            Heard::Silence => {
                self.silent = true;
                Why::Unknown
            }
            Heard::Unsigned => {
                self.unsigned += 1;
                if self.unsigned > left.signatures {
                    return Step::GiveUp(self.at_worst(Why::Denied));
                }
                Why::Denied
            }
            Heard::Denied => return Step::GiveUp(self.at_worst(Why::Denied)),
        };
        let pause = backoff.full(self.made, jitter);
        if pause < left.time { Step::Again(pause) } else { Step::GiveUp(self.at_worst(given_up)) }
    }

    /// The first request is applied and its reply is lost, and the second one is denied. Without
    /// this, the call would report that nothing was written.
    const fn at_worst(self, why: Why) -> Why {
        if self.silent { Why::Unknown } else { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(25), Duration::from_secs(1));
    const PLENTY: Duration = Duration::from_secs(5);

    fn left(time: Duration) -> Left {
        Left { time, signatures: 2 }
    }

    fn play(heard: &[Heard], time: Duration) -> Step {
        let mut tries = Tries::default();
        let mut step = Step::Done;
        for heard in heard {
            step = tries.hear(*heard, left(time), BACKOFF, 0.5);
        }
        step
    }

    #[test]
    #[cfg(feature = "messages")]
    fn message_waits_from_five_seconds_to_a_quarter_of_an_hour() {
        let Backoff { base, cap, factor } = Backoff::OF_MESSAGES;
        assert_eq!((base.as_secs(), cap.as_secs(), factor), (5, 900, 2.0));
    }

    #[test]
    fn pauses_double_while_they_end_before_the_deadline() {
        let mut tries = Tries::default();
        let mut busy = |time| tries.hear(Heard::Busy, left(Duration::from_millis(time)), BACKOFF, 1.0);
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
    fn refused_signature_is_denied_once_time_or_signatures_are_used_up() {
        use Heard::{Busy, Silence, Unsigned};
        assert!(matches!(play(&[Unsigned, Unsigned], PLENTY), Step::Again(_)));
        assert!(matches!(play(&[Unsigned, Busy, Busy, Unsigned, Busy], PLENTY), Step::Again(_)));
        assert_eq!(play(&[Unsigned, Unsigned, Unsigned], PLENTY), Step::GiveUp(Why::Denied));
        assert_eq!(play(&[Unsigned], Duration::ZERO), Step::GiveUp(Why::Denied));
        assert_eq!(play(&[Silence, Unsigned], Duration::ZERO), Step::GiveUp(Why::Unknown));
        assert_eq!(play(&[Silence, Unsigned, Unsigned, Unsigned], PLENTY), Step::GiveUp(Why::Unknown));
    }

    #[test]
    fn a_clear_answer_ends_the_loop_whatever_went_before() {
        assert_eq!(play(&[Heard::Refused], Duration::ZERO), Step::Done);
        assert_eq!(play(&[Heard::Silence, Heard::Busy, Heard::Refused], PLENTY), Step::Done);
    }

    #[test]
    #[cfg(feature = "workflow")]
    fn pause_asked_for_counts_up_to_its_longest() {
        let [own, longer, most] = [1, 5, 60].map(Duration::from_secs);
        for (asked, pause) in
            [(None, own), (Some(Duration::ZERO), own), (Some(longer), longer), (Some(Duration::MAX), most)]
        {
            assert_eq!(heeding(own, asked, most), pause, "{asked:?}");
        }
        assert_eq!(heeding(most, Some(Duration::MAX), longer), most, "the own pause is not cut");
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_never_outlast_the_deadline() {
        assert_eq!(BACKOFF.full(1, 1.0), Duration::from_millis(25));
        assert_eq!(BACKOFF.full(3, 1.0), Duration::from_millis(100));
        assert_eq!(BACKOFF.full(3, 0.25), Duration::from_millis(25));
        assert_eq!(BACKOFF.full(60, 1.0), Duration::from_secs(1));
        assert_eq!(BACKOFF.equal(3, 0.0), Duration::from_millis(50));
        assert_eq!(BACKOFF.equal(3, 1.0), Duration::from_millis(100));
        let left = Duration::from_millis(10);
        assert_eq!(play(&[Heard::Busy], left), Step::GiveUp(Why::Unavailable));
    }
}
