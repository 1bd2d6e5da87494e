//! Groups causes that differ only by ids, numbers and names.

#![cfg_attr(
    not(any(feature = "workflow", feature = "operator")),
    allow(dead_code, reason = "only workflows and the console group causes")
)]

use sha2::{Digest as _, Sha256};

/// Stands for the parts that differ between two failures.
const ANY: &str = "#";

/// The longest name in quotes, in bytes. Anything longer is text.
const LONGEST_NAME: usize = 64;

/// A cause without what differs from one failure to the next:
/// `order 7781 of bob@example.com: HTTP 503` and `order 7790 of eve@example.com: HTTP 503` are both
/// `order # of #: http 503`.
///
/// In quoted text of up to 64 bytes, each word with a digit is left out. The number after `code`,
/// `status` or `error` is kept. The text after a code in square brackets, such as in
/// `[card.declined] ...`, is left out.
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
    // Whether the last word announces a code. The number after it is not an id.
    let mut announced = false;
    while let Some(first) = rest.chars().next() {
        let name = if is_json { None } else { name_in(first, rest, text.chars().next_back()) };
        if let Some(name) = name {
            text.push(first);
            push_name(&mut text, name);
            let mut after = rest[first.len_utf8() + name.len()..].chars();
            text.extend(after.next());
            rest = after.as_str();
            announced = false;
        } else if is_of_word(first) {
            let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            announced = push_word(&mut text, &rest[..end], announced);
            rest = &rest[end..];
        } else {
            text.push(first);
            announced &= matches!(first, ' ' | '"' | '\'' | '(' | '[' | '#');
            rest = &rest[first.len_utf8()..];
        }
    }
    text
}

/// Adds a text in quotes without its ids. A word with a digit is an id, unless it is an announced
/// code.
fn push_name(text: &mut String, name: &str) {
    let mut announced = false;
    for (number, word) in name.split(' ').enumerate() {
        if number > 0 {
            text.push(' ');
        }
        let is_id = !announced && word.bytes().any(|byte| byte.is_ascii_digit());
        if is_id && !holds_code(word) {
            text.push_str(ANY);
            announced = false;
        } else {
            announced = push_word(text, word, announced);
        }
    }
}

/// Words before a number that is a code. `error_code` and `statusCode` end with such a word.
const ANNOUNCES_CODE: [&str; 3] = ["code", "status", "error"];

fn announces_code(word: &str) -> bool {
    let word = word.trim_end_matches([':', '=', '.']);
    let ends_with = |announcing: &str| {
        let at = word.len().checked_sub(announcing.len())?;
        let (before, end) = (word.get(..at)?, word.get(at..)?);
        let is_camel = end.starts_with(|c: char| c.is_ascii_uppercase())
            && before.ends_with(|c: char| c.is_ascii_lowercase());
        let is_part = before.is_empty() || before.ends_with(['_', '-']) || is_camel;
        Some(end.eq_ignore_ascii_case(announcing) && is_part)
    };
    ANNOUNCES_CODE.iter().any(|announcing| ends_with(announcing).unwrap_or_default())
}

/// Returns whether a word is a code: a number, also negative or in base 16, or five digits and
/// capital letters as in SQL.
fn is_code(word: &str) -> bool {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |digits: &str| digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of_sql = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    is_number(word.strip_prefix('-').unwrap_or(word))
        || word.strip_prefix("0x").is_some_and(is_hex)
        || (word.len() == 5 && word.bytes().all(of_sql))
}

/// Whether a word announces a code and holds it, such as `code=4001` or `status:5003`.
fn holds_code(word: &str) -> bool {
    let core = word.trim_end_matches(['.', ':', '-']);
    let parts = core.rsplit_once([':', '=']);
    parts.is_some_and(|(announcing, code)| is_code(code) && announces_code(announcing))
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

/// A name in quotes that begins here, without its quotes. An apostrophe within a word does not
/// begin a name.
fn name_in(first: char, rest: &str, before: Option<char>) -> Option<&str> {
    let closing = match first {
        '"' | '\'' | '`' => first,
        '“' => '”',
        '‘' => '’',
        _ => return None,
    };
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let (name, _) = rest[first.len_utf8()..].split_once(closing)?;
    (name.len() <= LONGEST_NAME).then_some(name)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '@' | '/' | '.' | ':' | '+' | '%' | '=')
}

