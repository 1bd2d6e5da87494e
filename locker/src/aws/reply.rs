//! The outcome of each message, by the reply of AWS to its request.

use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use tokio::time::Instant;

use crate::core::message::envelope::Envelope;
use crate::core::reply;
use crate::core::retry::Heard;
use crate::message::Sent;
use crate::message::router::REPLY_WITHIN;
use crate::store::heard;

/// A service that takes messages in batches.
pub(super) trait Service: Send + Sync {
    /// One result for each message, or one for all of them.
    fn send(&self, batch: &[Envelope]) -> impl Future<Output = Result<Vec<Sent>, Sent>> + Send;
}

/// How long one request may take. It leaves time for others of the same call.
const WITHIN: Duration = Duration::from_secs(4);

/// Sends a batch. If it is refused as a whole, sends each message alone, so that a refusal is about
/// one message.
///
/// If the target refuses two of them alone, the others get the same outcome: that is cheaper than a
/// request for each. After a request without a reply, the rest is left for later. The same holds if
/// another request may exceed the 10 seconds of a call: a call that is cut off loses the outcomes
/// of all its messages.
pub(super) async fn send(service: &impl Service, batch: &[Envelope]) -> Vec<Sent> {
    let began = Instant::now();
    let refused = match within(service, batch).await {
        Ok(sent) => return sent,
        Err(refused) => refused,
    };
    let is_refusal = matches!(refused, Sent::MessageRefused(_) | Sent::TargetRefused(_) | Sent::Refused(_));
    if !is_refusal || batch.len() < 2 {
        return vec![refused; batch.len()];
    }
    let mut sent: Vec<Sent> = Vec::with_capacity(batch.len());
    for message in batch {
        if began.elapsed() + WITHIN >= REPLY_WITHIN {
            sent.resize(batch.len(), Sent::Later("no time was left in this call".to_owned()));
            break;
        }
        let alone = within(service, std::slice::from_ref(message)).await;
        sent.push(alone.map_or_else(|refused| refused, |mut sent| sent.pop().unwrap_or_else(silent)));
        let refuses = sent.iter().filter(|sent| matches!(sent, Sent::TargetRefused(_))).count();
        let rest = match sent.last() {
            Some(Sent::Unknown(_)) => Sent::Later("the target did not reply for another message".to_owned()),
            Some(last @ Sent::TargetRefused(_)) if refuses >= 2 => last.clone(),
            _ => continue,
        };
        sent.resize(batch.len(), rest);
        break;
    }
    sent
}

async fn within(service: &impl Service, batch: &[Envelope]) -> Result<Vec<Sent>, Sent> {
    let sent = tokio::time::timeout(WITHIN, service.send(batch)).await;
    sent.unwrap_or_else(|_| Err(Sent::Unknown(format!("no reply within {} s", WITHIN.as_secs()))))
}

/// The reply does not contain the message.
pub(super) fn silent() -> Sent {
    Sent::Unknown("the reply does not name the message".to_owned())
}

/// The event could not be made from the message.
pub(super) fn unmade(error: &(impl std::error::Error + ?Sized)) -> Sent {
    Sent::MessageRefused(error.to_string())
}

/// The outcome of one message that the reply to a batch refuses.
pub(super) fn refused(code: &str, message: Option<&str>, is_our_fault: bool) -> Sent {
    let cause = format!("{code}: {}", message.unwrap_or_default());
    // The reply lists the message as failed, so the service did not accept it.
    match reply::about(code, true) {
        reply::About::Message | reply::About::Unlisted if !is_our_fault => Sent::Later(cause),
        about => sent(reply::class_of(Some(code), 400), about, cause),
    }
}

fn sent(class: Heard, about: reply::About, cause: String) -> Sent {
    match (class, about) {
        (Heard::Busy | Heard::Unsigned, _) => Sent::Later(cause),
        (Heard::Silence, _) => Sent::Unknown(cause),
        (Heard::Denied | Heard::Refused, reply::About::Message) => Sent::MessageRefused(cause),
        (Heard::Denied | Heard::Refused, reply::About::Target) => Sent::TargetRefused(cause),
        (Heard::Denied | Heard::Refused, reply::About::Unlisted) => Sent::Refused(cause),
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
        class => sent(class, reply::about(error.code().unwrap_or_default(), false), cause),
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
    fn request_that_could_not_be_made_was_not_sent() {
        let error = SdkError::<Refused, HttpResponse>::construction_failure("no credentials");
        assert!(matches!(failed(&error), Sent::Later(_)));
        let silence = SdkError::<Refused, HttpResponse>::timeout_error("no reply");
        assert!(matches!(failed(&silence), Sent::Unknown(_)));
    }
}
