//! What a reply of AWS means for the messages that were sent.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::core::message::envelope::Envelope;
use crate::message::Sent;

/// Codes after which the same message is taken later.
const LATER: [&str; 29] = [
    "Throttling",
    "ThrottlingException",
    "Throttled",
    "ThrottledException",
    "TooManyRequestsException",
    "RequestThrottled",
    "RequestLimitExceeded",
    "OverLimit",
    "LimitExceededException",
    "KmsThrottled",
    "KMSThrottling",
    "KMSThrottlingException",
    "ServiceUnavailable",
    "RequestExpired",
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "RequestTimeoutException",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
];

/// A service that takes messages in batches.
pub(super) trait Service: Send + Sync {
    /// One result for each message, or one for all of them.
    fn send(&self, batch: &[Envelope]) -> impl Future<Output = Result<Vec<Sent>, Sent>> + Send;
}

/// Send a batch; one that is refused as a whole, message by message.
pub(super) async fn send(service: &impl Service, batch: &[Envelope]) -> Vec<Sent> {
    match service.send(batch).await {
        Ok(sent) => sent,
        Err(Sent::Never(_)) if batch.len() > 1 => {
            let mut sent = Vec::with_capacity(batch.len());
            for message in batch {
                let alone = service.send(std::slice::from_ref(message)).await;
                sent.push(alone.map_or_else(|refused| refused, |mut sent| sent.pop().unwrap_or_else(silent)));
            }
            sent
        }
        Err(refused) => vec![refused; batch.len()],
    }
}

/// Nothing was said of it.
pub(super) fn silent() -> Sent {
    Sent::Unknown("the reply does not name the message".to_owned())
}

/// What is said of one message of a batch.
pub(super) fn refused(code: &str, message: Option<&str>, is_our_fault: bool) -> Sent {
    let cause = format!("{code}: {}", message.unwrap_or_default());
    if is_our_fault && !is_for_later(code) { Sent::Never(cause) } else { Sent::Later(cause) }
}

/// A request that failed.
pub(super) fn failed<E>(error: &SdkError<E, HttpResponse>) -> Sent
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let cause = cause(error);
    match error {
        // It was not sent: no credentials, or no connection.
        SdkError::ConstructionFailure(_) => Sent::Later(cause),
        SdkError::DispatchFailure(failure) if failure.is_user() => Sent::Later(cause),
        SdkError::ServiceError(refusal) => {
            let (code, status) = (error.code().unwrap_or_default(), refusal.raw().status().as_u16());
            match status {
                503 | 429 => Sent::Later(cause),
                _ if is_for_later(code) => Sent::Later(cause),
                // What a proxy says on the way is no refusal of the service.
                400..500 if code.is_empty() => Sent::Later(cause),
                400..500 => Sent::Never(cause),
                // A confirmation that cannot be read comes with 200.
                _ => Sent::Unknown(cause),
            }
        }
        _ => Sent::Unknown(cause),
    }
}

/// Clocks and credentials are put right, and what was refused for them is taken then.
fn is_for_later(code: &str) -> bool {
    // The JSON protocol may put a namespace before it, or `AWS.SimpleQueueService.`.
    let code = code.rsplit(['#', '.']).next().unwrap_or(code);
    LATER.contains(&code)
}

fn cause<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    match error.code() {
        Some(code) => format!("{code}: {}", error.message().unwrap_or_default()),
        None => DisplayErrorContext(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::error::ErrorMetadata;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refused(ErrorMetadata);

    impl ProvideErrorMetadata for Refused {
        fn meta(&self) -> &ErrorMetadata {
            &self.0
        }
    }

    #[test]
    fn what_could_not_be_made_was_not_sent() {
        let error = SdkError::<Refused, HttpResponse>::construction_failure("no credentials");
        assert!(matches!(failed(&error), Sent::Later(_)));
        let silence = SdkError::<Refused, HttpResponse>::timeout_error("no reply");
        assert!(matches!(failed(&silence), Sent::Unknown(_)));
    }
}
