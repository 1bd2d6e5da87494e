//! What headers and steps come to under a broken rule; see [`crate::mutants`]. `None`: as with every rule.

use std::time::Duration;

use super::compensation::{self, Owed};
use super::decide::Found;
use super::header::{DriverAct, Header, HeaderData, HeaderEvent, HeaderRefusal, ReaperAct, Stamp, State};
use super::step::{
    Begin, HolderAct, NewStep, Outcome, Placed, StepData, StepEvent, StepRecord, StepRefusal, StepState, Told,
};
use crate::core::answer;
use crate::mutants::{Mutant, is_on, whole};

fn unhurried(stamp: &Stamp) -> Stamp {
    Stamp { skew: Duration::ZERO, ..stamp.clone() }
}

/// What an event makes of a header.
pub(crate) fn header(
    header: &Header,
    event: &HeaderEvent,
    stamp: &Stamp,
) -> Option<Result<Header, HeaderRefusal>> {
    let changed = |change: &dyn Fn(&mut HeaderData)| {
        let mut data = HeaderData::clone(header);
        change(&mut data);
        Header::stored(data)
    };
    let on = |header: &Header, stamp| whole(|| header.on(event, stamp));
    let same_attempt = || {
        on(header, stamp.clone()).map(|next| {
            Header::stored(HeaderData { attempt: header.attempt.clone(), ..HeaderData::clone(&next) })
        })
    };
    let compensates = matches!(event, HeaderEvent::Driver { act: DriverAct::Compensate { .. }, .. });
    match event {
        HeaderEvent::Claim(_) if is_on(Mutant::ClaimWithoutMargin) => Some(on(header, unhurried(stamp))),
        HeaderEvent::Claim(_) if is_on(Mutant::ClaimKeepsTheAttempt) => Some(same_attempt()),
        _ if compensates && is_on(Mutant::CompensatesUnderTheSameAttempt) => Some(same_attempt()),
        HeaderEvent::Reaper { act: ReaperAct::Quarantine { .. }, .. }
            if is_on(Mutant::ReaperTakesTheLiving) =>
        {
            Some(on(&changed(&|data| data.locked_by = None), stamp.clone()))
        }
        HeaderEvent::Late if is_on(Mutant::ClosedCompensatesByItself) => {
            Some(on(&changed(&|data| data.closed = false), stamp.clone()))
        }
        HeaderEvent::Late if header.state == State::Compensating && is_on(Mutant::LateLeavesTheDriver) => {
            Some(Ok(changed(&|data| data.revision.clone_from(&stamp.revision))))
        }
        _ => None,
    }
}

/// What an event makes of a step.
pub(crate) fn step(
    record: &StepRecord,
    event: &StepEvent,
    stamp: &Stamp,
) -> Option<Result<StepRecord, StepRefusal>> {
    let on = |event: &StepEvent, stamp: Stamp| Some(whole(|| record.on(event, stamp)));
    match event {
        StepEvent::TakeOver { .. } if is_on(Mutant::TakeOverRenewsTheKey) => {
            let next = whole(|| record.on(event, stamp.clone()));
            Some(
                next.map(|next| {
                    StepRecord::stored(StepData { created: stamp.now, ..StepData::clone(&next) })
                }),
            )
        }
        StepEvent::TakeOver { seen, new, due } if is_on(Mutant::AnswersWithoutACompensation) => {
            let new = Box::new(NewStep { answers: true, ..NewStep::clone(new) });
            on(&StepEvent::TakeOver { seen: seen.clone(), new, due: *due }, stamp.clone())
        }
        StepEvent::TakeOver { .. } | StepEvent::Cancel { .. } if is_on(Mutant::StepWithoutMargin) => {
            on(event, unhurried(stamp))
        }
        StepEvent::Cancel { seen, .. } if is_on(Mutant::CancelsTheBusy) => {
            on(&StepEvent::Cancel { seen: seen.clone(), anyway: true }, stamp.clone())
        }
        StepEvent::Holder { attempt, act: HolderAct::Withdraw { .. } } if is_on(Mutant::WithdrawsInDoubt) => {
            let act = HolderAct::Withdraw { doubt: false };
            on(&StepEvent::Holder { attempt: attempt.clone(), act }, stamp.clone())
        }
        StepEvent::Holder { act: HolderAct::Withdraw { .. }, .. } if is_on(Mutant::WithdrawnIsDone) => {
            let next = whole(|| record.on(event, stamp.clone()));
            Some(next.map(|next| {
                let result = answer::encode_for_item("null".to_owned()).ok();
                StepRecord::stored(StepData { state: StepState::Completed, result, ..StepData::clone(&next) })
            }))
        }
        StepEvent::Holder { attempt, act: HolderAct::End { end, ttl, .. } }
            if is_on(Mutant::TrustsALaterFailure) =>
        {
            let act = HolderAct::End { end: end.clone(), doubt: false, ttl: *ttl };
            on(&StepEvent::Holder { attempt: attempt.clone(), act }, stamp.clone())
        }
        _ => None,
    }
}

