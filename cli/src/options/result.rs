//! JSON as an operator types it.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::exit::Exit;

/// Reads the value of `--result`.
pub(crate) fn result(text: &str) -> Result<Value, Exit> {
    read("--result", "as in --result '\"sent\"'", text)
}

/// Reads the value of `--value`.
pub(crate) fn value(text: &str) -> Result<Value, Exit> {
    read("--value", "as in --value '\"sent\"'", text)
}

/// Reads the result, or the value of an event, in a form of the console.
#[cfg(feature = "console")]
pub(crate) fn json_in_form(text: &str) -> Result<Value, Exit> {
    read("the text", "as in \"sent\"", text)
}

/// `example`: how a string is typed.
fn read(name: &str, example: &str, text: &str) -> Result<Value, Exit> {
    let value = serde_json::from_str::<Unambiguous>(text).map(|read| read.0).map_err(|error| {
        let (what, advice) = match error.is_data() {
            true => ("is not clear", "name each member once".to_owned()),
            false => ("is not JSON", format!("a string needs quotes, {example}")),
        };
        Exit::say(Exit::USAGE, format!("{name} {what}: {error}; {advice}"))
    })?;
    match numbers(text).find(|number| is_rounded(number)) {
        None => Ok(value),
        Some(number) => {
            let because = "is stored as another number; pass it as a string, if the code accepts one";
            Err(Exit::say(Exit::USAGE, format!("{name} is not clear: {number} {because}")))
        }
    }
}

/// Returns the numbers of JSON.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let (mut in_string, mut escaped) = (false, false);
    json.split(move |it: char| {
        match (in_string, escaped, it) {
            (true, false, '\\') => escaped = true,
            (_, false, '"') => in_string = !in_string,
            _ => escaped = false,
        }
        in_string || !(it.is_ascii_digit() || "+-.eE".contains(it))
    })
    .filter(|token| token.starts_with(|it: char| it == '-' || it.is_ascii_digit()))
}

/// Returns whether the stored number differs from this text.
fn is_rounded(number: &str) -> bool {
    serde_json::from_str::<Value>(number).is_ok_and(|stored| digits(&stored.to_string()) != digits(number))
}

/// Returns the significant digits of a number, and the power of ten of the last digit.
fn digits(number: &str) -> (String, i64) {
    let number = number.trim_start_matches('-');
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    if digits.is_empty() {
        return (String::new(), 0);
    }
    let power = power.parse::<i64>().unwrap_or(i64::MAX / 2);
    let (zeros, places) = (all.len() - digits.len(), fraction.len());
    let power = power + i64::try_from(zeros).unwrap_or_default() - i64::try_from(places).unwrap_or_default();
    (digits.trim_start_matches('0').to_owned(), power)
}

/// A JSON value in which no object has a member twice. `serde_json` would keep the last of the two
/// members, and the operator may have meant the first.
struct Unambiguous(Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Unambiguous(it)) = from.next_element()? {
            read.push(it);
        }
        Ok(read.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, Unambiguous(it))) = from.next_entry::<String, _>()? {
            if read.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} is there twice")));
            }
            read.insert(name, it);
        }
        Ok(read.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_is_there_twice_is_refused_at_any_depth() {
        for text in
            [r#"{"exit":0,"exit":5}"#, r#"[{"a":{"exit":0,"b":1,"exit":0}}]"#, r#"{"a":1,"\u0061":1}"#]
        {
            let refused = result(text).unwrap_err();
            let said = refused.said();
            assert!(said.starts_with("--result is not clear: the member "), "{said}");
            assert!(said.ends_with("; name each member once"), "{said}");
        }
        let said = result("sent").unwrap_err();
        assert!(said.said().starts_with("--result is not JSON: expected value"), "{}", said.said());
    }

    #[test]
    fn number_that_would_be_rounded_is_refused() {
        for number in [
            "100000000000000000001",
            "0.12345678901234567891",
            "-18446744073709551616.5",
            "1e-400",
            "12345678901234567890123e4",
        ] {
            for text in
                [number.to_owned(), format!(r#"{{"wei":[1,{number}]}}"#), format!("[\"a\\\"1\", {number}]")]
            {
                let refused = result(&text).unwrap_err();
                let said = refused.said();
                assert!(
                    said.starts_with(&format!("--result is not clear: {number} is stored as another number")),
                    "{said}"
                );
            }
        }
        for text in [
            "18446744073709551615",
            "-0.0",
            "0.10",
            "1E2",
            "1.50e+3",
            "100000000000000000000",
            "1e22",
            r#""100000000000000000001""#,
            r#"{"a\"1":"x 100000000000000000001"}"#,
        ] {
            assert!(result(text).is_ok(), "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|it| json!(it)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_other_value_is_read_as_it_is(value in any_json()) {
            prop_assert_eq!(result(&value.to_string()).ok(), Some(value));
        }
    }
}
