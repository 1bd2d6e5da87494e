//! The form of an answer: which readers a token's answer is for.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The longest form that is stored, in bytes: it is part of every token.
const LONGEST: usize = 64;

/// The form of an answer, recorded by begin so that an operator's answer can be read by later
/// callers.
///
/// [`BeginBuilder::run`](crate::BeginBuilder::run) records the name of its type of answer, the HTTP
/// layer [`Form::HTTP`], and the command `locker once` [`Form::ONCE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form(Cow<'static, str>);

impl Form {
    /// A response of the HTTP layer: an object with `status`, and optionally `headers`, `body` and
    /// `trailers`.
    pub const HTTP: Self = Self(Cow::Borrowed("http"));
    /// The result of a command: an object with `exit`, and optionally `stdout` or `stdoutBase64`.
    pub const ONCE: Self = Self(Cow::Borrowed("once"));

    /// The form of a type's JSON: the name of the type without its path, at most 64 bytes.
    #[must_use]
    pub fn of<T: ?Sized>() -> Self {
        let name = std::any::type_name::<T>();
        let short = without_paths(name);
        // A user's type with the same name as a checked type keeps its path.
        let is_own = short == "String" && name != "alloc::string::String";
        Self::stored(if is_own { name } else { &short })
    }

    pub(crate) fn stored(name: &str) -> Self {
        let mut end = name.len().min(LONGEST);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Self(Cow::Owned(name[..end].to_owned()))
    }

    /// The form as stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns an example of the form of an operator's answer. `None`: any value is accepted.
    #[must_use]
    pub fn example(&self) -> Option<&'static str> {
        // Of no form that is checked.
        self.check(&serde_json::json!([[]])).err().map(|mismatch| mismatch.expected)
    }

    /// Checks an operator's answer: whether later callers can read it.
    ///
    /// The forms of the HTTP layer, of the command and of a few simple types are checked; any value
    /// is accepted for the name of another type.
    ///
    /// # Errors
    ///
    /// [`FormMismatch`] with the requirement of the form.
    pub(crate) fn check(&self, answer: &Value) -> Result<(), FormMismatch> {
        let (fits, expected) = match self.as_str() {
            "http" => (is_response(answer), HTTP_EXAMPLE),
            "once" => (is_command(answer), r#"{"exit":0,"stdout":"..."}"#),
            "()" => (answer.is_null(), "null"),
            "bool" => (answer.is_boolean(), "true or false"),
            "String" => (answer.is_string(), "a string in quotes"),
            "char" => (reads_as::<char>(answer), "one character in quotes"),
            "u8" => (reads_as::<u8>(answer), "a number from 0 to 255"),
            "u16" => (reads_as::<u16>(answer), "a number from 0 to 65535"),
            "u32" => (reads_as::<u32>(answer), "a number from 0 to 4294967295"),
            "u64" | "usize" => (reads_as::<u64>(answer), "a whole number, at least 0"),
            "i8" => (reads_as::<i8>(answer), "a number from -128 to 127"),
            "i16" => (reads_as::<i16>(answer), "a number from -32768 to 32767"),
            "i32" => (reads_as::<i32>(answer), "a number from -2147483648 to 2147483647"),
            "i64" | "isize" => (reads_as::<i64>(answer), "a whole number"),
            "f32" | "f64" => (answer.is_number(), "a number"),
            _ => (true, ""),
        };
        if fits { Ok(()) } else { Err(FormMismatch { form: self.clone(), expected }) }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operator's answer that later callers could not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("later callers read the answer as {form}, which this is not; give {expected}")]
pub(crate) struct FormMismatch {
    /// The form that the token was begun with.
    pub form: Form,
    /// An example of the form.
    pub expected: &'static str,
}

impl FormMismatch {
    #[cfg(feature = "workflow")]
    pub(crate) fn of(form: &str, expected: &'static str) -> Self {
        Self { form: Form::stored(form), expected }
    }
}

/// `alloc::vec::Vec<shop::Order>` as `Vec<Order>`.
fn without_paths(name: &str) -> String {
    let ends_word = |character: char| !(character.is_alphanumeric() || character == '_');
    name.split_inclusive(ends_word).filter(|part| !part.ends_with(':')).collect()
}

const HTTP_EXAMPLE: &str = r#"{"status":201,"headers":[["content-type","application/json"]],"body":"..."}"#;

fn reads_as<T: DeserializeOwned>(answer: &Value) -> bool {
    serde_json::from_value::<T>(answer.clone()).is_ok()
}

/// Text, or an object with its bytes in base64.
fn is_text(value: &Value) -> bool {
    let fields = value.as_object();
    value.is_string()
        || fields.is_some_and(|fields| fields.len() == 1 && fields.get("base64").is_some_and(is_base64))
}

fn is_base64(value: &Value) -> bool {
    value.as_str().is_some_and(|text| STANDARD.decode(text).is_ok())
}

/// A token of RFC 9110, as HTTP wants the name of a header.
fn is_header_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// As the HTTP layer stores one.
fn is_response(answer: &Value) -> bool {
    let Some(fields) = answer.as_object() else { return false };
    fields.iter().all(|(name, value)| match name.as_str() {
        "status" => value.as_u64().is_some_and(|status| (200..=999).contains(&status)),
        "headers" | "trailers" => value.as_array().is_some_and(|fields| fields.iter().all(is_header)),
        "body" => is_text(value),
        _ => false,
    }) && fields.contains_key("status")
}

fn is_header(header: &Value) -> bool {
    match header.as_array().map(Vec::as_slice) {
        Some([Value::String(name), value]) => {
            is_header_name(name)
                && is_text(value)
                && bytes_of(value).is_some_and(|value| is_header_value(&value))
        }
        _ => false,
    }
}

/// The bytes of a text.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let plain = || value.as_str().map(|text| text.as_bytes().to_vec());
    let encoded = || STANDARD.decode(value.get("base64")?.as_str()?).ok();
    plain().or_else(encoded)
}

/// RFC 9110: no control characters but the tab.
fn is_header_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control())
}