/// Adds a word without its ids. `announced`: the word before it announces a code. Returns whether
/// this word announces a code.
fn push_word(text: &mut String, word: &str, announced: bool) -> bool {
    let core = word.trim_end_matches(['.', ':', '-']);
    // In JSON a number follows `:`.
    let alone = core.trim_start_matches([':', '=']);
    if holds_code(word) || (announced && is_code(alone)) {
        text.push_str(&word.to_ascii_lowercase());
        return false;
    }
    // Paths differ by their parts: `/charges/7781` is not `/refunds/7781`.
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
    // A colon or an equals sign alone stands between the word and its number.
    announces_code(word) || (announced && core.chars().all(|c| matches!(c, ':' | '=')))
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
    fn causes_that_differ_by_ids_are_alike() {
        for (one, other) in [
            ("order 7781 of bob@example.com: HTTP 503", "order 7790 of eve@example.com: HTTP 503"),
            ("no reply to ch_1a2b3c within 5s", "no reply to ch_9z8y7x within 5s"),
            ("at 2026-11-22T10:00:00Z: connection reset", "at 2026-11-23T23:59:59Z: Connection reset"),
            ("unknown customer 'c-1'", "unknown customer 'c-2'"),
            ("unknown customer 'bob@example.com'", "unknown customer 'eve@example.com'"),
            ("order 'ord 17' is closed", "order 'ord 4' is closed"),
            ("order “ord 17” is closed", "order “ord 4” is closed"),
            ("order ‘ord 17’ is closed", "order ‘ord 4’ is closed"),
            ("said \"declined, ref N17\"", "said \"declined, ref N18\""),
            ("error, 5501 left", "error, 5502 left"),
            ("error of order 5501", "error of order 5502"),
            ("left - 5501", "left - 5502"),
            ("barcode 5501 is unknown", "barcode 5502 is unknown"),
            ("count=5501 of code=order-5501", "count=5502 of code=order-5502"),
            ("code 0x0123456789ab", "code 0x0123456789cd"),
            ("code 0x0123456789xy", "code 0x0123456789zz"),
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
    fn causes_that_differ_by_words_are_not_alike() {
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
            (r#"the provider said: "declined""#, r#"the provider said: "accepted""#),
            ("the provider said: 'declined'", "the provider said: 'accepted'"),
            ("provider error code 4001", "provider error code 5003"),
            ("provider error 4001", "provider error 5003"),
            ("HTTP status: 50301", "HTTP status: 50302"),
            ("status=50301", "status=50302"),
            ("Code : 4001", "Code : 5003"),
            (r#"{"code":4001}"#, r#"{"code":5003}"#),
            (r#"{"error": 4001}"#, r#"{"error": 5003}"#),
            (r#"bank said "already charged 5 EUR""#, r#"bank said "declined 51""#),
            (r#"said "error code 4001""#, r#"said "error code 4002""#),
            ("error_code: 4001", "error_code: 4002"),
            ("statusCode=50301", "statusCode=50302"),
            ("errorCode 6001", "errorCode 6002"),
            ("error code -1002", "error code -1009"),
            ("code 40P01", "code 42P01"),
            ("error: 0x80004005", "error: 0x80070005"),
            ("", "no reply"),
        ] {
            assert_ne!(alike(one), alike(other));
        }
    }

    #[test]
    fn brackets_without_a_code_are_text() {
        for cause in ["[1,2]", "[", "[a b] c", "[]"] {
            assert!(!alike(cause).ends_with("a b]") && code_of(cause).is_none(), "{cause}");
        }
        assert_eq!(alike("Unknown error: timeout."), "unknown error: timeout.");
    }

    #[test]
    fn short_ids_are_left_out_of_short_quoted_text_only() {
        let of = |length: usize, id: &str| alike(&format!("said '{id} {}'", "a".repeat(length)));
        assert_eq!(of(3, "17"), "said '# aaa'");
        assert!(of(LONGEST_NAME, "17").starts_with("said '17 aaa"));
        assert_eq!(of(LONGEST_NAME, "17001"), of(LONGEST_NAME, "17002"));
    }

    #[test]
    fn ten_thousand_failures_with_quoted_ids_are_one_group() {
        let causes = (0..10_000).map(|id| alike(&format!("customer 'c{id}': order \"{id}\" has no stock")));
        assert_eq!(causes.collect::<std::collections::BTreeSet<_>>().len(), 1);
    }

    #[test]
    fn a_cause_without_its_ids_is_still_readable() {
        assert_eq!(alike("POST /charges/ch_1a2b3c: no reply"), "post /charges/#: no reply");
        assert_eq!(alike("order 7781 of bob@example.com: HTTP 503"), "order # of #: http 503");
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
            // The number after these words is a code.
            prop_assume!(!ANNOUNCES_CODE.iter().any(|word| cause.to_ascii_lowercase().contains(word)));
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
