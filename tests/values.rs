//! One guard for values: a value that JSON would change, or that does not fit, is refused before
//! anything is written. It never changes the class of an outcome.

use std::time::Duration;

use locker::{
    AnswerError, BeginBuilder, Begun, Class, Classify, EndError, Error, Failure, Origin, RunError, TokenState,
};
use locker_tests::{Bench, held_by, record_of};
use serde::{Deserialize, Serialize};

const ODD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

#[derive(Debug, Clone, Copy, Serialize)]
struct Transfer {
    amount: Option<f64>,
}

fn noise() -> String {
    (0..600_000).map(|_| fastrand::alphanumeric()).collect()
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Answer(AnswerError::Encode { .. }))
}

#[tokio::test(start_paused = true)]
async fn request_with_a_number_that_json_does_not_have_is_refused_before_any_request() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    for amount in ODD {
        let token = || locker.token("transfer/1").fingerprint(&Transfer { amount: Some(amount) });
        let error = token().begin().await.expect_err("refused");
        assert!(is_refused(&error), "{amount}: {error:?}");
        let error = token().run(async |_| Ok::<_, Failure>(())).await.expect_err("refused");
        assert!(matches!(&error, RunError::Locker(error) if is_refused(error)), "{amount}: {error:?}");
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_numbers_of_two_requests_are_a_mismatch() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = |amount: u128| locker.token("transfer/2").fingerprint(&amount);
    held_by(token(u128::MAX)).await.complete("done").await.expect("completed");
    assert!(matches!(token(u128::MAX).begin().await, Ok(Begun::Completed(_))));
    assert!(matches!(token(u128::MAX - 1).begin().await, Ok(Begun::Mismatch(_))));
}

/// The verbs of a lock know no type that reads the value: they refuse it, and give the lock back.
#[tokio::test(start_paused = true)]
async fn value_that_json_would_change_gives_the_lock_back() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for amount in ODD {
        let odd = Transfer { amount: Some(amount) };
        for verb in ["complete", "fail", "hold"] {
            let key = format!("{verb}/{amount}");
            let lock = held_by(locker.token(&key)).await;
            let before = bench.items().await;
            let ended: Result<(), EndError> = match verb {
                "complete" => lock.complete(&odd).await,
                "fail" => lock.fail(&odd).await,
                _ => lock.hold(&odd).await,
            };
            let end = ended.expect_err("refused");
            assert!(is_refused(end.error()), "{key}: {end:?}");
            assert_eq!(bench.items().await, before, "{key}");
            end.into_lock().expect("the lock").release().await.expect("released");
        }
    }
}

