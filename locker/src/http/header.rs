//! The `Idempotency-Key` header: quoted, as in the IETF draft, or bare, as Stripe's clients send
//! it.

use http::{HeaderMap, HeaderName};

use super::problem::Problem;

/// The request header that contains the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The response header that marks a replay.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Longest key, in bytes, without its quotes. Providers accept keys of this length.
pub(crate) const MAX_HEADER_BYTES: usize = 255;

/// Why a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidHeader {
    /// The request has more than one.
    #[error("the request has more than one Idempotency-Key; send one")]
    Several,
    /// The key is empty.
    #[error("the Idempotency-Key is empty; send a value that is unique to this request, such as a UUID")]
    Empty,
    /// The key has more than [`MAX_HEADER_BYTES`] bytes.
    #[error("the Idempotency-Key has more than {MAX_HEADER_BYTES} bytes; send a shorter one, such as a UUID")]
    TooLong,
    /// The header starts with a quote, but is not exactly one quoted string.
    #[error("the Idempotency-Key is not one quoted string; send it without quotes and spaces")]
    Quotes,
    /// The key has a character that is not allowed.
    #[error(
        "the Idempotency-Key has a character outside printable ASCII, or a space outside quotes; send a value such as a UUID"
    )]
    Character,
}

/// Reads the key of a request, for a handler that does not use the layer. `None` if there is no
/// key.
///
/// # Errors
///
/// [`Problem::KeyInvalid`] if the request has more than one key, or a key that is not allowed.
/// Return the [`response`](Problem::response) of the problem, as the layer does.
pub fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    read(headers).map_err(|error| Problem::KeyInvalid(error.to_string()))
}

fn read(headers: &HeaderMap) -> Result<Option<String>, InvalidHeader> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(InvalidHeader::Several);
    }
    let text = value.to_str().map_err(|_| InvalidHeader::Character)?.trim_matches([' ', '\t']);
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted)?,
        None if text.contains(',') => return Err(InvalidHeader::Several),
        None if text.bytes().all(|byte| byte.is_ascii_graphic()) => text.to_owned(),
        None => return Err(InvalidHeader::Character),
    };
    match key.len() {
        0 => Err(InvalidHeader::Empty),
        1..=MAX_HEADER_BYTES => Ok(Some(key)),
        _ => Err(InvalidHeader::TooLong),
    }
}

/// Parses a string of RFC 9651, from after its first quote.
fn unquote(quoted: &str) -> Result<String, InvalidHeader> {
    let mut key = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    loop {
        match characters.next() {
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(InvalidHeader::Quotes),
            },
            Some(plain @ ' '..='~') => key.push(plain),
            Some(_) => return Err(InvalidHeader::Character),
            None => return Err(InvalidHeader::Quotes),
        }
    }
    match characters.as_str() {
        "" => Ok(key),
        // Two keys in one header line are refused like two lines.
        rest if rest.trim_start().starts_with(',') => Err(InvalidHeader::Several),
        _ => Err(InvalidHeader::Quotes),
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&[u8]]) -> Result<Option<String>, InvalidHeader> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, http::HeaderValue::from_bytes(value).unwrap());
        }
        super::read(&headers)
    }

    #[test]
    fn quoted_and_bare_are_the_same_key() {
        let key = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(
            read(&[b"8e03978e-40d5-43e8-bc93-6894a57f9324"]),
            key("8e03978e-40d5-43e8-bc93-6894a57f9324")
        );
        assert_eq!(
            read(&[b"\"8e03978e-40d5-43e8-bc93-6894a57f9324\""]),
            key("8e03978e-40d5-43e8-bc93-6894a57f9324")
        );
        assert_eq!(read(&[b"  \"a b\"  "]), key("a b"));
        assert_eq!(read(&[br#""say \"hi\" \\""#]), key(r#"say "hi" \"#));
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn header_without_exactly_one_key_is_refused() {
        let long = "k".repeat(256);
        for (values, error) in [
            (vec![&b"a"[..], b"b"], InvalidHeader::Several),
            (vec![b"a"; 2], InvalidHeader::Several),
            (vec![b"a,b"], InvalidHeader::Several),
            (vec![b"\"a\", \"b\""], InvalidHeader::Several),
            (vec![b""], InvalidHeader::Empty),
            (vec![b"   "], InvalidHeader::Empty),
            (vec![b"\"\""], InvalidHeader::Empty),
            (vec![long.as_bytes()], InvalidHeader::TooLong),
            (vec![b"\"a"], InvalidHeader::Quotes),
            (vec![b"\"a\"b"], InvalidHeader::Quotes),
            (vec![b"\"a\\n\""], InvalidHeader::Quotes),
            (vec![b"\"a\";p=1"], InvalidHeader::Quotes),
            (vec![b"a b"], InvalidHeader::Character),
            (vec![b"caf\xc3\xa9"], InvalidHeader::Character),
        ] {
            assert_eq!(read(&values), Err(error), "{values:?}");
        }
        assert!(read(&["k".repeat(255).as_bytes()]).is_ok());
    }
}
