//! The rules that once-only rests on, each of which a test can break, to see that it would be noticed.
//!
//! Only with the feature `mutants`, which no product turns on. Without it, nothing of this is compiled.

use std::cell::Cell;
use std::time::Duration;

use crate::Locker;
use crate::core::decide::{Ended, Found};
use crate::core::write::Write;

/// A rule, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Ends are not conditional on the attempt.
    NoAttemptCheck,
    /// A release has no condition at all.
    UnconditionalRelease,
    /// A begin puts its token over whatever is there.
    UnconditionalBegin,
    /// A token has a `ttl` from its begin on.
    TtlFromTheBegin,
    /// A token that waits for a person has a `ttl`.
    TtlOnFailed,
    /// A token enters a part of the index that nobody lists.
    UnknownShard,
    /// A takeover is not conditional on the record that was seen.
    TakeOverUnseen,
    /// A takeover allows nothing for clock skew.
    TakeOverWithoutMargin,
    /// A refused begin does not recognise its own token.
    BeginForgetsItself,
    /// The attempt's id is that of the process, not of the call.
    AttemptOfTheProcess,
    /// Somebody at work is read as done.
    ConflictIsAnAnswer,
    /// A refused end does not recognise its own success.
    EndForgetsItself,
    /// A refused end is taken for done.
    RefusedIsDone,
    /// No reply is taken for "not applied".
    SilenceIsNo,
    /// A clear answer makes the loop forget that an earlier request got none.
    ForgetsSilence,
    /// When time is up, an absent record is taken as proof that nothing was applied.
    ReadBackIsProof,
    /// A conflict with a transaction is read as a refused condition.
    ConflictIsRefusal,
    /// Every answer of a token lies under the same key.
    OneAnswerKey,
    /// An answer counts as stored though nobody said so.
    SilenceIsStored,
    /// An end in doubt deletes the answer that it may have pointed to.
    DropAnswerInDoubt,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::NoAttemptCheck,
        Self::UnconditionalRelease,
        Self::UnconditionalBegin,
        Self::TtlFromTheBegin,
        Self::TtlOnFailed,
        Self::UnknownShard,
        Self::TakeOverUnseen,
        Self::TakeOverWithoutMargin,
        Self::BeginForgetsItself,
        Self::AttemptOfTheProcess,
        Self::ConflictIsAnAnswer,
        Self::EndForgetsItself,
        Self::RefusedIsDone,
        Self::SilenceIsNo,
        Self::ForgetsSilence,
        Self::ReadBackIsProof,
        Self::ConflictIsRefusal,
        Self::OneAnswerKey,
        Self::SilenceIsStored,
        Self::DropAnswerInDoubt,
    ];
}

thread_local! {
    static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Break a rule on this thread, or none.
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}

pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

pub(crate) fn found(found: Found) -> Found {
    match found {
        Found::Mine if is_on(Mutant::BeginForgetsItself) => Found::InProgress,
        Found::InProgress if is_on(Mutant::ConflictIsAnAnswer) => Found::Completed,
        found => found,
    }
}

pub(crate) fn ended(ended: Ended) -> Ended {
    match ended {
        Ended::Done if is_on(Mutant::EndForgetsItself) => Ended::Lost,
        Ended::Lost if is_on(Mutant::RefusedIsDone) => Ended::Done,
        ended => ended,
    }
}

pub(crate) fn margin(margin: Duration) -> Duration {
    if is_on(Mutant::TakeOverWithoutMargin) { Duration::ZERO } else { margin }
}

pub(crate) fn answer_id(id: String) -> String {
    if is_on(Mutant::OneAnswerKey) { "answer".to_owned() } else { id }
}

pub(crate) fn takes_silence_for_stored() -> bool {
    is_on(Mutant::SilenceIsStored)
}

pub(crate) async fn drop_answer_in_doubt(locker: &Locker, write: &Write) {
    if is_on(Mutant::DropAnswerInDoubt) {
        locker.drop_answer(write, None).await;
    }
}
