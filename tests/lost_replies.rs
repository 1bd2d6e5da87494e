//! Promise 2: a write that was applied counts as applied, however often its reply was lost, and the
//! owner always gets the true outcome.

use std::time::Duration;

use locker::{EndError, Error, Failure, Intervened, Lock, RunError, TokenState};
use locker_tests::{Bench, Fate, Gate, held_by, record_of};

/// A way to end a lock, and the state that the table must have afterwards. `None`: no token.
#[derive(Debug, Clone, Copy)]
enum End {
    Complete,
    CompleteLarge,
    Fail,
    Hold,
    Release,
}

const ENDS: [End; 5] = [End::Complete, End::CompleteLarge, End::Fail, End::Hold, End::Release];

impl End {
    async fn apply(self, lock: Lock) -> Result<(), EndError> {
        match self {
            Self::Complete => lock.complete("done").await,
            Self::CompleteLarge => lock.complete(&noise(20_000)).await,
            Self::Fail => lock.fail("declined").await,
            Self::Hold => lock.hold("odd").await,
            Self::Release => lock.release().await,
        }
    }

    const fn state(self) -> Option<TokenState> {
        match self {
            Self::Complete | Self::CompleteLarge => Some(TokenState::Completed),
            Self::Fail => Some(TokenState::Failed),
            Self::Hold => Some(TokenState::Held),
            Self::Release => None,
        }
    }

    /// Requests before the one that ends the token.
    const fn before(self) -> usize {
        if matches!(self, Self::CompleteLarge) { 1 } else { 0 }
    }
}

/// Text that does not compress to a few bytes.
fn noise(length: usize) -> String {
    (0..length).map(|_| fastrand::alphanumeric()).collect()
}

/// Every way in which the first few exchanges can be applied or not, and be silent or busy.
fn plans() -> Vec<Vec<Fate>> {
    use Fate::{ErrorAfter, ErrorBefore, Garbled, Lost, ReplyLost, Throttled, UnavailableAfter};
    let one = [ReplyLost, Lost, ErrorAfter, ErrorBefore, UnavailableAfter, Garbled, Throttled];
    let two = one.into_iter().flat_map(|first| one.into_iter().map(move |second| vec![first, second]));
    one.into_iter().map(|fault| vec![fault]).chain(two).collect()
}

#[tokio::test(start_paused = true)]
async fn begin_recognises_its_own_token() {
    let bench = Bench::new().await;
    for (number, plan) in plans().into_iter().enumerate() {
        let (locker, wire) = bench.machine();
        wire.next(plan.clone());
        let lock = held_by(locker.token(("begin", number))).await;
        let record = record_of(&locker, lock.attempt().key().as_str()).await;
        assert_eq!(record.attempt(), Some(lock.attempt().id()), "{plan:?}");
        assert_eq!(record.expected_completion(), lock.due(), "{plan:?}");
        // And it can be ended: the lock knows what is stored.
        lock.complete("done").await.expect("completed");
    }
}

