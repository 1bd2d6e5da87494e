//! The rules that once-only execution and workflows depend on. A test can break each one and check that it is noticed.
//!
//! Compiled only with the feature `__mutants`, which is for tests and not for production.

use std::cell::Cell;
use std::time::Duration;

use crate::core::token::decide::{Ended, Found};
use crate::core::token::record::Record;
use crate::core::token::write::Write;

/// A broken rule.
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
    /// A token that waits for an operator has a `ttl`.
    TtlOnFailed,
    /// A token enters a shard of the index that no listing reads.
    UnknownShard,
    /// A takeover is not conditional on the record that was seen.
    TakeOverUnseen,
    /// A takeover allows nothing for clock skew.
    TakeOverWithoutMargin,
    /// A refused begin does not recognise its own token.
    BeginForgetsItself,
    /// The attempt's id identifies the process, not the call.
    AttemptOfTheProcess,
    /// Work in progress is read as completed.
    ConflictIsAnAnswer,
    /// A refused end does not recognise its own success.
    EndForgetsItself,
    /// A refused end is reported as applied.
    RefusedIsDone,
    /// No reply is read as "not applied".
    SilenceIsNo,
    /// After a clear answer, the retry loop ignores that an earlier request got none.
    ForgetsSilence,
    /// When time is up, an absent record counts as proof that nothing was applied.
    ReadBackIsProof,
    /// A conflict with a transaction is read as a refused condition.
    ConflictIsRefusal,
    /// Every answer of a token is stored under the same key.
    OneAnswerKey,
    /// An answer counts as stored without a clear reply.
    SilenceIsStored,
    /// An end in doubt deletes the answer that it may refer to.
    DropAnswerInDoubt,
    /// A 503 of DynamoDB is read as "not applied".
    UnavailableIsNo,
    /// After a lost reply, an end whose token is gone is reported as refused.
    GoneIsLost,
    /// After a lost request, a release counts as applied though an operator ended the token.
    ReleaseForgetsOperators,
    /// A late extension brings the due time nearer.
    ExtendComesNearer,
    /// A record without `status` and without a completion counts as expired.
    NoOutcomeIsFree,
    /// A separate answer expires together with its token.
    AnswerWithoutMargin,
    /// A separate answer never expires.
    AnswerForever,
    /// A run goes on extending a token that it lost.
    ExtendsWhatIsLost,
    /// A run extends when the token is due, not before.
    ExtendsWhenDue,
    /// An end past the deadline has no time for a reply.
    NoLastChance,
    /// A doubt forgets the due time that the token had, so takeovers come sooner.
    DoubtComesDue,
    /// A transient failure after a takeover releases the token, and with it what the first owner did.
    TransientFreesAnother,
    /// A begin over a released refusal does not look at the version of the provider's key.
    ForgetsKeyVersion,
    /// A takeover does not look at the age of the provider's key.
    ForgetsKeyAge,
    /// An operator's verb acts on any token that is unfinished.
    ActsOnTheLiving,
    /// A takeover of a step counts its key's age from itself.
    TakeOverRenewsTheKey,
    /// An outcome counts only if the record is still of its attempt.
    DropsFormerOutcomes,
    /// The attempt stays when compensation begins.
    CompensatesUnderTheSameAttempt,
    /// A step is cancelled though its driver may be at work.
    CancelsTheBusy,
    /// A key is used until the provider forgets it, without a margin.
    RecognisesToTheEnd,
    /// The reaper quarantines what a driver has claimed meanwhile.
    ReaperTakesTheLiving,
    /// A late outcome of a closed workflow is compensated without an operator.
    ClosedCompensatesByItself,
    /// A step with a key of its own is compensated once for each of its names.
    CompensatesPerName,
    /// A step that runs again after its compensation keeps the version of its key.
    KeepsTheVersion,
    /// A start that was withdrawn counts as a step that completed.
    WithdrawnIsDone,
    /// A permanent failure counts though an earlier attempt is in doubt.
    TrustsALaterFailure,
    /// A start over one in doubt is withdrawn as if nothing had been done.
    WithdrawsInDoubt,
    /// A step in doubt may be started anew.
    InDoubtIsFree,
    /// A shared step that another workflow cancelled in doubt may be started anew.
    StartsOverCancelled,
    /// A probe that cannot say what happened counts as *not done*.
    ProbeUnknownIsNo,
    /// A claim does not change the workflow's attempt.
    ClaimKeepsTheAttempt,
    /// A claim allows nothing for clock skew.
    ClaimWithoutMargin,
    /// A step's time ends without an allowance for clock skew.
    StepWithoutMargin,
    /// A compensation that found nothing settles a step in doubt.
    SettledAnyway,
    /// A late outcome is compensated before the compensation that had begun has ended.
    EndsSecond,
    /// Steps are compensated in the order of their starts.
    CompensatesInOrder,
    /// Steps before a pivot are compensated.
    PivotIgnored,
    /// Records of a former life of the workflow's key count.
    AdoptsAFormerLife,
    /// A step runs without a check that its driver still has the workflow.
    FenceSkipped,
    /// An outcome and its workflow's header are written one after the other.
    TellsInTwoWrites,
    /// An outcome of an older version of a step's key counts as one of the current version.
    OlderVersionCounts,
    /// A refusal of an atomic step is not recorded.
    RefusalForgotten,
    /// A workflow compensates a shared step that another one answers for.
    AnswersForOthers,
    /// Every workflow that starts a shared step answers for it.
    AnswersWithoutACompensation,
    /// A late outcome does not stop the driver that compensates.
    LateLeavesTheDriver,
    /// The reaper deletes a workflow with a step in doubt.
    ReaperForgetsEvidence,
    /// The reaper deletes a workflow with a message that is not sent.
    ReaperForgetsMessages,
    /// A message is sent before its step is committed.
    SendsTheUncommitted,
    /// A message is deleted before it is sent.
    DeletesBeforeItSends,
    /// A message that no reply came to counts as sent.
    SilenceIsSent,
    /// A message that was not sent holds up none in a relay.
    RelayHoldsUpNothing,
    /// A message that was not sent holds up none of the steps behind it.
    DriverHoldsUpNothing,
    /// An inbox takes a message whether it remembers it or not.
    InboxForgets,
}

