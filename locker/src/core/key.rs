//! Keys: the readable, collision-free name of a lock token.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::core::argument::InvalidArgument;

/// Longest key, in bytes. DynamoDB allows 2,048 for a partition key; half of that leaves room for
/// the key of an answer that is stored in a separate item, and for any layout that sorts by token.
pub(crate) const MAX_KEY_BYTES: usize = 1024;

/// The key of a lock token, such as `order/create/12345`.
///
/// A key is either one string, used as it is, or composed of a *scope* (the operation), an *id*
/// (the object of the operation) and optionally a *tenant*:
///
/// | parts | key |
/// |---|---|
/// | `Key::parse("order/create/12345")` | `order/create/12345` |
/// | `Key::new("order/create", 12345)` | `order/create/12345` |
/// | `Key::new("order/create", "a/b")` | `order/create/a%2Fb` |
/// | `Key::new("order/create", 12345)?.tenant("acme")` | `@acme/order/create/12345` |
///
/// Composed keys cannot collide: `/`, `%` and space inside an id or a tenant are percent-encoded,
/// and only a tenant starts with `@`. Compose a key whenever a part comes from outside. The tenant
/// stays readable at the front, so that an IAM policy can match it with `dynamodb:LeadingKeys`.
///
/// Keys are 1 to 1,024 bytes of printable ASCII without spaces. DynamoDB compares bytes, so text
/// that may be written in more than one way (accents, case) is refused rather than normalised:
/// hash or encode it first.
///
/// A clone shares the text of its key.
///
/// A key may name a customer, so `Debug` shows only its scope and a digest;
/// [`as_str`](Self::as_str) returns the text. Do not put personal data in keys: they end up in logs
/// and indexes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    token: Arc<str>,
    scope: Option<Arc<str>>,
}

impl Key {
    /// Composes a key from an operation and the id of its object.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if a part is empty or contains a character that keys do not allow, or if
    /// the key is too long. The scope is a path without empty segments that does not start with
    /// `@`.
    pub fn new(scope: &str, id: impl fmt::Display) -> Result<Self, InvalidArgument> {
        check_scope(scope)?;
        let token = format!("{scope}/{}", encode("id", &id.to_string())?);
        Ok(Self { token: check_length(token)?.into(), scope: Some(scope.into()) })
    }

    /// Uses a complete key as it is.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the key is empty or too long, or contains a space, a control
    /// character or a character outside ASCII.
    pub fn parse(whole: impl Into<String>) -> Result<Self, InvalidArgument> {
        let token = whole.into();
        if token.is_empty() {
            return Err(InvalidKey::Empty { part: "key" }.into());
        }
        check_characters("key", &token, false)?;
        Ok(Self { token: check_length(token)?.into(), scope: None })
    }

    /// Counts the key in metrics under this operation instead of its scope.
    #[cfg(feature = "http")]
    pub(crate) fn operation(self, operation: String) -> Self {
        Self { scope: Some(operation.into()), ..self }
    }

    /// The key of an existing token, without checks: other writers may allow more than this
    /// library.
    ///
    /// Use it to read tokens and for operators' verbs, never to begin a token.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the text is empty.
    pub fn existing(token: impl Into<String>) -> Result<Self, InvalidArgument> {
        let token = token.into();
        if token.is_empty() { Err(InvalidKey::Empty { part: "key" }.into()) } else { Ok(Self::stored(token)) }
    }

    /// Puts the key under a tenant, so that no tenant can reach another's tokens.
    ///
    /// Take the tenant from the authoriser, never from the request.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the tenant is empty or contains a character that keys do not allow,
    /// or if the whole key becomes too long.
    pub fn tenant(self, tenant: impl fmt::Display) -> Result<Self, InvalidArgument> {
        let token = format!("{}{}", of_tenant(&tenant.to_string())?, self.token);
        Ok(Self { token: check_length(token)?.into(), scope: self.scope })
    }

    /// The key as it is stored in `lockToken`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.token
    }

    /// The operation this key belongs to, if the key was composed. It labels metrics; the key never
    /// does.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// The first 8 hex digits of the key's SHA-256: enough to find the key in a log, not to read
    /// it.
    #[must_use]
    pub fn digest(&self) -> String {
        digest_of(&self.token)
    }

    /// The key as an idempotent provider accepts it: itself up to 255 bytes, otherwise its SHA-256.
    pub(crate) fn for_provider(&self) -> String {
        const LONGEST: usize = 255;
        if self.token.len() <= LONGEST {
            return self.as_str().to_owned();
        }
        hex::encode(Sha256::digest(self.token.as_bytes()))
    }

    /// A key read from the table, which may have been written by another program.
    pub(crate) fn stored(token: impl Into<Arc<str>>) -> Self {
        Self { token: token.into(), scope: None }
    }

    /// Returns the operation for a label that outlives the key.
    pub(crate) fn shared_scope(&self) -> Option<Arc<str>> {
        self.scope.clone()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}#{})", self.scope.as_deref().unwrap_or_default(), self.digest())
    }
}

