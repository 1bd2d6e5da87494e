//! Items of every shape, and items as this library writes them.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;

use super::{Item, number, text};
use crate::store::schema::attribute as a;

const NAMES: [&str; 23] = [
    a::LOCK_TOKEN,
    a::LOCKED_BY,
    a::CREATED,
    a::EXPECTED_COMPLETION,
    a::ACTUAL_COMPLETION,
    a::RESULT,
    a::TTL,
    a::STATUS,
    a::ATTEMPT,
    a::VERSION,
    a::RETENTION,
    a::FINGERPRINT,
    a::OUTCOME,
    a::RESULT_CODEC,
    a::RESULT_ID,
    a::RESULT_BYTES,
    a::TAKEN_OVER_FROM,
    a::RESOLUTION,
    a::RESOLVED_BY,
    a::RESOLVED_AT,
    a::RESOLVED_REASON,
    a::ERROR,
    a::TOKEN,
];

/// Texts that mean something somewhere, nearly mean something, or are anything.
fn any_text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "inProgress",
        "inProgress_3",
        "inProgress_+3",
        "inProgress_003",
        "error",
        "error_65536",
        "INPROGRESS",
        "COMPLETED",
        "success",
        "failure",
        "resolved",
        "released",
        "json",
        "json+gzip",
        "",
        "null",
        "\"\"",
        "{",
        "7",
    ]);
    let times = prop::sample::select(vec![
        "2026-11-21T11:09:09.120Z",
        "2026-11-21T12:09:09+01:00",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999-23:59",
        "2026-11-21t11:09:09z",
        "2026-02-30T00:00:00Z",
        "+10000-01-01T00:00:00Z",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 3 => times.prop_map(str::to_owned), 1 => ".{0,20}", 1 => "x{5000}"]
}

/// Numbers as DynamoDB may return them (38 digits, up to 9.9E125), and as it may not.
pub(crate) fn any_number() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "0",
        "-0",
        "1",
        "2",
        "1.0",
        "1.5",
        "-1",
        "1E2",
        "9.9E125",
        "-9.9E125",
        "1E-130",
        "4294967295",
        "4294967296",
        "12345678901234567890123456789012345678",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "946785845000",
        "1795259348",
        "1795259349",
        "1795259350",
        "18446744073709551615",
        "",
        "NaN",
        "Infinity",
        "+5",
        "0x1f",
        " 7",
    ]);
    prop_oneof![2 => odd.prop_map(str::to_owned), 1 => any::<i64>().prop_map(|n| n.to_string())]
}

fn any_bytes() -> impl Strategy<Value = Blob> {
    let gzip = crate::core::answer::encode(" ".repeat(2000), 0, 1000).expect("it is small").0.bytes;
    prop_oneof![vec(any::<u8>(), 0..40), Just(gzip)].prop_map(Blob::new)
}

/// A value of any type, nested as deep as DynamoDB takes it now and then.
pub(crate) fn any_value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        4 => any_text().prop_map(AttributeValue::S),
        3 => any_number().prop_map(AttributeValue::N),
        1 => any_bytes().prop_map(AttributeValue::B),
        1 => any::<bool>().prop_map(AttributeValue::Bool),
        1 => any::<bool>().prop_map(AttributeValue::Null),
        1 => vec(any_text(), 1..3).prop_map(AttributeValue::Ss),
        1 => vec(any_number(), 1..3).prop_map(AttributeValue::Ns),
        1 => vec(any_bytes(), 1..3).prop_map(AttributeValue::Bs),
    ];
    let deep = (leaf.clone(), 1_usize..32)
        .prop_map(|(leaf, levels)| (0..levels).fold(leaf, |inner, _| AttributeValue::L(vec![inner])));
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(AttributeValue::L),
            hash_map(any_text(), inner, 0..4).prop_map(AttributeValue::M),
        ]
    });
    prop_oneof![8 => nested, 1 => deep]
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), 1 => ".{1,10}"]
}

/// Generates an item with any attributes of any type. The attributes of the index are text or
/// missing, since DynamoDB refuses other types.
pub(crate) fn any_item() -> impl Strategy<Value = Item> {
    hash_map(any_name(), any_value(), 0..24).prop_map(indexable)
}

fn indexable(mut item: Item) -> Item {
    item.retain(|name, value| name != a::STATUS || value.is_s());
    item
}

/// A record as this code writes it, in any state.
fn whole_record() -> impl Strategy<Value = Item> {
    let base = HashMap::from([
        (a::LOCK_TOKEN.to_owned(), text("order/create/7")),
        (a::LOCKED_BY.to_owned(), text("order/1")),
        (a::ATTEMPT.to_owned(), text("a776b9c5-9db2-40fd-b3ba-0732b5755f2f")),
        (a::CREATED.to_owned(), text("2026-11-21T11:09:09.120Z")),
        (a::EXPECTED_COMPLETION.to_owned(), text("2026-11-21T11:10:09.120Z")),
        (a::VERSION.to_owned(), number(1)),
    ]);
    let answer = [
        (a::ACTUAL_COMPLETION, text("2026-11-21T11:09:10.120Z")),
        (a::RESULT_CODEC, text("json")),
        (a::RESULT, text("7")),
    ];
    let states = [
        vec![(a::STATUS, text("inProgress"))],
        [vec![(a::OUTCOME, text(a::SUCCESS)), (a::TTL, number(1_795_259_350))], answer.to_vec()].concat(),
        [vec![(a::OUTCOME, text(a::FAILURE)), (a::TTL, number(1_795_259_348))], answer.to_vec()].concat(),
        [vec![(a::OUTCOME, text(a::FAILURE)), (a::STATUS, text("error"))], answer.to_vec()].concat(),
        vec![(a::RESOLUTION, text(a::RELEASED))],
    ];
    prop::sample::select(states.to_vec()).prop_map(move |state| {
        let mut item = base.clone();
        item.extend(state.into_iter().map(|(name, value)| (name.to_owned(), value)));
        item
    })
}

/// The same, with attributes taken away, replaced and added: what half-works is what damage looks
/// like.
pub(crate) fn damaged_record() -> impl Strategy<Value = Item> {
    let name = prop_oneof![any::<prop::sample::Index>().prop_map(Ok), any_name().prop_map(Err)];
    let change = (name, prop::option::weighted(0.7, any_value()));
    (whole_record(), vec(change, 0..4)).prop_map(|(mut item, changes)| {
        let mut names: Vec<_> = item.keys().cloned().collect();
        names.sort();
        for (name, value) in changes {
            let name = name.map_or_else(|other| other, |index| index.get(&names).clone());
            match value {
                Some(value) => item.insert(name, value),
                None => item.remove(&name),
            };
        }
        indexable(item)
    })
}
