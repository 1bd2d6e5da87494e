//! What an operator saw of a token, and whether a verb may act on it.

use locker::{Locker, Record, TokenState};

use super::process;
use crate::exit::Exit;
use crate::options::Seen;
use crate::output;

/// The kind of token that a verb is told to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Overdue or held: nothing goes on without an operator.
    Stuck,
    /// In progress, and its work may be running, as a flag says.
    Running,
    /// Overdue, and no flag says that its command is running on this machine.
    Alive,
    /// It has an answer, as a flag says.
    Completed,
    /// It has an answer that an operator gave.
    Answered,
    /// No flag says that the verb is meant for a token in this state.
    Refused,
    /// It is not held, and the verb is for held tokens only.
    NotHeld,
}

impl Target {
    pub(crate) fn of(locker: &Locker, record: &Record, running: bool, completed: bool) -> Self {
        let is_running = record.state() == TokenState::InProgress;
        let is_completed = matches!(record.state(), TokenState::Completed | TokenState::Failed);
        if record.state() == TokenState::Held {
            Self::Stuck
        } else if is_running && process::alive(record.locked_by()) == Some(true) {
            if running { Self::Running } else { Self::Alive }
        } else if locker.needs_operator(record) {
            Self::Stuck
        } else if running && is_running {
            Self::Running
        } else if completed && is_completed {
            Self::Completed
        } else {
            Self::Refused
        }
    }

    pub(crate) fn held(record: &Record) -> Self {
        if record.state() == TokenState::Held { Self::Stuck } else { Self::NotHeld }
    }
}

/// Shows what the decision depends on, and checks that the operator may make it.
pub(crate) fn check(seen: &Seen, record: &Record, target: Target, verb: &str) -> Result<(), Exit> {
    let key = record.key().as_str();
    describe(record);
    let revision = record.revision();
    seen.unchanged(key, &revision, &format!("locker show {key}"))?;
    let is_sure = seen.is_sure();
    let refused = match (record.state(), target) {
            (_, Target::Stuck) => None,
            (_, Target::Running | Target::Completed | Target::Answered) if is_sure => None,
            (_, Target::Running | Target::Completed | Target::Answered) => {
                Some(format!("say that you saw it as it is: add --seen {revision}"))
            }
            (_, Target::Alive) => {
                let process = process::number(record.locked_by()).unwrap_or_default();
                Some(format!(
                    "its command is still running here, as process {process}; wait for its end, or stop it; \
                     to {verb} it all the same, add --running --seen {revision}"
                ))
            }
            (_, Target::NotHeld) => Some(format!(
                "only a held token has a failure to {verb}; `locker resolve` and `locker release` are for work \
                 that is overdue or in doubt"
            )),
            (TokenState::InProgress, Target::Refused) if record.is_overdue(output::now()) => Some(
                "it was due a moment ago, and its owner's clock may be behind this one; try again in some seconds"
                    .to_owned(),
            ),
            (TokenState::InProgress, Target::Refused) => Some(format!(
                "its work is not overdue and may still be running; to {verb} it all the same, add --running --seen {revision}"
            )),
            (TokenState::Completed | TokenState::Failed, _) if verb == "release" => Some(format!(
                "it has an answer, and releasing it does the work again; if you want that, add --completed --seen {revision}"
            )),
            (state, _) => Some(format!("there is nothing to {verb} in a token that is {}", state.as_str())),
        };
    if let Some(why) = refused {
        return Err(Exit::say(Exit::CHANGED, format!("{key} was left as it is: {why}")));
    }
    seen.confirmed(key, verb)
}

/// Shows what the decision depends on.
fn describe(record: &Record) {
    let now = output::now();
    let since = output::relative(record.created(), now);
    let by = output::plain(record.locked_by());
    let overdue = if record.is_in_doubt() {
        ", in doubt"
    } else if record.is_overdue(now) {
        ", overdue"
    } else {
        ""
    };
    let cause = record.cause().map(|cause| format!(": {}", output::plain(cause))).unwrap_or_default();
    let (key, state) = (record.key().as_str(), record.state().as_str());
    output::say(format_args!("{key} is {state}{overdue}, by {by}, begun {since}{cause}"));
}
