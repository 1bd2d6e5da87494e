//! Text that may be printed.

use std::fmt::Display;

use super::filter::{is_odd, plain};

/// Lines that have passed the filter.
///
/// Every value that implements `Display` becomes one line: a line break in it is replaced like any
/// other control character. Text of several lines consists of such lines and of tables. So no
/// caller can forget the filter, and stored text cannot begin a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

impl<T: Display> From<T> for Text {
    fn from(line: T) -> Self {
        Self(plain(&line.to_string()))
    }
}

impl Text {
    /// Lines of a table, whose cells have passed the filter.
    pub(super) const fn filtered(lines: String) -> Self {
        Self(lines)
    }

    /// A text of this program, such as its manual.
    pub(crate) fn page(text: &str) -> Self {
        let stays = |it: char| !is_odd(it) || it == '\n' || it == '\t';
        Self(text.chars().filter(|it| stays(*it)).collect())
    }

    /// Joins parts with line breaks.
    pub(crate) fn below(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect::<Vec<_>>().join("\n"))
    }

    /// Joins parts with an empty line between them.
    pub(crate) fn apart(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect::<Vec<_>>().join("\n\n"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Quotes a word for a shell, in characters that a terminal shows.
///
/// A word with odd characters has the form `$'..'`, which bash, zsh and ksh read. So a pasted line
/// contains the same word.
pub(crate) fn quoted(word: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_bare) {
        return word.to_owned();
    }
    if !word.contains(is_odd) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut text = "$'".to_owned();
    for it in word.chars() {
        match it {
            '\'' | '\\' => text.extend(['\\', it]),
            it if is_odd(it) => {
                let mut bytes = [0; 4];
                text.extend(it.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:03o}")));
            }
            it => text.push(it),
        }
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_is_bare_quoted_or_escaped() {
        for (word, text) in [
            ("--local=.locker", "--local=.locker"),
            ("--local=my store's", r"'--local=my store'\''s'"),
            ("", "''"),
            ("$'a", r"'$'\''a'"),
            ("o\u{1b}[2J'\\7", r"$'o\033[2J\'\\7'"),
            ("\u{202e}é\n", r"$'\342\200\256é\012'"),
        ] {
            assert_eq!(quoted(word), text);
        }
    }

    #[test]
    fn foreign_text_is_one_line() {
        assert_eq!(Text::from("a\nlocker: b").as_str(), "a\u{fffd}locker: b");
        let text = Text::below(["one".into(), Text::apart(["two", "three"].map(Text::from))]);
        assert_eq!(text.as_str(), "one\ntwo\n\nthree");
        assert_eq!(Text::page("a\tb\u{1b}[1m\nc").as_str(), "a\tb[1m\nc");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_shell_reads_each_word_as_it_was() {
        let words = ["a b", "it's", "o\u{1b}[2J'\\", "\u{202e}7\u{9b}8\n\t", "\u{e0041}\u{feff}1", "$(x)`y`"];
        let line = format!("printf '%s\\0' {}", words.map(quoted).join(" "));
        let shell = std::process::Command::new("bash").args(["-c", &line]).output().expect("bash");
        let read = String::from_utf8(shell.stdout).expect("text");
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }

    proptest! {
        #[test]
        fn no_odd_character_stays_in_a_word_or_a_line(word: String) {
            prop_assert!(!quoted(&word).contains(is_odd));
            prop_assert!(!Text::from(&word).as_str().contains(is_odd));
        }
    }
}
