//! Headers, records and stamps as the pages and the walk use them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::core::answer::{Body, Codec, Encoded};
use crate::core::private::Private;
use crate::core::retention::Retention;
use crate::core::token::record::Intervention;
use crate::core::workflow::header::{Header, NewWorkflow, Stamp};
use crate::core::workflow::step::{Intent, NewStep, RecordId, StepKind, StepResult};

pub(super) const EXPECTED: Duration = Duration::from_secs(60);
pub(super) const SKEW: Duration = Duration::from_secs(5);

pub(super) fn start() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_795_000_000_000).expect("a time")
}

pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    start() + TimeDelta::seconds(seconds)
}

/// A stamp with ids that are like no other's.
pub(super) fn stamp(now: DateTime<Utc>, id: &str) -> Stamp {
    Stamp { now, skew: SKEW, revision: format!("r-{id}"), attempt: format!("a-{id}") }
}

pub(super) fn by(now: DateTime<Utc>) -> Intervention {
    Intervention { by: "ada".to_owned(), reason: "to see".to_owned(), at: now }
}

pub(super) fn value(text: &str) -> Encoded {
    Encoded::plain(format!("{text:?}"))
}

pub(super) fn result(text: &str) -> StepResult {
    value(text).into()
}

pub(super) fn workflow(owner: Option<&str>, id: &str) -> Header {
    let new = NewWorkflow {
        code: 1,
        workflow: "order/7".to_owned(),
        name: "order".to_owned(),
        key_version: 1,
        owner: owner.map(str::to_owned),
        not_before: None,
        fingerprint: None,
        input: Some(Body::Beside { codec: Codec::Json, id: "input".to_owned(), bytes: 1 }),
        expected: EXPECTED,
        retention: Retention::For(Duration::from_secs(3600)),
        within: None,
        opened: None,
        continues: None,
    };
    Header::started(new, stamp(start(), id))
}

pub(super) fn undo() -> Intent {
    Intent { name: "undo".to_owned(), input: Private("null".to_owned()), recognised: 0 }
}

pub(super) fn step(name: &str, owner: &str, number: u32) -> NewStep {
    NewStep {
        compensation: Some(undo()),
        ..NewStep::of(RecordId::step("order/7", name), StepKind::Once, owner.to_owned(), start(), number)
    }
}