impl Mutant {
    /// All broken rules.
    pub const ALL: [Self; 73] = [
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
        Self::UnavailableIsNo,
        Self::GoneIsLost,
        Self::ReleaseForgetsOperators,
        Self::ExtendComesNearer,
        Self::NoOutcomeIsFree,
        Self::AnswerWithoutMargin,
        Self::AnswerForever,
        Self::ExtendsWhatIsLost,
        Self::ExtendsWhenDue,
        Self::NoLastChance,
        Self::DoubtComesDue,
        Self::TransientFreesAnother,
        Self::ForgetsKeyVersion,
        Self::ForgetsKeyAge,
        Self::ActsOnTheLiving,
        Self::TakeOverRenewsTheKey,
        Self::DropsFormerOutcomes,
        Self::CompensatesUnderTheSameAttempt,
        Self::CancelsTheBusy,
        Self::RecognisesToTheEnd,
        Self::ReaperTakesTheLiving,
        Self::ClosedCompensatesByItself,
        Self::CompensatesPerName,
        Self::KeepsTheVersion,
        Self::WithdrawnIsDone,
        Self::TrustsALaterFailure,
        Self::WithdrawsInDoubt,
        Self::InDoubtIsFree,
        Self::StartsOverCancelled,
        Self::ProbeUnknownIsNo,
        Self::ClaimKeepsTheAttempt,
        Self::ClaimWithoutMargin,
        Self::StepWithoutMargin,
        Self::SettledAnyway,
        Self::EndsSecond,
        Self::CompensatesInOrder,
        Self::PivotIgnored,
        Self::AdoptsAFormerLife,
        Self::FenceSkipped,
        Self::TellsInTwoWrites,
        Self::OlderVersionCounts,
        Self::RefusalForgotten,
        Self::AnswersForOthers,
        Self::AnswersWithoutACompensation,
        Self::LateLeavesTheDriver,
        Self::ReaperForgetsEvidence,
        Self::ReaperForgetsMessages,
        Self::SendsTheUncommitted,
        Self::DeletesBeforeItSends,
        Self::SilenceIsSent,
        Self::RelayHoldsUpNothing,
        Self::DriverHoldsUpNothing,
        Self::InboxForgets,
    ];
}

thread_local! {
    static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Break one rule on this thread. `None`: break none.
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}

pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

/// Do this with every rule, so that a broken rule can be told by what the whole one does of something else.
pub(crate) fn whole<T>(done: impl FnOnce() -> T) -> T {
    let on = ON.replace(None);
    let done = done();
    ON.set(on);
    done
}

pub(crate) fn found(found: Found) -> Found {
    match found {
        Found::Mine if is_on(Mutant::BeginForgetsItself) => Found::InProgress,
        Found::InProgress if is_on(Mutant::ConflictIsAnAnswer) => Found::Completed,
        found => found,
    }
}

pub(crate) fn ended(ended: Ended, write: &Write, record: Option<&Record>) -> Ended {
    let by_operator = record.is_some_and(|record| record.intervention.is_some());
    match ended {
        Ended::Unknown if record.is_none() && is_on(Mutant::GoneIsLost) => Ended::Lost,
        Ended::Lost
            if by_operator
                && matches!(write, Write::Release { .. })
                && is_on(Mutant::ReleaseForgetsOperators) =>
        {
            Ended::Done
        }
        Ended::Done if is_on(Mutant::EndForgetsItself) => Ended::Lost,
        Ended::Lost if is_on(Mutant::RefusedIsDone) => Ended::Done,
        ended => ended,
    }
}

pub(crate) fn margin(margin: Duration) -> Duration {
    if is_on(Mutant::TakeOverWithoutMargin) { Duration::ZERO } else { margin }
}

pub(crate) fn pause_before_extend(pause: Duration) -> Duration {
    if is_on(Mutant::ExtendsWhenDue) { pause * 3 } else { pause }
}

pub(crate) fn answer_id(id: String) -> String {
    if is_on(Mutant::OneAnswerKey) { "answer".to_owned() } else { id }
}

pub(crate) fn takes_silence_for_stored() -> bool {
    is_on(Mutant::SilenceIsStored)
}
