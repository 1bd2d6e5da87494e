//! Each action in each state, done with the real library.

use std::collections::BTreeMap;
use std::time::Duration;

use locker::{Begun, Clock as _, EndError, Error, Lock, Locker, Person, State, Token};
use locker_tests::{Bench, held_by, record_of};

/// What a token can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TokenState {
    Absent,
    InProgress,
    /// In progress, and past its due time and the allowance for clock skew.
    Overdue,
    Completed,
    CompletedErr,
    Failed,
    /// A person let go of it.
    Released,
    /// Completed, and past its `ttl` and the allowance for clock skew.
    Expired,
}

/// What can be done to it. The names are those of the library's verbs and the explorer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Action {
    Begin,
    TakeOver,
    Complete,
    CompleteErr,
    Fail,
    Release,
    Extend,
    LateComplete,
    LateCompleteErr,
    LateFail,
    LateRelease,
    LateExtend,
    Resolve,
    ReleaseByHand,
    /// The due time passes.
    FallDue,
    /// The retention passes.
    Expire,
    /// DynamoDB deletes what is past its `ttl`.
    Forget,
}

/// What comes of an action: what its caller is told, and what the token is then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) told: &'static str,
    pub(super) then: TokenState,
}

/// The measured state machine, and which states the scanner and the listing of failed work show.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) cells: BTreeMap<(Action, TokenState), Outcome>,
    pub(super) listed: BTreeMap<TokenState, &'static str>,
}

pub(super) const STATES: [TokenState; 8] = [
    TokenState::Absent,
    TokenState::InProgress,
    TokenState::Overdue,
    TokenState::Completed,
    TokenState::CompletedErr,
    TokenState::Failed,
    TokenState::Released,
    TokenState::Expired,
];

pub(super) const ACTIONS: [Action; 17] = [
    Action::Begin,
    Action::TakeOver,
    Action::Complete,
    Action::CompleteErr,
    Action::Fail,
    Action::Release,
    Action::Extend,
    Action::LateComplete,
    Action::LateCompleteErr,
    Action::LateFail,
    Action::LateRelease,
    Action::LateExtend,
    Action::Resolve,
    Action::ReleaseByHand,
    Action::FallDue,
    Action::Expire,
    Action::Forget,
];

const KEPT: Duration = Duration::from_secs(3600);
const EXPECTED: Duration = Duration::from_secs(60);
/// Past the due time and the allowance for clock skew.
const OVERDUE: Duration = Duration::from_secs(66);
/// Past the retention and the allowance for clock skew.
const EXPIRED: Duration = Duration::from_secs(3610);

impl Table {
    pub(super) async fn measure() -> Self {
        let bench = Bench::new().await;
        let mut table = Self { cells: BTreeMap::new(), listed: BTreeMap::new() };
        for state in STATES {
            for action in ACTIONS {
                let subject = Subject::new(&bench, format!("model/{action:?}/{state:?}"));
                if let Some(outcome) = subject.outcome(action, state).await {
                    table.cells.insert((action, state), outcome);
                }
            }
            let subject = Subject::new(&bench, format!("listed/{state:?}"));
            subject.bring_to(state).await;
            table.listed.insert(state, subject.listed().await);
        }
        table
    }

    pub(super) fn set(&mut self, action: Action, state: TokenState, told: &'static str, then: TokenState) {
        self.cells.insert((action, state), Outcome { told, then });
    }
}

struct Subject<'a> {
    bench: &'a Bench,
    locker: Locker,
    key: String,
    person: Person,
}

impl<'a> Subject<'a> {
    fn new(bench: &'a Bench, key: String) -> Self {
        let person = Person::new("ada", "to see what happens").expect("a person");
        Self { bench, locker: bench.machine().0, key, person }
    }

    fn token(&self) -> Token {
        self.locker.token(&self.key).expect_within(EXPECTED).retain_for(KEPT)
    }

    /// What comes of an action, where it is possible at all.
    async fn outcome(&self, action: Action, state: TokenState) -> Option<Outcome> {
        use Action as A;
        let told = match action {
            A::Begin | A::TakeOver => {
                self.bring_to(state).await;
                let token = self.token();
                let token = if action == A::TakeOver { token.take_over_after(Duration::ZERO) } else { token };
                told_of_begin(token.begin().await)
            }
            A::Complete | A::CompleteErr | A::Fail | A::Release | A::Extend => {
                told_of_end(end(self.bring_to(state).await?, action).await)
            }
            A::LateComplete | A::LateCompleteErr | A::LateFail | A::LateRelease | A::LateExtend => {
                let late = held_by(self.token()).await;
                self.bench.clock.advance(OVERDUE);
                let second = held_by(self.token().take_over_after(Duration::ZERO)).await;
                self.bring_on(second, state).await;
                told_of_end(end(late, action).await)
            }
            A::Resolve | A::ReleaseByHand => {
                self.bring_to(state).await;
                let record = self.locker.get(&self.key).await.expect("an answer")?;
                told_of_person(match action {
                    A::Resolve => self.locker.resolve(&record, &self.person, &"by hand".into()).await,
                    _ => self.locker.release(&record, &self.person).await,
                })
            }
            A::FallDue | A::Expire => {
                self.bring_to(state).await;
                self.bench.clock.advance(if action == A::FallDue { OVERDUE } else { EXPIRED });
                ""
            }
            A::Forget => {
                self.bring_to(state).await;
                self.delete_what_is_past_its_ttl().await;
                ""
            }
        };
        Some(Outcome { told, then: self.state().await })
    }

