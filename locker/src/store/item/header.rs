//! From the header of a workflow to an item and back, and the ledger entry that outlives it.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::reader::Reader;
use super::size;
use super::value::{Item, answer_value, moment, number, text};
use super::writer::Writer;
use crate::core::answer::{Body, REDACTED};
use crate::core::invalid::InvalidRecord;
use crate::core::retention::Retention;
use crate::core::shard;
use crate::core::token::work::Work;
use crate::core::workflow::header::{
    FailedRuns, Failures, Header, HeaderData, LatestCause, List, State, Waits,
};
use crate::core::workflow::place::{HEADER, Place};
use crate::store::schema::attribute as a;

pub(crate) fn header_item(header: &Header, shards: u16) -> Item {
    let mut item = Writer::at(&header.workflow, HEADER);
    item.put(a::NAME, text(&header.name));
    item.put(a::STATE, text(header.state.as_str()));
    if header.code > 1 {
        item.put(a::CODE, number(header.code));
    }
    if let Some(listed) = header.listed {
        let status = shard::status(listed.base(), &header.workflow, shards);
        item.put(a::STATUS, text(status));
    }
    item.put(a::NEXT_DUE, moment(header.next_due));
    item.put(a::REVISION, text(&header.revision));
    item.put(a::ATTEMPT, text(&header.attempt));
    item.text(a::LOCKED_BY, header.locked_by.as_deref());
    item.put(a::ATTEMPTS, number(header.attempts));
    for (name, count) in [
        (a::LOST_IN_A_ROW, header.lost_in_a_row),
        (a::LOST_WITHOUT_PROGRESS, header.lost_without_progress),
        (a::LOST_IN_ALL, header.lost_in_all),
    ] {
        if count > 0 {
            item.put(name, number(count));
        }
    }
    item.put(a::CREATED, moment(header.created));
    if header.since != header.created {
        item.put(a::SINCE, moment(header.since));
    }
    item.moment(a::ACTUAL_COMPLETION, header.ended);
    if header.closed {
        item.put(a::CLOSED, AttributeValue::Bool(true));
    }
    if let Some(seen) = header.closed_after {
        item.put(a::CLOSED_AFTER, number(seen));
    }
    item.text(a::FINGERPRINT, header.fingerprint.as_deref());
    match &header.input {
        Some(Body::Inline(encoded)) => {
            item.put(a::INPUT_CODEC, text(encoded.codec.name()));
            item.put(a::INPUT, answer_value(encoded));
        }
        Some(Body::Beside { codec, id, .. }) => {
            item.put(a::INPUT_CODEC, text(codec.name()));
            item.put(a::INPUT_ID, text(id));
        }
        Some(Body::Redacted) => item.put(a::INPUT_CODEC, text(REDACTED)),
        None => {}
    }
    match &header.result {
        Some(Body::Beside { codec, id, bytes }) => {
            item.put(a::RESULT_CODEC, text(codec.name()));
            item.put(a::RESULT_ID, text(id));
            item.put(a::RESULT_BYTES, number(bytes));
        }
        Some(Body::Redacted) => item.put(a::RESULT_CODEC, text(REDACTED)),
        Some(Body::Inline(_)) | None => {}
    }
    item.text(a::ENDING, header.ending.map(State::as_str));
    item.text(a::WAITS_FOR, header.waits_for.as_deref());
    if header.reported {
        item.put(a::REPORTED, AttributeValue::Bool(true));
    }
    for (name, count) in [(a::SIGNALS, header.signals), (a::SURPLUS, header.surplus)] {
        if count > 0 {
            item.put(name, number(count));
        }
    }
    item.text(a::STEP, header.waits.as_ref().map(Waits::to_string).as_deref());
    if header.stands {
        item.put(a::STANDS, AttributeValue::Bool(true));
    }
    item.put(a::EXPECTED, number(header.expected.as_secs()));
    if let Retention::For(kept) = header.retention {
        item.put(a::RETENTION, number(kept.as_secs()));
    }
    if header.key_version > 1 {
        item.put(a::KEY_VERSION, number(header.key_version));
    }
    if header.follows_waits {
        item.put(a::FORMER, AttributeValue::Bool(true));
    }
    for (name, version) in [(a::CONTINUED_AS, header.continued_as), (a::CONTINUES, header.continues)] {
        if let Some(version) = version {
            item.put(name, number(version));
        }
    }
    item.intervention(header.intervention.as_ref());
    item.moment(a::OPENED, header.opened);
    item.text(a::WITHIN, header.within.as_ref().map(Work::to_text).as_deref());
    item.text(a::LATEST_CAUSE, header.failures.latest().map(LatestCause::to_string).as_deref());
    let reason = header.reason.as_deref().map(|reason| fitting(reason, item.bytes_without(a::INPUT)));
    item.text(a::REASON, reason);
    item.item()
}

