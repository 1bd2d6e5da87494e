//! The operation of a request, and the key of its token.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::request::Parts;

use crate::core::argument::InvalidArgument;
use crate::core::key::{InvalidKey, Key};

/// Names the operation that a request asks for, so that two operations do not share a token.
///
/// The name is a path, such as `order/create`, and the scope of the token's key. A fixed name
/// converts from a `&'static str`; no other operation of the table may have it as its scope.
///
/// **A fixed name replaces the path**, so it is for a path without parameters. Otherwise
/// `/orders/7/refund` and `/orders/8/refund` with the same key and body are one request: use
/// [`by`](Self::by) or [`method_and_path`](Self::method_and_path).
#[derive(Clone)]
pub struct Operation(Kind);

#[derive(Clone)]
enum Kind {
    Named(&'static str),
    MethodAndPath,
    By(Arc<dyn Fn(&Parts) -> String + Send + Sync>),
}

impl Operation {
    /// Names the operation by the method and the whole path, such as `POST/orders`.
    ///
    /// Two spellings of one path are one operation (RFC 3986, section 6.2.2): letters, digits, `-`,
    /// `.`, `_` and `~` are the same when percent-encoded, and so are both cases of hexadecimal
    /// digits.
    #[must_use]
    pub const fn method_and_path() -> Self {
        Self(Kind::MethodAndPath)
    }

    /// A name from the request: a path without empty segments, such as `order/create`. Any other
    /// name refuses the request with 500 and is logged.
    #[must_use]
    pub fn by(name: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        Self(Kind::By(Arc::new(name)))
    }

    fn of(&self, parts: &Parts) -> String {
        match &self.0 {
            Kind::Named(name) => (*name).to_owned(),
            Kind::MethodAndPath => method_and_path(parts),
            Kind::By(name) => name(parts),
        }
    }
}

impl From<&'static str> for Operation {
    fn from(name: &'static str) -> Self {
        Self(Kind::Named(name))
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Named(name) => write!(f, "Operation({name})"),
            Kind::MethodAndPath => f.write_str("Operation(method and path)"),
            Kind::By(_) => f.write_str("Operation(..)"),
        }
    }
}

/// The path that the caller asked for.
///
/// A router of axum strips the prefix of a nested router from the request; with the feature `axum`
/// this is the path before that. Without the feature it is the path of the request as the layer
/// sees it.
pub(super) fn full_path(request: &Parts) -> &str {
    original(request).unwrap_or(&request.uri).path()
}

#[cfg(feature = "axum")]
fn original(request: &Parts) -> Option<&Uri> {
    request.extensions.get::<axum::extract::OriginalUri>().map(|original| &original.0)
}

#[cfg(not(feature = "axum"))]
const fn original(_: &Parts) -> Option<&Uri> {
    None
}

/// Whether a router of axum found no route for the request. A router always notes the original
/// address, so a request without one came from elsewhere.
#[cfg(feature = "axum")]
pub(super) fn is_unrouted(request: &Parts) -> bool {
    original(request).is_some() && request.extensions.get::<axum::extract::MatchedPath>().is_none()
}

#[cfg(not(feature = "axum"))]
pub(super) const fn is_unrouted(_: &Parts) -> bool {
    false
}

fn method_and_path(parts: &Parts) -> String {
    let path = full_path(parts);
    let path = path.strip_prefix('/').unwrap_or(path);
    // A scope has no empty segment, so one is replaced by text that no path can contain.
    let mut name = parts.method.as_str().to_owned();
    for segment in path.split('/') {
        name.push('/');
        name.push_str(if segment.is_empty() { "<>" } else { "" });
        let mut bytes = segment.as_bytes();
        while let Some((&byte, rest)) = bytes.split_first() {
            let encoded = (byte == b'%').then(|| hex_byte(rest)).flatten();
            bytes = if encoded.is_some() { &rest[2..] } else { rest };
            match encoded {
                Some(b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~') => {
                    name.extend(encoded.map(char::from));
                }
                Some(other) => name.push_str(&format!("%{other:02X}")),
                // Handlers read a `%` without its digits differently from `%25`, and it must not
                // become the start of an encoded character.
                None if byte == b'%' => name.push_str("<%>"),
                None if byte.is_ascii_graphic() => name.push(char::from(byte)),
                // Some addresses have raw bytes that no key has. Routers take them as if they were
                // encoded.
                None => name.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    name
}

/// The byte that two hexadecimal digits at the start of a text stand for.
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(..2)?).ok()?;
    // `from_str_radix` also takes a sign.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The part of a request because of which a key is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WrongKey {
    Key(InvalidArgument),
    Identity(InvalidArgument),
    Operation(InvalidArgument),
    /// The key of the token has too many bytes, and the identity is the longest part of it.
    IdentityTooLong(usize),
    /// The same, and the operation is the longest part.
    OperationTooLong(usize),
}

/// `@caller/operation/key`.
pub(super) fn token_key(
    operation: &Operation,
    identity: &str,
    parts: &Parts,
    key: &str,
) -> Result<Key, WrongKey> {
    let name = operation.of(parts);
    // The longest part is reported, because a shorter text there helps most.
    let too_long = |error: InvalidArgument| match name.len().max(identity.len()) {
        longest if longest < key.len() => WrongKey::Key(error),
        longest if longest == identity.len() => WrongKey::IdentityTooLong(longest),
        longest => WrongKey::OperationTooLong(longest),
    };
    let token = Key::new(&name, key).map_err(|error| match error.key() {
        Some(
            InvalidKey::Scope { .. }
            | InvalidKey::Empty { part: "scope" }
            | InvalidKey::Character { part: "scope", .. },
        ) => WrongKey::Operation(error),
        Some(InvalidKey::TooLong { .. }) => too_long(error),
        _ => WrongKey::Key(error),
    })?;
    let token = token.tenant(identity).map_err(|error| match error.key() {
        Some(InvalidKey::TooLong { .. }) => too_long(error),
        _ => WrongKey::Identity(error),
    })?;
    Ok(match operation.0 {
        Kind::Named(_) => token,
        // Metrics get the method only: a name may contain an id, and each id would be a metric of
        // its own.
        Kind::MethodAndPath | Kind::By(_) => token.operation(format!("http/{}", parts.method)),
    })
}

#[cfg(test)]
mod properties;
