//! Do a thing once on AWS Lambda and DynamoDB: take a lock token, do the work, replay the answer.
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
//! use locker::{Failure, Locker};
//!
//! let locker = Locker::new(&dynamodb, "locks")?;
//! for _ in 0..2 {
//!     let receipt = locker
//!         .token(("card/charge", 12345))
//!         .fingerprint("EUR 10.00")
//!         .run(async |attempt| Ok::<_, Failure>(format!("charged under {}", attempt.idempotency_key())))
//!         .await?;
//!     // The second time round, this is the stored answer, and nothing is charged.
//!     assert_eq!(*receipt, "charged under card/charge/12345");
//! }
//! # Ok(())
//! # });
//! ```
//!
//! # The nouns
//!
//! - A [`Locker`] is a table, a client and [`Settings`]. Make one per process.
//! - A [`Key`] names what is done once; [`Locker::token`] makes a [`Token`] of it, with how to treat it.
//! - [`Token::begin`] tries to take it and says what it [`Begun`]; [`Token::run`] does the whole thing.
//! - A [`Lock`] is a token that is held. Its verbs end it, and take it, so that ending twice does not compile.
//! - A [`Record`] is a token as stored; [`Locker::overdue`] and its siblings list what is unfinished.
//! - [`Locker::resolve`] and [`Locker::release`] are for people, with a reason.
//!
//! # Every outcome is a value
//!
//! An [`Error`] means that the question was not answered; what can be branched on is a value.
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
//! use locker::{Begun, Locker};
//!
//! let locker = Locker::new(&dynamodb, "locks")?;
//! let answer: u32 = match locker.token("answer/everything").begin().await? {
//!     Begun::Acquired(lock) => {
//!         let answer = 42;
//!         lock.complete(&answer).await?;
//!         answer
//!     }
//!     Begun::Completed(replay) => replay.result()?,
//!     Begun::Failed(failure) => return Err(failure.json().into()),
//!     Begun::InProgress(holder) => return Err(format!("ask again in {:?}", holder.retry_after()).into()),
//!     Begun::Mismatch(_) => return Err("the key was used for another request".into()),
//! };
//! assert_eq!(answer, 42);
//! # Ok(())
//! # });
//! ```
//!
//! # What a failure means
//!
//! Only the work knows what its failure means, so it says so: by implementing [`Classify`] on its
//! error, or by wrapping it in a [`Failure`]. If in doubt, say in doubt.
//!
//! | class | what happened | what becomes of the token |
//! |---|---|---|
//! | [`Class::Transient`] | nothing | released; somebody may try again |
//! | [`Class::Permanent`] | it failed for good | completed, with the failure as its answer |
//! | [`Class::NeedsPerson`] | it failed, and somebody has to look | `status` becomes `error`, and stays |
//! | [`Class::InDoubt`] | nobody knows | stays in progress, and is listed once it is due |
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
//! use locker::{Failure, Locker, RunError};
//!
//! let locker = Locker::new(&dynamodb, "locks")?;
//! for _ in 0..2 {
//!     let declined = locker.token("card/7").run(async |_| Err::<(), _>(Failure::permanent("declined".to_owned())));
//!     let Err(RunError::Failed { error, .. }) = declined.await else { panic!("it was declined") };
//!     assert_eq!(error.error, "declined"); // the second time from the table
//! }
//! # Ok(())
//! # });
//! ```
//!
//! # When the owner is gone
//!
//! By default nobody takes a token over: what is overdue is listed, and a person decides. A caller may
//! choose otherwise, best by asking whoever knows:
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
//! use std::time::Duration;
//! use locker::{Locker, Probed};
//!
//! let locker = Locker::new(&dynamodb, "locks")?;
//! let token = locker.token("transfer/9").take_over_if(Duration::from_secs(60), |record| async move {
//!     // Ask the provider whether it has seen this attempt. Nobody knows? Then it is not safe.
//!     let seen = record.attempt().is_none();
//!     Ok(if seen { Probed::Unsafe } else { Probed::Safe })
//! });
//! # let _ = token;
//!
//! let overdue = locker.overdue().fetch().await?;
//! assert!(overdue.is_complete() && overdue.tokens.is_empty());
//! # Ok(())
//! # });
//! ```
//!
//! # Several things, once each
//!
//! [`workflow`] does several such things in a row, on a table of its own: resumed where it was left, undone, or put in
//! front of a person.
//!
//! # In a Lambda function
//!
//! Make the client with [`client::lambda`] and the locker once, outside the handler. Give each call the
//! invocation's deadline ([`Token::deadline`]) and request id ([`Token::owner`]). Await the end before
//! you reply: after the reply the environment is frozen, and a write on its way lands minutes later or
//! never.
//!
//! # Crash windows
//!
//! - Between begin and the end: the token stays in progress; nobody repeats the work; it is listed.
//! - Between the work and its end: the same, and the log knows the outcome, since that is logged first.
//! - A begin that ended in [`Error::Unknown`] may hold the token without anybody working: it is listed.
//!
//! # Features
//!
//! - `client` (default): [`client`], an SDK client as a Lambda function should have it.
//! - `http`: `http`, a tower layer from `Idempotency-Key` to token to response.
//!
//! # Does not support
//!
//! Mutual exclusion (use a lease), several tokens at once, global tables of eventual consistency, answers
//! beyond 400 KB compressed.

pub mod history;
pub mod metrics;
pub mod workflow;

#[cfg(feature = "client")]
pub mod client;

#[cfg(feature = "http")]
pub mod http;

mod clock;
mod core;
#[cfg(test)]
mod corpus;
mod error;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod mutants;
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
    Answer, Attempt, Begun, Builder, Class, Classify, Count, EndError, Failure, Holder, Listed, Listing,
    Lock, Locker, Origin, Person, Place, Probed, Replay, RunError, Scan, Scanned, StoredFailure, Summary,
    Token,
};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The guide's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/workflows.md")]
struct Guide;