/// How a step begins.
pub(crate) fn begin(
    stored: Option<&StepRecord>,
    new: &NewStep,
    how: &Begin,
    stamp: &Stamp,
) -> Option<Result<StepRecord, StepRefusal>> {
    let with = |new: &NewStep| Some(whole(|| StepRecord::begin(stored, new, how, stamp.clone())));
    if is_on(Mutant::AnswersWithoutACompensation) {
        return with(&NewStep { answers: true, ..new.clone() });
    }
    let stored = stored?;
    if is_on(Mutant::AdoptsAFormerLife) {
        return with(&NewStep { run: stored.run, ..new.clone() });
    }
    if is_on(Mutant::KeepsTheVersion) {
        let begun = whole(|| StepRecord::begin(Some(stored), new, how, stamp.clone()));
        return Some(begun.map(|begun| {
            StepRecord::stored(StepData { key_version: stored.key_version, ..StepData::clone(&begun) })
        }));
    }
    None
}

/// What an outcome comes to that is not the recorded attempt's.
pub(crate) fn told(
    stored: Option<&StepRecord>,
    outcome: &Outcome,
    forward: bool,
    stamp: &Stamp,
) -> Option<Told> {
    let current = stored?.key_version;
    let of_older = outcome.version < current && is_on(Mutant::OlderVersionCounts);
    let outcome = Outcome { version: current, ..outcome.clone() };
    of_older.then(|| whole(|| StepRecord::tell(stored, &outcome, forward, stamp.clone())))
}

/// What a record means for the driver that is about to run the step. `found`: under this allowance for clock skew.
pub(crate) fn found(record: &StepRecord, found: impl Fn(Duration) -> Found, skew: Duration) -> Option<Found> {
    let is_left = record.state == StepState::Cancelled && record.started_for.is_some();
    if is_left && is_on(Mutant::StartsOverCancelled) {
        return Some(Found::Free);
    }
    if is_on(Mutant::StepWithoutMargin) {
        return Some(whole(|| found(Duration::ZERO)));
    }
    is_on(Mutant::InDoubtIsFree).then(|| match whole(|| found(skew)) {
        Found::InDoubt => Found::Free,
        found => found,
    })
}

/// What is owed to a step. `owed`: under this allowance for clock skew.
pub(crate) fn owed(owed: impl Fn(Duration) -> Owed, skew: Duration) -> Option<Owed> {
    if is_on(Mutant::StepWithoutMargin) {
        return Some(whole(|| owed(Duration::ZERO)));
    }
    if is_on(Mutant::CancelsTheBusy) {
        return Some(match whole(|| owed(skew)) {
            Owed::Wait(_) => Owed::Cancel,
            owed => owed,
        });
    }
    is_on(Mutant::EndsSecond).then(|| match whole(|| owed(skew)) {
        Owed::EndFirst => Owed::CompensateLate,
        owed => owed,
    })
}

/// The steps to compensate.
pub(crate) fn to_compensate(steps: &[Placed], only_late: bool) -> Option<(Vec<Placed>, bool)> {
    let mut steps = steps.to_vec();
    if is_on(Mutant::PivotIgnored) {
        steps.iter_mut().for_each(|step| step.pivot = false);
        return Some(whole(|| compensation::to_compensate(steps, only_late)));
    }
    is_on(Mutant::CompensatesInOrder).then(|| {
        let (mut compensate, pivot) = whole(|| compensation::to_compensate(steps, only_late));
        compensate.reverse();
        (compensate, pivot)
    })
}

/// Whether nothing of a step is left.
pub(crate) fn is_settled() -> bool {
    is_on(Mutant::SettledAnyway)
}
