//! Properties of every stored header and record, written by any program.

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::core::answer::{Body, Codec, Encoded};
use crate::core::invalid::InvalidRecord;
use crate::core::private::Private;
use crate::core::retention::Retention;
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::core::workflow::header::{Awaited, Failures, Header, HeaderData, LatestCause, List, State, Waits};
use crate::core::workflow::step::{
    Apart, Intent, RecordId, StepData, StepKind, StepRecord, StepResult, StepState, Versions,
};
use crate::store::schema::attribute as a;

fn a_time() -> impl Strategy<Value = DateTime<Utc>> {
    (0_i64..4_000_000_000_000).prop_map(|millis| DateTime::from_timestamp_millis(millis).expect("a time"))
}

fn a_text() -> impl Strategy<Value = String> {
    prop_oneof!["[!-~]{1,40}", select(vec!["", "finished_3", "null", "{", "ü"]).prop_map(str::to_owned)]
}

fn a_person() -> impl Strategy<Value = Option<Intervention>> {
    option::of((a_text(), a_text(), a_time()).prop_map(|(by, reason, at)| Intervention { by, reason, at }))
}

fn an_encoded() -> impl Strategy<Value = Encoded> {
    prop_oneof![
        a_text().prop_map(Encoded::plain),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Encoded { codec: Codec::Gzip, bytes }),
    ]
}

fn a_header() -> impl Strategy<Value = Header> {
    use State::{Cancelled, Compensating, Completed, Failed, Reaping, Running};
    let states = vec![Running, Compensating, Completed, Failed, Cancelled, Reaping];
    let listed = option::of(select(vec![List::Unfinished, List::Failing, List::Quarantine, List::Finished]));
    let who = (a_text(), a_text(), a_text(), a_text(), option::of(a_text()), any::<(u32, u32)>());
    let when = (
        a_time(),
        (a_time(), a_time()),
        (option::of(a_time()), any::<bool>(), any::<bool>()),
        0_u64..1_000_000,
        option::of(60_u64..1_000_000),
    );
    let latest = (any::<u32>(), 1_u32..99, a_time(), "[0-9a-f]{10}", option::of((a_time(), a_text())))
        .prop_map(|(number, runs, first, like, lost)| LatestCause { number, runs, first, like, lost });
    let failures = option::of(latest).prop_map(Failures::stored);
    let input = option::of(prop_oneof![
        an_encoded().prop_map(Body::Inline),
        a_text().prop_map(|id| Body::Beside { codec: Codec::Gzip, id, bytes: 0 }),
    ]);
    let result = option::of((a_text(), any::<u32>()).prop_map(|(id, bytes)| Body::Beside {
        codec: Codec::Json,
        id,
        bytes: bytes as usize,
    }));
    let why = (option::of(a_text()), option::of(a_text()));
    let rest =
        (option::of(a_text()), input, result, why, 1_u32..9, (a_person(), option::of(a_text()), failures));
    (select(states.clone()), listed, option::of(select(states)), who, when, rest).prop_map(
        |(state, listed, ending, who, when, rest)| {
            let (workflow, name, revision, attempt, locked_by, (attempts, crashes)) = who;
            let (next_due, (created, since), (ended, closed, reported), expected, kept) = when;
            let (
                fingerprint,
                input,
                result,
                (reason, waits_for),
                key_version,
                (intervention, within, failures),
            ) = rest;
            Header::stored(HeaderData {
                code: attempts.saturating_add(1),
                expected: Duration::from_secs(expected),
                retention: kept.map_or(Retention::Forever, |kept| Retention::For(Duration::from_secs(kept))),
                workflow,
                name,
                state,
                listed,
                next_due,
                revision,
                attempt,
                locked_by,
                attempts,
                lost_in_a_row: crashes / 3,
                lost_without_progress: crashes,
                lost_in_all: crashes / 2,
                since,
                created,
                ended,
                closed,
                closed_after: (closed || reported).then_some(attempts),
                fingerprint,
                input,
                result,
                ending,
                reason,
                waits_for,
                reported,
                signals: crashes,
                surplus: attempts,
                waits: reported.then(|| Waits {
                    on: Awaited { name: format!("event:{attempts}"), since, until: since },
                    others: crashes,
                }),
                stands: reported,
                key_version,
                continued_as: closed.then_some(key_version),
                continues: reported.then_some(key_version),
                follows_waits: closed,
                opened: intervention.as_ref().map(|act| act.at),
                intervention,
                within: within.map(Work::Token),
                failures,
            })
        },
    )
}

