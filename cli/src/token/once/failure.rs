//! The class of a failed command, which decides about its token.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use locker::{Class, Classify};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use crate::exit::Exit;
use crate::output;

/// The exit codes by which a shell reports that a signal ended a command: 128 plus the number of
/// the signal.
const SIGNALLED: std::ops::RangeInclusive<u8> = 129..=159;

/// The exit codes by which `timeout` reports that it cut a command short, and `ssh` that it lost
/// the machine on which the command runs.
const CUT_SHORT: [u8; 2] = [124, 255];

/// The effect of a failure of the command on its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFailure {
    Keep,
    Retry,
    Hold,
}

/// A command that failed: its answer, and the end of its standard error. The stored form of
/// [`Failure`](locker::Failure), with one field more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    pub(super) class: Class,
    pub(super) error: Answer,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) stderr: String,
}

impl Failed {
    /// The command did not start, so nothing happened and the token is released.
    pub(super) fn to_start(error: &std::io::Error) -> Self {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Self { class: Class::Transient, error: Answer::of(exit, Vec::new()), stderr: error.to_string() }
    }

    /// The command was started, and its end is unknown. It may have done its work, so the options
    /// for failures do not apply.
    pub(super) fn of_unknown_end(error: &std::io::Error) -> Self {
        let stderr = format!("the exit code of the command could not be learned: {error}");
        Self { class: Class::InDoubt, error: Answer::of(Exit::UNKNOWN, Vec::new()), stderr }
    }

    /// The last line of standard error, if there is one.
    pub(super) fn last_line(&self) -> Option<String> {
        let line = self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map(output::plain)
    }
}

impl Classify for Failed {
    fn class(&self) -> Class {
        self.class
    }

    fn cause(&self) -> String {
        self.last_line().unwrap_or_else(|| format!("exit {}", self.error.exit))
    }
}

/// The exit code as a shell reports it: 128 plus the signal, if a signal ended the command.
pub(super) fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The class of an end. `None` is success.
pub(super) fn class_of(exit: u8, interrupted: bool, on_failure: OnFailure) -> Option<Class> {
    Some(match on_failure {
        _ if exit == 0 => return None,
        OnFailure::Hold => Class::NeedsOperator,
        // It, or a command that it ran, did not end by itself, so its outcome is unknown.
        _ if interrupted || SIGNALLED.contains(&exit) => Class::InDoubt,
        OnFailure::Keep => Class::Permanent,
        OnFailure::Retry if CUT_SHORT.contains(&exit) => Class::InDoubt,
        OnFailure::Retry => Class::Transient,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_of_its_own_is_released_or_an_answer() {
        use Class::{InDoubt, NeedsOperator, Permanent, Transient};
        for (exit, interrupted, keep, retry) in [
            (1, false, Permanent, Transient),
            (128, false, Permanent, Transient),
            (160, false, Permanent, Transient),
            (123, false, Permanent, Transient),
            (124, false, Permanent, InDoubt),
            (125, false, Permanent, Transient),
            (254, false, Permanent, Transient),
            (255, false, Permanent, InDoubt),
            (129, false, InDoubt, InDoubt),
            (137, false, InDoubt, InDoubt),
            (159, false, InDoubt, InDoubt),
            (1, true, InDoubt, InDoubt),
        ] {
            assert_eq!(class_of(exit, interrupted, OnFailure::Keep), Some(keep), "{exit}");
            assert_eq!(class_of(exit, interrupted, OnFailure::Retry), Some(retry), "{exit}");
            assert_eq!(class_of(exit, interrupted, OnFailure::Hold), Some(NeedsOperator), "{exit}");
        }
        // A command that was asked to stop and finished its work has finished it.
        assert_eq!(class_of(0, true, OnFailure::Keep), None);
    }

    #[test]
    fn an_unknown_end_is_no_failure_that_may_be_repeated() {
        let failed = Failed::of_unknown_end(&std::io::Error::from_raw_os_error(10));
        assert_eq!((failed.class(), failed.error.exit), (Class::InDoubt, 74));
        assert!(failed.cause().starts_with("the exit code of the command could not be learned: "));
    }

    #[test]
    fn a_failure_is_stored_as_earlier_versions_read_it() {
        let failed = |stderr: &str| Failed {
            class: Class::Permanent,
            error: Answer::of(3, b"out".to_vec()),
            stderr: stderr.to_owned(),
        };
        let json = serde_json::to_string(&failed("")).unwrap();
        assert_eq!(json, r#"{"class":"permanent","error":{"exit":3,"stdout":"out"}}"#);
        assert_eq!(serde_json::from_str::<Failed>(&json).unwrap(), failed(""));
        let json = serde_json::to_string(&failed("no\n")).unwrap();
        let earlier: locker::Failure<Answer> = serde_json::from_str(&json).unwrap();
        assert_eq!((earlier.class, earlier.error), (Class::Permanent, Answer::of(3, b"out".to_vec())));
    }

    #[test]
    fn the_cause_is_the_last_line_or_the_exit_code() {
        let cause = |stderr: &str| {
            let error = Answer::of(3, Vec::new());
            Failed { class: Class::Permanent, error, stderr: stderr.to_owned() }.cause()
        };
        assert_eq!(cause(""), "exit 3");
        assert_eq!(cause(" \n\n"), "exit 3");
        assert_eq!(cause("first\n550 \u{1b}[31mdenied\r\n\n"), "550 \u{fffd}[31mdenied");
    }
}
