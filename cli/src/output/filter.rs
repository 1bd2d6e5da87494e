//! The one filter for text that reaches a terminal. Stored text comes from others, and a control
//! character in it could move the cursor, hide a line or run a command of the terminal.

/// Stands where a control character stood.
const REPLACEMENT: char = '\u{fffd}';

/// Text for one line: a cell, or stored text in a sentence. No control character stays.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { REPLACEMENT } else { it }).collect()
}

/// Text of several lines. Of the control characters only line ends and tabs stay.
pub(super) fn lines(text: &str) -> String {
    let stays = |it: char| !it.is_control() || it == '\n' || it == '\t';
    text.chars().map(|it| if stays(it) { it } else { REPLACEMENT }).collect()
}

/// The same JSON without control characters but line ends. `serde_json` escapes those of ASCII; the
/// others (U+007F to U+009F) occur in strings only, so an escape is the same value.
pub(super) fn json(text: &str) -> String {
    let mut filtered = String::with_capacity(text.len());
    for it in text.chars() {
        if it.is_control() && it != '\n' {
            filtered.push_str(&format!("\\u{:04x}", u32::from(it)));
        } else {
            filtered.push(it);
        }
    }
    filtered
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "a\u{1b}[31mb\u{9b}2Jc\u{7f}\r\nd\te";

    #[test]
    fn no_control_character_passes() {
        assert!(!plain(ODD).chars().any(char::is_control));
        let lines = lines(ODD);
        assert!(!lines.chars().any(|it| it.is_control() && !"\n\t".contains(it)), "{lines:?}");
        assert!(lines.contains("\nd\te"));
    }

    #[test]
    fn filtered_json_is_the_same_value() {
        let value = serde_json::json!({ ODD: [ODD, "\u{80}"] });
        let text = json(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert!(!text.chars().any(|it| it.is_control() && it != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
