//! Fingerprints: a repeated key must come with the same request.

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::answer::{AnswerError, to_json};
use super::canonical::comparable;
use super::private::Private;
use super::token::record::StoredFingerprint;
use crate::core::argument::InvalidArgument;

const PLAIN: &str = "sha256";
const KEYED: &str = "hmac-sha256";

/// Identifies a request: the SHA-256 of its bytes or of its canonical JSON.
///
/// Only a digest is kept. With a [`FingerprintKey`] the stored digest is an HMAC, so that a reader
/// of the table cannot guess a request that has few possible values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint(Private<[u8; 32]>);

impl Fingerprint {
    /// The fingerprint of these bytes, unchanged.
    pub(crate) fn of_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(Private(Sha256::digest(bytes.as_ref()).into()))
    }

    /// The fingerprint of a value's [canonical JSON](canonical).
    ///
    /// # Errors
    ///
    /// [`AnswerError::Encode`] if JSON would change the value, because two different requests could
    /// then have the same fingerprint.
    pub(crate) fn of_json<T: Serialize + ?Sized>(value: &T) -> Result<Self, AnswerError> {
        Ok(Self::of_json_text(&to_json(value)?))
    }

    /// The fingerprint of a JSON text: of its canonical form, or of its bytes if it has none.
    pub(crate) fn of_json_text(json: &str) -> Self {
        Self::of_bytes(comparable(json).as_bytes())
    }

    /// The form in which it is stored.
    pub(crate) fn stored(&self, keys: &[FingerprintKey]) -> StoredFingerprint {
        match keys.first() {
            Some(key) => StoredFingerprint {
                text: format!("{KEYED}:{}:{}", key.id, hex::encode(key.sign(&self.0))),
                check: Some(key.check()),
            },
            None => StoredFingerprint { text: format!("{PLAIN}:{}", hex::encode(*self.0)), check: None },
        }
    }

    /// Whether a stored fingerprint was made from this request.
    pub(crate) fn matches(
        &self,
        stored: &StoredFingerprint,
        keys: &[FingerprintKey],
    ) -> Result<bool, UnreadableFingerprint> {
        let (expected, digest) = match stored.text.split_once(':') {
            Some((PLAIN, digest)) => (*self.0, digest),
            Some((KEYED, rest)) => {
                let (id, digest) = rest.split_once(':').ok_or(UnreadableFingerprint::Form)?;
                let key = keys.iter().find(|key| key.id == id);
                let key = key.ok_or_else(|| UnreadableFingerprint::Key { id: id.to_owned() })?;
                if stored.check.as_ref().is_some_and(|check| *check != key.check()) {
                    return Err(UnreadableFingerprint::Replaced { id: id.to_owned() });
                }
                (key.sign(&self.0), digest)
            }
            _ => return Err(UnreadableFingerprint::Form),
        };
        let digest = hex::decode(digest).map_err(|_| UnreadableFingerprint::Form)?;
        Ok(bool::from(expected.as_slice().ct_eq(&digest)))
    }
}

/// A secret for fingerprints, and the name that is stored with them.
///
/// The name lets you rotate keys without turning replays into mismatches: put the new key first and
/// keep the old ones after it.
#[derive(Debug, Clone)]
pub struct FingerprintKey {
    id: String,
    secret: Private<Vec<u8>>,
}

impl FingerprintKey {
    /// Creates a key with this name. Use at least 32 random bytes as the secret.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the name is empty or contains other characters than letters, digits,
    /// `-` and `_`, or if the secret has fewer than 16 bytes.
    pub fn new(id: impl Into<String>, secret: impl Into<Vec<u8>>) -> Result<Self, InvalidArgument> {
        let (id, secret) = (id.into(), secret.into());
        let readable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if id.is_empty() || !id.bytes().all(readable) {
            return Err(InvalidFingerprintKey::Name.into());
        }
        if secret.len() < 16 {
            return Err(InvalidFingerprintKey::Secret { bytes: secret.len() }.into());
        }
        Ok(Self { id, secret: Private(secret) })
    }

    /// Identifies the secret: without it, a secret that was replaced under its old name would turn
    /// every replay into a mismatch, whose advice is to do the work under a new key.
    fn check(&self) -> String {
        let label = Sha256::digest(b"the secret of a fingerprint key").into();
        hex::encode(&self.sign(&label)[..4])
    }

    fn sign(&self, digest: &[u8; 32]) -> [u8; 32] {
        // HMAC takes a key of any length, so the error cannot occur.
        Hmac::<Sha256>::new_from_slice(&self.secret)
            .map_or([0; 32], |mac| mac.chain_update(digest).finalize().into_bytes().into())
    }
}

/// Why a fingerprint key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidFingerprintKey {
    /// The name is empty or has a character that is not allowed. It is stored with every
    /// fingerprint, between colons.
    #[error("the name of a fingerprint key must be letters, digits, - and _, and not empty")]
    Name,
    /// The secret is so short that it could be guessed.
    #[error("the secret of a fingerprint key has {bytes} bytes; use 32 random bytes, at least 16")]
    Secret {
        /// Bytes given.
        bytes: usize,
    },
}