/// The part of a reason with which the header stays within one write unit, but a few words of it at
/// least. Each claim and each end of a run writes the header, and each `atomic` checks it.
fn fitting(reason: &str, others: usize) -> &str {
    const LEAST: usize = 20;
    let room = size::UNIT.saturating_sub(others + a::REASON.len());
    let mut end = reason.len().min(room.max(LEAST));
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

pub(crate) fn header_of(item: &Item) -> Result<Header, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let state = reader.required(a::STATE)?;
    let expected = InvalidRecord::Form { attribute: a::STATE, expected: "the state of a workflow" };
    let listed = match reader.text(a::STATUS)? {
        None => None,
        Some(status) => Some(List::of_status(status).ok_or(InvalidRecord::Form {
            attribute: a::STATUS,
            expected: "unfinished, failing, quarantine or finished",
        })?),
    };
    let created = reader.required_moment(a::CREATED)?;
    Ok(Header::stored(HeaderData {
        workflow: reader.required(a::WORKFLOW)?.to_owned(),
        name: reader.required(a::NAME)?.to_owned(),
        code: reader.number(a::CODE)?.unwrap_or(1),
        state: State::named(state).ok_or(expected)?,
        listed,
        next_due: reader.required_moment(a::NEXT_DUE)?,
        revision: reader.required(a::REVISION)?.to_owned(),
        attempt: reader.required(a::ATTEMPT)?.to_owned(),
        locked_by: reader.owned(a::LOCKED_BY)?,
        attempts: reader.number(a::ATTEMPTS)?.unwrap_or_default(),
        lost_in_a_row: reader.number(a::LOST_IN_A_ROW)?.unwrap_or_default(),
        lost_without_progress: reader.number(a::LOST_WITHOUT_PROGRESS)?.unwrap_or_default(),
        lost_in_all: reader.number(a::LOST_IN_ALL)?.unwrap_or_default(),
        since: reader.moment(a::SINCE)?.unwrap_or(created),
        created,
        ended: reader.moment(a::ACTUAL_COMPLETION)?,
        closed: reader.is_true(a::CLOSED),
        closed_after: reader.number(a::CLOSED_AFTER)?,
        fingerprint: reader.owned(a::FINGERPRINT)?,
        input: reader.input()?,
        result: reader.result_beside()?,
        ending: reader.text(a::ENDING)?.and_then(State::named),
        reason: reader.owned(a::REASON)?,
        waits_for: reader.owned(a::WAITS_FOR)?,
        reported: reader.is_true(a::REPORTED),
        signals: reader.number(a::SIGNALS)?.unwrap_or_default(),
        surplus: reader.number(a::SURPLUS)?.unwrap_or_default(),
        waits: reader.waits()?,
        stands: reader.is_true(a::STANDS),
        expected: Duration::from_secs(reader.number(a::EXPECTED)?.unwrap_or(60)),
        retention: reader.retention()?,
        key_version: reader.number(a::KEY_VERSION)?.unwrap_or(1),
        continued_as: reader.number(a::CONTINUED_AS)?,
        continues: reader.number(a::CONTINUES)?,
        follows_waits: reader.is_true(a::FORMER),
        intervention: reader.intervention()?,
        opened: reader.moment(a::OPENED)?,
        within: reader.text(a::WITHIN)?.and_then(Work::of_text),
        failures: reader.failures()?,
    }))
}

/// Runs of this workflow that failed of one cause, for their place.
pub(crate) fn failed_runs_item(header: &Header, place: u32, failed: &FailedRuns) -> Item {
    let place = Place::FailedRuns { started: header.created, place };
    let mut item = Writer::at(&header.workflow, &place.to_string());
    item.put(a::CREATED, moment(failed.first));
    item.put(a::ACTUAL_COMPLETION, moment(failed.last));
    item.put(a::ATTEMPTS, number(failed.runs));
    item.put(a::LOCKED_BY, text(&failed.by));
    item.put(a::CAUSE, text(&failed.cause));
    item.item()
}