#[tokio::test(start_paused = true)]
async fn every_end_recognises_itself() {
    let bench = Bench::new().await;
    for (number, plan) in plans().into_iter().enumerate() {
        for end in ENDS {
            let (locker, wire) = bench.machine();
            let key = format!("end/{number}/{end:?}");
            let lock = held_by(locker.token(&key)).await;
            wire.next(vec![Fate::Ok; end.before()].into_iter().chain(plan.clone()));
            end.apply(lock).await.unwrap_or_else(|error| panic!("{end:?} {plan:?}: {error:?}"));
            let record = locker.get(&key).await.expect("an answer");
            assert_eq!(record.map(|record| record.state()), end.state(), "{end:?} {plan:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_a_separate_item_survives_lost_replies_too() {
    let bench = Bench::new().await;
    for (number, plan) in plans().into_iter().enumerate() {
        let (locker, wire) = bench.machine();
        let answer = noise(20_000);
        let lock = held_by(locker.token(("beside", number))).await;
        wire.next(plan.clone());
        lock.complete(&answer).await.expect("completed");
        let record = record_of(&locker, &format!("beside/{number}")).await;
        let json = locker.answer(&record).await.expect("an answer").expect("an answer");
        assert_eq!(json, format!("\"{answer}\""), "{plan:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn extend_recognises_itself() {
    let bench = Bench::new().await;
    for (number, plan) in plans().into_iter().enumerate() {
        let (locker, wire) = bench.machine();
        let lock = held_by(locker.token(("extend", number))).await;
        let due = lock.due();
        wire.next(plan.clone());
        let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
        assert_eq!(lock.due() - due, chrono::TimeDelta::seconds(540), "{plan:?}");
        let record = record_of(&locker, &format!("extend/{number}")).await;
        assert_eq!(record.expected_completion(), lock.due(), "{plan:?}");
        lock.release().await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn with_every_reply_lost_the_answer_is_unknown_and_never_no() {
    let bench = Bench::new().await;
    use Fate::{
        ErrorAfter, ErrorBefore, Garbled, Hangs, Lost, ReplyLost, UnavailableAfter, UnavailableBefore,
    };
    let unavailable = [UnavailableAfter, UnavailableBefore];
    for fault in [ReplyLost, Lost, ErrorAfter, ErrorBefore, Garbled, Hangs].into_iter().chain(unavailable) {
        let (locker, wire) = bench.impatient_machine();
        wire.always(fault);
        let error = locker.token(format!("begin/{fault:?}")).begin().await.expect_err("no answer");
        assert!(matches!(error, Error::Unknown { verb: "begin", .. }), "{fault:?}: {error:?}");
        for end in ENDS {
            let (locker, wire) = bench.impatient_machine();
            let key = format!("end/{fault:?}/{end:?}");
            let lock = held_by(locker.token(&key)).await;
            wire.next(vec![Fate::Ok; end.before()]);
            let plan = vec![Fate::Ok; end.before()].into_iter().chain(std::iter::repeat_n(fault, 10_000));
            wire.next(plan);
            let error = end.apply(lock).await.expect_err("no answer");
            assert!(matches!(error.error(), Error::Unknown { .. }), "{end:?} {fault:?}: {error:?}");

            // Once replies arrive again, the same end reports its outcome.
            wire.next([]);
            error.again().await.unwrap_or_else(|error| panic!("{end:?} {fault:?}: {error:?}"));
            let record = locker.get(&key).await.expect("an answer");
            assert_eq!(record.map(|record| record.state()), end.state(), "{end:?} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_of_an_unknown_begin_is_released() {
    let bench = Bench::new().await;
    for runs in [false, true] {
        let (locker, wire) = bench.impatient_machine();
        let token = locker.token(("order", runs));
        (0..100).for_each(|_| wire.matching(|exchange| exchange.operation == "PutItem", Fate::ReplyLost));
        let error = if runs {
            match token.run(async |_| panic!("it ran") as Result<(), Failure>).await {
                Err(RunError::Locker(error)) => error,
                ran => panic!("{ran:?}"),
            }
        } else {
            token.begin().await.expect_err("no answer")
        };
        assert!(matches!(error, Error::Unknown { verb: "begin", .. }), "{error:?}");
        wire.next([]);
        assert!(locker.get(("order", runs)).await.expect("an answer").is_none(), "nobody works on it");
        held_by(locker.token(("order", runs))).await.release().await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_after_a_lost_reply_does_not_hide_it() {
    let bench = Bench::new().await;
    for definite in [Fate::Throttled, Fate::Denied, Fate::Conflict] {
        let (locker, wire) = bench.impatient_machine();
        wire.next(std::iter::once(Fate::ReplyLost).chain(std::iter::repeat_n(definite, 10_000)));
        let key = format!("hidden/{definite:?}");
        let error = locker.token(&key).begin().await.expect_err("no answer");
        assert!(matches!(error, Error::Unknown { .. }), "{definite:?}: {error:?}");
        // It was applied, so "not acquired" would have been wrong.
        wire.next([]);
        assert_eq!(record_of(&locker, &key).await.state(), TokenState::InProgress);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_is_not_reported_as_lost_ownership_when_another_begins_at_once() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine_with(|settings| {
        settings.backoff_base = Duration::from_millis(300);
        settings.backoff_cap = Duration::from_millis(300);
    });
    let (other, _) = bench.machine();
    let lock = held_by(locker.token("handed/on")).await;
    wire.next([Fate::ReplyLost]);
    let release = tokio::spawn(lock.release());
    // The delete is applied, its owner pauses, and in the pause another caller begins.
    let taken = loop {
        match other.token("handed/on").begin().await.expect("an answer") {
            locker::Begun::Acquired(lock) => break lock,
            _ => tokio::task::yield_now().await,
        }
    };
    release.await.expect("no panic").expect("the release happened");
    // And the second attempt did not release the other's token.
    taken.complete("done").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_sent_again_to_a_busy_server_stays_unknown_and_loses_nothing() {
    let bench = Bench::new().await;
    for definite in [Fate::Throttled, Fate::Denied] {
        let (locker, wire) = bench.impatient_machine();
        let (key, answer) = (format!("again/{definite:?}"), noise(20_000));
        let lock = held_by(locker.token(&key)).await;
        // The answer is stored in its own item, the token is completed, and every reply to that is
        // lost.
        wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::ReplyLost, 10_000)));
        let end = lock.complete(&answer).await.expect_err("no answer");
        wire.always(definite);
        let end = end.again().await.expect_err("no answer");
        assert!(matches!(end.error(), Error::Unknown { .. }), "{definite:?}: {end:?}");
        wire.next([]);
        end.again().await.expect("it was completed");
        let record = record_of(&locker, &key).await;
        let json = locker.answer(&record).await.expect("an answer").expect("an answer");
        assert_eq!(json, format!("\"{answer}\""), "{definite:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_separate_item_could_not_be_written_gives_the_lock_back() {
    let bench = Bench::new().await;
    for fault in [Fate::ReplyLost, Fate::Lost] {
        let (locker, wire) = bench.impatient_machine();
        let lock = held_by(locker.token(format!("beside/{fault:?}"))).await;
        wire.always(fault);
        let end = lock.complete(&noise(20_000)).await.expect_err("not stored");
        assert!(matches!(end.error(), Error::Unavailable { .. }), "{fault:?}: {end:?}");
        wire.next([]);
        end.into_lock().expect("the token is surely held").complete("done").await.expect("completed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_without_a_reply_is_unknown_and_the_lock_comes_back() {
    let bench = Bench::new().await;
    for fault in [Fate::ReplyLost, Fate::Lost, Fate::ErrorAfter, Fate::Garbled] {
        let (locker, wire) = bench.impatient_machine();
        let lock = held_by(locker.token(format!("extend/{fault:?}"))).await;
        wire.always(fault);
        let end = lock.extend(Duration::from_secs(600)).await.expect_err("no answer");
        assert!(matches!(end.error(), Error::Unknown { verb: "extend", .. }), "{fault:?}: {end:?}");
        wire.next([]);
        let lock = end.into_lock().expect("the lock");
        let lock = lock.extend(Duration::from_secs(600)).await.expect("still held");
        lock.complete("done").await.expect("still held");
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_waits_remembers_its_request_without_a_reply() {
    let bench = Bench::new().await;
    let (other, _) = bench.machine();
    let held = held_by(other.token("waits/1")).await;
    for definite in [Fate::Throttled, Fate::Denied] {
        let (locker, wire) = bench.impatient_machine();
        // The first request may yet arrive, and acquire the token once it is free.
        let heard = [Fate::Lost, Fate::Ok];
        wire.next(heard.into_iter().chain(std::iter::repeat_n(definite, 10_000)));
        let begun = locker.token("waits/1").wait_for(Duration::from_secs(5)).begin().await;
        let error = begun.expect_err("no answer");
        assert!(matches!(error, Error::Unknown { verb: "begin", .. }), "{definite:?}: {error:?}");
    }
    held.release().await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_end_after_an_operators_release_is_not_reported_as_lost() {
    let bench = Bench::new().await;
    let operator = locker::Operator::new("ada", "do it again").expect("an operator");
    let (locker, wire) = bench.impatient_machine();
    let (other, _) = bench.machine();
    let lock = held_by(locker.token("doubt/1")).await;
    wire.always(Fate::ReplyLost);
    let end = lock.complete("done").await.expect_err("no answer");
    assert_eq!(
        other.release_completed(&record_of(&other, "doubt/1").await, &operator).await.expect("released"),
        Intervened::Done
    );
    let second = held_by(other.token("doubt/1")).await;
    wire.next([]);
    let end = end.again().await.expect_err("another's token");
    assert!(matches!(end.error(), Error::Unknown { .. }), "{end:?}");
    second.complete("done again").await.expect("still held");
}

#[tokio::test]
async fn lost_release_of_an_operator_is_unknown_once_another_attempt_has_begun() {
    let bench = Bench::new().await;
    let operator = |name| locker::Operator::new(name, "do it again").expect("an operator");
    let (locker, wire) = bench.machine();
    let (other, _) = bench.machine();
    held_by(locker.token("charge/1")).await.hold("odd").await.expect("held");
    let record = record_of(&locker, "charge/1").await;
    wire.next([Fate::Lost, Fate::HeldBefore]);
    let releasing = tokio::spawn(async move { locker.release(&record, &operator("ada")).await });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    // Before the retry arrives, another operator releases the token, and a caller begins.
    let record = record_of(&other, "charge/1").await;
    assert_eq!(other.release(&record, &operator("ben")).await.expect("released"), Intervened::Done);
    let begun = held_by(other.token("charge/1")).await;
    wire.let_through();
    let released = releasing.await.expect("no panic");
    assert!(matches!(released, Err(Error::Unknown { .. })), "{released:?}");
    begun.complete("done").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn lost_reply_whose_error_names_credentials_is_unknown() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = bench.locker(&bench.engine.client_behind(&gate), &bench.clock, |_| {});
    gate.lose_reply(0, "the proxy for credentials closed the connection");
    gate.refuse(1..100, (400, "AccessDeniedException"));
    let error = locker.token("charge/1").begin().await.expect_err("no answer");
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    let (other, _) = bench.machine();
    assert_eq!(record_of(&other, "charge/1").await.state(), TokenState::InProgress);
}