/// Why a stored fingerprint could not be compared, so that it is unknown whether the request is the
/// same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableFingerprint {
    /// It was made with a key that this locker was not given.
    #[error(
        "the stored fingerprint was made with the key {id}, which this locker does not have; add it after the current one"
    )]
    Key {
        /// The stored name of the key.
        id: String,
    },
    /// It was made with another secret under the same name.
    #[error(
        "the stored fingerprint was made with another secret under the name {id}; give the new secret a new name, and add the old one after it"
    )]
    Replaced {
        /// The name of the key.
        id: String,
    },
    /// It does not have a format that this version reads.
    #[error("the stored fingerprint has a format that this version does not read")]
    Form,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn key(id: &str) -> FingerprintKey {
        FingerprintKey::new(id, vec![7; 32]).unwrap()
    }

    #[test]
    fn the_order_of_fields_does_not_matter_and_values_do() {
        let one: Value = serde_json::from_str(r#"{"b":[1,{"y":2,"x":1}],"a":null}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"a":null,"b":[1,{"x":1,"y":2}]}"#).unwrap();
        assert_eq!(Fingerprint::of_json(&one).unwrap(), Fingerprint::of_json(&two).unwrap());
        assert_ne!(Fingerprint::of_json(&one).unwrap(), Fingerprint::of_json(&json!({})).unwrap());
    }

    #[test]
    fn large_numbers_that_are_equal_as_doubles_differ() {
        let one = Fingerprint::of_json(&9_007_199_254_740_992_u64).unwrap();
        let two = Fingerprint::of_json(&9_007_199_254_740_993_u64).unwrap();
        assert_ne!(one, two);
    }

    #[test]
    fn numbers_beyond_64_bits_differ() {
        let print = |number: u128| Fingerprint::of_json(&number).unwrap();
        assert_ne!(print(u128::MAX), print(u128::MAX - 1));
        assert_eq!(print(u128::MAX), print(u128::MAX));
    }

    #[test]
    fn request_with_a_number_that_json_does_not_have_is_refused() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Fingerprint::of_json(&json_of(Some(odd))).is_err(), "{odd}");
        }
        assert!(Fingerprint::of_json(&json_of(None)).is_ok());
    }

    fn json_of(amount: Option<f64>) -> impl Serialize {
        std::collections::BTreeMap::from([("amount", amount)])
    }

    #[test]
    fn text_with_a_name_twice_is_compared_by_its_bytes() {
        let print = Fingerprint::of_json_text;
        assert_ne!(print(r#"{"to":"eve","to":"bob"}"#), print(r#"{"to":"bob"}"#));
        assert_eq!(print(r#"{"a":1,"a":1}"#), Fingerprint::of_bytes(r#"{"a":1,"a":1}"#));
        assert_eq!(print(r#"{ "b":1, "a":2 }"#), print(r#"{"a":2,"b":1}"#));
    }

    #[test]
    fn the_stored_form_is_pinned() {
        let stored = Fingerprint::of_json(&json!({"a": 1})).unwrap().stored(&[]);
        assert_eq!(stored.check, None);
        assert_eq!(stored.text, "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862");
    }

    #[test]
    fn name_and_secret_of_a_key_are_checked() {
        let refusal = |id: &str, bytes: usize| FingerprintKey::new(id, vec![7_u8; bytes]).err();
        for id in ["2026", "k-1", "k_1"] {
            assert_eq!(refusal(id, 16), None, "{id}");
        }
        for id in ["", "k:1", "k 1", "ä"] {
            assert_eq!(refusal(id, 16), Some(InvalidFingerprintKey::Name.into()), "{id}");
        }
        assert_eq!(refusal("k1", 15), Some(InvalidFingerprintKey::Secret { bytes: 15 }.into()));
    }

    #[test]
    fn a_keyed_fingerprint_matches_under_its_key_only() {
        let print = Fingerprint::of_bytes("request");
        let stored = print.stored(&[key("k1")]);
        assert!(stored.text.starts_with("hmac-sha256:k1:"), "{}", stored.text);
        assert_eq!(print.matches(&stored, &[key("k2"), key("k1")]), Ok(true));
        assert_eq!(Fingerprint::of_bytes("other").matches(&stored, &[key("k1")]), Ok(false));
        let missing = UnreadableFingerprint::Key { id: "k1".into() };
        assert_eq!(print.matches(&stored, &[key("k2")]), Err(missing));
    }

    #[test]
    fn a_secret_replaced_under_its_old_name_is_no_mismatch() {
        let print = Fingerprint::of_bytes("request");
        let stored = print.stored(&[FingerprintKey::new("k1", vec![8; 32]).unwrap()]);
        let replaced = UnreadableFingerprint::Replaced { id: "k1".into() };
        assert_eq!(print.matches(&stored, &[key("k1")]), Err(replaced));
        let before_the_check = StoredFingerprint { check: None, ..stored };
        assert_eq!(print.matches(&before_the_check, &[key("k1")]), Ok(false));
    }

    #[test]
    fn a_fingerprint_from_before_the_key_still_matches() {
        let print = Fingerprint::of_bytes("request");
        assert_eq!(print.matches(&print.stored(&[]), &[key("k1")]), Ok(true));
    }

    #[test]
    fn other_forms_are_not_compared() {
        for stored in ["", "md5:00", "sha256:xyz", "hmac-sha256:k1", "00ff"] {
            let verdict = Fingerprint::of_bytes("").matches(&StoredFingerprint::unchecked(stored), &[]);
            assert!(verdict.is_err(), "{stored}: {verdict:?}");
        }
    }
}