fn a_record() -> impl Strategy<Value = StepRecord> {
    let kinds = vec![
        StepKind::Step,
        StepKind::Once,
        StepKind::Atomic,
        StepKind::Timer,
        StepKind::Compensation,
        StepKind::Pointer,
        StepKind::Given,
    ];
    let states = StepState::ALL.to_vec();
    let who = (a_text(), a_text(), a_text(), a_text(), a_text(), option::of(a_text()));
    let when = (a_time(), a_time(), option::of(a_time()), option::of(any::<i64>()), option::of(a_time()));
    let compensation = option::of((a_text(), a_text(), any::<u32>()).prop_map(|(name, input, seconds)| {
        Intent { name, input: Private(input), recognised: u64::from(seconds) }
    }));
    let apart = (a_text(), any::<u32>(), "[0-9a-f]{64}").prop_map(|(id, bytes, digest)| {
        StepResult::Beside(Apart { id, codec: Codec::Json, bytes: bytes as usize, digest, held: None })
    });
    let came = option::of(prop_oneof![an_encoded().prop_map(StepResult::Inline), apart]);
    let versions = proptest::collection::btree_set(1_u32..20, 0..5)
        .prop_map(|all| all.into_iter().fold(Versions::default(), Versions::with));
    let version = (1_u32..9, versions);
    let rest = (any::<u32>(), option::of(a_text()), version, any::<bool>(), came, a_person());
    (select(kinds), select(states), who, when, compensation, option::of(a_text()), rest).prop_map(
        |(kind, state, who, when, compensation, points_to, rest)| {
            let (workflow, item, revision, attempt, owner, started_for) = who;
            let (created, due, ended, ttl, run) = when;
            let (number, input, (key_version, settled), pivot, result, intervention) = rest;
            let id = RecordId { workflow, item };
            StepRecord::stored(StepData {
                id,
                kind,
                state,
                revision,
                attempt,
                owner,
                started_for,
                run,
                created,
                due,
                ended,
                number,
                input,
                key_version,
                settled,
                pivot,
                compensation,
                points_to,
                result,
                ttl,
                intervention,
            })
        },
    )
}

fn a_value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        a_text().prop_map(AttributeValue::S),
        "[-+0-9.eE]{0,25}".prop_map(AttributeValue::N),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null(true)),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| AttributeValue::B(Blob::new(bytes))),
        Just(AttributeValue::L(vec![])),
    ]
}

fn damage(mut item: Item, at: usize, value: Option<AttributeValue>) -> Item {
    let mut names: Vec<_> = item.keys().cloned().collect();
    names.sort();
    let name = names[at % names.len()].clone();
    match value {
        Some(value) => item.insert(name, value),
        None => item.remove(&name),
    };
    item
}

fn says_what_to_do(error: &InvalidRecord) -> bool {
    let said = error.to_string();
    let ends = ["inspect and repair the item", "update the code that reads it", "start with an empty table"];
    ends.iter().any(|end| said.ends_with(end))
}

proptest! {
    #[test]
    fn a_header_comes_back(header in a_header(), shards in 1_u16..5) {
        let item = header_item(&header, shards);
        let read = header_of(&item).expect("our own");
        prop_assert_eq!(header_item(&read, shards), item);
    }

    #[test]
    fn a_record_comes_back(record in a_record()) {
        let item = record_item(&record);
        let read = record_of(&item).expect("our own");
        prop_assert_eq!(record_item(&read), item);
    }

    #[test]
    fn a_damaged_item_is_read_or_a_clear_error(
        header in a_header(),
        record in a_record(),
        at: usize,
        value in option::of(a_value()),
    ) {
        if let Err(error) = header_of(&damage(header_item(&header, 1), at, value.clone())) {
            prop_assert!(says_what_to_do(&error), "{}", error);
        }
        if let Err(error) = record_of(&damage(record_item(&record), at, value)) {
            prop_assert!(says_what_to_do(&error), "{}", error);
        }
    }

    #[test]
    fn an_item_of_a_newer_layout_is_not_guessed_at(header in a_header(), record in a_record()) {
        let newer = |mut item: Item| {
            item.insert(a::VERSION.to_owned(), number(a::WORKFLOW_VERSION + 1));
            item
        };
        let header = header_of(&newer(header_item(&header, 1)));
        prop_assert!(matches!(header, Err(InvalidRecord::Version { .. })), "{:?}", header);
        let record = record_of(&newer(record_item(&record)));
        prop_assert!(matches!(record, Err(InvalidRecord::Version { .. })), "{:?}", record);
    }
}

#[test]
fn an_item_of_the_old_layout_is_refused_and_not_read_without_its_compensation() {
    let mut item = writer::Writer::at("order/1", "step/charge").item();
    item.insert(a::VERSION.to_owned(), number(1));
    let error = record_of(&item).expect_err("an older layout");
    assert_eq!(error, InvalidRecord::Outdated { version: 1, known: a::WORKFLOW_VERSION });
}

#[test]
fn null_is_no_absence_in_an_item_of_ours() {
    let mut item = writer::Writer::at("order/1", "step/charge").item();
    item.insert(a::KIND.to_owned(), AttributeValue::Null(true));
    let error = record_of(&item).expect_err("NULL");
    assert_eq!(error, InvalidRecord::Form { attribute: a::KIND, expected: "text" });
}