/// As the command stores one.
fn is_command(answer: &Value) -> bool {
    let Some(fields) = answer.as_object() else { return false };
    fields.iter().all(|(name, value)| match name.as_str() {
        "exit" => value.as_u64().is_some_and(|exit| exit <= 255),
        "stdout" | "note" => value.is_string(),
        "stdoutBase64" => is_base64(value),
        _ => false,
    }) && fields.contains_key("exit")
        && !(fields.contains_key("stdout") && fields.contains_key("stdoutBase64"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_is_named_without_its_path() {
        assert_eq!(Form::of::<Vec<Option<std::time::Duration>>>().as_str(), "Vec<Option<Duration>>");
        assert_eq!(Form::of::<()>().as_str(), "()");
        assert_eq!(Form::of::<String>().as_str(), "String");
        assert_eq!(Form::of::<(u8, &str)>().as_str(), "(u8, &str)");
        let long =
            Form::of::<Result<Result<Result<Option<Form>, FormMismatch>, FormMismatch>, FormMismatch>>();
        assert_eq!(long.as_str().len(), LONGEST);
    }

    #[test]
    fn an_own_type_that_is_named_like_a_checked_one_is_not_checked() {
        mod own {
            pub(super) struct String;
        }
        let form = Form::of::<own::String>();
        assert!(form.as_str().contains("::") && form.as_str().len() <= LONGEST, "{form}");
        form.check(&json!({"text": "any"})).unwrap();
        Form::of::<String>().check(&json!({"text": "any"})).unwrap_err();
    }

    #[test]
    fn an_answer_that_no_reader_can_read_is_refused_with_an_example() {
        let http = Form::HTTP;
        http.check(&json!({"status": 201})).unwrap();
        http.check(&json!({"status": 201, "headers": [["etag", "a"]], "body": {"base64": "AA=="}})).unwrap();
        http.check(&json!({"status": 200, "trailers": [["grpc-status", "0"]]})).unwrap();
        for wrong in [
            json!(null),
            json!({"orderId": "7"}),
            json!({"status": 99}),
            json!({"status": "201"}),
            json!({"status": 201, "headers": {"etag": "a"}}),
            json!({"status": 201, "headers": [["etag", 1]]}),
            json!({"status": 201, "trailers": {"grpc-status": "0"}}),
            json!({"status": 201, "body": {"orderId": "7"}}),
            json!({"status": 201, "orderId": "7"}),
            json!({"status": 201, "headers": [["e tag", "a"]]}),
            json!({"status": 201, "headers": [["etag", "a\nb"]]}),
            json!({"status": 201, "headers": [["etag", {"base64": "AA=="}]]}),
            json!({"status": 201, "headers": [["etag", {"base64": "Cg=="}]]}),
            json!({"status": 201, "body": {"base64": "%%"}}),
        ] {
            let said = http.check(&wrong).unwrap_err().to_string();
            assert!(said.contains(r#"{"status":201"#), "{wrong}: {said}");
        }
        Form::ONCE.check(&json!({"exit": 0, "stdout": "sent"})).unwrap();
        for wrong in [
            json!(null),
            json!("sent"),
            json!({"stdout": "sent"}),
            json!({"exit": 256}),
            json!({"exit": 1, "stderr": "boom"}),
            json!({"exit": 1, "stdoutBase64": "%%"}),
            json!({"exit": 1, "stdout": "", "stdoutBase64": ""}),
        ] {
            Form::ONCE.check(&wrong).unwrap_err();
        }
        Form::of::<u64>().check(&json!("7")).unwrap_err();
        Form::of::<u8>().check(&json!(300)).unwrap_err();
        Form::of::<char>().check(&json!("ab")).unwrap_err();
        Form::of::<Form>().check(&json!({"any": "thing"})).unwrap();
    }
    #[test]
    fn each_checked_form_has_an_example_and_bounds() {
        let large = json!(9_007_199_254_740_993_u64);
        for (name, expected, fits, wrong) in [
            ("()", "null", json!(null), json!(0)),
            ("bool", "true or false", json!(true), json!("true")),
            ("String", "a string in quotes", json!("7"), json!(7)),
            ("char", "one character in quotes", json!("ä"), json!("")),
            ("u8", "a number from 0 to 255", json!(255), json!(256)),
            ("u16", "a number from 0 to 65535", json!(65_535), json!(65_536)),
            ("u32", "a number from 0 to 4294967295", json!(u32::MAX), large.clone()),
            ("u64", "a whole number, at least 0", large.clone(), json!(-1)),
            ("usize", "a whole number, at least 0", json!(0), json!(1.5)),
            ("i8", "a number from -128 to 127", json!(-128), json!(128)),
            ("i16", "a number from -32768 to 32767", json!(-32_768), json!(32_768)),
            ("i32", "a number from -2147483648 to 2147483647", json!(i32::MIN), large.clone()),
            ("i64", "a whole number", json!(-1), json!("1")),
            ("isize", "a whole number", json!(-1), json!(0.5)),
            ("f32", "a number", json!(0.5), json!("0.5")),
            ("f64", "a number", json!(1), json!(null)),
        ] {
            let form = Form::stored(name);
            assert_eq!(form.check(&fits), Ok(()), "{name}");
            assert_eq!(form.check(&wrong), Err(FormMismatch { form: form.clone(), expected }), "{name}");
            assert_eq!((form.example(), form.to_string().as_str()), (Some(expected), name));
        }
        assert_eq!(Form::HTTP.example(), Some(HTTP_EXAMPLE));
        assert_eq!(Form::ONCE.example(), Some(r#"{"exit":0,"stdout":"..."}"#));
        assert_eq!(Form::stored("Order").example(), None);
    }

    #[test]
    fn examples_of_objects_fit_their_forms() {
        for form in [Form::HTTP, Form::ONCE] {
            let example = serde_json::from_str(form.example().unwrap()).unwrap();
            assert_eq!(form.check(&example), Ok(()), "{form}");
        }
    }

    #[test]
    fn long_form_is_cut_between_characters() {
        assert_eq!(Form::stored(&"ä".repeat(32)).as_str(), "ä".repeat(32));
        assert_eq!(Form::stored(&format!("a{}", "ä".repeat(32))).as_str(), format!("a{}", "ä".repeat(31)));
    }

    #[test]
    fn header_of_an_answer_is_one_of_http() {
        let with = |header: Value| Form::HTTP.check(&json!({"status": 200, "headers": [header]})).is_ok();
        assert!(with(json!(["x-a_1!", "a\tb ä"])) && with(json!(["etag", ""])));
        assert!(with(json!(["etag", {"base64": "/w=="}])));
        for wrong in [
            json!(["", "a"]),
            json!(["e:tag", "a"]),
            json!(["etag"]),
            json!(["etag", "a", "b"]),
            json!(["etag", "a\u{7f}"]),
            json!("etag"),
        ] {
            assert!(!with(wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn body_of_an_answer_is_text_or_only_base64() {
        let with = |body: Value| Form::HTTP.check(&json!({"status": 200, "body": body})).is_ok();
        assert!(with(json!("")) && with(json!({"base64": ""})));
        for wrong in [json!({}), json!({"base64": "AA==", "type": "a"}), json!({"text": "a"}), json!(7)] {
            assert!(!with(wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn answer_of_a_command_has_one_form_of_output() {
        let is_ok = |answer: Value| Form::ONCE.check(&answer).is_ok();
        assert!(is_ok(json!({"exit": 255})) && is_ok(json!({"exit": 0, "note": "sent"})));
        assert!(is_ok(json!({"exit": 0, "stdoutBase64": "AA=="})));
        for wrong in [
            json!({}),
            json!({"note": "sent"}),
            json!({"stdoutBase64": "AA=="}),
            json!({"exit": -1}),
            json!({"exit": 0, "stdout": 7}),
            json!({"exit": 0, "note": 7}),
        ] {
            assert!(!is_ok(wrong.clone()), "{wrong}");
        }
    }
}