pub(crate) fn failed_runs_of(item: &Item) -> Result<FailedRuns, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    Ok(FailedRuns {
        first: reader.required_moment(a::CREATED)?,
        last: reader.required_moment(a::ACTUAL_COMPLETION)?,
        runs: reader.number(a::ATTEMPTS)?.unwrap_or_default(),
        by: reader.required(a::LOCKED_BY)?.to_owned(),
        cause: reader.required(a::CAUSE)?.to_owned(),
    })
}

impl Reader<'_> {
    fn waits(&self) -> Result<Option<Waits>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute: a::STEP, expected: "a name, two times and a number" };
        self.text(a::STEP)?.map(|text| Waits::parse(text).ok_or(wrong)).transpose()
    }

    fn failures(&self) -> Result<Failures, InvalidRecord> {
        let wrong =
            InvalidRecord::Form { attribute: a::LATEST_CAUSE, expected: "number, runs, time and digest" };
        let latest = self.text(a::LATEST_CAUSE)?.map(|text| LatestCause::parse(text).ok_or(wrong));
        latest.transpose().map(Failures::stored)
    }

    fn input(&self) -> Result<Option<Body>, InvalidRecord> {
        if self.text(a::INPUT_CODEC)? == Some(REDACTED) {
            return Ok(Some(Body::Redacted));
        }
        let Some(codec) = self.codec(a::INPUT_CODEC)? else { return Ok(None) };
        if let Some(id) = self.owned(a::INPUT_ID)? {
            return Ok(Some(Body::Beside { codec, id, bytes: 0 }));
        }
        let wrong = InvalidRecord::Form { attribute: a::INPUT, expected: "encoded as inputCodec" };
        self.encoded(a::INPUT, codec).map(Body::Inline).map(Some).ok_or(wrong)
    }

    fn result_beside(&self) -> Result<Option<Body>, InvalidRecord> {
        if self.text(a::RESULT_CODEC)? == Some(REDACTED) {
            return Ok(Some(Body::Redacted));
        }
        let Some(codec) = self.codec(a::RESULT_CODEC)? else { return Ok(None) };
        let id = self.required(a::RESULT_ID)?.to_owned();
        Ok(Some(Body::Beside { codec, id, bytes: self.number(a::RESULT_BYTES)?.unwrap_or_default() }))
    }
}

/// The record that outlives a deleted workflow.
#[derive(Debug, Clone)]
pub(crate) struct LedgerEntry<'a> {
    pub(crate) header: &'a Header,
    pub(crate) steps: usize,
    pub(crate) at: DateTime<Utc>,
    pub(crate) ttl: Option<i64>,
}

pub(crate) fn ledger_item(entry: &LedgerEntry<'_>) -> Item {
    let header = entry.header;
    let mut item = Writer::at(&header.workflow, &Place::Ledger(header.created).to_string());
    item.put(a::NAME, text(&header.name));
    item.put(a::STATE, text(header.ending.unwrap_or(header.state).as_str()));
    item.put(a::CREATED, moment(header.created));
    item.moment(a::ACTUAL_COMPLETION, header.ended);
    item.put(a::ATTEMPTS, number(header.attempts));
    item.put(a::STEPS, number(entry.steps));
    item.put(a::DELETED, moment(entry.at));
    item.text(a::FINGERPRINT, header.fingerprint.as_deref());
    item.intervention(header.intervention.as_ref());
    if let Some(ttl) = entry.ttl {
        item.put(a::TTL, number(ttl));
    }
    item.item()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_cut_to_the_write_unit_and_keeps_its_first_words() {
        let reason = "step charge is in doubt: ".repeat(12);
        assert_eq!(fitting(&reason, 500), reason);
        assert_eq!(fitting(&reason, 1000 - a::REASON.len()).len(), 24);
        for others in [1010, 1024, 4000] {
            assert_eq!(fitting(&reason, others), "step charge is in do");
        }
        assert_eq!(fitting("0123456789012345678\u{e9}", 4000), "0123456789012345678");
    }
}