/// How the keys of a tenant begin.
pub(crate) fn of_tenant(tenant: &str) -> Result<String, InvalidKey> {
    Ok(format!("@{}/", encode("tenant", tenant)?))
}

pub(crate) fn digest_of(token: &str) -> String {
    let digest = hex::encode(Sha256::digest(token.as_bytes()));
    digest[..8].to_owned()
}

/// A value that can be the key of a token: a [`Key`], a complete key as text, or a scope and an id.
pub trait IntoKey {
    /// Converts the value into a key.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`], under the conditions of [`Key::new`] and [`Key::parse`].
    fn into_key(self) -> Result<Key, InvalidArgument>;
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Ok(self)
    }
}

impl IntoKey for &Key {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Ok(self.clone())
    }
}

impl IntoKey for &str {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Key::parse(self)
    }
}

impl IntoKey for &String {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Key::parse(self)
    }
}

impl IntoKey for String {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Key::parse(self)
    }
}

impl<S: AsRef<str>, I: fmt::Display> IntoKey for (S, I) {
    fn into_key(self) -> Result<Key, InvalidArgument> {
        Key::new(self.0.as_ref(), self.1)
    }
}

/// Why a key was refused. Nothing was sent; correct the key and call again.
///
/// The key itself is never part of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidKey {
    /// A part is empty.
    #[error("the {part} is empty; name what is to be done once, such as order/create/12345")]
    Empty {
        /// `key`, `scope`, `id` or `tenant`.
        part: &'static str,
    },
    /// The whole key has more than [`MAX_KEY_BYTES`] bytes.
    #[error("the key has {bytes} bytes, {MAX_KEY_BYTES} are allowed; use a digest of the long part")]
    TooLong {
        /// Bytes after encoding.
        bytes: usize,
    },
    /// A character that keys do not allow.
    #[error(
        "the {part} has {what} at byte {at}; keys are printable ASCII without spaces, so encode or hash it first"
    )]
    Character {
        /// `key`, `scope`, `id` or `tenant`.
        part: &'static str,
        /// The kind of character found.
        what: &'static str,
        /// Its position, in bytes from 0.
        at: usize,
    },
    /// The scope is not a path such as `order/create`.
    #[error("the scope is not a path such as order/create: {what}")]
    Scope {
        /// The description of the error.
        what: &'static str,
    },
}

fn check_scope(scope: &str) -> Result<(), InvalidKey> {
    if scope.is_empty() {
        return Err(InvalidKey::Empty { part: "scope" });
    }
    check_characters("scope", scope, false)?;
    if scope.starts_with('@') {
        return Err(InvalidKey::Scope { what: "@ at the start marks a tenant" });
    }
    if scope.split('/').any(str::is_empty) {
        return Err(InvalidKey::Scope { what: "it has an empty segment" });
    }
    Ok(())
}

fn check_characters(part: &'static str, text: &str, spaces: bool) -> Result<(), InvalidKey> {
    for (at, character) in text.char_indices() {
        let what = match character {
            ' ' if spaces => continue,
            ' ' => "a space",
            '!'..='~' => continue,
            _ if character.is_control() => "a control character",
            _ => "a character outside ASCII",
        };
        return Err(InvalidKey::Character { part, what, at });
    }
    Ok(())
}

fn check_length(token: String) -> Result<String, InvalidKey> {
    match token.len() {
        bytes if bytes > MAX_KEY_BYTES => Err(InvalidKey::TooLong { bytes }),
        _ => Ok(token),
    }
}

