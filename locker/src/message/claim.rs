//! A claim check: a large body is kept in an object store, and the message carries a claim on it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::core::answer;
use crate::error::BoxError;
use crate::failure::Failure;

/// A store of large bodies, by key. `aws::Bucket`, with the feature `s3`, implements it. Implement
/// it for your own store.
pub trait Bodies: Send + Sync {
    /// Stores a body under this key. The key is the hash of the body, so an existing entry is the
    /// same. Write it again nevertheless if your store deletes entries by their age, so that its
    /// age starts again.
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// The body under this key. `None`: there is none.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Vec<u8>>, BoxError>> + Send;
}

/// The reference that a message contains in place of a large body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The SHA-256 of the body's JSON, in hexadecimal digits. It is also the end of the body's key.
    sha256: String,
    bytes: u64,
}

impl Claim {
    /// The size of the body, in bytes of JSON.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Stores bodies that are too large for a message, and checks them when it fetches them.
///
/// A message has at most [`MAX_BODY_BYTES`](super::MAX_BODY_BYTES). Store a larger body **before**
/// you commit the message; the receiver fetches it:
///
/// ```
/// # use std::collections::HashMap;
/// # use std::sync::Mutex;
/// # use locker::BoxError;
/// use locker::message::{Bodies, Claim, ClaimCheck};
///
/// /// Instead of `locker::aws::Bucket`.
/// #[derive(Default)]
/// struct InMemory(Mutex<HashMap<String, Vec<u8>>>);
///
/// impl Bodies for InMemory {
///     async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), BoxError> {
///         self.0.lock().map_err(|error| error.to_string())?.insert(key.to_owned(), body);
///         Ok(())
///     }
///
///     async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
///         Ok(self.0.lock().map_err(|error| error.to_string())?.get(key).cloned())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), BoxError> {
/// let bodies = ClaimCheck::new(InMemory::default());
/// let report = vec![7; 500_000];
/// let claim: Claim = bodies.store(&report).await?;
/// // In a step: `flow.atomic("tell").message("report/made", &claim)`. The receiver has the claim by `Incoming::data`.
/// let fetched: Vec<u32> = bodies.fetch(&claim).await?;
/// assert_eq!(fetched, report);
/// # Ok(()) }
/// ```
///
/// The key of a body is the hash of its content. So a step that runs again stores the same body
/// under the same key, and a changed body is detected. A forged claim can only reach bodies that
/// were stored in this way.
///
/// # Crash window
///
/// A process that dies after it stored a body and before it committed the message leaves a body
/// without a reference. Let a rule of the store delete bodies by their age, later than any message
/// can wait. That is its delay (up to 366 days), 72 hours of attempts to send it, the time in its
/// queue, and the time that it is dead until an operator acts, which has no limit. If you delay no
/// message and decide about dead ones within a month, use a lifecycle rule of Amazon S3 for the
/// prefix that expires objects after 60 days.
///
/// Source: G. Hohpe, B. Woolf, *Enterprise Integration Patterns*, "Claim Check".
#[derive(Debug, Clone)]
pub struct ClaimCheck<B> {
    bodies: B,
    prefix: String,
}

impl<B: Bodies> ClaimCheck<B> {
    /// Bodies in this store, whose keys begin with `bodies/`.
    pub fn new(bodies: B) -> Self {
        Self { bodies, prefix: "bodies/".to_owned() }
    }

    /// What keys begin with.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Keeps a body, as JSON, which is in memory as a whole.
    ///
    /// # Errors
    ///
    /// Permanent if it cannot be written as JSON; transient, with the code `claim.store`, if the
    /// store fails. Storing it again is harmless.
    ///
    /// # Cost
    ///
    /// 1 put of the store.
    pub async fn store(&self, body: &impl Serialize) -> Result<Claim, Failure> {
        let json = answer::to_json(body)
            .map_err(|error| Failure::permanent(format!("the body cannot be stored: {error}")))?;
        let claim = Claim { sha256: hex::encode(Sha256::digest(json.as_bytes())), bytes: json.len() as u64 };
        let put = self.bodies.put(&self.key(&claim), json.into_bytes()).await;
        put.map_err(|error| {
            Failure::transient(format!("the body of the message could not be stored: {error}"))
                .code("claim.store")
        })?;
        Ok(claim)
    }

    /// Fetches a body, and checks that it is the stored body.
    ///
    /// # Errors
    ///
    /// Transient, with the code `claim.fetch`, if the store fails. It needs an operator if there is
    /// no such body (`claim.absent`) or it was changed (`claim.changed`). Permanent if the claim is
    /// not valid (`claim.invalid`), or the body is of another type.
    ///
    /// # Cost
    ///
    /// 1 get of the store.
    pub async fn fetch<T: DeserializeOwned>(&self, claim: &Claim) -> Result<T, Failure> {
        let is_digest = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if claim.sha256.len() != 64 || !claim.sha256.bytes().all(is_digest) {
            return Err(
                Failure::permanent("the message has no claim on a body".to_owned()).code("claim.invalid")
            );
        }
        let key = self.key(claim);
        let body = self.bodies.get(&key).await.map_err(|error| {
            Failure::transient(format!("the body of the message could not be fetched: {error}"))
                .code("claim.fetch")
        })?;
        let Some(body) = body else {
            let error = format!("there is no {key}: it expired, or this is another store than its sender's");
            return Err(Failure::needs_operator(error).code("claim.absent"));
        };
        if body.len() as u64 != claim.bytes || hex::encode(Sha256::digest(&body)) != claim.sha256 {
            let error = format!("{key} is not what was stored there");
            return Err(Failure::needs_operator(error).code("claim.changed"));
        }
        serde_json::from_slice(&body).map_err(|error| {
            Failure::permanent(format!("the body of the message is of another type: {error}"))
        })
    }

    fn key(&self, claim: &Claim) -> String {
        format!("{}{}", self.prefix, claim.sha256)
    }
}
