//! Once-only execution on AWS Lambda and DynamoDB: acquire a lock token, do the work, replay the
//! answer.
//!
//! ```
//! use locker::{Failure, Locker};
//!
//! async fn charge(key: String) -> Result<String, Failure> {
//!     Ok(format!("charged under {key}"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), locker::BoxError> {
//!     // From the package `lock-token-testing`; on AWS Lambda, `locker::client::lambda()?`.
//!     let dynamodb = lock_token_testing::Embedded::memory()?.client();
//!     locker::create_table(&dynamodb, "locks").await?;
//!     let locker = Locker::new(&dynamodb, "locks")?;
//!     for _ in 0..2 {
//!         let receipt = locker
//!             .token(("card/charge", 12345))
//!             .fingerprint("EUR 10.00")
//!             .run(async |attempt| charge(attempt.idempotency_key()).await)
//!             .await?;
//!         // The second call returns the stored answer and charges nothing.
//!         assert_eq!(*receipt, "charged under card/charge/12345");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The other examples of this page are the body of the same `main`, with this `dynamodb` and
//! `locker`. The table on AWS is made by your template; [`create_table`] is for tests and local
//! use. The directory `examples` of the repository has whole programs.
//!
//! # Main types
//!
//! - A [`Locker`] combines a table, a client and [`Settings`]. Create one per process.
//! - A [`Key`] identifies the work. [`Locker::token`] creates a [`BeginBuilder`] from it, which
//!   takes the options.
//! - [`BeginBuilder::begin`] tries to acquire the token and returns a [`Begun`];
//!   [`BeginBuilder::run`] begins, does the work and ends.
//! - A [`Lock`] is an acquired token. Its verbs end it and consume it, so ending it twice does not
//!   compile.
//! - A [`Record`] is a token as stored; [`Locker::overdue`] and its siblings list unfinished
//!   tokens.
//! - [`Locker::resolve`] and [`Locker::release`] are for operators, who give a reason.
//!
//! # Every outcome is a value
//!
//! Outcomes that you branch on are values; an [`Error`] means that there is no outcome.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), locker::BoxError> {
//! # let dynamodb = lock_token_testing::Embedded::memory()?.client();
//! # locker::create_table(&dynamodb, "locks").await?;
//! use locker::{Begun, Locker};
//!
//! # let locker = Locker::new(&dynamodb, "locks")?;
//! let answer: u32 = match locker.token("answer/everything").begin().await? {
//!     Begun::Acquired(lock) => {
//!         let answer = 42;
//!         lock.complete(&answer).await?;
//!         answer
//!     }
//!     Begun::Completed(replay) => replay.result()?,
//!     Begun::Failed(failure) | Begun::Held(failure) => return Err(failure.json().into()),
//!     Begun::InProgress(holder) => return Err(format!("ask again in {:?}", holder.retry_after()).into()),
//!     Begun::Mismatch(_) => return Err("the key was used for another request".into()),
//!     Begun::Restored(_) => return Err("the table was restored; an operator decides".into()),
//! };
//! assert_eq!(answer, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Classes of failures
//!
//! Only your code can classify a failure of the work. Implement [`Classify`] for your error type,
//! or wrap the error in a [`Failure`]. If you cannot be sure that nothing happened, use
//! [`Class::InDoubt`].
//!
//! | class | the work | the token |
//! |---|---|---|
//! | [`Class::Transient`] | nothing | released; another caller may try again |
//! | [`Class::Permanent`] | the work failed permanently | ended, with the failure as its answer |
//! | [`Class::NeedsOperator`] | the work failed; an operator has to act | held: `status` becomes `error` |
//! | [`Class::InDoubt`] | unknown | stays in progress, and is listed at once with its cause |
//!
//! After a takeover, [`Class`] describes what differs: the earlier attempt may have done the work.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), locker::BoxError> {
//! # let dynamodb = lock_token_testing::Embedded::memory()?.client();
//! # locker::create_table(&dynamodb, "locks").await?;
//! use locker::{Failure, Locker, RunError};
//!
//! # let locker = Locker::new(&dynamodb, "locks")?;
//! for _ in 0..2 {
//!     let declined = locker.token("card/7").run(async |_| Err::<(), _>(Failure::permanent("declined".to_owned())));
//!     let Err(RunError::Failed { error, .. }) = declined.await else { panic!("it was declined") };
//!     assert_eq!(error.error, "declined"); // the second time, from the table
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # When the owner dies
//!
//! By default no caller takes over an overdue token: it is listed, and an operator decides. A
//! caller may choose to take over, preferably after asking the provider:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), locker::BoxError> {
//! # let dynamodb = lock_token_testing::Embedded::memory()?.client();
//! # locker::create_table(&dynamodb, "locks").await?;
//! use std::time::Duration;
//! use locker::{Locker, Probed};
//!
//! # let locker = Locker::new(&dynamodb, "locks")?;
//! let token = locker.token("transfer/9").take_over_if(Duration::from_secs(60), |record| async move {
//!     // Requests to this provider expire after 30 seconds, so the first one can no longer arrive.
//!     // Without that, "unknown to the provider" would be `Unsafe`.
//!     Ok(if knows(&record.idempotency_key()).await? { Probed::Unsafe } else { Probed::Safe })
//! });
//! # let _ = token;
//! # async fn knows(key: &str) -> Result<bool, locker::BoxError> { Ok(key == "transfer/8") }
//!
//! let overdue = locker.overdue().fetch().await?;
//! assert!(overdue.is_complete() && overdue.items.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # Workflows
//!
//! A [`workflow`] runs several once-only steps and records them in a separate table. It is resumed
//! where it stopped, compensated, or quarantined for an operator.
//!
//! # In a Lambda function
//!
//! Create the client with [`client::lambda`] and the locker once, outside the handler, and
//! [`connect`](Locker::connect) before the first event. Give each call the invocation's deadline
//! ([`BeginBuilder::deadline`]; the feature `lambda` has one) and request id
//! ([`BeginBuilder::owner`]). Await the verb that ends the token before you reply: AWS Lambda
//! freezes the environment after the reply, and a write in flight arrives minutes later or never.
//!
//! # Crash windows
//!
//! The state after the process dies:
//!
//! - Between begin and end: the token stays in progress, no caller repeats the work unless it chose
//!   to take over, and the token is listed once it is overdue.
//! - While the end is being written: the same, and the log has the outcome, which is logged first.
//!
//! A begin that returned [`Error::Unknown`] may have acquired the token although no process does
//! the work. The token is listed once it is overdue.
//!
//! # Features
//!
//! Without features, the crate contains tokens and the scanner. Each feature adds a module:
//!
//! - `client` (default): [`client`], an SDK client suited to a Lambda function.
//! - `workflow`: [`workflow`], several steps in a row, and the messages that they commit.
//! - `messages` (implies `workflow`): [`relay`], [`inbox`] and [`dead_letters`].
//! - `operator`: [`operator`], the console over tokens, workflows and messages.
//! - `http`: [`http`], a tower layer that handles `Idempotency-Key` with lock tokens.
//! - `axum` (implies `http`): the full path of nested routes, and 404 where no route matched.
//! - `lambda`: [`lambda`], deadlines and the scheduled functions; with `messages`, batches of SQS.
//! - `sqs`, `sns`, `eventbridge`, `s3` (each implies `messages`): [`aws`], targets and large
//!   bodies.
//!
//! `operator`, `http` and `lambda` cover the parts that are enabled.
//!
//! # Not supported
//!
//! - Mutual exclusion; use a lease.
//! - Several tokens acquired at once.
//! - Global tables with eventual consistency.
//! - Answers larger than 400 KB after compression.

