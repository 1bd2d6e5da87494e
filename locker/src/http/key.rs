//! The place of the idempotency key in a request.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use serde_json::Value;

use super::header::{self, MAX_HEADER_BYTES};
use super::problem::Problem;

/// The place of a request's idempotency key. Default: the header `Idempotency-Key`.
///
/// A key has 1 to 255 bytes of printable ASCII. Take it from a place that is the same for every
/// retry of a request and different for every other request: the id of a delivery or an event, not
/// the time of sending.
///
/// ```
/// # use http::HeaderName;
/// # use locker::http::KeySource;
/// // A webhook of GitHub.
/// let delivery = KeySource::header(HeaderName::from_static("x-github-delivery"));
/// // A webhook of Stripe: the `id` of the event in the body.
/// let event = KeySource::field("/id");
/// // Two fields of a body that is not JSON.
/// let order = KeySource::by(|_, body| {
///     let mut fields = std::str::from_utf8(body).ok()?.split(';');
///     Some(format!("{}-{}", fields.next()?, fields.next()?))
/// });
/// ```
#[derive(Clone)]
pub struct KeySource(Kind);

type Closure = Arc<dyn Fn(&Parts, &[u8]) -> Option<String> + Send + Sync>;

#[derive(Clone)]
enum Kind {
    IdempotencyKey,
    Header(HeaderName),
    Field(String),
    By(Closure),
}

impl KeySource {
    /// A header that contains the key as it is, such as `X-GitHub-Delivery`.
    #[must_use]
    pub const fn header(name: HeaderName) -> Self {
        Self(Kind::Header(name))
    }

    /// A field of the JSON body, named by a JSON Pointer (RFC 6901) such as `/id` or
    /// `/order/number`; `id` means `/id`. The field is a text or a whole number.
    ///
    /// A request without the field, or with `null` there, has no key. A body that is not JSON is
    /// refused.
    #[must_use]
    pub fn field(pointer: impl Into<String>) -> Self {
        let pointer = pointer.into();
        // A pointer without a slash at its start selects nothing, so no request would have a key.
        Self(Kind::Field(if pointer.starts_with('/') { pointer } else { format!("/{pointer}") }))
    }

    /// A closure over the head of the request and its body. `None`: the request has no key.
    #[must_use]
    pub fn by(key: impl Fn(&Parts, &[u8]) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Kind::By(Arc::new(key)))
    }

    /// Whether the key can be read only with the body.
    pub(super) const fn needs_body(&self) -> bool {
        matches!(self.0, Kind::Field(_) | Kind::By(_))
    }

    /// The key of a request. `None` if the request has none.
    pub(super) fn read(&self, parts: &Parts, body: &[u8]) -> Result<Option<String>, Problem> {
        let key = match &self.0 {
            Kind::IdempotencyKey => return header::key_of(&parts.headers),
            Kind::Header(name) => in_header(parts, name),
            Kind::Field(pointer) => in_field(body, pointer),
            Kind::By(key) => Ok(key(parts, body)),
        };
        let Some(key) = key.map_err(Problem::KeyInvalid)? else { return Ok(None) };
        let problem = match key.len() {
            0 => format!("{self} is empty"),
            1..=MAX_HEADER_BYTES if key.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
                return Ok(Some(key));
            }
            1..=MAX_HEADER_BYTES => format!("{self} has a character outside printable ASCII"),
            bytes => format!("{self} has {bytes} bytes; {MAX_HEADER_BYTES} are allowed"),
        };
        Err(Problem::KeyInvalid(problem))
    }
}

fn in_header(parts: &Parts, name: &HeaderName) -> Result<Option<String>, String> {
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("the request has more than one header {name}; send one"));
    }
    let text =
        value.to_str().map_err(|_| format!("the header {name} has a character outside printable ASCII"))?;
    // API Gateway joins the values of a header that was sent twice.
    if text.contains(',') {
        return Err(format!(
            "the header {name} contains a comma, so it may have been sent twice; send one value without a comma"
        ));
    }
    Ok(Some(text.trim_matches([' ', '\t']).to_owned()))
}

fn in_field(body: &[u8], pointer: &str) -> Result<Option<String>, String> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|_| format!("the body is not JSON, so its field {pointer} cannot be read"))?;
    match body.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
        Some(_) => Err(format!("the field {pointer} of the body is not a text or a whole number")),
    }
}

impl Default for KeySource {
    fn default() -> Self {
        Self(Kind::IdempotencyKey)
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::IdempotencyKey => f.write_str("the header Idempotency-Key"),
            Kind::Header(name) => write!(f, "the header {name}"),
            Kind::Field(pointer) => write!(f, "the field {pointer} of the body"),
            Kind::By(_) => f.write_str("the idempotency key"),
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySource({self})")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn read(source: &KeySource, headers: &[&str], body: &str) -> Result<Option<String>, Problem> {
        let mut request = Request::new(());
        for value in headers {
            request
                .headers_mut()
                .append("x-github-delivery", HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        source.read(&request.into_parts().0, body.as_bytes())
    }

    #[test]
    fn key_of_a_header_is_taken_as_it_is() {
        let source = KeySource::header(HeaderName::from_static("x-github-delivery"));
        assert_eq!(read(&source, &[" \"7f3c\" "], ""), Ok(Some("\"7f3c\"".to_owned())));
        assert_eq!(read(&source, &[], ""), Ok(None));
        for odd in [&["a", "b"][..], &["a,b"], &[""], &["caf\u{e9}"], &["k".repeat(256).as_str()]] {
            assert!(matches!(read(&source, odd, ""), Err(Problem::KeyInvalid(_))), "{odd:?}");
        }
    }

    #[test]
    fn key_of_a_field_is_a_text_or_a_whole_number() {
        let source = KeySource::field("/order/id");
        let key = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(&source, &[], r#"{"order":{"id":"evt_1"}}"#), key("evt_1"));
        assert_eq!(read(&KeySource::field("id"), &[], r#"{"id":"evt_1"}"#), key("evt_1"));
        assert_eq!(
            read(&source, &[], r#"{"order":{"id":18446744073709551615}}"#),
            key("18446744073709551615")
        );
        for none in [r#"{"order":{"id":null}}"#, r#"{"order":7}"#, "[]"] {
            assert_eq!(read(&source, &[], none), Ok(None), "{none}");
        }
        for odd in
            [r#"{"order":{"id":1.5}}"#, r#"{"order":{"id":true}}"#, r#"{"order":{"id":""}}"#, "id=7", ""]
        {
            assert!(matches!(read(&source, &[], odd), Err(Problem::KeyInvalid(_))), "{odd}");
        }
    }

    #[test]
    fn every_refusal_names_the_place_of_the_key() {
        let long = "k".repeat(256);
        for (source, place) in [
            (KeySource::header(HeaderName::from_static("x-github-delivery")), "the header x-github-delivery"),
            (KeySource::field("/id"), "the field /id of the body"),
            (
                KeySource::by(|_, body| Some(String::from_utf8_lossy(body).into_owned())),
                "the idempotency key",
            ),
        ] {
            let body = if place.contains("field") { format!(r#"{{"id":"{long}"}}"#) } else { long.clone() };
            let Err(Problem::KeyInvalid(reason)) = read(&source, &[&long], &body) else { panic!("{place}") };
            assert_eq!(reason, format!("{place} has 256 bytes; 255 are allowed"));
            assert_eq!(format!("{source:?}"), format!("KeySource({place})"));
        }
    }
}
