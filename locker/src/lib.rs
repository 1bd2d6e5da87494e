//! Do a thing once on AWS Lambda and DynamoDB: take a lock token, do the work, replay the answer.

pub mod metrics;

#[cfg(feature = "client")]
pub mod client;

mod clock;
mod core;
mod error;
mod settings;
mod store;
mod token;

pub use clock::{Clock, Ids, RandomIds, SystemClock};
pub use core::answer::AnswerError;
pub use core::fingerprint::{Fingerprint, FingerprintKey, InvalidFingerprintKey, UnreadableFingerprint};
pub use core::key::{IntoKey, InvalidKey, Key, MAX_KEY_BYTES};
pub use core::record::{Intervention, Record, State};
pub use error::{BoxError, Error};
pub use settings::{InvalidSetting, KeysInLogs, Retention, Settings};
pub use store::{InvalidRecord, TableCheck, check_table, create_table};
pub use token::{
    Answer, Attempt, Begun, Builder, Class, Classify, EndError, Failure, Holder, Listed, Listing, Lock,
    Locker, Origin, Person, Place, Probed, Replay, RunError, StoredFailure, Summary, Token,
};