/// Percent-encode the characters that would make two different lists of parts read the same.
fn encode<'a>(part: &'static str, text: &'a str) -> Result<Cow<'a, str>, InvalidKey> {
    if text.is_empty() {
        return Err(InvalidKey::Empty { part });
    }
    check_characters(part, text, true)?;
    if !text.contains(['%', '/', ' ']) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(text.replace('%', "%25").replace('/', "%2F").replace(' ', "%20")))
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composed_key_reads_like_a_path() {
        assert_eq!(Key::new("order/create", 12345).unwrap().as_str(), "order/create/12345");
        let tenant = Key::new("order/create", 12345).unwrap().tenant("acme").unwrap();
        assert_eq!(tenant.as_str(), "@acme/order/create/12345");
        assert_eq!(tenant.scope(), Some("order/create"));
        assert_eq!(tenant.shared_scope().as_deref(), tenant.scope());
        assert_eq!(Key::stored("order/create/12345").shared_scope(), None);
    }

    #[test]
    fn text_cannot_shift_from_one_part_to_another() {
        let left = Key::new("a/b", "c").unwrap();
        let right = Key::new("a", "b/c").unwrap();
        assert_ne!(left, right);
        assert_eq!(right.as_str(), "a/b%2Fc");
        assert_eq!(Key::new("a", "b%2Fc").unwrap().as_str(), "a/b%252Fc");
        assert_eq!(Key::new("a", "b c").unwrap().as_str(), "a/b%20c");
    }

    #[test]
    fn a_tenant_cannot_pose_as_a_scope() {
        let tenant = Key::new("b", "c").unwrap().tenant("a").unwrap();
        assert_eq!(tenant.as_str(), "@a/b/c");
        assert_eq!(
            Key::new("@a/b", "c"),
            Err(InvalidKey::Scope { what: "@ at the start marks a tenant" }.into())
        );
    }

    #[test]
    fn debug_shows_the_scope_and_a_digest_only() {
        let key = Key::new("card/charge", "alice@example.com").unwrap();
        let shown = format!("{key:?}");
        assert!(shown.starts_with("Key(card/charge#"), "{shown}");
        assert!(!shown.contains("alice"), "{shown}");
    }

    #[test]
    fn bad_keys_say_what_to_do() {
        let cases: Vec<(Result<Key, InvalidArgument>, &str)> = vec![
            (Key::parse(""), "the key is empty; name what is to be done once, such as order/create/12345"),
            (
                Key::parse("x".repeat(1025)),
                "the key has 1025 bytes, 1024 are allowed; use a digest of the long part",
            ),
            (
                Key::parse("order 7"),
                "the key has a space at byte 5; keys are printable ASCII without spaces, so encode or hash it first",
            ),
            (
                Key::parse("käse"),
                "the key has a character outside ASCII at byte 1; keys are printable ASCII without spaces, so encode or hash it first",
            ),
            (
                Key::parse("a\nb"),
                "the key has a control character at byte 1; keys are printable ASCII without spaces, so encode or hash it first",
            ),
            (
                Key::new("order", ""),
                "the id is empty; name what is to be done once, such as order/create/12345",
            ),
            (
                Key::new("order//create", 1),
                "the scope is not a path such as order/create: it has an empty segment",
            ),
            (
                Key::new("order", 1).and_then(|key| key.tenant("")),
                "the tenant is empty; name what is to be done once, such as order/create/12345",
            ),
        ];
        for (key, text) in cases {
            assert_eq!(key.unwrap_err().to_string(), text);
        }
        assert!(Key::parse("x".repeat(1024)).is_ok());
    }
    #[test]
    fn each_value_becomes_the_key_that_it_names() {
        let key = Key::new("order/create", 7).unwrap();
        assert_eq!(("order/create", 7).into_key(), Ok(key.clone()));
        assert_eq!(((&key).into_key(), key.clone().into_key()), (Ok(key.clone()), Ok(key)));
        let whole = "order/create/7".to_owned();
        let parsed = Key::parse("order/create/7");
        assert_eq!(((&whole).into_key(), "order/create/7".into_key()), (parsed.clone(), parsed.clone()));
        assert_eq!(whole.into_key(), parsed);
    }

    #[test]
    fn existing_key_may_have_any_text_but_none() {
        assert_eq!(Key::existing("order 7").unwrap().as_str(), "order 7");
        assert_eq!(Key::existing(""), Err(InvalidKey::Empty { part: "key" }.into()));
    }

    #[test]
    fn provider_gets_a_digest_of_a_key_over_255_bytes() {
        let given = |bytes| Key::parse("x".repeat(bytes)).unwrap().for_provider();
        assert_eq!(given(255), "x".repeat(255));
        assert_eq!(given(256), hex::encode(Sha256::digest("x".repeat(256))));
    }

    #[test]
    #[cfg(feature = "http")]
    fn operation_replaces_the_scope_only() {
        let key = Key::new("order", 7).unwrap().operation("create".to_owned());
        assert_eq!((key.as_str(), key.scope()), ("order/7", Some("create")));
    }

    #[test]
    fn digest_has_eight_digits_of_the_sha_256() {
        assert_eq!(Key::parse("order/7").unwrap().digest(), digest_of("order/7"));
        assert_eq!(digest_of("abc"), "ba7816bf");
    }

    #[test]
    fn only_an_id_and_a_tenant_may_have_spaces() {
        assert_eq!(Key::new("a", 1).unwrap().tenant("b c").unwrap().as_str(), "@b%20c/a/1");
        let space = |part| InvalidKey::Character { part, what: "a space", at: 1 };
        assert_eq!(Key::new("a b", 1), Err(space("scope").into()));
        assert_eq!(Key::parse("a b"), Err(space("key").into()));
        let control = InvalidKey::Character { part: "id", what: "a control character", at: 1 };
        assert_eq!(Key::new("a", "b\tc"), Err(control.into()));
        assert_eq!(Key::new("", 1), Err(InvalidKey::Empty { part: "scope" }.into()));
    }
}
