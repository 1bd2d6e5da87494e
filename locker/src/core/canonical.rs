//! The canonical form of a JSON text, by which requests are compared.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::answer::is_too_deep;

/// Returns the JSON text without white space and with the names of each object in order. Numbers
/// stay as they are written, so numbers that differ beyond the precision of a double stay
/// different.
///
/// `None`: the text is not JSON, it is nested too deep to be read back, or an object has a name
/// twice. Parsers differ in which of two equal names they read. So such a text can only be compared
/// by its bytes.
pub(crate) fn canonical(json: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(json).ok()?;
    if is_too_deep(json) {
        return None;
    }
    let (mut rest, mut out) = (json, String::with_capacity(json.len()));
    value(&mut rest, &mut out)?;
    Some(out)
}

/// Returns the canonical form of a text, or the text if it has none: equal texts are equal values.
pub(crate) fn comparable(json: &str) -> Cow<'_, str> {
    canonical(json).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// Appends the first value of `rest` to `out`, and removes it from `rest`. The caller has checked
/// that the whole text is JSON, so colons and commas are in their places.
fn value(rest: &mut &str, out: &mut String) -> Option<()> {
    match next(rest)? {
        b'{' => object(rest, out)?,
        b'[' => array(rest, out)?,
        b'"' => out.push_str(&serde_json::to_string(&token::<String>(rest)?.0).ok()?),
        _ => out.push_str(token::<IgnoredAny>(rest)?.1),
    }
    Some(())
}

fn array(rest: &mut &str, out: &mut String) -> Option<()> {
    out.push('[');
    skip(rest);
    loop {
        match next(rest)? {
            b']' => break,
            b',' => {
                out.push(',');
                skip(rest);
            }
            _ => value(rest, out)?,
        }
    }
    skip(rest);
    out.push(']');
    Some(())
}

fn object(rest: &mut &str, out: &mut String) -> Option<()> {
    let mut members = Vec::new();
    skip(rest);
    loop {
        match next(rest)? {
            b'}' => break,
            b',' => skip(rest),
            _ => {
                let (name, _) = token::<String>(rest)?;
                next(rest)?;
                // The colon.
                skip(rest);
                let mut member = String::new();
                value(rest, &mut member)?;
                members.push((name, member));
            }
        }
    }
    skip(rest);
    members.sort_unstable();
    if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    out.push('{');
    for (number, (name, member)) in members.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        out.push_str(&serde_json::to_string(&name).ok()?);
        out.push(':');
        out.push_str(&member);
    }
    out.push('}');
    Some(())
}

/// The first byte after white space.
fn next(rest: &mut &str) -> Option<u8> {
    *rest = rest.trim_start();
    rest.bytes().next()
}

/// Skips a bracket, a comma or a colon.
fn skip(rest: &mut &str) {
    *rest = rest.get(1..).unwrap_or_default();
}

/// Takes a string, a number or a word, and returns it with its text.
fn token<'a, T: Deserialize<'a>>(rest: &mut &'a str) -> Option<(T, &'a str)> {
    let whole: &'a str = rest;
    let mut tokens = serde_json::Deserializer::from_str(whole).into_iter::<T>();
    let value = tokens.next()?.ok()?;
    let (text, left) = whole.split_at_checked(tokens.byte_offset())?;
    *rest = left;
    Some((value, text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::core::answer::any_json;

    #[test]
    fn order_and_white_space_make_no_difference() {
        let text = r#" { "b" : [ 1 , { "y" : 2 , "x" : true } ] , "a" : null, "" : "\u00e4\/" } "#;
        assert_eq!(canonical(text).unwrap(), r#"{"":"ä/","a":null,"b":[1,{"x":true,"y":2}]}"#);
        for text in ["1", "\"a b\"", "[]", "{}", "[{},[]]", "null", " -0.0 "] {
            assert_eq!(canonical(text).as_deref(), Some(text.trim()));
        }
    }

    #[test]
    fn text_without_a_canonical_form_is_compared_as_it_is() {
        assert_eq!(comparable(r#"{ "b": 1, "a": 2 }"#), r#"{"a":2,"b":1}"#);
        assert_eq!(comparable(r#"{ "a": 1, "a": 2 }"#), r#"{ "a": 1, "a": 2 }"#);
        assert_eq!(comparable("{ "), "{ ");
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        for (one, other) in [
            ("12345678901234567.89", "12345678901234567.91"),
            ("0.1000000000000000055", "0.1"),
            ("340282366920938463463374607431768211455", "340282366920938463463374607431768211454"),
            ("1.0", "1"),
        ] {
            assert_ne!(canonical(one).unwrap(), canonical(other).unwrap());
        }
    }

    #[test]
    fn text_with_a_name_twice_or_without_json_has_no_canonical_form() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        for text in [
            r#"{"to":"eve","to":"bob"}"#,
            r#"{"to":"bob","to":"bob"}"#,
            r#"[{"a":{"b":1,"c":2,"\u0062":3}}]"#,
            "",
            "{",
            "1 2",
            "[1,]",
            "NaN",
            r#""\ud800""#,
            &deep,
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
        assert!(canonical(&deep[1..255]).is_some());
    }

    proptest! {
        #[test]
        fn canonical_form_is_the_same_value_and_its_own(value in any_json()) {
            let text = canonical(&value.to_string()).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
            prop_assert_eq!(&canonical(&text).unwrap(), &text);
            prop_assert_eq!(&canonical(&serde_json::to_string_pretty(&value).unwrap()).unwrap(), &text);
        }

        #[test]
        fn any_text_has_a_form_or_none(text in r#"[\[\]{}":,1-3a\\ ]{0,30}"#) {
            let read = serde_json::from_str::<Value>(&text).ok();
            if let Some(form) = canonical(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&form).ok(), read);
            }
        }
    }
}