/// Ends a token by a run whose answer cannot be stored.
async fn answers<T: Serialize + for<'a> Deserialize<'a>>(token: BeginBuilder, answer: T) -> Error {
    let answer = token.run(async |_| Ok::<_, Failure>(answer)).await.expect("the work is done");
    match answer.into_parts().1 {
        Origin::Unrecorded(end) => end.into_error(),
        origin => panic!("{origin:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn answer_that_cannot_be_stored_holds_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let deep = (0..128).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]));
    let errors = [
        ("held/large", answers(locker.token("held/large"), noise()).await),
        ("held/nan", answers(locker.token("held/nan"), Some(f64::NAN)).await),
        ("held/deep", answers(locker.token("held/deep"), deep).await),
    ];
    for (key, error) in errors {
        assert!(matches!(error, Error::Answer(_)), "{key}: {error:?}");
        let record = record_of(&locker, key).await;
        assert_eq!(record.state(), TokenState::Held, "{key}");
        let why = "it happened, but its result cannot be recorded: the ";
        assert!(record.cause().is_some_and(|cause| cause.starts_with(why)), "{key}: {record:?}");
        assert_eq!(record.class(), Some(Class::NeedsOperator), "{key}");
        let again = locker.token(key).run(async |_| -> Result<(), Failure> { panic!("it ran twice") }).await;
        let Err(RunError::Failed { class, cause, .. }) = again else { panic!("{key}: {again:?}") };
        assert_eq!((class, cause.starts_with(why)), (Class::NeedsOperator, true), "{key}: {cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_asks_whether_its_answer_fits_returns_less() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for key in ["fits".to_owned(), "k".repeat(1024)] {
        // As much as fits, to the byte.
        let answer = locker.token(&key).run(async |attempt| {
            let noise = noise();
            let fits = |bytes: usize| attempt.check_answer(&noise[..bytes]).is_ok();
            let (mut least, mut most) = (0, noise.len());
            while most - least > 1 {
                let middle = usize::midpoint(least, most);
                if fits(middle) { least = middle } else { most = middle }
            }
            Ok::<_, Failure>(noise[..least].to_owned())
        });
        let answer = answer.await.expect("an answer");
        assert!(matches!(answer.origin(), Origin::Fresh), "{:?}", answer.origin());
        assert!(answer.len() > 390_000, "{}", answer.len());
    }
}

/// A failure of a type that a text cannot be read as.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Declined {
    details: Vec<f64>,
}

impl Classify for Declined {
    fn class(&self) -> Class {
        Class::Permanent
    }

    fn cause(&self) -> String {
        "card declined".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn failure_that_cannot_be_stored_whole_keeps_its_class_and_cause() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (class, state) in [(Class::Permanent, TokenState::Failed), (Class::NeedsOperator, TokenState::Held)] {
        let key = format!("failed/{class:?}");
        let failure = || Failure::of(class, format!("card declined: {}", noise()));
        let first = locker.token(&key).run(async |_| Err::<(), _>(failure())).await;
        let Err(RunError::Failed { error, origin: Origin::Fresh, .. }) = first else { panic!("{first:?}") };
        assert_eq!(error.error.len(), 600_015, "its first caller gets the whole failure");
        assert_eq!(record_of(&locker, &key).await.state(), state);
        let again = locker.token(&key).run(async |_| Err::<(), _>(failure())).await;
        let Err(RunError::Failed { error, class: said, origin: Origin::Replayed(_), .. }) = again else {
            panic!("{again:?}")
        };
        assert_eq!((said, error.class), (class, class));
        assert!(error.error.starts_with("card declined: "), "{}", error.error);
        assert!(error.error.contains("the failure could not be stored whole"), "{}", error.error);
    }
    let many = (0..100_000).map(|number| f64::from(number) * 0.123_456_789).collect();
    for details in [vec![f64::NAN], many] {
        let key = format!("declined/{}", details.len());
        let failed = locker.token(&key).run(async |_| Err::<(), _>(Declined { details })).await;
        assert!(matches!(failed, Err(RunError::Failed { .. })), "{failed:?}");
        let begun = locker.token(&key).begin().await.expect("an answer");
        let Begun::Failed(failure) = begun else { panic!("{key}: {begun:?}") };
        assert!(
            failure.json().starts_with("\"card declined; the failure could not be stored whole"),
            "{}",
            failure.json()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn end_that_stores_a_failure_in_short_survives_lost_replies() {
    use locker_tests::Fate::{ErrorBefore, Lost, ReplyLost, Throttled};
    let bench = Bench::new().await;
    for fate in [ReplyLost, Lost, ErrorBefore, Throttled] {
        let (locker, wire) = bench.machine();
        let key = format!("short/{fate:?}");
        let failed = locker
            .token(&key)
            .run(async |_| {
                wire.next([fate]);
                tokio::time::sleep(Duration::from_millis(1)).await;
                Err::<(), _>(Failure::permanent(noise()))
            })
            .await;
        assert!(
            matches!(failed, Err(RunError::Failed { origin: Origin::Fresh, .. })),
            "{fate:?}: {failed:?}"
        );
        assert_eq!(record_of(&locker, &key).await.state(), TokenState::Failed, "{fate:?}");
    }
}
