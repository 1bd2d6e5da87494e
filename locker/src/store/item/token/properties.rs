//! Properties of every item, written by any program.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::arbitrary::{any_item, damaged_record};
use super::dynamodb_json::{from_dynamodb_json, to_dynamodb_json};
use super::*;
use crate::corpus;

/// 2026-11-21, when the tests' records were written or long after.
const NOW: i64 = 1_795_259_349;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(NOW, 0).expect("a time")
}

fn number_in(item: &Item, name: &str) -> Option<f64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// The condition of a begin, applied to an item.
fn begin_may_replace(item: &Item) -> bool {
    let released = item.get(a::RESOLUTION) == Some(&text(a::RELEASED));
    #[allow(clippy::cast_precision_loss, reason = "a time of today is exact")]
    let expired = item.contains_key(a::ACTUAL_COMPLETION)
        && number_in(item, a::TTL).is_some_and(|seconds| seconds < NOW as f64);
    !item.contains_key(a::STATUS) && (released || expired)
}

fn says_what_to_do(error: &InvalidRecord) -> bool {
    let said = error.to_string();
    ["inspect and repair the item", "update the code that reads it", "give each library a table of its own"]
        .iter()
        .any(|advice| said.ends_with(advice))
}

/// Checks that an item is a record with the same content, or a clear error.
pub(crate) fn check(item: &Item) -> Result<(), TestCaseError> {
    let version = item.get(a::VERSION).and_then(|version| version.as_n().ok()?.parse::<u32>().ok());
    let newer = version.is_some_and(|version| version > a::CURRENT_VERSION);
    let record = match to_record(item) {
        Ok(record) => record,
        Err(error) => {
            prop_assert!(says_what_to_do(&error), "{}", error);
            prop_assert_eq!(matches!(error, InvalidRecord::Version { .. }), newer, "{}", error);
            return Ok(());
        }
    };
    prop_assert!(!newer, "a newer layout was guessed at");
    let stored = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str);
    prop_assert_eq!(Some(record.key.as_str()), stored(a::LOCK_TOKEN).or(stored(a::TOKEN)));
    prop_assert_eq!(Some(record.locked_by.as_str()), stored(a::LOCKED_BY));
    // Later writes compare with the stored text, not with the parsed value.
    prop_assert_eq!(Some(record.seen.created.as_str()), stored(a::CREATED));
    prop_assert_eq!(Some(record.seen.expected_completion.as_str()), stored(a::EXPECTED_COMPLETION));
    prop_assert_eq!(record.seen.status.as_deref(), stored(a::STATUS));
    prop_assert_eq!(record.seen.attempt.as_deref(), stored(a::ATTEMPT));
    let unfinished = matches!(record.state, TokenState::InProgress | TokenState::Held);
    prop_assert_eq!(unfinished, stored(a::STATUS).is_some(), "{:?}", record.state);
    let has_answer = !matches!(record.state, TokenState::InProgress | TokenState::Released);
    prop_assert_eq!(record.body.is_some(), has_answer, "{:?}", record.state);
    if matches!(record.state, TokenState::Completed | TokenState::Failed) {
        prop_assert!(record.actual_completion.is_some(), "completed without a time");
    }
    let said = match record.state {
        TokenState::Completed => Some(a::SUCCESS),
        TokenState::Failed => Some(a::FAILURE),
        _ => None,
    };
    if version.is_some() && said.is_some() {
        prop_assert_eq!(stored(a::OUTCOME), said, "an outcome was guessed at");
    }
    prop_assert_eq!(record.counts_as_absent(now()), begin_may_replace(item), "{:?}", record);
    // What people and programs do with any record.
    let _ = (
        record.is_overdue(now()),
        crate::core::token::decide::retry_after(&record, now()),
        format!("{record:?}"),
    );
    if let Some(Body::Inline(encoded)) = record.body {
        let _ = crate::core::answer::decode(encoded);
    }
    Ok(())
}

#[test]
fn the_kept_items_are_records_or_clear_errors() {
    for (name, bytes) in corpus::read("items") {
        let json: Value = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let item = from_dynamodb_json(&json["item"]);
        check(&item).unwrap_or_else(|error| panic!("{name}: {error}"));
        let said = match to_record(&item) {
            Ok(record) => record.state.as_str().to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(json["read_as"], json!(said), "{name}");
    }
}

proptest! {
    #[test]
    fn any_item_is_a_record_or_a_clear_error(item in any_item()) {
        check(&item).map_err(|error| TestCaseError::fail(format!("{error}: {}", to_dynamodb_json(&item))))?;
    }

    #[test]
    fn a_damaged_record_is_a_record_or_a_clear_error(item in damaged_record()) {
        check(&item).map_err(|error| TestCaseError::fail(format!("{error}: {}", to_dynamodb_json(&item))))?;
    }
}
