//! Properties of every answer, intact or damaged.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::corpus;

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter_map("JSON has no such number", |float| {
        serde_json::Number::from_f64(float).map(Value::Number)
    });
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        float,
        any::<String>().prop_map(Value::from),
        "[a-c]{0,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn packed(json: &str) -> Encoded {
    Encoded { codec: Codec::Gzip, bytes: gzip(json.as_bytes()).expect("packed") }
}

/// Arbitrary bytes decode to text or a clear error, within bounds.
fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    for codec in [Codec::Json, Codec::Gzip] {
        match decode(Encoded { codec, bytes: bytes.to_vec() }) {
            Ok(json) => {
                prop_assert!(json.len() <= MAX_JSON_BYTES);
                // For any text, a caller receives a value, or an error that contains no part of the
                // text.
                if let Err(error) = from_json::<Value>(&json) {
                    prop_assert!(
                        error.to_string().starts_with("the stored answer does not match the requested type")
                    );
                }
            }
            Err(error) => {
                prop_assert!(error.to_string().ends_with("do not run the work again"), "{}", error);
            }
        }
    }
    Ok(())
}

#[test]
fn the_kept_bytes_are_answers_or_clear_errors() {
    for (name, bytes) in corpus::read("answers") {
        check_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn an_answer_nested_too_deep_to_be_read_is_not_stored() {
    let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    for levels in [1, 100, 127, 128, 129, 1000] {
        match to_json(&nested(levels)) {
            Ok(json) => {
                assert!(levels <= 127, "{levels} levels are stored");
                assert_eq!(from_json::<Value>(&json).expect("JSON"), nested(levels));
            }
            Err(error) => {
                assert!(levels > 127 && error.to_string().contains("nested"), "{levels}: {error}");
                let json = serde_json::to_string(&nested(levels)).expect("JSON");
                assert!(from_json::<Value>(&json).is_err(), "{levels} levels can be read");
            }
        }
    }
    // Brackets inside a string do not count as levels.
    to_json(&"[{\"\\".repeat(500)).expect("a text");
}

proptest! {
    #[test]
    fn json_is_too_deep_if_serde_cannot_read_it(texts in vec(r#"[\[\]{}"\\a]{0,6}"#, 120..135), objects: bool) {
        let nested = texts.iter().fold(Value::Null, |inner, text| match objects {
            true => serde_json::json!({ text: inner }),
            false => serde_json::json!([text, inner, text]),
        });
        let json = serde_json::to_string(&nested).expect("JSON");
        prop_assert_eq!(is_too_deep(&json), from_json::<Value>(&json).is_err());
    }

    #[test]
    fn every_answer_comes_back(value in any_json(), room in 0_usize..1500) {
        let json = to_json(&value).expect("JSON");
        let (encoded, inline) = encode(json.clone(), room, usize::MAX).expect("it is small");
        prop_assert!(encoded.bytes.len() <= json.len());
        prop_assert_eq!(inline, encoded.bytes.len() <= room);
        let back = decode(encoded).expect("text");
        prop_assert_eq!(&back, &json);
        prop_assert_eq!(from_json::<Value>(&back).expect("JSON"), value);
    }

    #[test]
    fn any_bytes_are_an_answer_or_a_clear_error(bytes in vec(any::<u8>(), 0..200)) {
        check_bytes(&bytes)?;
    }

    #[test]
    fn damage_is_never_another_answer(
        value in any_json(), at in any::<prop::sample::Index>(), flip in 1_u8.., cut: bool,
    ) {
        let json = to_json(&value).expect("JSON");
        let mut encoded = packed(&json);
        let at = at.index(encoded.bytes.len());
        if cut {
            encoded.bytes.truncate(at);
        } else {
            encoded.bytes[at] ^= flip;
        }
        check_bytes(&encoded.bytes)?;
        if let Ok(back) = decode(encoded) {
            prop_assert_eq!(back, json, "damage at byte {} was not noticed", at);
        }
    }

    #[test]
    fn a_limit_is_kept(value in any_json(), limit in 0_usize..500) {
        match encode(to_json(&value).expect("JSON"), 0, limit) {
            Ok((encoded, _)) => prop_assert!(encoded.bytes.len() <= limit),
            Err(AnswerError::TooLarge { bytes, limit: said }) => prop_assert!(bytes > limit && said == limit),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
