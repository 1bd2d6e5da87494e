//! The outcome of each message, by the reply of AWS to its request.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::core::message::envelope::Envelope;
use crate::core::reply;
use crate::core::retry::Heard;
use crate::message::Sent;
use crate::store::heard;

/// A service that takes messages in batches.
pub(super) trait Service: Send + Sync {
    /// One result for each message, or one for all of them.
    fn send(&self, batch: &[Envelope]) -> impl Future<Output = Result<Vec<Sent>, Sent>> + Send;
}

/// Send a batch. If it is refused as a whole, send each message alone.
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

/// The reply does not contain the message.
pub(super) fn silent() -> Sent {
    Sent::Unknown("the reply does not name the message".to_owned())
}

/// The outcome of one message that the reply to a batch refuses.
pub(super) fn refused(code: &str, message: Option<&str>, is_our_fault: bool) -> Sent {
    let cause = format!("{code}: {}", message.unwrap_or_default());
    // The reply lists the message as failed, so the service did not accept it.
    if is_our_fault { sent(reply::class_of(Some(code), 400), cause) } else { Sent::Later(cause) }
}

fn sent(class: Heard, cause: String) -> Sent {
    match class {
        Heard::Busy | Heard::Unsigned => Sent::Later(cause),
        Heard::Silence => Sent::Unknown(cause),
        Heard::Denied | Heard::Refused => Sent::Never(cause),
    }
}

/// A request that failed.
pub(super) fn failed<E>(error: &SdkError<E, HttpResponse>) -> Sent
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let cause = cause(error);
    match heard(error) {
        // The request was not sent, because a region or an HTTP client is missing. The message is
        // sent later.
        Heard::Denied if !matches!(error, SdkError::ServiceError(_)) => Sent::Later(cause),
        class => sent(class, cause),
    }
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
