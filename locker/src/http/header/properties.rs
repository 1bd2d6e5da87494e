//! Properties of the header, compared with the `sfv` crate.
//!
//! The draft defines it as a string of RFC 9651 (a structured field). This parser differs where
//! clients do:
//!
//! | the header | RFC 9651 | here |
//! |---|---|---|
//! | `8e03978e-...` (bare, as Stripe's clients send it) | not allowed | the key |
//! | `abc`, `123`, `?1`, `:YQ==:`, `abc;p=1` | a token, a number, ... | the key, as it is |
//! | `"a";p=1` | a string with a parameter | refused: no parameter is defined |
//! | a tab before or after it | not allowed | removed, as HTTP does with white space |
//! | `""`, or more than 255 bytes | a string | refused |
//! | `"a", "b"`, or two lines | two strings | refused |

use http::HeaderValue;
use proptest::collection::vec;
use proptest::prelude::*;
use sfv::{BareItem, Item, List, Parser};

use super::*;
use crate::corpus;

type Answer = Result<Option<String>, InvalidHeader>;

/// Reads several header lines; `None` if HTTP does not allow one of them.
fn read(lines: &[&[u8]]) -> Option<Answer> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).ok()?);
    }
    Some(super::read(&headers))
}

/// The reference: the string according to RFC 9651, and whether it has parameters.
fn structured(line: &[u8]) -> Option<(String, bool)> {
    let item: Item = Parser::new(line).parse().ok()?;
    match item.bare_item {
        BareItem::String(text) => Some((text.as_str().to_owned(), !item.params.is_empty())),
        _ => None,
    }
}

fn of_length(key: String) -> Answer {
    match key.len() {
        0 => Err(InvalidHeader::Empty),
        1..=MAX_HEADER_BYTES => Ok(Some(key)),
        _ => Err(InvalidHeader::TooLong),
    }
}

fn says_what_is_wrong(error: InvalidHeader) -> bool {
    let said = error.to_string();
    said.contains("the Idempotency-Key") || said.contains("more than one Idempotency-Key; send one")
}

/// The complete rule, for one line.
fn check(line: &[u8]) -> Result<(), TestCaseError> {
    let Some(ours) = read(&[line]) else {
        // RFC 9110: control characters are not allowed in a header.
        prop_assert!(line.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f));
        return Ok(());
    };
    let trimmed = line.trim_ascii();
    if let Ok(Some(key)) = &ours {
        prop_assert!((1..=MAX_HEADER_BYTES).contains(&key.len()));
        prop_assert!(key.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let spaced = key.contains(' ');
        prop_assert!(!spaced || trimmed.starts_with(b"\""), "a space outside quotes");
    } else {
        prop_assert!(ours.clone().is_err_and(says_what_is_wrong));
    }
    let expected = if trimmed.starts_with(b"\"") {
        match structured(trimmed) {
            Some((key, false)) => of_length(key),
            Some((_, true)) => Err(InvalidHeader::Quotes),
            None => {
                prop_assert!(ours.is_err(), "RFC 9651 has no such string: {:?}", ours);
                let several = Parser::new(trimmed).parse::<List>().is_ok_and(|list| list.len() > 1);
                let plain = several && !line.contains(&b';') && !line.contains(&b'(');
                prop_assert!(!plain || ours == Err(InvalidHeader::Several), "{:?}", ours);
                return Ok(());
            }
        }
    } else if !trimmed.iter().all(|byte| byte.is_ascii_graphic() || b" \t".contains(byte)) {
        Err(InvalidHeader::Character)
    } else if trimmed.contains(&b',') {
        Err(InvalidHeader::Several)
    } else if trimmed.iter().any(|byte| b" \t".contains(byte)) {
        Err(InvalidHeader::Character)
    } else {
        of_length(String::from_utf8_lossy(trimmed).into_owned())
    };
    prop_assert_eq!(ours, expected);
    Ok(())
}

/// Lines made of the bytes that the rules distinguish.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(b"\"\\,; \tab=?:1(\x7f\xe9".to_vec());
    let quoted = vec(prop::sample::select(b"ab\\\" ,;~".to_vec()), 0..12).prop_map(|mut inner| {
        inner.insert(0, b'"');
        inner.push(b'"');
        inner
    });
    prop_oneof![
        4 => vec(telling, 0..16),
        4 => quoted,
        2 => vec(any::<u8>(), 0..300),
        2 => vec(b' '..=b'~', 0..300),
        1 => vec(b'!'..=b'~', 253..259),
        1 => (253_usize..259).prop_map(|length| format!("\"{}\"", "k".repeat(length)).into_bytes()),
    ]
}

#[test]
fn the_kept_headers_are_read_by_the_rule() {
    for (name, bytes) in corpus::read("headers") {
        check(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

proptest! {
    #[test]
    fn every_header_is_read_by_the_rule(line in line()) {
        check(&line)?;
    }

    #[test]
    fn every_key_can_be_sent_as_a_structured_string(key in "[ -~]{1,255}") {
        let text = sfv::String::from_string(key.clone()).expect("printable ASCII");
        let line = sfv::ItemSerializer::new().bare_item(&*text).finish();
        prop_assert_eq!(read(&[line.as_bytes()]), Some(Ok(Some(key))));
    }

    #[test]
    fn two_lines_are_refused_whatever_they_say(one in line(), other in line()) {
        if let Some(answer) = read(&[&one, &other]) {
            prop_assert_eq!(answer, Err(InvalidHeader::Several));
        }
        if let Some(answer) = read(&[&one, &one]) {
            prop_assert_eq!(answer, Err(InvalidHeader::Several));
        }
    }

    #[test]
    fn two_keys_joined_by_a_proxy_are_refused(one in "[!-+.-~]{1,40}", other in "[!-+.-~]{0,40}", quote: bool) {
        let line = |key: &str| if quote { format!("{key:?}") } else { key.trim_start_matches('"').to_owned() };
        let joined = format!("{}, {}", line(&one), line(&other));
        prop_assume!(quote || !joined.starts_with(','));
        prop_assert_eq!(read(&[joined.as_bytes()]), Some(Err(InvalidHeader::Several)), "{}", joined);
    }
}
