//! The one filter for text that reaches a terminal.
//!
//! Stored text comes from others. A control character in it could move the cursor, hide a line or
//! run a command of the terminal. A format character could reverse the order of the following text,
//! or be invisible. A line break could begin a line that looks like a line of this command.

use std::ops::RangeInclusive;

/// Replaces an odd character.
const REPLACEMENT: char = '\u{fffd}';

/// The format characters: general category Cf of Unicode 16.
const FORMAT: [RangeInclusive<char>; 21] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
];

/// Returns whether a character is odd: a terminal acts on it instead of showing it. Control
/// characters, format characters, and separators of lines or paragraphs are odd.
pub(super) fn is_odd(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{2028}' | '\u{2029}')
        || !it.is_ascii() && FORMAT.iter().any(|range| range.contains(&it))
}

/// Replaces each odd character, including line breaks. The result is one line, such as a cell or
/// stored text in a sentence.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|it| if is_odd(it) { REPLACEMENT } else { it }).collect()
}

/// Escapes each odd character of a JSON text, except line ends. Other odd characters occur only in
/// strings, so the value stays the same.
pub(crate) fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        if is_odd(it) && it != '\n' {
            let mut units = [0; 2];
            escaped.extend(it.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(it);
        }
    }
    escaped
}

/// Filters an event of the log, and keeps its line end. If `colour` is set, the colour codes of the
/// log stay. The log itself escapes colour codes in the fields of an event.
pub(super) fn event(text: &str, colour: bool) -> String {
    let (line, end) = text.strip_suffix('\n').map_or((text, ""), |line| (line, "\n"));
    let mut parts = line.split('\u{1b}');
    let mut filtered = plain(parts.next().unwrap_or_default());
    for part in parts {
        let ends = part.find(|it: char| !it.is_ascii_digit() && it != '[' && it != ';');
        let is_colour = colour && part.starts_with('[') && ends.is_some_and(|at| part[at..].starts_with('m'));
        filtered.push(if is_colour { '\u{1b}' } else { REPLACEMENT });
        filtered.push_str(&plain(part));
    }
    filtered + end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ODD: &str = "a\u{1b}[31mb\u{9b}2Jc\u{7f}\r\nd\te\u{202e}f\u{200b}\u{2028}g\u{e0041}";

    #[test]
    fn no_odd_character_passes() {
        assert_eq!(
            plain(ODD),
            "a\u{fffd}[31mb\u{fffd}2Jc\u{fffd}\u{fffd}\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}\u{fffd}g\u{fffd}"
        );
        assert_eq!(plain("käse 7 € 🧀 אב"), "käse 7 € 🧀 אב");
    }

    #[test]
    fn escaped_json_is_ascii_where_it_was_odd_and_the_same_value() {
        let value = serde_json::json!({ ODD: [ODD, "\u{80}"] });
        let text = json(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert!(!text.chars().any(|it| is_odd(it) && it != '\n'), "{text:?}");
        assert!(text.contains(r"\u202ef\u200b\u2028g\udb40\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn an_event_keeps_the_colours_of_the_log_and_no_other_escape() {
        let line = "\u{1b}[2m12:00\u{1b}[0m key=a\u{1b}]0;title\u{7}\u{1b}[2Jb\u{202e}\nforged\n";
        let plain = "\u{fffd}]0;title\u{fffd}\u{fffd}[2Jb\u{fffd}\u{fffd}forged\n";
        assert_eq!(event(line, true), format!("\u{1b}[2m12:00\u{1b}[0m key=a{plain}"));
        assert_eq!(event(line, false), format!("\u{fffd}[2m12:00\u{fffd}[0m key=a{plain}"));
    }

    proptest! {
        /// The strategies have the tables of Unicode from another crate.
        #[test]
        fn each_control_and_format_character_of_unicode_is_odd(text in "[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]{1,40}") {
            prop_assert!(text.chars().all(is_odd), "{text:?}");
        }

        #[test]
        fn each_letter_and_symbol_passes(text in "[^\\pC\\p{Zl}\\p{Zp}]{0,40}") {
            prop_assert_eq!(plain(&text), text);
        }
    }
}
