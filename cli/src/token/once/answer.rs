//! The answer of a command: the part that is stored, and the output for later callers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pass::Length;

/// The answer of a command: its exit status and its standard output, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Form")]
pub(super) struct Answer {
    pub(super) exit: u8,
    pub(super) stdout: Vec<u8>,
    /// A note about missing output, if output is missing.
    pub(super) note: Option<String>,
}

impl Answer {
    pub(super) const fn of(exit: u8, stdout: Vec<u8>) -> Self {
        Self { exit, stdout, note: None }
    }

    /// Returns the answer with at most this many bytes of its output. Adds a note if output is
    /// missing. `length` is the length of the whole output.
    pub(super) fn cut(self, most: usize, length: Length) -> Self {
        let Length { total, is_open } = length;
        let mut stdout = self.stdout;
        stdout.truncate(most);
        if !is_open && stdout.len() as u64 == total {
            return Self { stdout, ..self };
        }
        // Text that is cut inside a character would no longer be stored as text.
        if let Err(error) = std::str::from_utf8(&stdout)
            && error.error_len().is_none()
        {
            stdout.truncate(error.valid_up_to());
        }
        let kept = stdout.len();
        let note = if is_open {
            format!("a process that it started had its output open, and {kept} bytes of the output are kept")
        } else {
            format!("{kept} of {total} bytes of its output are kept")
        };
        Self { exit: self.exit, stdout, note: Some(note) }
    }
}

/// The stored form of an answer: output in UTF-8 as text, so that an operator can read it.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    exit: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<Answer> for Form {
    fn from(answer: Answer) -> Self {
        let form = Self { exit: answer.exit, note: answer.note, ..Self::default() };
        match String::from_utf8(answer.stdout) {
            Ok(text) => Self { stdout: Some(text), ..form },
            Err(error) => Self { stdout_base64: Some(STANDARD.encode(error.as_bytes())), ..form },
        }
    }
}

/// An operator may have resolved the token with any JSON value, which then is the output.
impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        let bytes = |form: &Form| match (&form.stdout, &form.stdout_base64) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(bytes)) => STANDARD.decode(bytes).ok(),
            (None, None) => Some(Vec::new()),
        };
        let form = Form::deserialize(&value).ok();
        if let Some((form, stdout)) = form.and_then(|form| bytes(&form).map(|stdout| (form, stdout))) {
            return Self { exit: form.exit, stdout, note: form.note };
        }
        let stdout = match value {
            Value::Null => Vec::new(),
            Value::String(text) => text.into_bytes(),
            other => format!("{other}\n").into_bytes(),
        };
        Self::of(0, stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(answer: &Answer) -> String {
        let json = serde_json::to_string(answer).unwrap();
        assert_eq!(&serde_json::from_str::<Answer>(&json).unwrap(), answer);
        json
    }

    #[test]
    fn output_is_stored_as_text_where_it_is_text() {
        let text = Answer::of(3, "käse\n".into());
        assert_eq!(there_and_back(&text), r#"{"exit":3,"stdout":"käse\n"}"#);
        let bytes = Answer::of(0, vec![0, 255, 10]);
        assert_eq!(there_and_back(&bytes), r#"{"exit":0,"stdoutBase64":"AP8K"}"#);
        there_and_back(&Answer::of(255, vec![]));
    }

    #[test]
    fn any_json_that_an_operator_resolved_with_is_an_answer() {
        let read = |json: &str| serde_json::from_str::<Answer>(json).unwrap();
        assert_eq!(read("null"), Answer::of(0, vec![]));
        assert_eq!(read(r#"{"exit":0}"#), Answer::of(0, vec![]));
        assert_eq!(read(r#""sent""#), Answer::of(0, b"sent".to_vec()));
        assert_eq!(read(r#"{"id":7}"#), Answer::of(0, b"{\"id\":7}\n".to_vec()));
        assert_eq!(read(r#"{"exit":999}"#).exit, 0);
    }

    #[test]
    fn text_that_is_cut_stays_text() {
        let nine = Length { total: 9, is_open: false };
        let cut = |text: &str, most| Answer::of(3, text.into()).cut(most, nine);
        for (most, kept) in [(0, ""), (1, "k"), (2, "k"), (3, "kä"), (9, "käse")] {
            let cut = cut("käse", most);
            assert_eq!((cut.exit, String::from_utf8(cut.stdout).unwrap().as_str()), (3, kept));
            assert_eq!(cut.note.unwrap(), format!("{} of 9 bytes of its output are kept", kept.len()));
        }
        let three = Length { total: 3, is_open: false };
        assert_eq!(Answer::of(0, vec![255, 254, 253]).cut(2, three).stdout, [255, 254]);
        // Whole output stays as it is, although it ends inside a character.
        let whole = Answer::of(0, vec![b'k', 195, 164, 195]);
        assert_eq!(whole.clone().cut(4, Length { total: 4, is_open: false }), whole);
        let open = whole.cut(9, Length { total: 4, is_open: true });
        assert_eq!(open.stdout, "kä".as_bytes());
        assert!(open.note.unwrap().ends_with(" had its output open, and 3 bytes of the output are kept"));
        // Older versions read a note as text after the answer.
        there_and_back(&cut("käse", 3));
    }
}
