//! `locker once`: `flock` for the cloud.

use std::io::Write as _;

use locker::{Class, Failure, Holder, Origin, Record, Retention, RunError, Token};

use crate::args::Once;
use crate::child::{self, Answer, OnFailure};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(connection: &Connection, once: Once) -> Result<Exit, Exit> {
    let on_failure = match (once.retry_on_failure, once.hold_on_failure) {
        (true, _) => OnFailure::Retry,
        (_, true) => OnFailure::Hold,
        _ => OnFailure::Keep,
    };
    let token = token(connection, &once);
    let key = once.key;
    let command = once.command;
    let ran = Box::pin(token.run(|_| child::run(command, on_failure))).await;
    match ran {
        Ok(answer) => {
            let (answer, origin) = answer.into_parts();
            finish(&key, answer, None, origin).await
        }
        Err(RunError::Failed { error, class, origin }) => {
            finish(&key, error.error, Some(class), origin).await
        }
        Err(RunError::InProgress(holder)) => Err(in_progress(&key, &holder)),
        Err(RunError::Mismatch(record)) => Err(other_request(&key, &record)),
        Err(RunError::Locker(error)) => Err(error.into()),
        Err(error) => Err(Exit::say(Exit::FAILED, error.to_string())),
    }
}

fn token(connection: &Connection, once: &Once) -> Token {
    let owner = || format!("{}/{}", output::person(), std::process::id());
    let mut token = connection
        .locker
        .token(&once.key)
        .owner(once.owner.clone().unwrap_or_else(owner))
        .expect_within(once.expect)
        .keep_extended();
    token = match once.retain.0 {
        Retention::For(kept) => token.retain_for(kept),
        Retention::Forever => token.retain_forever(),
    };
    if let Some(text) = &once.fingerprint {
        token = token.fingerprint_bytes(text);
    }
    match once.wait {
        Some(wait) => token.wait_for(wait),
        None => token,
    }
}

/// Give the answer, and say whose it is.
async fn finish(key: &str, answer: Answer, failed: Option<Class>, origin: Origin) -> Result<Exit, Exit> {
    let exit = answer.exit;
    let said = match origin {
        Origin::Replayed(record) => {
            // Not read any more is not a failure: it was done.
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(&answer.stdout).and_then(|()| stdout.flush());
            let note = answer.note.map(|note| format!(": {note}")).unwrap_or_default();
            format!("{}{note}", replayed(key, exit, failed, &record))
        }
        Origin::Unrecorded(end) => {
            let error = end.error().to_string();
            let kept = match end.into_lock() {
                Some(lock) if matches!(failed, None | Some(Class::Permanent | Class::NeedsPerson)) => {
                    hold(lock, exit, &error).await
                }
                _ => "`locker show` tells what others see".to_owned(),
            };
            format!(
                "{key} ended with exit {exit}, but that could not be stored: {error}; {kept}; see `locker show {key}`"
            )
        }
        Origin::Fresh => match failed {
            None => format!("ran {key} and stored its answer"),
            Some(Class::Permanent) => {
                format!("ran {key}; it failed with exit {exit}, and that is its answer")
            }
            Some(Class::Transient) => {
                format!("{key} failed with exit {exit}; it was released and may be tried again")
            }
            Some(Class::NeedsPerson) => {
                format!("{key} failed with exit {exit} and is held; `locker resolve` or `locker release` it")
            }
            Some(Class::InDoubt) => format!(
                "{key} was cut short, and nobody knows how far it came; it stays in progress until you `locker resolve` or `locker release` it"
            ),
        },
    };
    Ok(Exit::say(exit, said))
}

fn replayed(key: &str, exit: u8, failed: Option<Class>, record: &Record) -> String {
    let by = output::plain(record.locked_by());
    let when = record.actual_completion().map(|at| output::relative(at, output::now())).unwrap_or_default();
    match failed {
        Some(Class::NeedsPerson) => {
            format!(
                "{key} failed with exit {exit} {when} by {by} and is held; `locker resolve` or `locker release` it"
            )
        }
        Some(_) => format!("replayed {key}, which failed with exit {exit} {when} by {by}"),
        None => format!("replayed {key}, done {when} by {by}"),
    }
}

/// The work is done and its output cannot be stored (too large, say): nobody may do it again, and a
/// person should know.
async fn hold(lock: locker::Lock, exit: u8, error: &str) -> String {
    let note = format!("it ended with exit {exit}, but its output could not be stored: {error}");
    let note = Failure::needs_person(Answer { exit: exit.max(1), stdout: Vec::new(), note: Some(note) });
    match lock.fail(&note).await {
        Ok(()) => "it is held for a person; `locker resolve` or `locker release` it".to_owned(),
        Err(_) => "`locker show` tells what others see".to_owned(),
    }
}

fn in_progress(key: &str, holder: &Holder) -> Exit {
    let now = output::now();
    let by = output::plain(holder.locked_by());
    let since = output::relative(holder.since(), now);
    let due = output::relative(holder.due(), now);
    let overdue = if holder.record().is_overdue(now) { ": overdue, see `locker ls --overdue`" } else { "" };
    Exit::say(Exit::IN_PROGRESS, format!("{key} is in progress: by {by}, since {since}, due {due}{overdue}"))
}

fn other_request(key: &str, record: &Record) -> Exit {
    let by = output::plain(record.locked_by());
    let since = output::relative(record.created(), output::now());
    Exit::say(
        Exit::OTHER_REQUEST,
        format!(
            "{key} was used for another request, by {by} {since}; use a new key, or the same --fingerprint"
        ),
    )
}
