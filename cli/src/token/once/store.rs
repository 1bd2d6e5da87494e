//! Storing the end of a command. If the end is too large, its output is cut. If it cannot be
//! stored, the token is held.

use locker::{AnswerError, Attempt, Class, EndError, Error, Lock};

use super::answer::Answer;
use super::failure::Failed;
use super::pass::Length;
use super::said::how_to_end;
use crate::connection::Connection;
use crate::exit::cause_of;
use crate::hint::Hint;

/// The lengths to which the output is cut, tried in this order. An end with the last length is
/// never too large.
const LENGTHS: [usize; 3] = [256 * 1024, 64 * 1024, 0];

/// Cuts the output of a command that has ended, until the end can be stored.
pub(super) fn fitting(
    attempt: &Attempt,
    mut ended: Result<Answer, Failed>,
    length: Length,
) -> Result<Answer, Failed> {
    for most in LENGTHS {
        let checked = match &ended {
            Ok(answer) => attempt.check_answer(answer),
            Err(failed) => attempt.check_answer(failed),
        };
        if !matches!(checked, Err(AnswerError::TooLarge { .. })) {
            break;
        }
        ended = match ended {
            Ok(answer) => Ok(answer.cut(most, length)),
            Err(failed) => Err(Failed { error: failed.error.cut(most, length), ..failed }),
        };
    }
    ended
}

/// Holds the token of a command whose end could not be stored: the work must not be repeated.
/// Returns the sentence about it.
pub(super) async fn held(
    (connection, key): (&Connection, &str),
    answer: &Answer,
    class: Option<Class>,
    end: EndError,
) -> String {
    let (error, lock) = end.into_parts();
    let kept = match lock {
        Some(lock) if matches!(class, None | Some(Class::Permanent | Class::NeedsOperator)) => {
            hold((connection, key), lock, answer.exit, &error).await
        }
        _ => seen(connection, key),
    };
    unrecorded(key, answer.exit, &error, &kept)
}

fn unrecorded(key: &str, exit: u8, error: &Error, kept: &str) -> String {
    let cause = cause_of(error).map(|cause| format!(" ({cause})")).unwrap_or_default();
    format!("{key} ended with exit {exit}, but this could not be stored: {error}{cause}; {kept}")
}

fn seen(connection: &Connection, key: &str) -> String {
    format!("`{}` shows what other callers see", Hint::Show(key).on(connection))
}

/// Holds the token of work that is done and whose end cannot be stored. Later callers get its exit
/// code.
async fn hold((connection, key): (&Connection, &str), lock: Lock, exit: u8, error: &Error) -> String {
    let note = format!("it ended with exit {exit}, but its output could not be stored: {error}");
    let answer = Answer { exit, stdout: Vec::new(), note: Some(note) };
    let held = Failed { class: Class::NeedsOperator, error: answer, stderr: String::new() };
    match lock.hold(&held).await {
        Ok(()) => format!("it is held for an operator; {}", how_to_end(exit)),
        Err(_) => seen(connection, key),
    }
}
