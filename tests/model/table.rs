//! Each action in each state, done with the real library.

use std::collections::BTreeMap;
use std::time::Duration;

use locker::{
    BeginBuilder, Begun, Clock as _, EndError, Error, Intervened, Lock, Locker, Operator, Retention,
    TokenState,
};
use locker_tests::{Bench, held_by, record_of};

/// What a token can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Condition {
    Absent,
    InProgress,
    /// In progress, and past its due time and the allowance for clock skew.
    Overdue,
    /// In progress, and its owner left it in doubt before its due time.
    InDoubt,
    Completed,
    Failed,
    Held,
    /// An operator released it.
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
    Fail,
    Hold,
    Release,
    Doubt,
    Extend,
    LateComplete,
    LateFail,
    LateHold,
    LateRelease,
    LateDoubt,
    LateExtend,
    Resolve,
    ResolveRunning,
    Correct,
    Close,
    ReleaseByHand,
    ReleaseRunning,
    ReleaseCompleted,
    /// The due time passes.
    FallDue,
    /// The retention passes.
    Expire,
    /// DynamoDB deletes what is past its `ttl`.
    Forget,
}

/// The outcome of an action: what its caller gets, and the new state of the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) told: &'static str,
    pub(super) then: Condition,
}

/// The measured state machine, and which states the scanner and the listing of failed work show.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) cells: BTreeMap<(Action, Condition), Outcome>,
    pub(super) listed: BTreeMap<Condition, &'static str>,
}

pub(super) const STATES: [Condition; 9] = [
    Condition::Absent,
    Condition::InProgress,
    Condition::Overdue,
    Condition::InDoubt,
    Condition::Completed,
    Condition::Failed,
    Condition::Held,
    Condition::Released,
    Condition::Expired,
];

pub(super) const ACTIONS: [Action; 24] = [
    Action::Begin,
    Action::TakeOver,
    Action::Complete,
    Action::Fail,
    Action::Hold,
    Action::Release,
    Action::Doubt,
    Action::Extend,
    Action::LateComplete,
    Action::LateFail,
    Action::LateHold,
    Action::LateRelease,
    Action::LateDoubt,
    Action::LateExtend,
    Action::Resolve,
    Action::ResolveRunning,
    Action::Correct,
    Action::Close,
    Action::ReleaseByHand,
    Action::ReleaseRunning,
    Action::ReleaseCompleted,
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

    pub(super) fn set(&mut self, action: Action, state: Condition, told: &'static str, then: Condition) {
        self.cells.insert((action, state), Outcome { told, then });
    }
}

struct Subject<'a> {
    bench: &'a Bench,
    locker: Locker,
    key: String,
    operator: Operator,
}

impl<'a> Subject<'a> {
    fn new(bench: &'a Bench, key: String) -> Self {
        let operator = Operator::new("ada", "to see what happens").expect("an operator");
        Self { bench, locker: bench.machine().0, key, operator }
    }

    fn token(&self) -> BeginBuilder {
        self.locker.token(&self.key).expect_within(EXPECTED).retention(Retention::For(KEPT))
    }

