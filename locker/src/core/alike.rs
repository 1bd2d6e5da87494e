//! Which causes are alike: the same but for ids, numbers and names.

#![cfg_attr(
    not(any(feature = "workflow", feature = "operator")),
    allow(dead_code, reason = "only workflows and the console group causes")
)]

use sha2::{Digest as _, Sha256};

/// What stands for what differs from one failure to the next.
const ANY: &str = "#";

/// The longest name in quotes, in bytes. Anything longer is text.
const LONGEST_NAME: usize = 64;

/// A cause without what differs from one failure to the next:
/// `order 7781 of bob@example.com: HTTP 503` and `order 7790 of eve@example.com: HTTP 503` are both
/// `order # of #: http 503`.
///
/// What follows a code in square brackets, such as in `[card.declined] ...`, is left out: the code
/// says what is alike.
pub(crate) fn alike(cause: &str) -> String {
    match code_in(cause) {
        Some((before, code)) => format!("{}[{code}]", without_ids(before)),
        None => without_ids(cause),
    }
}

/// The code that is part of a cause, with what stands before it.
fn code_in(cause: &str) -> Option<(&str, &str)> {
    if let Some(code) = code_of(cause) {
        return Some(("", code));
    }
    cause.match_indices(": [").find_map(|(at, mark)| {
        let (before, rest) = cause.split_at(at + mark.len() - 1);
        Some((before, code_of(rest)?))
    })
}

fn without_ids(cause: &str) -> String {
    let is_json = cause.starts_with(['{', '[']);
    let mut text = String::with_capacity(cause.len());
    let mut rest = cause;
    while let Some(first) = rest.chars().next() {
        if !is_json && let Some(after) = after_name(first, rest, text.chars().next_back()) {
            text.push_str(ANY);
            rest = after;
        } else if is_of_word(first) {
            let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            push_word(&mut text, &rest[..end]);
            rest = &rest[end..];
        } else {
            text.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    text
}

/// An id of a group, the same wherever it is computed: the first eight digits of the SHA-256 of its
/// parts.
pub(crate) fn id_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..4])
}

/// The code in front of a cause.
fn code_of(cause: &str) -> Option<&str> {
    let (code, _) = cause.strip_prefix('[')?.split_once(']')?;
    let of_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let begins = code.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    (begins && code.len() <= LONGEST_NAME && code.chars().all(of_code)).then_some(code)
}

/// What follows a name in quotes that begins here. An apostrophe within a word begins none.
fn after_name(first: char, rest: &str, before: Option<char>) -> Option<&str> {
    let closing = match first {
        '"' | '\'' | '`' => first,
        '“' => '”',
        '‘' => '’',
        _ => return None,
    };
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let (name, after) = rest[first.len_utf8()..].split_once(closing)?;
    (name.len() <= LONGEST_NAME).then_some(after)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '@' | '/' | '.' | ':' | '+' | '%' | '=')
}

fn push_word(text: &mut String, word: &str) {
    let core = word.trim_end_matches(['.', ':', '-']);
    // Of a path, what differs is a part: `/charges/7781` is not `/refunds/7781`.
    let parts: Vec<&str> = if core.contains('@') { vec![core] } else { core.split('/').collect() };
    for (number, part) in parts.into_iter().enumerate() {
        if number > 0 {
            text.push('/');
        }
        if differs(part) {
            text.push_str(ANY);
        } else {
            text.push_str(&part.to_ascii_lowercase());
        }
    }
    text.push_str(&word[core.len()..]);
}

/// Whether a word, or a part of a path, is an id, a number, a time or an address. A short number is
/// not: it may be a status.
fn differs(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let has_letters = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    word.contains('@') || digits >= 4 || (digits > 0 && has_letters && word.len() >= 6)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_differs_by_ids_is_alike() {
        for (one, other) in [
            ("order 7781 of bob@example.com: HTTP 503", "order 7790 of eve@example.com: HTTP 503"),
            ("no reply to ch_1a2b3c within 5s", "no reply to ch_9z8y7x within 5s"),
            ("at 2026-11-22T10:00:00Z: connection reset", "at 2026-11-23T23:59:59Z: Connection reset"),
            ("unknown customer 'bob'", "unknown customer 'eve'"),
            ("POST /charges/ch_1a2b3c: no reply", "POST /charges/ch_9z8y7x: no reply"),
            ("550 <bob@example.com>: relay denied", "550 <eve@example.org>: relay denied"),
            (
                r#"{"Refused":{"account":"DE89370400440532013000"}}"#,
                r#"{"Refused":{"account":"FR7630006000011234567890189"}}"#,
            ),
            ("[card.declined] 4111 says no", "[card.declined] insufficient funds"),
            ("step pay failed: [E51] no funds", "step pay failed: [E51] card expired"),
            (
                "f47ac10b-58cc-4372-a567-0e02b2c3d479 is locked",
                "0f8fad5b-d9cb-469f-a165-70867728950e is locked",
            ),
        ] {
            assert_eq!(alike(one), alike(other));
        }
    }

    #[test]
    fn what_differs_by_more_is_not() {
        for (one, other) in [
            ("HTTP 503", "HTTP 400"),
            ("POST /charges: no reply", "POST /refunds: no reply"),
            ("https://pay.example/v1/charges/77812", "https://pay.example/v1/refunds/77812"),
            ("550 relay denied", "450 relay denied"),
            ("connection reset", "connection refused"),
            ("it can't be found", "it can be found"),
            ("can't reach bob's mail", "can't read bob's mail"),
            ("[card.declined] x", "[card.expired] x"),
            ("step pay failed: [E51] x", "step book failed: [E51] x"),
            (r#"{"Refused":1}"#, r#"{"Declined":1}"#),
            ("", "no reply"),
        ] {
            assert_ne!(alike(one), alike(other));
        }
    }

    #[test]
    fn what_is_no_code_is_text() {
        for cause in ["[1,2]", "[", "[a b] c", "[]"] {
            assert!(!alike(cause).ends_with("a b]") && code_of(cause).is_none(), "{cause}");
        }
        assert_eq!(alike("Unknown error: timeout."), "unknown error: timeout.");
    }

    #[test]
    fn a_long_text_in_quotes_is_no_name() {
        let of = |length: usize, letter: &str| alike(&format!("said '{}'", letter.repeat(length)));
        assert_eq!(of(LONGEST_NAME, "a"), of(LONGEST_NAME, "b"));
        assert_ne!(of(LONGEST_NAME + 1, "a"), of(LONGEST_NAME + 1, "b"));
    }

    #[test]
    fn the_id_of_a_group_stays() {
        assert_eq!(id_of(&["held", "no reply"]), id_of(&["held", "no reply"]));
        assert_ne!(id_of(&["held", "no reply"]), id_of(&["heldno", " reply"]));
        assert_eq!(id_of(&[""]).len(), 8);
    }

    proptest! {
        #[test]
        fn no_long_number_and_no_address_is_left(cause in "\\PC{0,80}") {
            let alike = alike(&cause);
            let long = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() >= 4 || word.contains('@');
            prop_assert!(!alike.split(|c: char| !is_of_word(c)).any(long), "{}", alike);
        }

        #[test]
        fn any_number_may_stand_in_a_text(text in "[a-z ]{0,20}", one in 1000_u64.., other in 1000_u64..) {
            prop_assert_eq!(alike(&format!("{text} {one} {text}")), alike(&format!("{text} {other} {text}")));
        }
    }
}
