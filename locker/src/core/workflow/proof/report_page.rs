//! Every report of an outcome in every state of its step.

use super::header_page::header_in;
use super::page::{Table, cell};
use super::sample::{at, result, stamp, start, step};
use super::step_page::{STATES, State, name_of, now_in, record_in, state_of};
use crate::core::workflow::header::{Header, Stamp};
use crate::core::workflow::place::{Effect, Former, Place, Undo};
use crate::core::workflow::step::{
    Decision, Happened, NewStep, Outcome, RecordId, Report, Reported, Seen, StepData, StepKind, StepRecord,
    StepResult,
};

/// A report, and the records that it finds.
#[derive(Debug, Clone)]
struct Case {
    outcome: Outcome,
    header: &'static str,
    kind: StepKind,
    place: Place<'static>,
    /// The result of the record next to the step.
    beside: Option<StepResult>,
}

pub(super) fn outcome(result: StepResult, version: u32) -> Outcome {
    Outcome {
        version,
        is_version_named: true,
        happened: Happened::Yes(result),
        ended: at(30),
        compensation: None,
        is_same_effect: false,
        waits: false,
        is_unrecorded: false,
    }
}

fn paid() -> Outcome {
    outcome(result("paid"), 1)
}

const REFUND: Place<'static> = Place::Compensation {
    of: Undo { effect: Effect { step: "pay", version: 1 }, late: false },
    former: None,
};

fn cases() -> Vec<(&'static str, Case)> {
    let case = |outcome: Outcome| Case {
        outcome,
        header: "driven",
        kind: StepKind::Once,
        place: Place::Step("pay"),
        beside: None,
    };
    let other = || outcome(result("paid again"), 1);
    let before = || outcome(result("paid"), 0);
    let never = Outcome { happened: Happened::No(result("declined")), ..paid() };
    let outside = Outcome { waits: true, ..paid() };
    vec![
        ("happened, workflow runs forward", case(paid())),
        ("happened, workflow compensates", Case { header: "compensating, due", ..case(paid()) }),
        ("happened, workflow completed", Case { header: "completed", ..case(paid()) }),
        ("happened, workflow is deleted", Case { header: "reaping", ..case(paid()) }),
        ("happened, another result", case(other())),
        ("the same, the key is recognised", case(Outcome { is_same_effect: true, ..other() })),
        ("happened, the result cannot be recorded", case(Outcome { is_unrecorded: true, ..paid() })),
        ("happened under the version before", case(before())),
        ("the same, recorded next to the step", Case { beside: Some(result("paid")), ..case(before()) }),
        (
            "the same, another result next to the step",
            Case { beside: Some(result("paid again")), ..case(before()) },
        ),
        (
            "a compensation happened",
            Case { header: "compensating, due", kind: StepKind::Compensation, place: REFUND, ..case(paid()) },
        ),
        (
            "a compensation happened, workflow was closed",
            Case { header: "closed", kind: StepKind::Compensation, place: REFUND, ..case(paid()) },
        ),
        ("never happened", case(never)),
        ("from outside: happened", case(outside.clone())),
        (
            "from outside: happened, no version named",
            case(Outcome { is_version_named: false, ..outside.clone() }),
        ),
        ("from outside, of a `step` or an `atomic`", Case { kind: StepKind::Step, ..case(outside) }),
    ]
}

pub(super) fn table() -> Table {
    let rows = cases().into_iter().map(|(name, case)| {
        let cells = STATES.iter().map(|state| cell(name_of(*state), case.come_of(*state))).collect();
        (name, cells)
    });
    Table { states: STATES.iter().map(|state| name_of(*state)).collect(), rows: rows.collect() }
}

impl Case {
    fn come_of(&self, state: State) -> Result<&'static str, String> {
        let now = now_in(state);
        let id = RecordId::at("order/7", self.place);
        let record = record_in(state).map(|record| {
            let kind = if record.kind == StepKind::Given { record.kind } else { self.kind };
            StepRecord::stored(StepData { kind, id: id.clone(), ..StepData::clone(&record) })
        });
        let header = Some(header_in(self.header)).filter(|_| self.header != "reaping");
        let former = id.beside(Former { version: self.outcome.version, digest: None });
        let beside = self.beside.clone().map(|result| {
            let data = StepData::clone(&record_in(State::Late).expect("a record"));
            StepRecord::stored(StepData { id: former.clone(), result: Some(result), ..data })
        });
        let place = NewStep { id: id.clone(), ..step("pay", "run-1", 1) };
        let report = Report { step: id, run: String::new(), place, outcome: self.outcome.clone() };
        let find = |id: &RecordId| beside.clone().filter(|_| *id == former);
        let decided = decide(&report, seen(record, header), &stamp(now, "report"), find);
        match (decided.reported, decided.steps.first()) {
            (Reported::Recorded, Some((true, next))) => Ok(state_of(next, now)),
            (Reported::Compensates, Some((true, next))) => Ok(state_of(next, now)),
            (Reported::Compensates, _) => Err("**late** next to it".to_owned()),
            (Reported::Twice, _) => Err("**twice**".to_owned()),
            (Reported::Known, _) => Err("known".to_owned()),
            (Reported::Contradicts, _) => Err("contradicts".to_owned()),
            (Reported::Busy(_), _) => Err("may be running".to_owned()),
            (Reported::Unknown, _) => Err("unknown".to_owned()),
            (Reported::NotAnEffect, _) => Err("not an effect".to_owned()),
            (Reported::Recorded, other) => panic!("recorded without a step: {other:?}"),
        }
    }
}

/// A decision: its answer, the records that it writes and whether each was there, and the headers.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) reported: Reported,
    pub(super) steps: Vec<(bool, StepRecord)>,
    pub(super) headers: Vec<Header>,
}

/// Returns the records that a report finds in a workflow that also compensates the step.
pub(super) fn seen(step: Option<StepRecord>, header: Option<Header>) -> Seen {
    Seen { step, reporter: header.clone(), answerer: header, beside: Vec::new() }
}

/// Decides as the async layer does. `find` reads a record next to the step.
pub(super) fn decide(
    report: &Report,
    mut seen: Seen,
    stamp: &Stamp,
    find: impl Fn(&RecordId) -> Option<StepRecord>,
) -> Decided {
    loop {
        let id = match report.decide(&seen, stamp) {
            Decision::Read(id) => id,
            Decision::Answer(reported) => {
                return Decided { reported, steps: Vec::new(), headers: Vec::new() };
            }
            Decision::Write { reported, steps, headers } => {
                let steps = steps.into_iter().map(|(seen, next)| (seen.is_some(), next)).collect();
                let headers = headers.into_iter().map(|(_, next)| next).collect();
                return Decided { reported, steps, headers };
            }
        };
        let found = find(&id);
        seen.beside.push((id, found));
    }
}

/// The record of a cancelled step whose outcome came.
pub(super) fn late(cancelled: StepRecord) -> StepRecord {
    let id = cancelled.id.clone();
    let report = Report {
        step: id,
        run: String::new(),
        place: step("pay", "run-1", 1),
        outcome: outcome(result("paid"), 1),
    };
    let seen = seen(Some(cancelled), Some(header_in("driven")));
    let decided = decide(&report, seen, &stamp(at(95), "late"), |_| None);
    assert_eq!(decided.reported, Reported::Compensates, "started at {}", start());
    decided.steps.into_iter().next().expect("its record").1
}
