//! The short cause of a failure of the work.

use serde::Serialize;

/// The longest cause that is stored and logged, in bytes: it is part of the token and of its entry
/// in the index.
const LONGEST: usize = 200;

/// A cause as it is stored and logged: on one line, without control characters, and cut.
pub(crate) fn shortened(cause: &str) -> String {
    let mut short = String::with_capacity(cause.len().min(LONGEST));
    for word in cause.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() && !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    if short.len() <= LONGEST {
        return short;
    }
    let mut end = LONGEST - '…'.len_utf8();
    while !short.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &short[..end])
}

/// A code as it is stored: of the characters that a code has, and cut.
pub(crate) fn as_code(code: &str) -> String {
    const LONGEST: usize = 64;
    let of_code = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let code: String = code.chars().take(LONGEST).map(of_code).collect();
    // A number in brackets would be read as JSON.
    if code.starts_with(|c: char| c.is_ascii_alphabetic()) { code } else { format!("e{code}") }
}

/// Returns the cause of a failure: a string unchanged, and any other value as JSON.
pub(crate) fn of_failure<E: Serialize + ?Sized>(failure: &E) -> String {
    match serde_json::to_value(failure) {
        Ok(value) => of_value(&value),
        Err(error) => error.to_string(),
    }
}

/// The cause in a stored failure, given as JSON text.
pub(crate) fn of_json(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| String::new(), |value| of_value(&value))
}

fn of_value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_one_short_line() {
        assert_eq!(shortened(" smtp:\r\n  550\trelay \u{7}denied\n"), "smtp: 550 relay denied");
        assert_eq!(shortened(""), "");
        let exact = "ä".repeat(LONGEST / 2);
        assert_eq!(shortened(&exact), exact);
        let cut = shortened(&"ä".repeat(LONGEST));
        assert!(cut.len() <= LONGEST && cut.len() > LONGEST - 3 && cut.ends_with('…'), "{cut}");
    }

    #[test]
    fn a_code_has_the_characters_of_one() {
        for (given, stored) in
            [("card.declined", "card.declined"), ("no funds]", "no-funds-"), ("51", "e51"), ("", "e")]
        {
            assert_eq!(as_code(given), stored);
        }
        assert_eq!(as_code(&"a".repeat(65)), "a".repeat(64), "no longer than what is recognised as a code");
    }

    #[test]
    fn a_failure_says_what_it_is() {
        assert_eq!(of_failure("no reply"), "no reply");
        assert_eq!(of_failure(&serde_json::json!({"code": 7})), r#"{"code":7}"#);
        assert_eq!(of_json(r#""no reply""#), "no reply");
    }
    #[test]
    fn long_cause_is_cut_between_characters() {
        let cut = shortened(&format!("a{}", "ä".repeat(LONGEST)));
        assert_eq!(cut, format!("a{}…", "ä".repeat(98)));
        assert_eq!(shortened(&"a".repeat(LONGEST)), "a".repeat(LONGEST));
        assert_eq!(shortened(&"a".repeat(LONGEST + 1)), format!("{}…", "a".repeat(LONGEST - 3)));
    }

    #[test]
    fn stored_failure_without_json_has_no_cause() {
        assert_eq!(of_json("no reply"), "");
        assert_eq!(of_json(r#"{"code":7}"#), r#"{"code":7}"#);
    }

    #[test]
    fn failure_that_is_no_json_says_why() {
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        assert_eq!(of_failure(&unwritable), "key must be a string");
    }
}