    /// A token in this state, and its lock where somebody holds it.
    async fn bring_to(&self, state: TokenState) -> Option<Lock> {
        match state {
            TokenState::Absent => None,
            _ => {
                let lock = held_by(self.token()).await;
                self.bring_on(lock, state).await
            }
        }
    }

    async fn bring_on(&self, lock: Lock, state: TokenState) -> Option<Lock> {
        match state {
            TokenState::InProgress => return Some(lock),
            TokenState::Overdue => {
                self.bench.clock.advance(OVERDUE);
                return Some(lock);
            }
            TokenState::Absent => lock.release().await.expect("released"),
            TokenState::Completed | TokenState::Expired => lock.complete("done").await.expect("completed"),
            TokenState::CompletedErr => lock.complete_err("declined").await.expect("completed"),
            TokenState::Failed => lock.fail("odd").await.expect("failed"),
            TokenState::Released => {
                lock.leave_in_doubt();
                let record = record_of(&self.locker, &self.key).await;
                self.locker.release(&record, &self.person).await.expect("released");
            }
        }
        if state == TokenState::Expired {
            self.bench.clock.advance(EXPIRED);
        }
        None
    }

    /// As DynamoDB's deleter does: whatever has a `ttl` in the past, and nothing else.
    async fn delete_what_is_past_its_ttl(&self) {
        let Some(item) = self.bench.item(&self.key).await else { return };
        let ttl = item.get("ttl").and_then(|ttl| ttl.as_n().ok()).and_then(|ttl| ttl.parse::<i64>().ok());
        if ttl.is_some_and(|ttl| ttl < self.bench.clock.now().timestamp()) {
            self.bench.delete(&self.key).await;
        }
    }

    async fn state(&self) -> TokenState {
        let Some(record) = self.locker.get(&self.key).await.expect("an answer") else {
            return TokenState::Absent;
        };
        let earlier = self.bench.clock.now() - chrono::TimeDelta::seconds(5);
        match record.state() {
            State::InProgress if record.is_overdue(earlier) => TokenState::Overdue,
            State::InProgress => TokenState::InProgress,
            State::Failed => TokenState::Failed,
            State::Released => TokenState::Released,
            _ if record.expires().is_some_and(|expires| expires < earlier) => TokenState::Expired,
            State::Completed => TokenState::Completed,
            _ => TokenState::CompletedErr,
        }
    }

    async fn listed(&self) -> &'static str {
        let scanned = self.locker.scan().run().await.expect("a scan");
        if scanned.missing.iter().any(|record| record.key().as_str() == self.key) {
            return "missing";
        }
        let failed = self.locker.failed().fetch().await.expect("a listing");
        if failed.tokens.iter().any(|token| token.token == self.key) { "failed" } else { "" }
    }
}

async fn end(lock: Lock, action: Action) -> Result<(), EndError> {
    match action {
        Action::Complete | Action::LateComplete => lock.complete("done").await,
        Action::CompleteErr | Action::LateCompleteErr => lock.complete_err("declined").await,
        Action::Fail | Action::LateFail => lock.fail("odd").await,
        Action::Release | Action::LateRelease => lock.release().await,
        _ => lock.extend(10 * EXPECTED).await.map(Lock::leave_in_doubt),
    }
}

fn told_of_begin(begun: Result<Begun, Error>) -> &'static str {
    match begun.expect("an answer") {
        Begun::Acquired(lock) => {
            lock.leave_in_doubt();
            "acquired"
        }
        Begun::Completed(_) => "completed",
        Begun::Failed(_) => "failed",
        Begun::InProgress(_) => "in progress",
        Begun::Mismatch(_) => "mismatch",
    }
}

fn told_of_end(ended: Result<(), EndError>) -> &'static str {
    match ended {
        Ok(()) => "done",
        Err(end) => match end.error() {
            Error::LostOwnership { .. } => "lost",
            error => panic!("an end was told {error}"),
        },
    }
}

fn told_of_person(ended: Result<(), Error>) -> &'static str {
    match ended {
        Ok(()) => "done",
        Err(Error::Ended { .. }) => "ended",
        Err(error) => panic!("a person was told {error}"),
    }
}
