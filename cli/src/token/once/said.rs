//! The messages of `locker once` about its token.

use locker::{Class, Holder, Record};

use super::answer::Answer;
use crate::exit::Exit;
use crate::output;
use crate::token::process;

/// Returns how an operator may end a held token. Work that ended with exit 0 is not done again.
pub(super) const fn how_to_end(exit: u8) -> &'static str {
    match exit {
        0 => "its work is done, so `locker resolve` or `locker close` it",
        _ => "`locker resolve`, `locker release` or `locker close` it",
    }
}

/// Returns the message for a command that was run in this call, and whose end is stored.
pub(super) fn ran(key: &str, answer: &Answer, failed: Option<Class>) -> String {
    let exit = answer.exit;
    let note = note(answer);
    match failed {
        None => format!("ran {key} and stored its answer{note}"),
        Some(Class::Permanent) => {
            format!("ran {key}; it failed with exit {exit}, which is stored as its answer{note}")
        }
        Some(Class::Transient) => {
            format!("{key} failed with exit {exit}; its token was released, so it can be run again")
        }
        Some(Class::NeedsOperator) => {
            format!(
                "{key} failed with exit {exit} and is held for an operator; `locker resolve`, `locker release` or `locker close` it{note}"
            )
        }
        Some(Class::InDoubt) => format!(
            "the outcome of {key} is unknown; it stays in progress until you `locker resolve` or `locker release` it"
        ),
    }
}

/// Returns the message for an answer that was stored before. `failed` is the class and the cause.
pub(super) fn replayed(
    key: &str,
    answer: &Answer,
    failed: Option<(Class, Option<String>)>,
    record: &Record,
) -> String {
    let exit = answer.exit;
    let note = note(answer);
    let by = record.locked_by();
    let when = record.actual_completion().map(|at| output::relative(at, output::now())).unwrap_or_default();
    let Some((class, cause)) = failed else { return format!("replayed {key}, done {when} by {by}{note}") };
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    if class == Class::NeedsOperator {
        let (ended, how) = (if exit == 0 { "ended" } else { "failed" }, how_to_end(exit));
        return format!(
            "{key}, run {when} by {by}, {ended} with exit {exit} and is held for an operator; {how}{cause}{note}"
        );
    }
    format!("replayed {key}, which was run {when} by {by} and failed with exit {exit}{cause}{note}")
}

/// Returns the part of the message about missing output.
fn note(answer: &Answer) -> String {
    answer.note.as_ref().map(|note| format!("; {}", note)).unwrap_or_default()
}

pub(super) fn in_progress(key: &str, holder: &Holder) -> Exit {
    let now = output::now();
    let by = holder.locked_by();
    let since = output::relative(holder.since(), now);
    let due = output::relative(holder.due(), now);
    let overdue =
        if holder.record().is_overdue(now) { ": overdue, see `locker ls tokens --due`" } else { "" };
    let command = match process::alive(holder.locked_by()) {
        Some(true) => "; its command is running",
        Some(false) => "; its command is not running",
        None => "",
    };
    let said = format!("{key} is in progress: begun {since} by {by}, due {due}{overdue}{command}");
    Exit::say(Exit::IN_PROGRESS, said)
}

/// Returns the message for a key that is held because the table was restored.
pub(super) fn restored(key: &str) -> Exit {
    let said = format!(
        "{key} is held for an operator, and its command was not run: the table was restored and may have \
         forgotten an earlier run; use `locker resolve` if it ran before, or `locker release` to run it now"
    );
    Exit::say(Exit::PROBLEMS, said)
}

/// Returns the message for a key that was used for another request. `is_text`: whether
/// `--fingerprint` identifies this request.
pub(super) fn other_request(key: &str, record: &Record, is_text: bool) -> Exit {
    let by = record.locked_by();
    let since = output::relative(record.created(), output::now());
    let what = if is_text { "--fingerprint" } else { "command line" };
    let said = format!(
        "{key} was used {since} by {by} for another request: the {what} differs, and nothing was run; \
         give the {what} of the first call; for other work, use another key; if it is the same work, \
         use --no-fingerprint instead"
    );
    Exit::say(Exit::OTHER_REQUEST, said)
}