#[cfg(any(feature = "eventbridge", feature = "s3", feature = "sns", feature = "sqs"))]
pub mod aws;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "messages")]
pub mod dead_letters;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "messages")]
pub mod inbox;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "workflow")]
pub mod message;
pub mod metrics;
#[cfg(feature = "operator")]
pub mod operator;
#[cfg(feature = "messages")]
pub mod relay;
#[cfg(feature = "workflow")]
pub mod workflow;

mod clock;
mod core;
#[cfg(test)]
mod corpus;
mod error;
mod failure;
mod session;
mod settings;
mod store;
mod token;

/// The SDK whose types this crate takes: its client, and the actions of [`workflow::Flow::atomic`].
pub use aws_sdk_dynamodb;
pub use clock::{Clock, Ids, SystemClock};
pub use core::answer::AnswerError;
pub use core::argument::InvalidArgument;
pub use core::class::Class;
pub use core::fingerprint::FingerprintKey;
pub use core::form::Form;
pub use core::key::{IntoKey, Key};
pub use core::retention::Retention;
pub use core::token::record::{Intervention, Record, TokenState};
pub use core::token::resolution::Resolution;
pub use core::token::work::Work;
pub use error::{BoxError, Error};
pub use failure::{Classify, Failure, OfClass};
pub use session::listing::{Count, Cursor, ListBuilder, Listed, Page};
pub use session::{AuditRecord, Intervened, Operator, RunReport};
pub use settings::{KeysInLogs, Settings};
pub use store::{TableCheck, check_table, create_table};
pub use token::{
    Answer, Attempt, BeginBuilder, Begun, EndError, Holder, Lock, Locker, LockerBuilder, Origin, Probed,
    Replay, RunError, ScanReport, Scanner, StoredFailure, TokenSummary,
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the example of the first chapter.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/getting-started.md")]
struct GettingStarted;

/// Compiles the examples of the chapter on tokens.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/tokens.md")]
struct Tokens;

/// Compiles the examples of the chapter on workflows.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/workflows.md")]
struct WorkflowChapter;

/// Compiles the examples of the chapter on waiting and fan-out.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/waiting.md")]
struct WaitingChapter;

/// Compiles the examples of the chapter on messages.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/messages.md")]
struct MessageChapter;

/// Compiles the examples of the chapter about events.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/events.md")]
struct Events;

/// Compiles the examples of the guide to the HTTP layer.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/http.md")]
struct Http;

/// Compiles the example of the chapter on a move from another library.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/migrating.md")]
struct Migrating;

/// Compiles the example of the chapter on a restored table.
#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../docs/book/src/restoring.md")]
struct Restoring;

/// Compiles the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
