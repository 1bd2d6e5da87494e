//! The rule for operators: whether an act on a token is possible.
//!
//! Every path asks [`may`]: the verbs of [`Locker`](crate::Locker), and the console for the single
//! verb, the timeline, a plan and its application.

use chrono::{DateTime, Utc};

use super::record::{Record, TokenState};

/// An act of an operator on a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenAct {
    /// The work happened, with the operator's result.
    Resolve(Of),
    /// The operator's result replaces the result that an operator gave.
    Correct,
    /// The stored failure is the result.
    Close,
    /// The work may be done again.
    Release {
        of: Of,
        /// The provider receives another key.
        new_key: bool,
    },
    /// The result is erased, and the state stays.
    Redact,
}

/// The tokens that an act is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Tokens that need an operator: overdue, in doubt or held.
    Stuck,
    /// Tokens in progress whose work may still be running.
    Running,
    /// Tokens that have a result.
    Ended,
}

/// The facts that no record contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) now: DateTime<Utc>,
    /// A token that was due before this time is overdue by every clock.
    pub(crate) overdue_before: DateTime<Utc>,
    /// Whether the work is running. `None`: unknown.
    pub(crate) runs: Option<bool>,
}

/// The reason why an act is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The work is known to be running.
    Runs,
    /// The work is not overdue.
    MayRun,
    /// The work is overdue by this clock, and may not be overdue by its owner's clock.
    JustDue,
    /// The token has a result.
    HasResult,
    /// The token has no failure that could be its result.
    NotHeld,
    /// Another library wrote the failure, in another form.
    Foreign,
    /// No operator gave the result.
    NotOperators,
    /// An operator has erased the result.
    Redacted,
    /// The token has no result yet.
    NotEnded,
    /// The act does not apply in the state of the token.
    Nothing,
}

/// Returns whether an act on a token is possible.
pub(crate) fn may(act: TokenAct, record: &Record, facts: &Facts) -> Result<(), Refusal> {
    use TokenState::{Completed, Failed, Held, InProgress, Released};
    let state = record.state;
    match act {
        TokenAct::Redact => may_redact(record),
        TokenAct::Correct if record.is_redacted() => Err(Refusal::Redacted),
        TokenAct::Correct if record.is_answered_by_operator() => Ok(()),
        TokenAct::Correct => Err(Refusal::NotOperators),
        // No failure is known.
        TokenAct::Close if state != Held || record.is_held_by_restore() => Err(Refusal::NotHeld),
        // Without `status`, its failure would be read as an answer.
        TokenAct::Close if record.retention.is_none() => Err(Refusal::Foreign),
        TokenAct::Close => Ok(()),
        // This corrects a wrong release.
        TokenAct::Resolve(Of::Stuck) if state == Released && may_have_happened(record) => Ok(()),
        TokenAct::Resolve(Of::Stuck) | TokenAct::Release { of: Of::Stuck, .. } => match state {
            Held => Ok(()),
            // Work that runs, or is not overdue by every clock, may still be under way. After a
            // release, another caller would do it at the same time.
            InProgress if facts.runs == Some(true) => Err(Refusal::Runs),
            InProgress if record.is_in_doubt() || record.is_overdue(facts.overdue_before) => Ok(()),
            InProgress if record.is_overdue(facts.now) => Err(Refusal::JustDue),
            InProgress => Err(Refusal::MayRun),
            Completed | Failed if matches!(act, TokenAct::Release { .. }) => Err(Refusal::HasResult),
            Completed | Failed | Released => Err(Refusal::Nothing),
        },
        TokenAct::Resolve(Of::Running) | TokenAct::Release { of: Of::Running, .. } => {
            if state == InProgress {
                Ok(())
            } else {
                Err(Refusal::Nothing)
            }
        }
        TokenAct::Release { of: Of::Ended, .. } => {
            if matches!(state, Completed | Failed) {
                Ok(())
            } else {
                Err(Refusal::Nothing)
            }
        }
        TokenAct::Resolve(Of::Ended) => Err(Refusal::Nothing),
    }
}

