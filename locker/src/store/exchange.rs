//! One request, one reply: what the SDK's many errors prove about the request.

use std::error::Error as StdError;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

use super::item::Item;
use crate::core::retry::Heard;
use crate::error::BoxError;

/// Not applied, and may be sent again as it is.
const BUSY: [&str; 7] = [
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "TransactionConflictException",
    "TransactionInProgressException",
];

/// How the SDK says that it was not given what it needs, before it sends anything.
const NO_REGION: &str = "Missing Region";
const NO_HTTP_CLIENT: &str = "HTTP client";

/// What went wrong with one exchange.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) heard: Heard,
    pub(crate) code: Option<String>,
    pub(crate) cause: BoxError,
    /// The stored item, where a condition failed and there is one.
    pub(crate) item: Option<Item>,
}

impl Failure {
    /// No reply within the time that is left.
    pub(crate) fn timed_out() -> Self {
        Self { heard: Heard::Silence, code: None, cause: "no reply in time".into(), item: None }
    }

    /// Read an error of the SDK. The cause keeps what was said and never the item.
    pub(crate) fn of<E>(error: SdkError<E, HttpResponse>, item: fn(E) -> Option<Item>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let heard = heard(&error);
        let error = match error {
            // The usual way to hear of a twin or an answer: the item says all there is to say.
            SdkError::ServiceError(service) if heard == Heard::Refused => {
                let item = item(service.into_err());
                return Self { heard, code: None, cause: "the condition failed".into(), item };
            }
            error => error,
        };
        let code = error.code().map(str::to_owned);
        let cause = if matches!(error, SdkError::ServiceError(_)) {
            let message = error.message().unwrap_or("no message");
            format!("{}: {message}", code.as_deref().unwrap_or("unknown error")).into()
        } else {
            DisplayErrorContext(&error).to_string().into()
        };
        Self { heard, code, cause, item: None }
    }

    /// A read changes nothing, so no reply is no more than a reason to read again.
    pub(crate) fn of_read(mut self) -> Self {
        if self.heard == Heard::Silence {
            self.heard = Heard::Busy;
        }
        self
    }

    /// What to do about a request that is refused for good.
    pub(crate) fn advice(&self, table: &str) -> String {
        let said = self.cause.to_string();
        match self.code.as_deref() {
            Some("ResourceNotFoundException") => {
                format!("the table {table} does not exist in this account and region; create it, for example with `locker table create`")
            }
            Some("AccessDeniedException") => {
                "the caller may not do this; the policy needs PutItem, UpdateItem, DeleteItem and GetItem on the table and Query on its index byStatus".to_owned()
            }
            Some("UnrecognizedClientException" | "InvalidSignatureException" | "ExpiredTokenException") => {
                "the credentials are wrong or have expired".to_owned()
            }
            Some("ValidationException") if said.contains("specified index") => {
                format!("the table {table} has no index byStatus; `locker table check` says what to change")
            }
            Some("ValidationException") => {
                format!("DynamoDB does not take the request; `locker table check` compares the table {table} with what the code needs")
            }
            Some(code) => format!("DynamoDB answered {code}"),
            None if is_about_credentials(&said) => {
                "no credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role".to_owned()
            }
            None if said.contains(NO_HTTP_CLIENT) => {
                "the SDK client has no HTTP client; build it with locker::client, or turn on a TLS feature of the SDK".to_owned()
            }
            None if said.contains(NO_REGION) => "no region is set; set AWS_REGION".to_owned(),
            None => "the request could not be sent".to_owned(),
        }
    }
}

fn heard<E>(error: &SdkError<E, HttpResponse>) -> Heard
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    match error {
        SdkError::ConstructionFailure(_) => Heard::Denied,
        SdkError::ServiceError(service) => match service.err().code() {
            Some("ConditionalCheckFailedException") => Heard::Refused,
            Some(code) if BUSY.contains(&code) => Heard::Busy,
            // A reply that cannot be parsed comes as an error without a code, whatever its status.
            _ if service.raw().status().is_success() => Heard::Silence,
            _ if service.raw().status().is_server_error() => Heard::Silence,
            _ => Heard::Denied,
        },
        SdkError::DispatchFailure(failure) => {
            let connector = failure.as_connector_error();
            let may_be_sent = connector
                .is_none_or(|error| error.is_io() || error.is_timeout() || error.as_other().is_some());
            let said = DisplayErrorContext(error).to_string();
            if is_not_connected(&said) {
                Heard::Busy
            } else if !may_be_sent && is_about_setup(&said) {
                Heard::Denied
            } else {
                Heard::Silence
            }
        }
        // Timeouts, broken replies, and what later versions of the SDK add.
        _ => Heard::Silence,
    }
}

/// No connection came about (no such host, nobody there, no TLS), so nothing was sent. hyper says so
/// in words only; if the words change, this is silence again, which is always safe to assume.
fn is_not_connected(said: &str) -> bool {
    said.contains("client error (Connect)")
}

fn is_about_setup(said: &str) -> bool {
    is_about_credentials(said) || said.contains(NO_HTTP_CLIENT) || said.contains(NO_REGION)
}

fn is_about_credentials(said: &str) -> bool {
    said.to_ascii_lowercase().contains("credential") || said.contains("identity")
}