    /// What comes of an action, where it is possible at all.
    async fn outcome(&self, action: Action, state: Condition) -> Option<Outcome> {
        use Action as A;
        let told = match action {
            A::Begin | A::TakeOver => {
                self.bring_to(state).await;
                let token = self.token();
                let token = if action == A::TakeOver { token.take_over_after(Duration::ZERO) } else { token };
                told_of_begin(token.begin().await)
            }
            A::Complete | A::Fail | A::Hold | A::Release | A::Doubt | A::Extend => {
                told_of_end(end(self.bring_to(state).await?, action).await, action)
            }
            A::LateComplete | A::LateFail | A::LateHold | A::LateRelease | A::LateDoubt | A::LateExtend => {
                let late = held_by(self.token()).await;
                self.bench.clock.advance(OVERDUE);
                let second = held_by(self.token().take_over_after(Duration::ZERO)).await;
                self.bring_on(second, state).await;
                told_of_end(end(late, action).await, action)
            }
            A::Resolve
            | A::ResolveRunning
            | A::Correct
            | A::Close
            | A::ReleaseByHand
            | A::ReleaseRunning
            | A::ReleaseCompleted => {
                let _held = self.bring_to(state).await;
                let record = self.locker.get(&self.key).await.expect("an answer")?;
                let (locker, operator, answer) = (&self.locker, &self.operator, "by hand".into());
                told_of_operator(match action {
                    A::Resolve => locker.resolve(&record, &answer, operator).await,
                    A::ResolveRunning => locker.resolve_running(&record, &answer, operator).await,
                    A::Correct => locker.correct(&record, &answer, operator).await,
                    A::Close => locker.close(&record, operator).await,
                    A::ReleaseByHand => locker.release(&record, operator).await,
                    A::ReleaseRunning => locker.release_running(&record, operator).await,
                    _ => locker.release_completed(&record, operator).await,
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

    /// A token in this state, and its lock where it has an owner.
    async fn bring_to(&self, state: Condition) -> Option<Lock> {
        match state {
            Condition::Absent => None,
            _ => {
                let lock = held_by(self.token()).await;
                self.bring_on(lock, state).await
            }
        }
    }

    async fn bring_on(&self, lock: Lock, state: Condition) -> Option<Lock> {
        match state {
            Condition::InProgress => return Some(lock),
            Condition::Overdue => {
                self.bench.clock.advance(OVERDUE);
                return Some(lock);
            }
            Condition::Absent => lock.release().await.expect("released"),
            Condition::Completed | Condition::Expired => lock.complete("done").await.expect("completed"),
            Condition::Failed => lock.fail("declined").await.expect("completed"),
            Condition::Held => lock.hold("odd").await.expect("held"),
            Condition::InDoubt => lock.leave_in_doubt("no reply").await,
            Condition::Released => {
                lock.leave_in_doubt("no reply").await;
                let record = record_of(&self.locker, &self.key).await;
                assert_eq!(
                    self.locker.release(&record, &self.operator).await.expect("released"),
                    Intervened::Done
                );
            }
        }
        if state == Condition::Expired {
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

    async fn state(&self) -> Condition {
        let Some(record) = self.locker.get(&self.key).await.expect("an answer") else {
            return Condition::Absent;
        };
        let earlier = self.bench.clock.now() - chrono::TimeDelta::seconds(5);
        match record.state() {
            // In doubt and past its due time, a token may be taken over, as any that is overdue.
            TokenState::InProgress if record.is_overdue(earlier) => Condition::Overdue,
            TokenState::InProgress if record.is_in_doubt() => Condition::InDoubt,
            TokenState::InProgress => Condition::InProgress,
            TokenState::Held => Condition::Held,
            TokenState::Released => Condition::Released,
            _ if record.expires().is_some_and(|expires| expires < earlier) => Condition::Expired,
            TokenState::Completed => Condition::Completed,
            _ => Condition::Failed,
        }
    }

    async fn listed(&self) -> &'static str {
        let scanned = locker::Scanner::new(&self.locker).run().await.expect("a scan");
        if scanned.missing.iter().any(|record| record.key().as_str() == self.key) {
            return "missing";
        }
        let held = self.locker.held().fetch().await.expect("a listing");
        if held.items.iter().any(|token| token.token == self.key) { "held" } else { "" }
    }
}

async fn end(lock: Lock, action: Action) -> Result<(), EndError> {
    match action {
        Action::Complete | Action::LateComplete => lock.complete("done").await,
        Action::Fail | Action::LateFail => lock.fail("declined").await,
        Action::Hold | Action::LateHold => lock.hold("odd").await,
        Action::Release | Action::LateRelease => lock.release().await,
        Action::Doubt | Action::LateDoubt => {
            lock.leave_in_doubt("no reply").await;
            Ok(())
        }
        _ => lock.extend(10 * EXPECTED).await.map(drop),
    }
}

fn told_of_begin(begun: Result<Begun, Error>) -> &'static str {
    match begun.expect("an answer") {
        Begun::Acquired(lock) => {
            drop(lock);
            "acquired"
        }
        Begun::Completed(_) => "completed",
        Begun::Failed(_) => "failed",
        Begun::Held(_) => "held",
        Begun::InProgress(_) => "in progress",
        Begun::Mismatch(_) => "mismatch",
        Begun::Restored(_) => "restored",
    }
}

fn told_of_end(ended: Result<(), EndError>, action: Action) -> &'static str {
    match ended {
        // It has no answer: what it wrote, if anything, is in the state.
        Ok(()) if matches!(action, Action::Doubt | Action::LateDoubt) => "",
        Ok(()) => "done",
        Err(end) => match end.error() {
            Error::LostOwnership { .. } => "lost",
            error => panic!("an end was told {error}"),
        },
    }
}

fn told_of_operator(ended: Result<Intervened, Error>) -> &'static str {
    match ended {
        Ok(Intervened::Done) => "done",
        Ok(Intervened::NotPossible) => "refused",
        other => panic!("an operator was told {other:?}"),
    }
}