/// Returns whether the token has a result to erase.
pub(crate) fn may_redact(record: &Record) -> Result<(), Refusal> {
    match record.state {
        _ if record.is_redacted() => Err(Refusal::Redacted),
        TokenState::Completed | TokenState::Failed => Ok(()),
        _ => Err(Refusal::NotEnded),
    }
}

/// Returns whether the provider receives another key after a release. A provider that refused a key
/// refuses it again.
pub(crate) fn gives_new_key(asked: bool, record: &Record) -> bool {
    asked || is_refused(record)
}

/// Returns whether the provider refused the key, and no earlier attempt may have done the work.
fn is_refused(record: &Record) -> bool {
    let is_first = record.taken_over_from.is_none() && record.key_use.since.is_none();
    record.state == TokenState::Failed && record.resolution.is_none() && is_first
}

/// Whether the work of a released token may have happened: an operator released the token, perhaps
/// by mistake, or an attempt gave the provider its key.
fn may_have_happened(record: &Record) -> bool {
    record.intervention.is_some() || record.key_use.since.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::answer::Body;
    use crate::core::class::Class;
    use crate::core::retention::Retention;
    use crate::core::token::record::tests::{at, begun, by, ended_in};
    use crate::core::token::resolution::Resolution;

    const SKEW: i64 = 5;

    fn facts(now: i64, runs: Option<bool>) -> Facts {
        Facts { now: at(now), overdue_before: at(now - SKEW), runs }
    }

    /// A token in each state, due at 100.
    fn records() -> Vec<(&'static str, Record)> {
        let resolved = Some(Resolution::Resolved);
        let retained = Some(Retention::Forever);
        let doubt = Record { promised: Some(at(100)), class: Some(Class::InDoubt), ..begun() };
        let released = ended_in(TokenState::Released);
        let held = ended_in(TokenState::Held);
        vec![
            ("in progress", begun()),
            ("in doubt", doubt),
            ("held", Record { retention: retained, ..held.clone() }),
            ("held by another library", held),
            ("completed", ended_in(TokenState::Completed)),
            ("redacted", Record { body: Some(Body::Redacted), ..ended_in(TokenState::Completed) }),
            ("completed by an operator", Record { resolution: resolved, ..ended_in(TokenState::Completed) }),
            ("failed", ended_in(TokenState::Failed)),
            ("released", released.clone()),
            ("released by an operator", Record { intervention: Some(by("ada")), ..released }),
        ]
    }

    fn acts() -> Vec<(&'static str, TokenAct)> {
        let release = |of| TokenAct::Release { of, new_key: false };
        vec![
            ("release", release(Of::Stuck)),
            ("release running", release(Of::Running)),
            ("release ended", release(Of::Ended)),
            ("resolve", TokenAct::Resolve(Of::Stuck)),
            ("resolve running", TokenAct::Resolve(Of::Running)),
            ("correct", TokenAct::Correct),
            ("close", TokenAct::Close),
            ("redact", TokenAct::Redact),
        ]
    }

    /// Every act on every state, with the work running, not running, or unknown.
    fn table(now: i64) -> String {
        let mut text = String::new();
        for (name, record) in records() {
            for runs in [None, Some(false), Some(true)] {
                let may = |act| match may(act, &record, &facts(now, runs)) {
                    Ok(()) => "yes".to_owned(),
                    Err(refusal) => format!("{refusal:?}"),
                };
                let row: Vec<_> = acts().into_iter().map(|(_, act)| may(act)).collect();
                let runs = runs.map_or("?", |runs| if runs { "runs" } else { "ended" });
                text.push_str(&format!("{name}, {runs}: {}\n", row.join(" ")));
            }
        }
        text
    }

    #[test]
    fn every_act_on_every_state_before_the_due_time() {
        let verbs: Vec<_> = acts().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            verbs.join(", "),
            "release, release running, release ended, resolve, resolve running, correct, close, redact"
        );
        assert_lines(
            &table(90),
            "\
in progress, ?: MayRun yes Nothing MayRun yes NotOperators NotHeld NotEnded
in progress, ended: MayRun yes Nothing MayRun yes NotOperators NotHeld NotEnded
in progress, runs: Runs yes Nothing Runs yes NotOperators NotHeld NotEnded
in doubt, ?: yes yes Nothing yes yes NotOperators NotHeld NotEnded
in doubt, ended: yes yes Nothing yes yes NotOperators NotHeld NotEnded
in doubt, runs: Runs yes Nothing Runs yes NotOperators NotHeld NotEnded
held, ?: yes Nothing Nothing yes Nothing NotOperators yes NotEnded
held, ended: yes Nothing Nothing yes Nothing NotOperators yes NotEnded
held, runs: yes Nothing Nothing yes Nothing NotOperators yes NotEnded
held by another library, ?: yes Nothing Nothing yes Nothing NotOperators Foreign NotEnded
held by another library, ended: yes Nothing Nothing yes Nothing NotOperators Foreign NotEnded
held by another library, runs: yes Nothing Nothing yes Nothing NotOperators Foreign NotEnded
completed, ?: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
completed, ended: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
completed, runs: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
redacted, ?: HasResult Nothing yes Nothing Nothing Redacted NotHeld Redacted
redacted, ended: HasResult Nothing yes Nothing Nothing Redacted NotHeld Redacted
redacted, runs: HasResult Nothing yes Nothing Nothing Redacted NotHeld Redacted
completed by an operator, ?: HasResult Nothing yes Nothing Nothing yes NotHeld yes
completed by an operator, ended: HasResult Nothing yes Nothing Nothing yes NotHeld yes
completed by an operator, runs: HasResult Nothing yes Nothing Nothing yes NotHeld yes
failed, ?: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
failed, ended: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
failed, runs: HasResult Nothing yes Nothing Nothing NotOperators NotHeld yes
released, ?: Nothing Nothing Nothing Nothing Nothing NotOperators NotHeld NotEnded
released, ended: Nothing Nothing Nothing Nothing Nothing NotOperators NotHeld NotEnded
released, runs: Nothing Nothing Nothing Nothing Nothing NotOperators NotHeld NotEnded
released by an operator, ?: Nothing Nothing Nothing yes Nothing NotOperators NotHeld NotEnded
released by an operator, ended: Nothing Nothing Nothing yes Nothing NotOperators NotHeld NotEnded
released by an operator, runs: Nothing Nothing Nothing yes Nothing NotOperators NotHeld NotEnded
",
        );
    }

    fn assert_lines(found: &str, expected: &str) {
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.lines().count(), expected.lines().count());
    }

    #[test]
    fn due_time_and_clock_skew_decide_about_work_in_progress() {
        let release = TokenAct::Release { of: Of::Stuck, new_key: false };
        for act in [release, TokenAct::Resolve(Of::Stuck)] {
            for (now, expected) in [
                (100, Err(Refusal::MayRun)),
                (101, Err(Refusal::JustDue)),
                (100 + SKEW, Err(Refusal::JustDue)),
                (101 + SKEW, Ok(())),
            ] {
                assert_eq!(may(act, &begun(), &facts(now, None)), expected, "{act:?} at {now}");
            }
            let runs = facts(1000, Some(true));
            assert_eq!(may(act, &begun(), &runs), Err(Refusal::Runs), "{act:?}");
        }
    }

    #[test]
    fn token_whose_release_gave_up_a_key_can_be_resolved() {
        let mut record = ended_in(TokenState::Released);
        record.key_use.since = Some(at(10));
        assert_eq!(may(TokenAct::Resolve(Of::Stuck), &record, &facts(90, None)), Ok(()));
    }

    #[test]
    fn only_a_key_that_the_provider_refused_is_replaced_unasked() {
        let refused = || ended_in(TokenState::Failed);
        let mut used_before = refused();
        used_before.key_use.since = Some(at(10));
        for (name, record, is_replaced) in [
            ("refused", refused(), true),
            ("completed", ended_in(TokenState::Completed), false),
            ("closed", Record { resolution: Some(Resolution::Closed), ..refused() }, false),
            ("taken over", Record { taken_over_from: Some("a-0".to_owned()), ..refused() }, false),
            ("used before", used_before, false),
        ] {
            assert_eq!(gives_new_key(false, &record), is_replaced, "{name}");
            assert!(gives_new_key(true, &record), "{name}");
        }
    }
}
