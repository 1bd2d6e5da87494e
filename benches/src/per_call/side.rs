//! The sides that are compared, and their operations.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use locker::{Failure, Form, Locker};
use locker_benches::answer::{self, Answer, to_json};
use locker_benches::bare::{self, Bare};
use locker_benches::canned::{LARGE, SMALL};

use crate::server::Server;

/// The length of a session token of a function's role.
const SESSION_TOKEN: usize = 700;
/// Long, so that a loaded machine does not stop the bench.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);
pub(crate) const OWNER: &str = "order_update/2026/11/21/[$LATEST]0123";

/// An operation to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `begin`, then `complete`.
    Pair,
    /// The same through `run`.
    Run,
    Replay,
    Conflict,
}

/// The size of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Operation {
    pub(crate) const ALL: [(Self, Size); 6] = [
        (Self::Pair, Size::Small),
        (Self::Run, Size::Small),
        (Self::Replay, Size::Small),
        (Self::Conflict, Size::Small),
        (Self::Pair, Size::Large),
        (Self::Replay, Size::Large),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pair => "begin, complete",
            Self::Run => "run",
            Self::Replay => "replay",
            Self::Conflict => "in progress",
        }
    }
}

impl Size {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Small => "200 B",
            Self::Large => "100 KB",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Small => SMALL,
            Self::Large => LARGE,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The library.
    Locker,
    /// The SDK, making the same requests.
    Bare,
    /// The SDK with its default settings, making the same requests.
    Defaults,
    /// The SDK, with a large answer uncompressed in the token, which saves one request.
    Raw,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Locker => "Locker",
            Self::Bare => "bare SDK",
            Self::Defaults => "bare SDK, its default settings",
            Self::Raw => "bare SDK, uncompressed in the token",
        }
    }
}

/// One of the sides that are compared.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) kind: Kind,
    size: Size,
    answer: Answer,
    locker: Locker,
    bare: Bare,
}

impl Side {
    /// All sides for a size, the library first.
    pub(crate) fn of(server: &Server, size: Size) -> Vec<Self> {
        let kinds: &[Kind] = match size {
            Size::Small => &[Kind::Locker, Kind::Bare, Kind::Defaults],
            Size::Large => &[Kind::Locker, Kind::Bare, Kind::Raw],
        };
        kinds.iter().map(|kind| Self::new(*kind, size, server)).collect()
    }

    fn new(kind: Kind, size: Size, server: &Server) -> Self {
        let token = Some("t".repeat(SESSION_TOKEN));
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", token, None, "bench");
        let (endpoint, region) = (Some(server.endpoint()), "eu-west-1".to_owned());
        let client = match kind {
            Kind::Defaults => Client::from_conf(bare::defaults(endpoint, region, credentials).build()),
            _ => bare::as_locker(bare::defaults(endpoint, region, credentials), LONGEST),
        };
        let mut settings = locker::Settings::default();
        OWNER.clone_into(&mut settings.owner);
        (settings.attempt_timeout, settings.give_up_after) = (LONGEST, LONGEST);
        let locker = Locker::builder(&client, "locks").settings(settings).build().expect("a locker");
        Self {
            kind,
            size,
            answer: answer::of_size(size.bytes()),
            locker,
            bare: Bare::new(client, "locks", OWNER),
        }
    }

    /// Performs the operation once.
    pub(crate) async fn perform(&self, operation: Operation, number: u64) {
        let scope = match (operation, self.size, self.kind) {
            (Operation::Pair | Operation::Run, ..) => "first",
            (Operation::Conflict, ..) => "conflict",
            (Operation::Replay, Size::Small, _) => "replay",
            (Operation::Replay, Size::Large, Kind::Raw) => "replay-raw",
            (Operation::Replay, Size::Large, _) => "replay-large",
        };
        // Numbers have one width, so that the bytes sent can be compared.
        let number = 100_000_000 + number;
        match self.kind {
            Kind::Locker => self.by_locker(operation, scope, number).await,
            _ => self.by_hand(operation, format!("{scope}/{number}")).await,
        }
    }

    async fn by_locker(&self, operation: Operation, scope: &str, number: u64) {
        use locker::Begun;
        let token = self.locker.token((scope, number)).form(Form::of::<Answer>());
        if operation == Operation::Run {
            let work = async |_| Ok::<_, Failure>(self.answer.clone());
            assert_eq!(*token.run(work).await.expect("an answer"), self.answer);
            return;
        }
        match (operation, token.begin().await.expect("an answer")) {
            (Operation::Pair, Begun::Acquired(lock)) => lock.complete(&self.answer).await.expect("stored"),
            (Operation::Replay, Begun::Completed(replay)) => {
                assert_eq!(replay.result::<Answer>().expect("an answer"), self.answer);
            }
            (Operation::Conflict, Begun::InProgress(holder)) => {
                std::hint::black_box(holder.due());
            }
            (_, other) => panic!("not what the server has: {other:?}"),
        }
    }

    async fn by_hand(&self, operation: Operation, key: String) {
        use bare::Begun;
        // `run` returns the answer of its work, which costs a copy here.
        let copy = (operation == Operation::Run).then(|| self.answer.clone());
        match (operation, self.bare.begin(key.clone()).await) {
            (Operation::Pair | Operation::Run, Begun::Acquired(attempt)) => {
                let json = to_json(&self.answer);
                match (self.size, self.kind) {
                    (Size::Large, Kind::Bare) => self.bare.complete_beside(key, attempt, &json).await,
                    _ => self.bare.complete(key, attempt, json).await,
                }
                std::hint::black_box(copy);
            }
            (Operation::Replay, Begun::Completed(json)) => {
                let answer: Answer = serde_json::from_str(&json).expect("an answer");
                assert_eq!(answer, self.answer);
            }
            (Operation::Conflict, Begun::InProgress(due)) => {
                std::hint::black_box(due);
            }
            (_, other) => panic!("not what the server has: {other:?}"),
        }
    }
}
