//! The outcomes that are errors of an invocation, so that Lambda or the queue tries again.

use lambda_runtime::Diagnostic;

use crate::core::answer::AnswerError;
use crate::core::class::Class;
use crate::error::Error;
use crate::token::RunError;

/// Returns whether Lambda has to keep the event: see [`or_retry`].
const fn is_retried<E>(error: &RunError<E>) -> bool {
    match error {
        RunError::Failed { class, .. } => matches!(class, Class::Transient | Class::InDoubt),
        RunError::Locker(Error::Answer(AnswerError::Redacted)) => false,
        RunError::InProgress(_) | RunError::Mismatch(_) | RunError::Restored(_) | RunError::Locker(_) => true,
    }
}

/// Splits the outcome of a run into errors that Lambda retries and outcomes that are final.
///
/// Pass the outcome of [`run`](crate::BeginBuilder::run) in a function that a queue invokes, or
/// that is invoked asynchronously. If you return the outer error, Lambda tries the event again. The
/// inner error is final: acknowledge the event.
///
/// | outcome of the run | tried again | because |
/// |---|---|---|
/// | a permanent failure, or a failure that is held for an operator | no | every later attempt gets the same answer |
/// | a mismatch | yes | the request never matches, and no record contains it. Give the queue a dead-letter queue, or the function a destination for failures: an operator then decides whether it is other work |
/// | a transient failure | yes | nothing happened |
/// | in progress, or in doubt | yes | a later attempt may find the answer; it repeats the work only if it takes the token over |
/// | refused because the table was restored | yes | an operator may release the key, and the event must still exist then |
/// | a result that an operator erased | no | every later attempt gets the same answer |
/// | another [`Error`] | yes | there is no outcome yet |
///
/// ```no_run
/// # use lambda_runtime::{Diagnostic, LambdaEvent};
/// # use locker::{Failure, Locker};
/// # async fn charge() -> Result<String, Failure> { Ok("charged".to_owned()) }
/// async fn handle(locker: &Locker, event: LambdaEvent<String>) -> Result<(), Diagnostic> {
///     let token = locker.token(("order", event.payload));
///     let charged = token.run(async |_| charge().await).await;
///     match locker::lambda::or_retry(charged)? {
///         Ok(receipt) => println!("{}", *receipt),
///         Err(refused) => println!("{refused}, and that is the answer"),
///     }
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// An outcome that is tried again (see the table). The type of the error is the kind of the
/// outcome, such as `locker.InProgress`.
pub fn or_retry<T, E>(outcome: Result<T, RunError<E>>) -> Result<Result<T, RunError<E>>, Diagnostic> {
    match outcome {
        Err(error) if is_retried(&error) => Err(error.into()),
        other => Ok(other),
    }
}

/// The kind of outcome as its type, such as `locker.InProgress`, and its text. The text contains no
/// key and no result. It contains the cause of a failure as your code wrote it.
impl<E> From<RunError<E>> for Diagnostic {
    fn from(error: RunError<E>) -> Self {
        let kind = match &error {
            RunError::Failed { class: Class::Transient, .. } => "Transient",
            RunError::Failed { class: Class::Permanent, .. } => "Permanent",
            RunError::Failed { class: Class::NeedsOperator, .. } => "NeedsOperator",
            RunError::Failed { class: Class::InDoubt, .. } => "InDoubt",
            RunError::InProgress(_) => "InProgress",
            RunError::Mismatch(_) => "Mismatch",
            RunError::Restored(_) => "Restored",
            RunError::Locker(Error::Answer(AnswerError::Redacted)) => "NotKept",
            RunError::Locker(_) => "NoOutcome",
        };
        Self { error_type: format!("locker.{kind}"), error_message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Origin;

    #[tokio::test]
    async fn a_mismatch_and_work_in_progress_return_to_the_queue() {
        let dynamodb = lock_token_testing::Embedded::memory().unwrap().client();
        crate::create_table(&dynamodb, "locks").await.unwrap();
        let locker = crate::Locker::new(&dynamodb, "locks").unwrap();
        let token = |request: &str| locker.token("it").fingerprint(request);
        let _working = token("one").begin().await.unwrap();
        for (request, kind) in [("one", "locker.InProgress"), ("other", "locker.Mismatch")] {
            let outcome = token(request).run(async |_| Ok::<_, crate::Failure>(())).await;
            assert_eq!(or_retry(outcome).unwrap_err().error_type, kind);
        }
    }

    #[test]
    fn final_outcome_is_not_retried_by_lambda() {
        for (class, retried) in [
            (Class::Transient, true),
            (Class::InDoubt, true),
            (Class::Permanent, false),
            (Class::NeedsOperator, false),
        ] {
            let cause = "declined".to_owned();
            let error = RunError::Failed { error: (), cause, class, origin: Origin::Fresh };
            let split = or_retry::<(), ()>(Err(error));
            assert_eq!(split.is_err(), retried, "{class:?}");
            if let Err(diagnostic) = split {
                assert!(diagnostic.error_type.starts_with("locker."), "{}", diagnostic.error_type);
                assert!(diagnostic.error_message.contains("declined"), "{}", diagnostic.error_message);
            }
        }
        let unknown = RunError::Locker(Error::Contended { verb: "begin", tries: 4 });
        assert_eq!(or_retry::<(), ()>(Err(unknown)).unwrap_err().error_type, "locker.NoOutcome");
        assert!(matches!(or_retry::<_, ()>(Ok(7)), Ok(Ok(7))));
        let erased = || RunError::Locker(Error::Answer(AnswerError::Redacted));
        assert!(matches!(or_retry::<(), ()>(Err(erased())), Ok(Err(_))));
        assert_eq!(Diagnostic::from(erased() as RunError<()>).error_type, "locker.NotKept");
    }
}
